"""Logits in, calibrated probabilities out, as a transformer."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tepid import metrics, shapes
from tepid.arrays import Array
from tepid.errors import InputError
from tepid.sklearn import labels as names
from tepid.sklearn.evidence import Evidence, drop_zero_weight, warn


class TemperatureCalibrator(TransformerMixin, BaseEstimator):
    """A transformer from logits (n, k) to probabilities at a temperature found by `fit`.

    Logits alone give UTS; `accuracy`, `guarded`, `use_labels`, and `few` or `source` in `fit` are
    further evidence, of which at most one can be given. One column is the binary logit of class 1.
    Wherever the temperature is doubtful, `fit` says so as a `CalibrationWarning`.

    The trap: `fit(logits, y)` does not look at `y` unless `use_labels=True`. Pipelines and searches
    always pass `y`, and what is called label-free must not turn into something else by that.

    Args:
        accuracy: The model's known accuracy, a number or a range, as in `tepid.from_accuracy`.
        guarded: Abstain, with T = 1, unless it can help, as `tepid.guarded`.
        deviations: As in `tepid.from_logits`.
        debias: As in `tepid.from_logits`; for fewer than 1000 rows.
        use_labels: Temperature scaling on the `y` of `fit`, as `tepid.from_labels`.
        classes: The label of each column, in order. By default 0, 1, … if `y` is not used, else
            the sorted labels, which must then be as many as the columns.

    Attributes:
        temperature_: The temperature as a float, which divides the logits.
        calibration_: The whole `tepid.Temperature`, with what is needed to distrust it.
        classes_: The label of each column.
        n_features_in_: How many columns the logits have.
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
        classes: Any = None,
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
        few: Any = None,
        source: Any = None,
    ) -> Self:
        """Find the temperature; `few` and `source` are pairs of logits and labels.

        `few` are some labelled rows (`tepid.from_few_labels`), `source` an older labelled set
        (`tepid.from_source`).
        """
        z = validate_data(self, logits, ensure_all_finite=False)
        z, y, sample_weight = drop_zero_weight(z, y, sample_weight)
        self.classes_ = self._named(shapes.class_count(z), y)
        evidence = Evidence(
            self.accuracy,
            self.guarded,
            self.deviations,
            self.debias,
            names.columns(y, self.classes_, len(z)) if self.use_labels else None,
            self._labelled(few, "few"),
            self._labelled(source, "source"),
            sample_weight,
        )
        self.calibration_ = evidence.temperature(z)
        self.temperature_ = self.calibration_.value
        warn(self.calibration_)
        return self

    def _named(self, k: int, y: Any) -> Array:
        if self.use_labels and y is None:
            raise InputError(
                "y must be given: use_labels requires y to be passed, but the target y is None"
            )
        if self.classes is not None:
            return names.class_names(self.classes, k)
        return names.sorted_classes(y, k) if self.use_labels else np.arange(k)

    def _labelled(self, given: Any, name: str) -> tuple[Any, Any] | None:
        if given is None:
            return None
        logits, y = names.pair(given, name)
        z = validate_data(self, logits, ensure_all_finite=False, reset=False)
        return z, names.columns(y, self.classes_, len(z), name)

    def predict_proba(self, logits: Any) -> Array:
        """Probabilities, softmax(logits / T), one column for each of `classes_`."""
        check_is_fitted(self)
        z = validate_data(self, logits, ensure_all_finite=False, reset=False)
        return np.asarray(self.calibration_(z))

    def transform(self, logits: Any) -> Array:
        """The probabilities, in the container that `set_output` asks for."""
        return self.predict_proba(logits)

    def score(self, logits: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean log likelihood of labels, so that a search for the highest finds the best."""
        logits, y, sample_weight = drop_zero_weight(logits, y, sample_weight)
        p = self.predict_proba(logits)
        return -metrics.nll(names.columns(y, self.classes_, len(p)), p, sample_weight=sample_weight)

    def get_feature_names_out(self, input_features: Any = None) -> Array:  # noqa: ARG002
        """A name for each column of probabilities: `probability_` and its class."""
        check_is_fitted(self)
        return np.asarray([f"probability_{label}" for label in self.classes_], object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
