"""What tepid is compared with: three ways to fit a temperature, all of which need labels.

Each is a function of float32 logits and int64 labels, made as its own users would make it: NumPy
arrays for scikit-learn, tensors over the same memory for the others. The temperature is returned,
so that a fast wrong answer does not pass for a fast one.
"""

from typing import Any, Self

import numpy as np
import torch
from probmetrics.calibrators import TemperatureScalingCalibrator
from probmetrics.distributions import CategoricalLogits
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from torch.nn.functional import cross_entropy


class Logits(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its logits already."""

    def fit(self, X: Any, y: Any) -> Self:  # noqa: ARG002, N803  # scikit-learn's signature
        """Learn nothing but the number of classes."""
        self.classes_ = np.arange(X.shape[1])
        return self

    def decision_function(self, X: Any) -> Any:  # noqa: N803  # scikit-learn's name
        """The logits."""
        return X

    def predict(self, X: Any) -> Any:  # noqa: N803  # scikit-learn's name
        """The class of the largest logit."""
        return X.argmax(axis=1)


def scikit_learn(z: Any, y: Any) -> float:
    """`method="temperature"` on a frozen estimator: Brent's method, one thread by its making."""
    model = CalibratedClassifierCV(FrozenEstimator(Logits().fit(z, y)), method="temperature")
    (fitted,) = model.fit(z, y).calibrated_classifiers_
    return float(1.0 / fitted.calibrators[0].beta_)


def probmetrics(z: Any, y: Any) -> float:
    """`TemperatureScalingCalibrator` as it comes, on logits: thirty bisections of the slope."""
    model = TemperatureScalingCalibrator()
    model.fit_torch(CategoricalLogits(torch.from_numpy(z)), torch.from_numpy(y))
    return float(1.0 / model.invtemp_)


def torch_lbfgs(z: Any, y: Any) -> float:
    """Cross-entropy over log T by L-BFGS with a strong-Wolfe search, stopped once T is right.

    Multiplying by 1/T and not dividing by T halves torch's backward pass, and the tolerance is the
    loosest power of ten that left T within 1e-4 at every size: both favor this peer.
    """
    logits, labels = torch.from_numpy(z), torch.from_numpy(y)
    log_t = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [log_t], max_iter=100, tolerance_grad=1e-4, line_search_fn="strong_wolfe"
    )

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = cross_entropy(logits * torch.exp(-log_t), labels)
        value.backward()
        return value

    optimizer.step(loss)
    return float(log_t.detach().exp())
