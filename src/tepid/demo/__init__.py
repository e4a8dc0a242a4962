"""Test logits of a small network on Fashion-MNIST, trained by `scripts/train_demo.py`."""

from importlib import resources
from typing import Any

import numpy as np


def fashion() -> dict[str, Any]:
    """`logits` (10000, 10), `labels`, class `names`, and `images` of the rows `image_rows`."""
    path = resources.files("tepid.demo") / "fashion.npz"
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        # Signed, so that -1 can mark an unknown label.
        return dict(archive) | {"labels": archive["labels"].astype(np.int64)}
