"""What a classifier says of rows, as logits."""

from typing import Any, Literal

import numpy as np

from tepid import arrays
from tepid.arrays import Array
from tepid.errors import InputError
from tepid.methods.entropies import probabilities

Response = Literal["decision_function", "predict_proba"]
# How far the softmax of decisions may lie from probabilities that are the same but for rounding.
_SAME = 1e-4
# What stands for a probability of zero.
_UNSEEN = 1e-12


def response_of(estimator: Any, rows: Any, k: int) -> Response:
    """Which of the two to calibrate: the decisions if they are logits, else the probabilities.

    Decisions whose softmax is `predict_proba` are its logits, without the rounding of those near 0
    and 1. Where the two differ, as for an SVM with Platt's sigmoid, the probabilities are what the
    model claims. Decisions alone are taken as they are, if they mostly favour the prediction: for
    three classes, those of one against one look like those of one against the rest.
    """
    if not hasattr(estimator, "decision_function"):
        if not hasattr(estimator, "predict_proba"):
            kind = type(estimator).__name__
            raise InputError(
                f"estimator must have decision_function or predict_proba, got {kind} with neither"
            )
        return "predict_proba"
    if hasattr(estimator, "predict_proba"):
        return _the_better(estimator, rows, k)
    _refuse_contradiction(estimator, rows, _decisions(estimator, rows, k))
    return "decision_function"


def logits_of(estimator: Any, response: Response, rows: Any, k: int) -> Array:
    """The logits of rows: the decisions, or the logarithms of the probabilities plus 1e-12.

    The last is what scikit-learn's own temperature scaling adds. A forest of which no tree voted
    for a class does not mean that the class is impossible, and labels there would be refused.
    """
    if response == "decision_function":
        return _decisions(estimator, rows, k)
    p = arrays.probability_matrix(estimator.predict_proba(rows), "predict_proba")
    _check_width(p.shape[1], k, "predict_proba")
    return np.asarray(np.log(p + _UNSEEN))


def _the_better(estimator: Any, rows: Any, k: int) -> Response:
    decisions = arrays.as_array(estimator.decision_function(rows), "decision_function")
    if (1 if decisions.ndim == 1 else decisions.shape[1]) != (1 if k == 2 else k):
        return "predict_proba"
    claimed = logits_of(estimator, "predict_proba", rows, k)
    gap = np.abs(probabilities(decisions, 1.0) - np.exp(claimed.astype(np.float64)))
    return "decision_function" if gap.max(initial=0.0) < _SAME else "predict_proba"


def _decisions(estimator: Any, rows: Any, k: int) -> Array:
    z = arrays.as_array(estimator.decision_function(rows), "decision_function")
    width = 1 if z.ndim == 1 else z.shape[1]
    _check_width(2 if width == 1 else width, k, "decision_function")
    return np.asarray(z)


def _check_width(width: int, k: int, name: str) -> None:
    if width == k:
        return
    hint = ""
    if name == "decision_function" and width == k * (k - 1) // 2:
        hint = ", one for each pair of classes: decision_function_shape='ovr' gives one for each"
    raise InputError(f"{name} must have one column for each of {k} classes, got {width}{hint}")


def _refuse_contradiction(estimator: Any, rows: Any, z: Array) -> None:
    if z.ndim == 1 or not len(z):
        return
    favoured = np.asarray(estimator.classes_)[z.argmax(axis=1)]
    agreed = float((favoured == np.asarray(estimator.predict(rows))).mean())
    if agreed < 0.5:
        raise InputError(
            "decision_function must be highest for the predicted class, "
            f"got another class on {100 * (1 - agreed):.0f} % of the rows; "
            "decision_function_shape='ovo' is such a one"
        )
