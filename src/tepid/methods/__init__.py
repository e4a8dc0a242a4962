"""From evidence to a temperature."""

from tepid.methods.accuracy import counted, from_accuracy
from tepid.methods.advice import Advice, advise, judged, would_help
from tepid.methods.labels import from_few_labels, from_labels, labels_to_halve
from tepid.methods.models import from_models
from tepid.methods.sites import Summaries, from_summaries, merged, summarise
from tepid.methods.source import from_source
from tepid.methods.uts import from_logits, guarded

__all__ = [
    "Advice",
    "Summaries",
    "advise",
    "counted",
    "from_accuracy",
    "from_few_labels",
    "from_labels",
    "from_logits",
    "from_models",
    "from_source",
    "from_summaries",
    "guarded",
    "judged",
    "labels_to_halve",
    "merged",
    "summarise",
    "would_help",
]
