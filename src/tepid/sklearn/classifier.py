"""A trained classifier and unlabelled rows in, a calibrated classifier out."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from tepid.arrays import Array
from tepid.errors import InputError
from tepid.sklearn import labels as names
from tepid.sklearn import responses
from tepid.sklearn.evidence import Evidence, drop_zero_weight, warn

_SAME_ROWS = (
    "The estimator was trained on the rows its temperature was found on, and is surer there than "
    "elsewhere; train it before, freeze it with FrozenEstimator, and calibrate on other rows."
)
_NO_SCALE = (
    "The estimator has no predict_proba, so that T = 1 is nothing it was trained at and logits "
    "alone cannot settle the scale; give its accuracy, or some labels."
)


def _is_fitted(estimator: Any) -> bool:
    if isinstance(estimator, type):
        raise InputError(f"estimator must be a classifier, got the class {estimator.__name__}")
    if not hasattr(estimator, "fit"):
        return True
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _fitted(estimator: Any, rows: Any, y: Any, sample_weight: Any) -> Any:
    kind = type(estimator).__name__
    if y is None:
        raise InputError(
            f"estimator must be fitted, got {kind}, "
            "which requires y to be passed, but the target y is None"
        )
    if sample_weight is None:
        return clone(estimator).fit(rows, y)
    if not has_fit_parameter(estimator, "sample_weight"):
        raise InputError(f"sample_weight must be left out, got one and {kind} takes none")
    if not sample_weight.any():
        raise InputError("sample_weight must not be zero for every row, got only zeros")
    return clone(estimator).fit(rows, y, sample_weight=sample_weight)


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier whose probabilities are those of another one at a temperature found by `fit`.

    Predictions are the other's own. Its logits are its decision function, if that has the softmax
    of its `predict_proba` or is all there is, else the logarithms of its probabilities. Rows alone
    give UTS; `accuracy`, `guarded`, `use_labels`, and `few` or `source` in `fit` are further
    evidence, of which at most one can be given. Wherever the temperature is doubtful, `fit` says so
    as a `CalibrationWarning`.

    The traps: `fit(X, y)` does not look at `y` for the temperature unless `use_labels=True`. An
    estimator that is already fitted is used as it is, but `clone`, and with it every search,
    forgets that: wrap it in `sklearn.frozen.FrozenEstimator`. One that is not is first fitted to
    the same rows and labels, where it is surer than elsewhere, and a warning says so.

    Args:
        estimator: The classifier, fitted.
        accuracy: Its known accuracy, a number or a range, as in `tepid.from_accuracy`.
        guarded: Abstain, with T = 1, unless it can help, as `tepid.guarded`.
        deviations: As in `tepid.from_logits`.
        debias: As in `tepid.from_logits`; for fewer than 1000 rows.
        use_labels: Temperature scaling on the `y` of `fit`, as `tepid.from_labels`.

    Attributes:
        temperature_: The temperature as a float, which divides the logits.
        calibration_: The whole `tepid.Temperature`, with what is needed to distrust it.
        estimator_: The fitted classifier.
        response_: Which of its methods gives the logits.
        classes_: Its classes.
        n_features_in_: How many features it takes, if it says so.
        feature_names_in_: Their names, if it has any.

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(6000, n_redundant=10, random_state=0)
    >>> trained = GaussianNB().fit(X[:2000], y[:2000])
    >>> calibrated = CalibratedClassifier(trained, accuracy=0.84).fit(X[2000:])
    >>> float(calibrated.predict_proba(X[2000:]).max(axis=1).mean())
    0.84
    """

    def __init__(
        self,
        estimator: Any,
        *,
        accuracy: Any = None,
        guarded: bool = False,
        deviations: float = 1.0,
        debias: bool = False,
        use_labels: bool = False,
    ) -> None:
        self.estimator = estimator
        self.accuracy = accuracy
        self.guarded = guarded
        self.deviations = deviations
        self.debias = debias
        self.use_labels = use_labels

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        few: Any = None,
        source: Any = None,
    ) -> Self:
        """Find the temperature; `few` and `source` are pairs of rows and labels.

        `few` are some labelled rows (`tepid.from_few_labels`), `source` an older labelled set
        (`tepid.from_source`).
        """
        if self.use_labels and y is None:
            raise InputError(
                "y must be given: use_labels requires y to be passed, but the target y is None"
            )
        rows, y, sample_weight = drop_zero_weight(X, y, sample_weight)
        before = _is_fitted(self.estimator)
        self.estimator_ = self.estimator
        if not before:
            self.estimator_ = _fitted(self.estimator, rows, y, sample_weight)
        self._take_over()
        self.response_ = responses.response_of(self.estimator_, rows, len(self.classes_))
        z = self._logits(rows)
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
        unscaled = evidence.alone and not hasattr(self.estimator_, "predict_proba")
        warn(self.calibration_, *([] if before else [_SAME_ROWS]), *([_NO_SCALE] * unscaled))
        return self

    def _take_over(self) -> None:
        self.classes_ = np.asarray(getattr(self.estimator_, "classes_", None))
        if self.classes_.ndim != 1 or len(self.classes_) < 2:
            kind = type(self.estimator_).__name__
            got = "one class" if self.classes_.shape == (1,) else f"classes_ of {self.classes_}"
            raise InputError(f"estimator must know two classes or more, got {kind} with {got}")
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def _labelled(self, given: Any, name: str) -> tuple[Any, Any] | None:
        if given is None:
            return None
        rows, y = names.pair(given, name)
        z = self._logits(rows)
        return z, names.columns(y, self.classes_, len(z), name)

    def _logits(self, rows: Any) -> Array:
        return responses.logits_of(self.estimator_, self.response_, rows, len(self.classes_))

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities, one column for each of `classes_`."""
        check_is_fitted(self)
        return np.asarray(self.calibration_(self._logits(X)))

    def predict(self, X: Any) -> Array:
        """What the classifier predicts; a temperature does not change it."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        tags.target_tags.required = not _is_fitted(self.estimator)
        return tags
