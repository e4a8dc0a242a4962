"""`calibrate`: one posterior over log T from all evidence."""

from tepid.posterior.calibration import calibrate
from tepid.posterior.sums import summarize

__all__ = ["calibrate", "summarize"]
