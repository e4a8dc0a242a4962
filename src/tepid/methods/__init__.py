"""The exact methods of the literature: UTS, temperature scaling and matching an accuracy."""

from tepid.methods.accuracy import Counted, Range, match_accuracy
from tepid.methods.labels import temperature_scaling
from tepid.methods.unsupervised import uts

__all__ = ["Counted", "Range", "match_accuracy", "temperature_scaling", "uts"]
