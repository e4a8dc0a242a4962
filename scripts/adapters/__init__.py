"""One module for each package that `scripts/conformance.py` asks.

Each uses its package as the documentation recommends: `fit(logits, labels, weights)` returns a
model, `predict(model, logits)` returns probabilities, and `save_and_load(model, path)` returns the
model that was written to a file and read again. `NotOfferedError` means that the package has no
such function. A module with `TAKES_PROBABILITIES` receives the softmax of the logits. If the result
of a package carries warnings, `notice(model)` returns them.
"""

import pickle
from pathlib import Path
from typing import Any


class NotOfferedError(Exception):
    """The package does not offer this."""


def refuse_weights(weights: Any) -> None:
    """Raise `NotOfferedError` if there are weights."""
    if weights is not None:
        raise NotOfferedError


def pickle_and_load(model: Any, path: Path) -> Any:
    """Write a model with pickle, and read it."""
    path.write_bytes(pickle.dumps(model))
    return pickle.loads(path.read_bytes())
