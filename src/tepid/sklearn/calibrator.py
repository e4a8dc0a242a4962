"""`TemperatureCalibrator`: a transformer from logits to calibrated probabilities."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted, validate_data

from tepid import metrics, shapes
from tepid.errors import InputError
from tepid.sklearn.evidence import (
    as_answers,
    as_logits,
    check_models,
    fit_temperature,
    known_labels,
    label_array,
    label_columns,
    open_pair,
    weigh,
)
from tepid.temperature import warn_unreliable
from tepid.validation import Array


@dataclass(eq=False, repr=False)
class TemperatureCalibrator(TransformerMixin, BaseEstimator):
    """A transformer from logits (n, k) to probabilities at a temperature found by `fit`.

    The evidence is that of `tepid.calibrate`: the logits, the `accuracy`, and all that is given to
    `fit`. One column is the binary logit of class 1. Unreliable fits emit `CalibrationWarning`.

    The trap: pipelines and searches pass `y` to `fit`, where it counts as evidence. In a search
    over `accuracy` the labels outweigh it.

    Args:
        accuracy: The model's accuracy, as in `tepid.calibrate`.
        classes: The label of each column, in order. By default 0, 1, …; or the sorted labels, if
            they are others and there is one for each column.

    Attributes:
        temperature_: The temperature as a float, which divides the logits.
        calibration_: The whole `tepid.Temperature`, with its verdict, interval and warnings.
        classes_: The label of each column.
        n_features_in_: The number of columns of the logits.
        feature_names_in_: Their names, if they had any.

    >>> import numpy as np
    >>> logits = 4 * np.random.default_rng(0).normal(size=(5000, 10))
    >>> calibrator = TemperatureCalibrator(accuracy=(0.6, 0.001)).fit(logits)
    >>> calibrator.temperature_
    1.61
    >>> float(calibrator.predict_proba(logits).max(axis=1).mean())
    0.6
    """

    _: KW_ONLY
    accuracy: Any = None
    classes: ArrayLike | None = None

    def fit(
        self,
        logits: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        labeled: tuple[Any, Any] | None = None,
        source: tuple[Any, Any] | None = None,
        models: Any = (),
        reference: Any = None,
    ) -> Self:
        """Find the temperature.

        Args:
            logits: The logits (n, k).
            y: The labels, where they are known: NaN or None where they are not, and also -1 unless
                -1 is one of the classes.
            sample_weight: One weight per row, as a frequency.
            labeled: A pair (logits, labels) of rows that are not among the logits.
            source: A pair (logits, labels) of an older set whose distribution may differ.
            models: The logits of other models of comparable strength on the same rows.
            reference: The logits of a stronger model on the same rows, NaN in rows without an
                answer, or one label per row, unknown where there is no answer.
        """
        every = validate_data(self, logits, ensure_all_finite=False)
        rows = weigh(every, sample_weight)
        z = np.asarray(rows.take(every, "logits"))
        y = None if y is None else rows.take(y, "y")
        self.classes_ = self._name_classes(shapes.class_count(z), y)
        others = enumerate(check_models(models), 1)
        answers = None if reference is None else rows.take(reference, "reference")
        self.calibration_ = fit_temperature(
            z,
            None if y is None else label_columns(y, self.classes_, len(z)),
            rows.weight,
            accuracy=self.accuracy,
            models=[as_logits(rows.take(m, f"model {i}"), f"model {i}") for i, m in others],
            reference=None if answers is None else as_answers(answers, self.classes_, "reference"),
            labeled=open_pair(labeled, self._check_logits, self.classes_, "labeled"),
            source=open_pair(source, self._check_logits, self.classes_, "source"),
        )
        self.temperature_ = self.calibration_.value
        warn_unreliable(self.calibration_)
        return self

    def _name_classes(self, k: int, y: Any) -> Array:
        if self.classes is None:
            return np.arange(k) if y is None else _classes_of(y, k)
        names = np.asarray(self.classes)
        if names.ndim != 1 or len(names) != k:
            raise InputError(f"classes must name each of the {k} columns, got shape {names.shape}")
        if len(set(names.tolist())) != k:
            raise InputError(f"classes must be {k} different names, got one twice")
        return names

    def _check_logits(self, logits: Any) -> Array:
        return np.asarray(validate_data(self, logits, ensure_all_finite=False, reset=False))

    def predict_proba(self, logits: Any) -> Array:
        """Probabilities, softmax(logits / T), one column for each of `classes_`."""
        check_is_fitted(self)
        return np.asarray(self.calibration_(self._check_logits(logits)))

    def transform(self, logits: Any) -> Array:
        """The probabilities, in the container chosen by `set_output`."""
        return self.predict_proba(logits)

    def score(self, logits: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean log-likelihood of the labels; higher is better."""
        rows = weigh(logits, sample_weight)
        p = self.predict_proba(rows.take(logits, "logits"))
        columns = label_columns(rows.take(y, "y"), self.classes_, len(p))
        return -metrics.nll(columns, p, sample_weight=rows.weight)

    def get_feature_names_out(self, input_features: Any = None) -> Array:  # noqa: ARG002
        """A name for each column of probabilities: `probability_` and its class."""
        check_is_fitted(self)
        return np.asarray([f"probability_{label}" for label in self.classes_], object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        # For scikit-learn's own checks, which otherwise pass three labels with two columns.
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags


def _classes_of(y: Any, k: int) -> Array:
    """The label of each column where none are given: its number, or the sorted labels."""
    known = known_labels(label_array(y))
    if known <= {-1, 1} and -1 in known and k == 2:
        raise InputError(
            "classes must be given where labels are -1 and 1, such as classes=[-1, 1]; without "
            "them -1 is an unknown label"
        )
    if known <= set(range(-1, k)):
        return np.arange(k)
    names = known - {-1}
    if len(names) != k:  # it would be unknown which columns are missing
        raise InputError(
            f"classes must be given unless labels are numbers in 0..{k - 1} or y has all {k} "
            f"classes, got {len(names)} in y"
        )
    return np.array(sorted(names))
