"""`CalibratedClassifier`: a classifier and rows in, a calibrated classifier out."""

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from tepid import validation
from tepid.errors import InputError
from tepid.sklearn.calibrator import (
    check_labels_given,
    check_pair,
    drop_zero_weights,
    fit_temperature,
    label_columns,
)
from tepid.sources import Source, open_source
from tepid.temperature import softmax, warn_unreliable
from tepid.validation import Array, Float64

Response = Literal["decision_function", "predict_proba"]
_SAME_ROWS = (
    "The estimator was trained on the rows its temperature was found on, and is surer there than "
    "elsewhere; train it before, freeze it with FrozenEstimator, and calibrate on other rows."
)
_NO_SCALE = (
    "The estimator has no predict_proba, so that T = 1 is nothing it was trained at and logits "
    "alone cannot settle the scale; give its accuracy, or some labels."
)
# The softmax of decisions may differ from equal probabilities by this much rounding.
_ROUNDING = 1e-4
# Added to probabilities before the logarithm, as in scikit-learn's own temperature scaling.
_SMALLEST = 1e-12


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Another classifier with its probabilities at a temperature found by `fit`.

    Predictions are those of the other classifier. Its logits are its decision function, if the
    softmax of it equals `predict_proba` or there is no `predict_proba`, else the logarithms of its
    probabilities. Rows alone give UTS. `accuracy`, `guarded`, `use_labels`, and `few` or `source`
    in `fit` are further evidence, of which at most one can be given. Unreliable fits emit
    `CalibrationWarning`.

    The traps: `fit(X, y)` does not look at `y` for the temperature unless `use_labels=True`. An
    estimator that is already fitted is used as it is, but `clone`, and so every search, discards
    the fit: wrap it in `sklearn.frozen.FrozenEstimator`. An estimator that is not fitted is first
    fitted to the same rows and labels, where it is overconfident, with a warning.

    Args:
        estimator: The classifier, fitted.
        accuracy: Its known accuracy, a number or a range, as in `tepid.match_accuracy`.
        guarded: Keep T = 1 unless another T is expected to help, as in `tepid.guarded`.
        deviations: As in `tepid.uts`.
        debias: As in `tepid.uts`; for fewer than 1000 rows.
        use_labels: Temperature scaling on the `y` of `fit`, as in `tepid.temperature_scaling`.

    Attributes:
        temperature_: The temperature as a float, which divides the logits.
        calibration_: The whole `tepid.Temperature`, with its interval and warnings.
        estimator_: The fitted classifier.
        response_: The method of the classifier that gives the logits.
        classes_: Its classes.
        n_features_in_: The number of its features, if it has that attribute.
        feature_names_in_: Their names, if it has that attribute.

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
        few: tuple[Any, Any] | None = None,
        source: tuple[Any, Any] | None = None,
    ) -> Self:
        """Find the temperature; `few` and `source` are pairs of rows and labels.

        `few` holds some labeled rows (`tepid.from_few_labels`), `source` an older labeled set
        (`tepid.from_source`). `sample_weight` weights the rows of `X`.
        """
        if self.use_labels:
            check_labels_given(y)
        rows, y, sample_weight = drop_zero_weights(X, y, sample_weight)
        notes = []
        self.estimator_ = self.estimator
        if not _is_fitted(self.estimator):
            self.estimator_ = _fit_clone(self.estimator, rows, y, sample_weight)
            notes.append(_SAME_ROWS)
        self._copy_attributes()
        self.response_ = _choose_response(self.estimator_, rows, len(self.classes_))
        self.calibration_ = fit_temperature(
            self,
            self._logits(rows),
            y,
            sample_weight,
            few=self._open_pair(few, "few"),
            source=self._open_pair(source, "source"),
        )
        self.temperature_ = self.calibration_.value
        known = any(given is not None for given in (self.accuracy, few, source)) or self.use_labels
        if not known and not hasattr(self.estimator_, "predict_proba"):
            notes.append(_NO_SCALE)
        warn_unreliable(self.calibration_, *notes)
        return self

    def _copy_attributes(self) -> None:
        self.classes_ = np.asarray(getattr(self.estimator_, "classes_", None))
        if self.classes_.ndim != 1 or len(self.classes_) < 2:
            kind = type(self.estimator_).__name__
            got = "one class" if self.classes_.shape == (1,) else f"classes_ of {self.classes_}"
            raise InputError(f"estimator must know two classes or more, got {kind} with {got}")
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def _open_pair(self, given: tuple[Any, Any] | None, name: str) -> Source | None:
        if given is None:
            return None
        rows, y = check_pair(given, name)
        z = self._logits(rows)
        return open_source(z, labels=label_columns(y, self.classes_, len(z), name))

    def _logits(self, rows: Any) -> Array:
        return _logits_of(self.estimator_, self.response_, rows, len(self.classes_))

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities, one column for each of `classes_`."""
        check_is_fitted(self)
        return np.asarray(self.calibration_(self._logits(X)))

    def predict(self, X: Any) -> Array:
        """The predictions of the classifier, which a temperature does not change."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        tags.target_tags.required = not _is_fitted(self.estimator)
        return tags


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


