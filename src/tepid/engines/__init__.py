"""Where the summaries are made: map `of` over blocks, reduce with `+`.

`tepid.engines.dask` and `tepid.engines.spark` are imported only where they are asked for.
"""

import importlib
from typing import Any

from tepid.engines.choosing import suited
from tepid.engines.engine import Engine, Progress
from tepid.engines.threads import Threads

__all__ = ["Engine", "Progress", "Threads", "suited"]


def __getattr__(name: str) -> Any:
    if name in ("checkpoint", "dask", "spark"):
        return importlib.import_module(f"tepid.engines.{name}")
    raise AttributeError(f"module 'tepid.engines' has no attribute {name!r}")
