"""Measures of probabilities against labels, and how far to trust them.

Each takes `(labels, probabilities)`, in scikit-learn's order, and `sample_weight`; `excess_nll`
takes logits. Those that are sums over bins also take one `Reliability`, which merges: score the
parts where they lie and add. The others say that they need all rows. All are NaN where there are
no rows.
"""

from tepid.metrics.binned import (
    brier_calibration,
    brier_refinement,
    ece,
    ece_classwise,
    ece_equal_mass,
    mce,
    rmsce_debiased,
)
from tepid.metrics.excess import excess_nll
from tepid.metrics.intervals import Interval, bootstrap, difference
from tepid.metrics.means import accuracy, brier, confidence, nll
from tepid.metrics.ranked import aurc, eaurc, ks_error
from tepid.metrics.smooth import smooth_ece

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
