"""What a loader yields: the part that the model takes, and the labels where they are asked for."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from tepid.errors import InputError

# True, or a function that takes the labels from a batch.
Labels: TypeAlias = Callable[[Any], Any] | bool
_LABELS = ("labels", "label")


def moved(batch: Any, device: Any) -> Any:
    """A batch with everything in it that can be moved on a device."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: moved(part, device) for name, part in batch.items()}
    if isinstance(batch, (tuple, list)):
        parts = [moved(part, device) for part in batch]
        return batch._make(parts) if hasattr(batch, "_make") else type(batch)(parts)
    return batch


def answered(model: Any, batch: Any, device: Any) -> Any:
    """The model's output: the first of a sequence is its input, a mapping its keywords.

    Labels are left where they are; nothing that is called label-free may see them.
    """
    if isinstance(batch, (tuple, list)):
        if not batch:
            raise InputError("loader must yield batches that hold an input, got an empty one")
        return answered(model, batch[0], device)
    if isinstance(batch, Mapping):
        keywords = {name: part for name, part in batch.items() if name not in _LABELS}
        return model(**moved(keywords, device))
    return model(moved(batch, device))


def labels_of(batch: Any, labels: Labels) -> Any:
    """The labels of a batch, flat and in memory: the second of a sequence, or what is named so."""
    if callable(labels):
        found = labels(batch)
    elif isinstance(batch, Mapping):
        found = next((batch[name] for name in _LABELS if name in batch), None)
    else:
        found = batch[1] if isinstance(batch, (tuple, list)) and len(batch) > 1 else None
    if found is None:
        raise InputError(
            "loader must yield (input, labels), or labels among the keywords, got neither; "
            "labels may also be a function that takes them from a batch"
        )
    return torch.as_tensor(found).detach().cpu().reshape(-1).numpy()
