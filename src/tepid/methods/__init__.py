"""From evidence to a temperature."""

from tepid.methods.accuracy import from_accuracy
from tepid.methods.labels import from_labels
from tepid.methods.logits import from_logits

__all__ = ["from_accuracy", "from_labels", "from_logits"]
