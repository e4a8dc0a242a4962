"""The engine for rows that live somewhere: with Dask there, with Spark there, otherwise here."""

from tepid.engines.engine import Engine
from tepid.engines.threads import Threads
from tepid.sources.block import Source


def suited(engine: Engine | None, *sources: Source) -> Engine:
    """The engine that was given, or the one that the rows call for."""
    if engine is not None:
        return engine
    if any(part.lazy is not None for source in sources for part in source.parts[:1]):
        from tepid.engines.dask import Dask  # noqa: PLC0415  # optional

        return Dask()
    if any(source.frame is not None for source in sources):
        from tepid.engines.spark import Spark  # noqa: PLC0415  # optional

        return Spark()
    return Threads()
