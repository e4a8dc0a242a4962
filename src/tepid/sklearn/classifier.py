"""`CalibratedClassifier`: a classifier and rows in, a calibrated classifier out."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from tepid import shapes, validation
from tepid.errors import InputError, RowError
from tepid.sklearn.boosting import BoostedTrees, as_classifier, unwrap_frozen
from tepid.sklearn.evidence import (
    WeightedRows,
    as_answers,
    as_logits,
    check_models,
    fit_temperature,
    is_missing,
    label_array,
    label_columns,
    open_pair,
    weigh,
)
from tepid.summaries.summary import softmax
from tepid.temperature import warn_unreliable
from tepid.validation import Array, Float64

Response = Literal["decision_function", "predict_proba"]
_SAME_ROWS = (
    "The estimator was trained on the rows that T was fitted to, where it is more confident than "
    "on new rows. Train it first, wrap it in FrozenEstimator, and calibrate on other rows."
)
_NO_SCALE = (
    "The estimator has no predict_proba. Its decision values are not log-odds, and rows without "
    "labels do not determine their scale: give its accuracy or some labels."
)
# The softmax of decisions may differ from equal probabilities by this much rounding.
_ROUNDING = 1e-4
# Added to probabilities before the logarithm, as in scikit-learn's own temperature scaling.
_SMALLEST = 1e-12


@dataclass(eq=False, repr=False)
class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Another classifier with its probabilities at a temperature found by `fit`.

    Predictions are those of the other classifier. Its logits are its decision function, if the
    softmax of it equals `predict_proba` or there is no `predict_proba`, else the logarithms of its
    probabilities. For XGBoost and LightGBM they are the margins, and their boosters count as
    classifiers of the classes 0, 1, …. The evidence is that of `tepid.calibrate`: the rows, the
    `accuracy`, and all that is given to `fit`. Unreliable fits emit `CalibrationWarning`.

    The traps: an estimator that is already fitted is used as it is, but `clone`, and so every
    search, discards the fit: wrap it in `sklearn.frozen.FrozenEstimator`. An estimator that is not
    fitted is first fitted to the rows and labels, where it is overconfident. `fit` then warns, and
    these labels are not used as evidence.

    Args:
        estimator: The classifier, fitted; or an `xgboost.Booster` or `lightgbm.Booster`.
        accuracy: Its accuracy, as in `tepid.calibrate`.

    Attributes:
        temperature_: The temperature as a float, which divides the logits.
        calibration_: The whole `tepid.Temperature`, with its verdict, interval and warnings.
        estimator_: The fitted classifier.
        response_: The method of the classifier that gives the logits; `decision_function` stands
            for the margins of boosted trees too.
        classes_: Its classes.
        n_features_in_: The number of its features, if it has that attribute.
        feature_names_in_: Their names, if it has that attribute.

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(6000, n_redundant=10, random_state=0)
    >>> trained = GaussianNB().fit(X[:2000], y[:2000])
    >>> calibrated = CalibratedClassifier(trained, accuracy=(0.84, 0.001)).fit(X[2000:])
    >>> float(calibrated.predict_proba(X[2000:]).max(axis=1).mean())
    0.84
    """

    estimator: Any
    _: KW_ONLY
    accuracy: Any = None

    def fit(
        self,
        X: Any,
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
            X: Rows that the classifier was not trained on.
            y: Their labels, where they are known: NaN or None where they are not, and also -1
                unless -1 is one of the classes.
            sample_weight: One weight per row, as a frequency.
            labeled: A pair (rows, labels) that is not among these rows.
            source: A pair (rows, labels) of an older set whose distribution may differ.
            models: Other classifiers of comparable strength, fitted, with the same classes in any
                order; or their logits on the same rows, in the order of `classes_`.
            reference: A stronger classifier; or its logits on the same rows, NaN in rows without an
                answer; or one label per row, unknown where there is no answer.
        """
        weighted = weigh(X, sample_weight)
        rows = weighted.take(X, "X")
        y = None if y is None else weighted.take(y, "y")
        notes = []
        self.estimator_ = self.estimator
        if not _is_fitted(self.estimator):
            self.estimator_ = _fit_clone(self.estimator, rows, y, weighted.weight)
            notes.append(_SAME_ROWS)
            y = None
        self._classifier = as_classifier(self.estimator_)
        self._copy_attributes()
        self.response_ = _choose_response(self._classifier, rows, len(self.classes_))
        z = self._logits(rows)
        others = _Others(self.classes_, rows, weighted)
        answers = [others.logits(m, f"model {i}") for i, m in enumerate(check_models(models), 1)]
        self.calibration_ = fit_temperature(
            z,
            None if y is None else label_columns(y, self.classes_, len(z)),
            weighted.weight,
            accuracy=self.accuracy,
            models=answers,
            reference=None if reference is None else others.answers(reference),
            labeled=open_pair(labeled, self._logits, self.classes_, "labeled"),
            source=open_pair(source, self._logits, self.classes_, "source"),
        )
        self.temperature_ = self.calibration_.value
        known = len(self.calibration_.evidence) > 1
        if not known and not hasattr(self._classifier, "predict_proba"):
            notes.append(_NO_SCALE)
        warn_unreliable(self.calibration_, *notes)
        return self

    def _copy_attributes(self) -> None:
        classes = getattr(self._classifier, "classes_", None)
        if isinstance(classes, list) and classes and np.ndim(classes[0]):  # one array per label
            kind = type(self.estimator_).__name__
            hint = validation.MULTILABEL
            raise InputError(f"estimator must give one label per row, got {kind} of several{hint}")
        self.classes_ = np.asarray(classes)
        if self.classes_.ndim != 1 or len(self.classes_) < 2:
            kind = type(self.estimator_).__name__
            got = "one class" if self.classes_.shape == (1,) else f"classes_ of {self.classes_}"
            raise InputError(f"estimator must know two classes or more, got {kind} with {got}")
        for name in ("n_features_in_", "feature_names_in_"):
            value = getattr(self._classifier, name, None)
            if value is not None:
                setattr(self, name, value)

    def _logits(self, rows: Any) -> Array:
        return _logits_of(self._classifier, self.response_, rows, len(self.classes_))

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities, one column for each of `classes_`."""
        check_is_fitted(self)
        return np.asarray(self.calibration_(self._logits(X)))

    def predict(self, X: Any) -> Array:
        """The predictions of the classifier, which a temperature does not change."""
        check_is_fitted(self)
        return np.asarray(self._classifier.predict(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = unwrap_frozen(self.estimator)  # a frozen booster would have no tags
        if hasattr(inner, "__sklearn_tags__"):
            tags.input_tags = get_tags(inner).input_tags
        tags.target_tags.required = not _is_fitted(self.estimator)
        return tags


def _is_fitted(estimator: Any) -> bool:
    if isinstance(estimator, type):
        raise InputError(f"estimator must be a classifier, got the class {estimator.__name__}")
    estimator = unwrap_frozen(estimator)
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
    unknown = [row for row, label in enumerate(label_array(y).tolist()) if is_missing(label)]
    if unknown:
        must = f"be known in every row where {kind} is not fitted yet"
        raise RowError("y", must, "an unknown label", unknown[0])
    if sample_weight is None:
        return clone(estimator).fit(rows, y)
    if not has_fit_parameter(estimator, "sample_weight"):
        raise InputError(f"sample_weight must be left out, got one and {kind} takes none")
    if not sample_weight.any():
        raise InputError("sample_weight must not be zero for every row, got only zeros")
    return clone(estimator).fit(rows, y, sample_weight=sample_weight)


# Other models -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Others:
    """Reads what other models answer on the rows: classifiers, or arrays for all rows."""

    classes: Array
    rows: Any
    weighted: WeightedRows

    def logits(self, given: Any, name: str) -> Array:
        """Logits (n, k) in the order of the classes."""
        if not _is_classifier(given):
            return as_logits(self.weighted.take(given, name), name)
        classifier, order = self._open(given, name)
        response = _choose_response(classifier, self.rows, len(order))
        z = _logits_of(classifier, response, self.rows, len(order))
        return np.asarray(shapes.matrix(z))[:, order]

    def answers(self, reference: Any) -> Array:
        """Logits (n, k), or classes (n,) as columns, -1 without an answer."""
        if not _is_classifier(reference):
            given = self.weighted.take(reference, "reference")
            return as_answers(given, self.classes, "reference")
        classifier, _ = self._open(reference, "reference")
        if hasattr(classifier, "predict_proba"):
            return self.logits(reference, "reference")
        # Decisions have no scale, so that their softmax is nothing that the reference claims.
        named = reference.predict(self.rows)
        return label_columns(named, self.classes, len(named), "reference")

    def _open(self, estimator: Any, name: str) -> tuple[Any, list[int]]:
        """The other classifier, and the column of each class in it."""
        kind = type(estimator).__name__
        if not _is_fitted(estimator):
            raise InputError(f"{name} must be fitted, got {kind}")
        classifier = as_classifier(estimator, name)
        theirs = np.asarray(getattr(classifier, "classes_", [])).tolist()
        if len(theirs) != len(self.classes) or set(theirs) != set(self.classes.tolist()):
            shown = ", ".join(map(str, theirs[:10]))
            raise InputError(
                f"{name} must have the classes of the estimator, got {kind} of {shown}"
            )
        return classifier, [theirs.index(label) for label in self.classes.tolist()]


def _is_classifier(given: Any) -> bool:
    return hasattr(given, "predict")


# Logits of a classifier ---------------------------------------------------------------------------


def _choose_response(estimator: Any, rows: Any, k: int) -> Response:
    """The method to calibrate: `decision_function` if its values are logits, else `predict_proba`.

    Decisions whose softmax is `predict_proba` are its logits, without the rounding near 0 and 1.
    Where the two differ, as for an SVM with Platt's sigmoid, the probabilities are what the model
    claims. Without `predict_proba`, decisions are logits if they mostly favor the prediction: for
    three classes, one-vs-one decisions look like one-vs-rest decisions.
    """
    if isinstance(estimator, BoostedTrees):
        return "decision_function"
    claims = hasattr(estimator, "predict_proba")
    if not hasattr(estimator, "decision_function"):
        if claims:
            return "predict_proba"
        kind = type(estimator).__name__
        raise InputError(
            f"estimator must have decision_function or predict_proba, got {kind} with neither"
        )
    if not claims:
        z = _logits_of(estimator, "decision_function", rows, k)
        _refuse_contradiction(estimator, rows, z)
        return "decision_function"
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
    given, hint = getattr(estimator, response)(rows), ""
    if response == "predict_proba":
        z = validation.logits_of(given, floor=_SMALLEST, name=response)
    else:
        z = np.asarray(validation.as_array(given, response))
    width = 2 if z.ndim == 1 or z.shape[1] == 1 else z.shape[1]
    if width != k:
        if response == "decision_function" and width == k * (k - 1) // 2:
            hint = (
                ", one for each pair of classes: decision_function_shape='ovr' gives one for each"
            )
        raise InputError(
            f"{response} must have one column for each of {k} classes, got {width}{hint}"
        )
    return z
