"""Every measure of a calibration, with its interval, where all rows can be held at once."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tepid


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def _plain(value: float) -> str:
    return f"{value:.4f}"


# Every measure by its name in `tepid.metrics`, with its title and form on the screen.
TITLES: dict[str, tuple[str, Callable[[float], str]]] = {
    "accuracy": ("accuracy", _percent),
    "confidence": ("mean confidence", _percent),
    "nll": ("NLL", _plain),
    "excess_nll": ("NLL above the best T", _plain),
    "brier": ("Brier", _plain),
    "brier_calibration": ("  calibration part", _plain),
    "brier_refinement": ("  refinement part", _plain),
    "ece": ("ECE", _percent),
    "ece_equal_mass": ("ECE, equal mass", _percent),
    "ece_classwise": ("ECE, class-wise", _percent),
    "mce": ("MCE", _percent),
    "rmsce_debiased": ("L2, debiased", _percent),
    "smooth_ece": ("smooth ECE", _percent),
    "ks_error": ("KS error", _percent),
    "aurc": ("AURC", _plain),
}

# What stands for a probability of zero where its logarithm is taken.
_LEAST = 1.2e-38


@dataclass(frozen=True)
class Judged:
    """Values, intervals and changes by measure; those of before and after by name."""

    values: dict[str, dict[str, float]]
    intervals: dict[str, dict[str, Any]]
    changes: dict[str, Any]
    draws: int

    def as_dict(self) -> dict[str, Any]:
        """The intervals as plain JSON values."""
        intervals = {
            name: {key: [i.low, i.high] for key, i in found.items()}
            for name, found in self.intervals.items()
        }
        changes = {key: dataclasses.asdict(change) for key, change in self.changes.items()}
        plain = {"draws": self.draws, "intervals": intervals}
        return plain | ({"change": changes} if changes else {})


def judged(
    source: "tepid.sources.Source", fitted: dict[str, Any], draws: int, engine: "tepid.Threads"
) -> Judged:
    """Every measure before and after, and with `draws` the intervals and those of the change."""
    batches = list(source.batches(1 << 16))
    z = tepid.shapes.joined([batch.logits for batch in batches])
    y = source.column("labels")
    k = tepid.shapes.class_count(z)
    plain = tepid.Temperature(1.0, "none", samples=0, classes=k, implied_accuracy=0.0)
    given = {"before": plain(z)} | {
        name: tepid.shapes.joined([calibrated(calibrator, batch) for batch in batches])
        for name, calibrator in fitted.items()
    }
    result = Judged({name: {} for name in given}, {name: {} for name in given}, {}, draws)
    for done, key in enumerate(TITLES, 1):
        _judge(key, y, given, result)
        if engine.progress:
            engine.progress("judging", done, len(TITLES))
    return result


def calibrated(calibrator: Any, batch: "tepid.sources.Batch") -> Any:
    """The probabilities of a batch's rows, by their group if they have one."""
    if batch.group is not None:
        return calibrator(batch.logits, groups=batch.group)
    if isinstance(calibrator, tepid.Temperature):
        return calibrator(batch.logits)
    # In float32 the probability of an unlikely label would round to zero, and its NLL to inf.
    return calibrator(batch.logits.astype("float64"))


def _judge(key: str, y: Any, given: dict[str, Any], result: Judged) -> None:
    measure = getattr(tepid.metrics, key)
    if key == "excess_nll":
        given = {name: _logits(p) for name, p in given.items()}
    if not result.draws:
        for name, p in given.items():
            result.values[name][key] = measure(y, p)
        return
    if "after" in given:
        compared = tepid.metrics.intervals.compared
        *each, result.changes[key] = compared(measure, y, *given.values(), draws=result.draws)
    else:
        each = [tepid.metrics.bootstrap(measure, y, given["before"], draws=result.draws)]
    for name, found in zip(given, each, strict=True):
        result.values[name][key], result.intervals[name][key] = found.value, found


def _logits(p: Any) -> Any:
    """Logarithms in which no label is impossible."""
    return tepid.logits_of(p.clip(_LEAST))
