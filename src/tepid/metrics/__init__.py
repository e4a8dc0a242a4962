"""Measures of probabilities against labels, and bootstrap intervals for them.

Each takes `(labels, probabilities)`, in scikit-learn's order, and `sample_weight`; `excess_nll`
takes logits. Those in `from_reliability` also take one `Reliability`, which merges: summarize each
part where it lies and add. The docstrings of the others state that they need all rows. All return
NaN where there are no rows.
"""

from tepid.metrics.from_reliability import (
    accuracy,
    brier,
    brier_calibration,
    brier_refinement,
    confidence,
    ece,
    mce,
    nll,
    rmsce_debiased,
)
from tepid.metrics.from_rows import (
    aurc,
    eaurc,
    ece_classwise,
    ece_equal_mass,
    excess_nll,
    ks_error,
    smooth_ece,
)
from tepid.metrics.intervals import Interval, bootstrap, difference

__all__ = [
    "Interval",
    "accuracy",
    "aurc",
    "bootstrap",
    "brier",
    "brier_calibration",
    "brier_refinement",
    "confidence",
    "difference",
    "eaurc",
    "ece",
    "ece_classwise",
    "ece_equal_mass",
    "excess_nll",
    "ks_error",
    "mce",
    "nll",
    "rmsce_debiased",
    "smooth_ece",
]
