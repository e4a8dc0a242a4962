"""scikit-learn: `CalibratedClassifierCV(method="temperature")` on a frozen classifier.

The decision function of two classes is one
column: the difference of the two logits.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from adapters import pickle_and_load

save_and_load = pickle_and_load


class Logits(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are its logits."""

    def fit(self, X: Any, y: Any) -> Self:  # noqa: ARG002, N803  # scikit-learn's signature
        """Learn the number of classes only."""
        self.classes_ = np.arange(X.shape[1])
        return self

    def decision_function(self, X: Any) -> Any:  # noqa: N803  # scikit-learn's name
        """Return the logits."""
        return X[:, 1] - X[:, 0] if X.shape[1] == 2 else X

    def predict(self, X: Any) -> Any:  # noqa: N803  # scikit-learn's name
        """Return the class of the largest logit."""
        return X.argmax(axis=1)


def fit(z: Any, y: Any, weights: Any) -> CalibratedClassifierCV:
    """Fit with labels."""
    model = CalibratedClassifierCV(FrozenEstimator(Logits().fit(z, y)), method="temperature")
    return model.fit(z, y, sample_weight=weights)


def predict(model: CalibratedClassifierCV, z: Any) -> Any:
    """Return probabilities."""
    return model.predict_proba(z)
