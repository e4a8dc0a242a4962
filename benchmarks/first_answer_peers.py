"""Labeled temperature scaling as a script: `first_answer_peers.py NAME logits.npy labels.npy`.

What `first_answer` compares with. Each part imports what it needs and no more.
"""

import sys
from typing import Any

import numpy as np


def scikit_learn(z: Any, y: Any) -> float:
    """`method="temperature"` on a frozen estimator."""
    from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: PLC0415  # one peer, one import
    from sklearn.calibration import CalibratedClassifierCV  # noqa: PLC0415  # the same
    from sklearn.frozen import FrozenEstimator  # noqa: PLC0415  # the same

    class Logits(ClassifierMixin, BaseEstimator):
        """A classifier whose features are its logits already."""

        def __init__(self) -> None:
            self.classes_ = np.arange(z.shape[1])

        def fit(self, X: Any, y: Any) -> Any:  # noqa: ARG002, N803  # scikit-learn's signature
            """Learn nothing."""
            return self

        def decision_function(self, X: Any) -> Any:  # noqa: N803  # scikit-learn's name
            """The logits."""
            return X

        def predict(self, X: Any) -> Any:  # noqa: N803  # scikit-learn's name
            """The class of the largest logit."""
            return X.argmax(axis=1)

    model = CalibratedClassifierCV(FrozenEstimator(Logits()), method="temperature")
    (fitted,) = model.fit(z, y).calibrated_classifiers_
    return float(1.0 / fitted.calibrators[0].beta_)


def torch_lbfgs(z: Any, y: Any) -> float:
    """Cross-entropy over log T by L-BFGS, as in `peers`."""
    import torch  # noqa: PLC0415  # as above

    logits, labels = torch.from_numpy(z), torch.from_numpy(y)
    log_t = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [log_t], max_iter=100, tolerance_grad=1e-4, line_search_fn="strong_wolfe"
    )

    def loss() -> Any:
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(logits * torch.exp(-log_t), labels)
        value.backward()
        return value

    optimizer.step(loss)
    return float(log_t.detach().exp())


if __name__ == "__main__":
    fit = scikit_learn if sys.argv[1] == "scikit-learn" else torch_lbfgs
    print(fit(np.load(sys.argv[2]), np.load(sys.argv[3])))
