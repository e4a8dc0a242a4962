"""Packages that some formats need and nothing else does, imported when such a file is opened."""

import importlib
from typing import Any

from tepid.errors import InputError


def needed(module: str, extra: str) -> Any:
    """A module, or one sentence that says what brings it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise InputError(
            f"{package} must be there for such a file, got none; "
            f"pip install 'tepid[{extra}]' brings it"
        ) from None
