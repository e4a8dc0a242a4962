"""From evidence to a temperature."""

from tepid.methods.accuracy import counted, from_accuracy
from tepid.methods.advice import Advice, advise, judged, would_help
from tepid.methods.few import from_few_labels, labels_to_halve
from tepid.methods.guard import guarded
from tepid.methods.labels import from_labels
from tepid.methods.logits import from_logits
from tepid.methods.models import from_models
from tepid.methods.odds import from_odds
from tepid.methods.shift import from_source
from tepid.methods.summaries import Summaries, from_summaries, merged, summarise

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
    "from_odds",
    "from_source",
    "from_summaries",
    "guarded",
    "judged",
    "labels_to_halve",
    "merged",
    "summarise",
    "would_help",
]
