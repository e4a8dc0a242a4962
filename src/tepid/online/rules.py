"""What is watched, what counts as a drift, and where the results go."""

import math
import os
from dataclasses import dataclass
from typing import Any

from tepid.arrays import check_bins
from tepid.errors import InputError
from tepid.scalars import number, whole


def _check_limits(limits: Any) -> None:
    try:
        low, high = (0.0, 1.0) if limits is None else limits
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not 0 <= number(low, "limits") < number(high, "limits") <= 1:
        raise InputError(f"limits must be (low, high) within [0, 1], got {limits}")


@dataclass(frozen=True)
class Rules:
    """How chunks are judged; the defaults judge each chunk by itself.

    Args:
        false_alarms: How often a chunk without any drift may be called one: a probability per
            chunk, over all references and chunks of the same kind.
        limits: Fixed limits (low, high) for the implied accuracy, instead of those of the
            reference.
        half_life: After so many chunks one counts half: the recent window is all chunks with
            exponential forgetting, and it is what is judged. None: the window is the last chunk.
        reestimate: Whether a temperature is estimated afresh from the recent window by UTS, with
            the thresholds of the reference. It is reported, and nobody uses it unasked.
        sample: The probability with which a row is looked at, each by itself.
        seed: Which rows those are.
        bins: Of the histogram of confidences.
        remember: How many chunks the history holds.
    """

    false_alarms: float = 0.01
    limits: tuple[float, float] | None = None
    half_life: float | None = None
    reestimate: bool = False
    sample: float = 1.0
    seed: int = 0
    bins: int = 15
    remember: int = 1000

    def __post_init__(self) -> None:
        if not 0 < number(self.false_alarms, "false_alarms") < 1:
            raise InputError(f"false_alarms must be in (0, 1), got {self.false_alarms}")
        if not 0 < number(self.sample, "sample") <= 1:
            raise InputError(f"sample must be in (0, 1], got {self.sample}")
        if self.half_life is not None and not (0 < number(self.half_life, "half_life") < math.inf):
            raise InputError(f"half_life must be a number above zero, got {self.half_life}")
        _check_limits(self.limits)
        whole(self.seed, "seed")
        if whole(self.remember, "remember") < 1:
            raise InputError(f"remember must be at least 1, got {self.remember}")
        check_bins(self.bins)

    @property
    def keep(self) -> float:
        """What is left of the recent window when a chunk joins it."""
        return 0.0 if self.half_life is None else 0.5 ** (1 / self.half_life)


@dataclass(frozen=True)
class Outputs:
    """Where a monitor writes while it runs.

    `autosave` is a file that holds the state after every `every` batches, whole at any moment: a
    process that is killed loses at most the batches since. `log` is a file that gets one line of
    JSON for each chunk; one process writes to it. A file that cannot be written is an error of the
    `update` that tried, whose rows are counted all the same.
    """

    autosave: str | os.PathLike[str] | None = None
    every: int = 1
    log: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if whole(self.every, "every") < 1:
            raise InputError(f"every must be at least 1 batch, got {self.every}")
