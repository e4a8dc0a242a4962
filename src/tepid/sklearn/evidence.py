"""What is known beside the logits, and the temperature that follows from it."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from tepid import arrays
from tepid.errors import InputError
from tepid.methods import (
    from_accuracy,
    from_few_labels,
    from_labels,
    from_logits,
    from_source,
    guarded,
)
from tepid.temperature import Temperature

Pair = tuple[Any, Any]


def drop_zero_weight(rows: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Rows, labels and weights without the rows of weight zero, whose labels may be any."""
    if sample_weight is None:
        return rows, y, None
    weight = arrays.weight_column(sample_weight, _num_samples(rows))
    kept = np.flatnonzero(weight)
    if not 0 < len(kept) < len(weight):  # nothing to drop, or nothing left, which is refused later
        return rows, y, weight
    if y is not None and _num_samples(y) == len(weight):
        y = _safe_indexing(y, kept)
    return _safe_indexing(rows, kept), y, weight[kept]


def warn(temperature: Temperature, *more: str) -> None:
    """Say as one warning, from where `fit` was called, whatever speaks against a temperature."""
    said = " ".join([*more, *temperature.warnings])
    if said or temperature.status != "ok":
        found = f"T = {temperature.value:.4g} ({temperature.method}, {temperature.status})"
        warnings.warn(f"{found}: {said}" if said else found, CalibrationWarning, stacklevel=3)


class CalibrationWarning(UserWarning):
    """What a temperature says against itself, or what the way it was found says against it."""


@dataclass(frozen=True)
class Evidence:
    """At most one of these says more than the logits do; labels are columns 0..k-1.

    `few` and `source` are pairs of logits and labels.
    """

    accuracy: Any = None
    guarded: bool = False
    deviations: float = 1.0
    debias: bool = False
    labels: Any = None
    few: Pair | None = None
    source: Pair | None = None
    sample_weight: Any = None

    @property
    def alone(self) -> bool:
        """Whether the logits are all there is."""
        return self.accuracy is None and not self._labelled()

    def _labelled(self) -> dict[str, Any]:
        given = {"use_labels": self.labels, "few": self.few, "source": self.source}
        return {name: value for name, value in given.items() if value is not None}

    def check(self) -> None:
        """Refuse evidence that contradicts itself or would not be used."""
        names = [*(["accuracy"] if self.accuracy is not None else []), *self._labelled()]
        names += ["guarded"] if self.guarded else []
        if len(names) > 1:
            raise InputError(f"evidence must be of one kind, got {' and '.join(names)}")
        if names and (self.debias or self.deviations != 1.0):
            raise InputError(
                f"deviations and debias must go with logits alone, got them with {names[0]}"
            )

    def temperature(self, logits: Any) -> Temperature:
        """The temperature by the method that uses what is known."""
        self.check()
        weight = self.sample_weight
        if self.labels is not None:
            return from_labels(logits, self.labels, sample_weight=weight)
        if self.few is not None:
            return from_few_labels(logits, *self.few, sample_weight=weight)
        if self.source is not None:
            return from_source(logits, *self.source, sample_weight=weight)
        if self.accuracy is not None:
            return from_accuracy(logits, self.accuracy, sample_weight=weight)
        if self.guarded:
            return guarded(logits, sample_weight=weight)
        return from_logits(
            logits, deviations=self.deviations, debias=self.debias, sample_weight=weight
        )
