"""Where the summaries are made: map `of` over blocks, reduce with `+`.

`tepid.engines.dask` and `tepid.engines.spark` are imported only where they are asked for.
"""

from tepid.engines.choosing import suited
from tepid.engines.engine import Engine, Progress
from tepid.engines.threads import Threads

__all__ = ["Engine", "Progress", "Threads", "suited"]
