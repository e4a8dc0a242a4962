"""What `tepid.scaling` is compared with: who else has each method, as its users would call it.

A peer is a function of logits, probabilities and labels, both arrays in float64 and computed before
the clock starts, so that each takes what it likes best. It returns a function from the same pair
to probabilities, so that a fast wrong answer does not pass for a fast one. Peers that are not
installed are left out.
"""

import contextlib
import io
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from peers import Logits
from probmetrics import calibrators
from probmetrics.distributions import CategoricalLogits
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

Predict = Callable[[Any, Any], Any]
Peer = Callable[[Any, Any, Any], Predict]


def _on_logits(model: Any) -> Peer:
    def fit(z: Any, _: Any, y: Any) -> Predict:
        model.fit_torch(CategoricalLogits(torch.from_numpy(z)), torch.from_numpy(y))

        def predict(z: Any, _: Any) -> Any:
            logits = CategoricalLogits(torch.from_numpy(z))
            return model.predict_proba_torch(logits).get_probs().numpy()

        return predict

    return fit


def _on_probabilities(model: Any) -> Peer:
    def fit(_: Any, p: Any, y: Any) -> Predict:
        model.fit(p, y)
        return lambda _, p: model.predict_proba(p)

    return fit


def _regression(z: Any, p: Any, y: Any, *, log: bool) -> Predict:
    """Multinomial regression without a penalty is matrix scaling; on log p it is Dirichlet's."""
    model = LogisticRegression(C=np.inf, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it stops at its limit
        model.fit(np.log(p) if log else z, y)
    return lambda z, p: model.predict_proba(np.log(p) if log else z)


class Probabilities(Logits):
    """A classifier whose features are its probabilities already."""

    decision_function = None

    def predict_proba(self, X: Any) -> Any:  # noqa: N803  # scikit-learn's name
        """The probabilities."""
        return X


def _isotonic(_: Any, p: Any, y: Any) -> Predict:
    frozen = FrozenEstimator(Probabilities().fit(p, y))
    model = CalibratedClassifierCV(frozen, method="isotonic").fit(p, y)
    return lambda _, p: model.predict_proba(p)


def _betacal(_: Any, p: Any, y: Any) -> Predict:
    from betacal import BetaCalibration  # noqa: PLC0415  # optional

    with warnings.catch_warnings():
        models = [BetaCalibration("abm").fit(p[:, k], y == k) for k in range(p.shape[1])]

    def predict(_: Any, p: Any) -> Any:
        columns = np.stack([model.predict(p[:, k]) for k, model in enumerate(models)], axis=1)
        return columns / columns.sum(axis=1, keepdims=True)

    return predict


def _netcal(_: Any, p: Any, y: Any) -> Predict:
    from netcal.binning import BBQ  # noqa: PLC0415  # optional

    with contextlib.redirect_stderr(io.StringIO()):
        model = BBQ().fit(p, y)
    return lambda _, p: model.transform(p)


def found() -> dict[str, dict[str, Peer]]:
    """The peers of each method that are installed."""
    rest, bins = calibrators.MulticlassOneVsRestCalibrator, "BinaryHistogramBinningCalibrator"
    histogram = rest(getattr(calibrators, bins)(n_bins=15))
    return {
        "vector": {"probmetrics": _on_logits(calibrators.VectorScalingCalibrator())},
        "matrix": {
            "probmetrics": _on_logits(calibrators.MatrixScalingCalibrator()),
            "scikit-learn": lambda z, p, y: _regression(z, p, y, log=False),
        },
        "dirichlet": {"scikit-learn": lambda z, p, y: _regression(z, p, y, log=True)},
        "histogram": {"probmetrics": _on_probabilities(histogram)},
        "isotonic": {"scikit-learn": _isotonic},
        "ensemble": {"probmetrics": _on_probabilities(calibrators.ETSCalibrator("ce"))},
        "beta": {"betacal": _betacal} if find_spec("betacal") else {},
        "bbq": {"netcal": _netcal} if find_spec("netcal") else {},
    }
