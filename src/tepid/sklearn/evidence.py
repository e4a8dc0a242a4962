"""What is given to `fit` as evidence: labels that may be unknown, pairs, and other models."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from tepid import validation
from tepid.engines import choose_engine
from tepid.errors import InputError, RowError
from tepid.methods.accuracy import Accuracy
from tepid.posterior.calibration import fit_evidence
from tepid.posterior.evidence import Layout, open_evidence
from tepid.sources import open_source
from tepid.sources.batch import mismatch
from tepid.temperature import Temperature
from tepid.validation import Array, Float64, Int64

# Errors list at most this many classes.
_MOST_LISTED = 10


def fit_temperature(
    logits: Array,
    y: Any,
    rows: "WeightedRows",
    classes: Array,
    logits_of: Callable[[Any], Array],
    *,
    accuracy: Accuracy | None,
    models: list[Array],
    reference: Array | None,
    labeled: Any,
    source: Any,
) -> Temperature:
    """The temperature of `tepid.calibrate`, without a warning.

    `reference` is logits (n, k) or columns (n,). `logits_of` reads the rows of a pair.
    """
    labels = None if y is None else label_columns(y, classes, len(logits))
    pairs = {
        name: _open_pair(pair, logits_of, classes, name)
        for name, pair in (("labeled", labeled), ("source", source))
    }
    opened = open_source(logits, labels=labels, sample_weight=rows.weight)
    evidence = open_evidence(
        opened, Layout(), answers=None, models=models, reference=reference, **pairs
    )
    return fit_evidence(evidence, accuracy, choose_engine(None, evidence.rows))


# Rows ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightedRows:
    """The rows of a weight above zero; the labels and answers of the others may be anything."""

    count: int
    chosen: Int64 | None
    weight: Float64 | None

    def take(self, column: Any, name: str) -> Any:
        """The chosen entries of a column or table with one entry for each row."""
        found = _num_samples(column)
        if found != self.count:
            raise mismatch(name, self.count, found)
        return column if self.chosen is None else _safe_indexing(column, self.chosen)


def weigh(rows: Any, sample_weight: Any) -> WeightedRows:
    """The rows that are left by the weights."""
    count = _num_samples(rows)
    if sample_weight is None:
        return WeightedRows(count, None, None)
    weight = validation.weight_column(sample_weight, count)
    kept = np.flatnonzero(weight)
    if not 0 < len(kept) < count:  # nothing to drop, or nothing left, which is refused later
        return WeightedRows(count, None, weight)
    return WeightedRows(count, kept, weight[kept])


def _open_pair(
    pair: Any, logits_of: Callable[[Any], Array], classes: Array, name: str
) -> tuple[Array, Int64] | None:
    """The logits and the columns of the labels of rows from elsewhere."""
    if pair is None:
        return None
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputError(f"{name} must be a pair of rows and labels, got {type(pair).__name__}")
    z = logits_of(pair[0])
    return z, label_columns(pair[1], classes, len(z), f"labels of {name}")


# Labels -------------------------------------------------------------------------------------------


def label_columns(y: Any, classes: Array, n: int, name: str = "y") -> Int64:
    """The column of each of n labels, -1 where it is unknown."""
    labels = label_array(y, name)
    if len(labels) != n:
        raise mismatch(name, n, len(labels))
    position = {-1: -1} | {label: column for column, label in enumerate(classes.tolist())}
    columns = np.empty(n, np.int64)
    for row, label in enumerate(labels.tolist()):
        column = position.get(label, -1 if is_missing(label) else None)
        if column is None:
            known = ", ".join(map(str, classes[:_MOST_LISTED]))
            known += ", …" if len(classes) > _MOST_LISTED else ""
            raise RowError(name, f"be one of the classes {known}", repr(label), row)
        columns[row] = column
    return columns


def label_array(y: Any, name: str = "y") -> Array:
    """Labels as a flat array, whose known ones are of one kind, so that they can be sorted."""
    # As an array of text, a list would turn None and NaN into words.
    labels = np.asarray(y) if hasattr(y, "__array__") else np.array(y, dtype=object)
    labels = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1:
        hint = validation.MULTILABEL if labels.ndim == 2 else ""
        raise InputError(f"{name} must be one column of labels, got shape {labels.shape}{hint}")
    if len({isinstance(label, str) for label in known_labels(labels)}) > 1:
        raise InputError(f"{name} must be labels of one kind, got text and numbers")
    return labels


def known_labels(labels: Array) -> set[Any]:
    """The different labels but those that are missing."""
    try:
        return {label for label in labels.tolist() if not is_missing(label)}
    except TypeError:
        raise InputError("labels must be text or numbers, got lists or arrays") from None


def is_missing(label: Any) -> bool:
    """Whether a label is None, NaN or one of the missing values of pandas."""
    missing = label is None or type(label).__name__ in ("NAType", "NaTType")
    return missing or (isinstance(label, float) and label != label)  # noqa: PLR0124  # NaN


# Other models -------------------------------------------------------------------------------------


def check_models(models: Any) -> list[Any]:
    """The list of other models."""
    # A booster of XGBoost can be iterated, but its parts are no models.
    single = isinstance(models, (str, bytes)) or hasattr(models, "ndim") or hasattr(models, "fit")
    if single or hasattr(models, "predict") or not isinstance(models, Iterable):
        raise InputError(f"models must be a list of models, got {type(models).__name__}")
    return list(models)


def as_logits(given: Any, name: str) -> Array:
    """Logits of another model as (n, k)."""
    z = np.asarray(validation.as_array(np.asarray(given), name))
    return z[:, None] if z.ndim == 1 else z


def as_answers(given: Any, classes: Array) -> Array:
    """What a reference answers: logits (n, k), or the columns of its labels (n,).

    One number per row is a label if all of them are classes, or else the logit of two classes.
    """
    values = np.asarray(given) if hasattr(given, "__array__") else np.array(given, dtype=object)
    if values.ndim > 1 and values.shape[1] > 1:
        numbers = values if values.dtype != object else values.astype(np.float64)
        return as_logits(numbers, "reference")
    binary = values.dtype.kind == "f" and len(classes) == 2
    if binary and not known_labels(values.reshape(-1)) <= {-1, *classes.tolist()}:
        return as_logits(values, "reference")
    return label_columns(values, classes, len(values), "reference")
