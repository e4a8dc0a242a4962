"""Decisions with calibrated probabilities: thresholds, prediction sets, expected performance.

No labels are needed: the calibrated probabilities of a row are taken as the distribution of its
label. Everything is computed from sums over rows, at three temperatures: T and the two ends of its
interval. Probabilities are binned by their log-odds, in steps of 1/64.
"""

from tepid.decisions.performance import (
    ClassPerformance,
    Performance,
    class_performance,
    expected_accuracy,
    find_performance,
)
from tepid.decisions.rows import Interval, Temperatures, calibrated, open_labeled, open_rows
from tepid.decisions.sets import Conformal, PredictionSets, find_sets
from tepid.decisions.thresholds import (
    Accepted,
    ConfidenceSums,
    Goal,
    RiskCoverage,
    Threshold,
    find_risk_coverage,
    find_threshold,
    read_threshold,
)

__all__ = [
    "Accepted",
    "ClassPerformance",
    "ConfidenceSums",
    "Conformal",
    "Goal",
    "Interval",
    "Performance",
    "PredictionSets",
    "RiskCoverage",
    "Temperatures",
    "Threshold",
    "calibrated",
    "class_performance",
    "expected_accuracy",
    "find_performance",
    "find_risk_coverage",
    "find_sets",
    "find_threshold",
    "open_labeled",
    "open_rows",
    "read_threshold",
]
