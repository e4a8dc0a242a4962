"""From evidence to a temperature."""

from tepid.methods.accuracy import counted, match_accuracy
from tepid.methods.advice import Advice, advise, judged, would_help
from tepid.methods.labels import from_few_labels, labels_to_halve, temperature_scaling
from tepid.methods.models import from_models
from tepid.methods.sites import Summaries, from_summaries, merged, summarize
from tepid.methods.source import from_source
from tepid.methods.unsupervised import guarded, uts

__all__ = [
    "Advice",
    "Summaries",
    "advise",
    "counted",
    "from_few_labels",
    "from_models",
    "from_source",
    "from_summaries",
    "guarded",
    "judged",
    "labels_to_halve",
    "match_accuracy",
    "merged",
    "summarize",
    "temperature_scaling",
    "uts",
    "would_help",
]
