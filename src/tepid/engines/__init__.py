"""Engines map a summary over the batches of a source and add the results.

`tepid.engines.dask` and `tepid.engines.spark` are imported only where they are used.
"""

import importlib
from typing import Any

from tepid.engines.engine import Engine, Progress
from tepid.engines.threads import Threads
from tepid.errors import InputError
from tepid.sources.dask import DaskPart
from tepid.sources.source import Source
from tepid.sources.spark import SparkPart

__all__ = ["Engine", "Progress", "Threads", "choose_engine"]


def choose_engine(engine: Engine | None, *sources: Source) -> Engine:
    """The engine that was given, or the one where the rows are."""
    if engine is not None:
        if not hasattr(engine, "total") or isinstance(engine, type):
            raise InputError(f"engine must be one such as tepid.Threads(4), got {engine!r:.80}")
        return engine
    first = [leaf for source in sources for part in source.parts[:1] for leaf in part.leaves()]
    if any(isinstance(leaf, DaskPart) for leaf in first):
        engine_class = importlib.import_module("tepid.engines.dask").Dask
    elif any(isinstance(leaf, SparkPart) for leaf in first):
        engine_class = importlib.import_module("tepid.engines.spark").Spark
    else:
        engine_class = Threads
    chosen: Engine = engine_class()
    return chosen


def __getattr__(name: str) -> Any:
    if name in ("dask", "spark"):
        return importlib.import_module(f"tepid.engines.{name}")
    raise AttributeError(f"module 'tepid.engines' has no attribute {name!r}")
