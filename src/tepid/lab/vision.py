"""torchvision, which most images and one network need, and what is said where it cannot be had."""

import importlib
from typing import Any

from tepid.errors import InputError


def torchvision(module: str) -> Any:
    """The module of torchvision of that name."""
    try:
        return importlib.import_module(f"torchvision.{module}")
    except ImportError:
        raise InputError(
            "this recipe must have torchvision, got none; pip install 'tepid[lab]' brings it"
        ) from None
    except RuntimeError as error:  # a build for another PyTorch
        raise InputError(f"torchvision must fit the PyTorch beside it, got: {error}") from None
