"""What `tepid fit` or `tepid onnx` was told besides the logits, and the method that fits it."""

from dataclasses import dataclass
from typing import Literal, cast

import tepid
from tepid.cli.inputs import Reading


@dataclass(frozen=True)
class Evidence:
    """The options that say what is known."""

    labels: str | None
    accuracy: str | None
    correct: int | None
    of: int | None
    few: str | None
    also: tuple[str, ...]
    source: str | None
    shift: str
    guarded: bool
    budget: float
    deviations: float
    debias: bool
    groups: str | None = None
    odds: bool = False
    prior: str | None = None
    method: str = "temperature"

    def given(self) -> list[str]:
        """The options that say more than the logits do."""
        given = {
            "--labels": self.labels is not None,
            "--accuracy": self.accuracy is not None,
            "--correct": self.correct is not None or self.of is not None,
            "--few": self.few is not None,
            "--also": bool(self.also),
            "--source": self.source is not None,
            "--guarded": self.guarded,
            "--odds": self.odds,
        }
        return [name for name, there in given.items() if there]

    def tuned(self) -> list[str]:
        """The options that say how logits alone are used."""
        tuned = {"--deviations": self.deviations != 1.0, "--debias": self.debias}
        return [name for name, there in tuned.items() if there]

    def check(self) -> None:
        """Refuse what does not go together; an option that does nothing is a mistake."""
        names = self.given()
        if len(names) > 1:
            raise tepid.InputError(f"evidence must be one of {' and '.join(names)}, got both")
        if names and self.tuned():
            raise tepid.InputError("--deviations and --debias must go with logits alone, got more")
        self._check_companions()

    def _check_companions(self) -> None:
        """Refuse an option without the one that it belongs to."""
        lonely = {
            "--budget": ("--guarded", self.budget != 0.03 and not self.guarded),
            "--prior": ("--odds", self.prior is not None and not self.odds),
            "--shift": ("--source", self.shift != "any" and self.source is None),
            "--method": ("--labels", self.method != "temperature" and self.labels is None),
        }
        for name, (companion, alone) in lonely.items():
            if alone:
                raise tepid.InputError(f"{name} must go with {companion}, got it alone")
        if (self.correct is None) != (self.of is None):
            raise tepid.InputError("--correct and --of must go together, got one")

    def fit(
        self,
        source: "tepid.sources.Source",
        engine: "tepid.engines.Engine",
        reading: Reading | None = None,
    ) -> "tepid.Temperature":
        """The temperature by the method that uses what is known."""
        if self.labels is not None:
            return tepid.from_labels(source, engine=engine)
        if self.accuracy is not None or self.correct is not None:
            known, error = self.known()
            return tepid.from_accuracy(source, known, standard_error=error, engine=engine)
        if self.few is not None:
            few = self._few(self.few, reading or Reading())
            return tepid.from_few_labels(source, few, None, engine=engine)
        return self._beside(source, engine, reading or Reading())

    def _beside(
        self, source: "tepid.sources.Source", engine: "tepid.engines.Engine", reading: Reading
    ) -> "tepid.Temperature":
        if self.also:
            others = [reading.open_other(other) for other in self.also]
            return tepid.from_models(source, *others, engine=engine)
        if self.source is not None:
            older = reading.open_other(self.source, labels="labels")
            shift = cast("Literal['any', 'label', 'none']", self.shift)
            return tepid.from_source(source, older, shift=shift, engine=engine)
        return self._alone(source, engine)

    def _alone(
        self, source: "tepid.sources.Source", engine: "tepid.engines.Engine"
    ) -> "tepid.Temperature":
        if self.guarded:
            return tepid.guarded(source, budget=self.budget, engine=engine)
        if self.odds:
            prior = self.prior and tepid.sources.open_column(self.prior, "prior")
            return tepid.from_odds(source, prior=prior, engine=engine)
        return tepid.from_logits(
            source, deviations=self.deviations, debias=self.debias, engine=engine
        )

    def _few(self, path: str, reading: Reading) -> "tepid.sources.Source":
        if self.groups is not None and tepid.sources.paths.names_file(self.groups):
            raise tepid.InputError(
                f"--groups must name a column of both files with --few, got {self.groups}"
            )
        return reading.open_other(path, labels="labels", groups=self.groups)

    def known(self) -> tuple[float | tuple[float, float], float]:
        """The accuracy or its range, and its standard error."""
        if self.accuracy is not None:
            return accuracy_of(self.accuracy)
        return tepid.counted(self.correct or 0, self.of or 0)


def accuracy_of(text: str) -> tuple[float | tuple[float, float], float]:
    """An accuracy or a range, and the standard error."""
    value, _, error = text.replace("+-", "±").partition("±")
    try:
        numbers = [float(part) for part in value.split("..")]
        known = float(error) if error or "±" in text.replace("+-", "±") else 0.0
    except ValueError:
        numbers, known = [], 0.0
    if len(numbers) == 1:
        return numbers[0], known
    if len(numbers) == 2 and not error:
        return (numbers[0], numbers[1]), 0.0
    raise tepid.InputError(f"accuracy must be a number or a range low..high, got {text}")
