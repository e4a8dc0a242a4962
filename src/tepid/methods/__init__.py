"""The exact methods of the literature: UTS, temperature scaling and matching an accuracy."""

from tepid.methods.accuracy import Counted, Range
from tepid.methods.exact import match_accuracy, temperature_scaling, uts

__all__ = ["Counted", "Range", "match_accuracy", "temperature_scaling", "uts"]
