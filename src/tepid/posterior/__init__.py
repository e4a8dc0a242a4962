"""`calibrate`: one posterior over log T from all evidence."""

from tepid.posterior.calibration import calibrate
from tepid.posterior.sites import summarize

__all__ = ["calibrate", "summarize"]
