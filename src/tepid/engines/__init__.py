"""Where the summaries are made: map `of` over blocks, reduce with `+`."""

from tepid.engines.engine import Engine, Progress
from tepid.engines.threads import Threads

__all__ = ["Engine", "Progress", "Threads"]