def _fit_clone(estimator: Any, rows: Any, y: Any, sample_weight: Float64 | None) -> Any:
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


# Logits of a classifier ---------------------------------------------------------------------------


def _choose_response(estimator: Any, rows: Any, k: int) -> Response:
    """The method to calibrate: `decision_function` if its values are logits, else `predict_proba`.

    Decisions whose softmax is `predict_proba` are its logits, without the rounding near 0 and 1.
    Where the two differ, as for an SVM with Platt's sigmoid, the probabilities are what the model
    claims. Without `predict_proba`, decisions are logits if they mostly favor the prediction: for
    three classes, one-vs-one decisions look like one-vs-rest decisions.
    """
    if not hasattr(estimator, "decision_function"):
        if not hasattr(estimator, "predict_proba"):
            kind = type(estimator).__name__
            raise InputError(
                f"estimator must have decision_function or predict_proba, got {kind} with neither"
            )
        return "predict_proba"
    if hasattr(estimator, "predict_proba"):
        return _compare_responses(estimator, rows, k)
    _refuse_contradiction(estimator, rows, _decisions_of(estimator, rows, k))
    return "decision_function"


def _compare_responses(estimator: Any, rows: Any, k: int) -> Response:
    decisions = validation.as_array(estimator.decision_function(rows), "decision_function")
    if (1 if decisions.ndim == 1 else decisions.shape[1]) != (1 if k == 2 else k):
        return "predict_proba"
    claimed = _logits_of(estimator, "predict_proba", rows, k)
    gap = np.abs(softmax(decisions) - np.exp(claimed.astype(np.float64)))
    return "decision_function" if gap.max(initial=0.0) < _ROUNDING else "predict_proba"


def _refuse_contradiction(estimator: Any, rows: Any, z: Array) -> None:
    if z.ndim == 1 or not len(z):
        return
    favored = np.asarray(estimator.classes_)[z.argmax(axis=1)]
    agreed = float((favored == np.asarray(estimator.predict(rows))).mean())
    if agreed < 0.5:
        raise InputError(
            "decision_function must be highest for the predicted class, "
            f"got another class on {100 * (1 - agreed):.0f} % of the rows; "
            "decision_function_shape='ovo' is such a one"
        )


def _logits_of(estimator: Any, response: Response, rows: Any, k: int) -> Array:
    """The decisions, or the logarithms of the probabilities plus 1e-12.

    If no tree of a forest voted for a class, that class is still possible; with a logit of -inf
    its labels would be refused.
    """
    if response == "decision_function":
        return _decisions_of(estimator, rows, k)
    z = validation.logits_of(estimator.predict_proba(rows), floor=_SMALLEST, name="predict_proba")
    _check_width(z.shape[1], k, "predict_proba")
    return z


def _decisions_of(estimator: Any, rows: Any, k: int) -> Array:
    z = validation.as_array(estimator.decision_function(rows), "decision_function")
    width = 1 if z.ndim == 1 else z.shape[1]
    _check_width(2 if width == 1 else width, k, "decision_function")
    return np.asarray(z)


def _check_width(width: int, k: int, name: Response) -> None:
    if width == k:
        return
    hint = ""
    if name == "decision_function" and width == k * (k - 1) // 2:
        hint = ", one for each pair of classes: decision_function_shape='ovr' gives one for each"
    raise InputError(f"{name} must have one column for each of {k} classes, got {width}{hint}")
