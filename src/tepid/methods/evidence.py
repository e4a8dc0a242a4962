"""From what is known to the method that uses it: one mapping for every interface.

Python functions, the command line, scikit-learn and PyTorch all pass through `Evidence`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tepid.engines import Engine
from tepid.errors import InputError
from tepid.methods.accuracy import match_accuracy
from tepid.methods.labels import from_few_labels, temperature_scaling
from tepid.methods.models import from_models
from tepid.methods.source import from_source
from tepid.methods.unsupervised import guarded, uts
from tepid.sources import Source
from tepid.temperature import Temperature


@dataclass(frozen=True)
class Evidence:
    """What is known beside the logits. At most one kind may be given.

    `labeled` means that the rows have labels of their own. `few` and `source` are sources with
    labels, `models` sources of the same rows.
    """

    labeled: bool = False
    accuracy: Any = None
    standard_error: float = 0.0
    few: Source | None = None
    models: tuple[Source, ...] = ()
    source: Source | None = None
    guarded: bool = False
    budget: float = 0.03
    deviations: float = 1.0
    debias: bool = False

    @property
    def kinds(self) -> list[str]:
        """The kinds that are given."""
        given = {
            "labels": self.labeled,
            "accuracy": self.accuracy is not None,
            "few": self.few is not None,
            "models": bool(self.models),
            "source": self.source is not None,
            "guarded": self.guarded,
        }
        return [name for name, there in given.items() if there]

    def check(self, names: Mapping[str, str] | None = None) -> None:
        """Raise if kinds contradict each other; `names` are what the caller calls them."""
        called = [(names or {}).get(kind, kind) for kind in self.kinds]
        if len(called) > 1:
            raise InputError(f"evidence must be of one kind, got {' and '.join(called)}")
        if called and (self.debias or self.deviations != 1.0):
            raise InputError(
                f"deviations and debias must go with logits alone, got them with {called[0]}"
            )

    def fit(self, rows: Source, engine: Engine | None = None) -> Temperature:
        """The temperature of these rows by the method that uses what is known."""
        if self.labeled:
            return temperature_scaling(rows, engine=engine)
        if self.few is not None:
            return from_few_labels(rows, self.few, None, engine=engine)
        if self.models:
            return from_models(rows, *self.models, engine=engine)
        if self.source is not None:
            return from_source(rows, self.source, engine=engine)
        return self._fit_without_labels(rows, engine)

    def _fit_without_labels(self, rows: Source, engine: Engine | None) -> Temperature:
        if self.accuracy is not None:
            error = self.standard_error
            return match_accuracy(rows, self.accuracy, standard_error=error, engine=engine)
        if self.guarded:
            return guarded(rows, budget=self.budget, engine=engine)
        return uts(rows, deviations=self.deviations, debias=self.debias, engine=engine)
