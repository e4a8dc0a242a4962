"""`TemperatureCalibrator`: a transformer from logits to calibrated probabilities."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from tepid import metrics, shapes, validation
from tepid.errors import InputError, RowError
from tepid.methods.evidence import Evidence
from tepid.sources import Source, open_source
from tepid.temperature import Temperature, warn_unreliable
from tepid.validation import Array, Float64, Int64

# Errors list at most this many classes.
_MOST_LISTED = 10


class TemperatureCalibrator(TransformerMixin, BaseEstimator):
    """A transformer from logits (n, k) to probabilities at a temperature found by `fit`.

    Logits alone give UTS. `accuracy`, `guarded`, `use_labels`, and `few` or `source` in `fit` are
    further evidence, of which at most one can be given. One column is the binary logit of class 1.
    Unreliable fits emit `CalibrationWarning`.

    The trap: `fit(logits, y)` does not look at `y` unless `use_labels=True`. Pipelines and searches
    always pass `y`, and this must not turn a label-free method into another one.

    Args:
        accuracy: The model's known accuracy, a number or a range, as in `tepid.match_accuracy`.
        guarded: Keep T = 1 unless another T is expected to help, as in `tepid.guarded`.
        deviations: As in `tepid.uts`.
        debias: As in `tepid.uts`; for fewer than 1000 rows.
        use_labels: Temperature scaling on the `y` of `fit`, as in `tepid.temperature_scaling`.
        classes: The label of each column, in order. By default 0, 1, … if `y` is not used, else
            the sorted labels, of which there must be one for each column.

    Attributes:
        temperature_: The temperature as a float, which divides the logits.
        calibration_: The whole `tepid.Temperature`, with its interval and warnings.
        classes_: The label of each column.
        n_features_in_: The number of columns of the logits.
        feature_names_in_: Their names, if they had any.

    >>> import numpy as np
    >>> logits = 4 * np.random.default_rng(0).normal(size=(5000, 10))
    >>> calibrator = TemperatureCalibrator(accuracy=0.6).fit(logits)
    >>> calibrator.temperature_
    1.624
    >>> float(calibrator.predict_proba(logits).max(axis=1).mean())
    0.6
    """

    def __init__(
        self,
        *,
        accuracy: Any = None,
        guarded: bool = False,
        deviations: float = 1.0,
        debias: bool = False,
        use_labels: bool = False,
        classes: ArrayLike | None = None,
    ) -> None:
        self.accuracy = accuracy
        self.guarded = guarded
        self.deviations = deviations
        self.debias = debias
        self.use_labels = use_labels
        self.classes = classes

    def fit(
        self,
        logits: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        few: tuple[Any, Any] | None = None,
        source: tuple[Any, Any] | None = None,
    ) -> Self:
        """Find the temperature; `few` and `source` are pairs of logits and labels.

        `few` holds some labeled rows (`tepid.from_few_labels`), `source` an older labeled set
        (`tepid.from_source`). `sample_weight` weights the rows of `logits`.
        """
        z = validate_data(self, logits, ensure_all_finite=False)
        z, y, sample_weight = drop_zero_weights(z, y, sample_weight)
        self.classes_ = self._name_classes(shapes.class_count(z), y)
        self.calibration_ = fit_temperature(
            self,
            z,
            y,
            sample_weight,
            few=self._open_pair(few, "few"),
            source=self._open_pair(source, "source"),
        )
        self.temperature_ = self.calibration_.value
        warn_unreliable(self.calibration_)
        return self

    def _name_classes(self, k: int, y: Any) -> Array:
        if self.use_labels:
            check_labels_given(y)
        if self.classes is None:
            return _sorted_classes(y, k) if self.use_labels else np.arange(k)
        names = np.asarray(self.classes)
        if names.ndim != 1 or len(names) != k:
            raise InputError(f"classes must name each of the {k} columns, got shape {names.shape}")
        if len(set(names.tolist())) != k:
            raise InputError(f"classes must be {k} different names, got one twice")
        return names

    def _open_pair(self, given: tuple[Any, Any] | None, name: str) -> Source | None:
        if given is None:
            return None
        logits, y = check_pair(given, name)
        z = validate_data(self, logits, ensure_all_finite=False, reset=False)
        return open_source(z, labels=label_columns(y, self.classes_, len(z), name))

    def predict_proba(self, logits: Any) -> Array:
        """Probabilities, softmax(logits / T), one column for each of `classes_`."""
        check_is_fitted(self)
        z = validate_data(self, logits, ensure_all_finite=False, reset=False)
        return np.asarray(self.calibration_(z))

    def transform(self, logits: Any) -> Array:
        """The probabilities, in the container chosen by `set_output`."""
        return self.predict_proba(logits)

    def score(self, logits: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean log-likelihood of the labels; higher is better."""
        logits, y, sample_weight = drop_zero_weights(logits, y, sample_weight)
        p = self.predict_proba(logits)
        columns = label_columns(y, self.classes_, len(p))
        return -metrics.nll(columns, p, sample_weight=sample_weight)

    def get_feature_names_out(self, input_features: Any = None) -> Array:  # noqa: ARG002
        """A name for each column of probabilities: `probability_` and its class."""
        check_is_fitted(self)
        return np.asarray([f"probability_{label}" for label in self.classes_], object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def fit_temperature(
    estimator: Any,
    logits: Array,
    y: Any,
    sample_weight: Float64 | None,
    *,
    few: Source | None,
    source: Source | None,
) -> Temperature:
    """The temperature by the evidence in an estimator's parameters and its call of `fit`."""
    evidence = Evidence(
        labeled=estimator.use_labels,
        accuracy=estimator.accuracy,
        few=few,
        source=source,
        guarded=estimator.guarded,
        deviations=estimator.deviations,
        debias=estimator.debias,
    )
    evidence.check({"labels": "use_labels"})
    labels = None
    if estimator.use_labels:
        labels = label_columns(y, estimator.classes_, len(logits))
    return evidence.fit(open_source(logits, labels=labels, sample_weight=sample_weight))


# Rows and labels ----------------------------------------------------------------------------------


def drop_zero_weights(rows: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Float64 | None]:
    """Rows, labels and weights without the rows of weight zero, whose labels may be any."""
    if sample_weight is None:
        return rows, y, None
    weight = validation.weight_column(sample_weight, _num_samples(rows))
    kept = np.flatnonzero(weight)
    if not 0 < len(kept) < len(weight):  # nothing to drop, or nothing left, which is refused later
        return rows, y, weight
    if y is not None and _num_samples(y) == len(weight):
        y = _safe_indexing(y, kept)
    return _safe_indexing(rows, kept), y, weight[kept]


def check_pair(given: Any, name: str) -> tuple[Any, Any]:
    """Rows and their labels; raises unless it is a pair."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InputError(f"{name} must be a pair of rows and labels, got {type(given).__name__}")
    return given[0], given[1]


def check_labels_given(y: Any) -> None:
    """Raise if there are no labels."""
    if y is None:
        raise InputError(
            "y must be given: use_labels requires y to be passed, but the target y is None"
        )


def label_columns(y: Any, classes: Array, n: int, name: str = "y") -> Int64:
    """The column of each of n labels."""
    labels = _label_array(y, name)
    if len(labels) != n:
        raise InputError(f"{name} must have one entry for each of the {n} rows, got {len(labels)}")
    distinct, inverse = np.unique(labels, return_inverse=True)
    position = {label: column for column, label in enumerate(classes.tolist())}
    table = np.array([position.get(label, -1) for label in distinct.tolist()], np.int64)
    columns: Int64 = table[inverse.reshape(-1)]
    if (columns < 0).any():
        row = int((columns < 0).argmax())
        known = ", ".join(map(str, classes[:_MOST_LISTED]))
        known += ", …" if len(classes) > _MOST_LISTED else ""
        raise RowError(name, f"be one of the classes {known}", repr(labels[row].item()), row)
    return columns


def _sorted_classes(y: Any, k: int) -> Array:
    """The sorted distinct labels; raises unless there is one for each column.

    With fewer labels it would be unknown which columns are missing.
    """
    names = np.unique(_label_array(y))
    if len(names) != k:
        raise InputError(
            f"classes must be given unless y has all {k} classes, got {len(names)} in y"
        )
    return names


def _label_array(y: Any, name: str = "y") -> Array:
    """Labels as a flat array of one kind, so that they can be sorted."""
    labels = np.asarray(y)
    labels = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1:
        raise InputError(f"{name} must be one column of labels, got shape {labels.shape}")
    if len({type(label) for label in labels.tolist()}) > 1:
        raise InputError(f"{name} must be labels of one kind, got several")
    return labels
