"""Estimators of scikit-learn: a calibrator of logits, and a calibrated classifier."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils import ClassifierTags, Tags, get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from tepid import metrics, shapes, validation
from tepid.errors import InputError, RowError
from tepid.methods.accuracy import Accuracy
from tepid.sklearn.boosting import BoostedTrees, as_classifier, unwrap_frozen
from tepid.sklearn.evidence import (
    WeightedRows,
    as_answers,
    as_logits,
    check_models,
    fit_temperature,
    is_missing,
    known_labels,
    label_array,
    label_columns,
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


# Logits -------------------------------------------------------------------------------------------


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
    accuracy: Accuracy | None = None
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
        others = [(f"model {i}", model) for i, model in enumerate(check_models(models), 1)]
        self.calibration_ = fit_temperature(
            z,
            y,
            rows,
            self.classes_,
            self._check_logits,
            accuracy=self.accuracy,
            models=[as_logits(rows.take(model, name), name) for name, model in others],
            reference=None
            if reference is None
            else as_answers(rows.take(reference, "reference"), self.classes_),
            labeled=labeled,
            source=source,
        )
        self.temperature_ = self.calibration_.value
        warn_unreliable(self.calibration_)
        return self

    def _name_classes(self, k: int, y: Any) -> Array:
        if self.classes is None:
            return np.arange(k) if y is None else _classes_of(y, k)
        return np.asarray(validation.class_names(self.classes, k))

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

    def __sklearn_tags__(self) -> Tags:
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


# Classifiers --------------------------------------------------------------------------------------


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
    accuracy: Accuracy | None = None

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
        self.calibration_ = fit_temperature(
            z,
            y,
            weighted,
            self.classes_,
            self._logits,
            accuracy=self.accuracy,
            models=[others.logits(m, f"model {i}") for i, m in enumerate(check_models(models), 1)],
            reference=None if reference is None else others.answers(reference),
            labeled=labeled,
            source=source,
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

    def __sklearn_tags__(self) -> Tags:
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
        if not hasattr(given, "predict"):
            return as_logits(self.weighted.take(given, name), name)
        classifier, order = self._open(given, name)
        response = _choose_response(classifier, self.rows, len(order))
        z = _logits_of(classifier, response, self.rows, len(order))
        return np.asarray(shapes.matrix(z))[:, order]

    def answers(self, reference: Any) -> Array:
        """Logits (n, k), or classes (n,) as columns, -1 without an answer."""
        if not hasattr(reference, "predict"):
            return as_answers(self.weighted.take(reference, "reference"), self.classes)
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
            "decision_function_shape='ovr' gives one value for each class"
        )


def _logits_of(estimator: Any, response: Response, rows: Any, k: int) -> Array:
    """The decisions, or the logarithms of the probabilities plus 1e-12.

    If no tree of a forest voted for a class, that class is still possible; with a logit of -inf
    its labels would be refused.
    """
    given = getattr(estimator, response)(rows)
    if response == "predict_proba":
        z = validation.logits_of(given, floor=_SMALLEST, name=response)
    else:
        z = np.asarray(validation.as_array(given, response))
    width = 2 if z.ndim == 1 or z.shape[1] == 1 else z.shape[1]
    if width != k:
        pairs = response == "decision_function" and width == k * (k - 1) // 2
        hint = ", one for each pair of classes: decision_function_shape='ovr' gives one for each"
        must = f"{response} must have one column for each of {k} classes"
        raise InputError(f"{must}, got {width}{hint if pairs else ''}")
    return z
