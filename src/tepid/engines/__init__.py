"""Where the summaries are made: map `of` over blocks, reduce with `+`."""

from tepid.engines.threads import Progress, Threads

__all__ = ["Progress", "Threads"]
