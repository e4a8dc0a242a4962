"""What is known beside the logits, and the temperature that follows from it."""

from dataclasses import dataclass
from typing import Any

from tepid.engines import Threads
from tepid.errors import InputError
from tepid.methods import (
    from_accuracy,
    from_few_labels,
    from_labels,
    from_logits,
    from_source,
    guarded,
)
from tepid.sources import Source
from tepid.temperature import Temperature


@dataclass(frozen=True)
class Evidence:
    """At most one of these says more than the logits; `few` and `source` are labelled loaders."""

    accuracy: Any = None
    guarded: bool = False
    deviations: float = 1.0
    debias: bool = False
    labels: Any = False
    few: Any = None
    source: Any = None

    def check(self) -> None:
        """Refuse evidence that contradicts itself or would not be used."""
        given = {
            "accuracy": self.accuracy is not None,
            "guarded": self.guarded,
            "labels": self.labels is not False,
            "few": self.few is not None,
            "source": self.source is not None,
        }
        names = [name for name, there in given.items() if there]
        if len(names) > 1:
            raise InputError(f"evidence must be of one kind, got {' and '.join(names)}")
        if names and (self.debias or self.deviations != 1.0):
            raise InputError(
                f"deviations and debias must go with logits alone, got them with {names[0]}"
            )

    def temperature(
        self, logits: Any, labelled: Source | None = None, engine: Threads | None = None
    ) -> Temperature:
        """The temperature by the method that uses what is known; `labelled` is the other loader."""
        if labelled is not None:
            method = from_few_labels if self.few is not None else from_source
            return method(logits, labelled, None, engine=engine)
        if self.labels is not False:
            return from_labels(logits, engine=engine)
        if self.accuracy is not None:
            return from_accuracy(logits, self.accuracy, engine=engine)
        if self.guarded:
            return guarded(logits, engine=engine)
        return from_logits(logits, deviations=self.deviations, debias=self.debias, engine=engine)
