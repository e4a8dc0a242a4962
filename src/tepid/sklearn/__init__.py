"""Estimators for scikit-learn: a calibrator of logits, and a classifier calibrated without labels.

Here `sklearn` is scikit-learn itself; this package is `tepid.sklearn`, and is imported when first
used.
"""

try:
    import sklearn as _scikit_learn  # noqa: F401  # only whether it is there
except ImportError:
    raise ImportError(
        "tepid.sklearn must have scikit-learn, got none; pip install 'tepid[sklearn]' brings it"
    ) from None

from tepid.sklearn.calibrator import TemperatureCalibrator
from tepid.sklearn.classifier import CalibratedClassifier
from tepid.sklearn.evidence import CalibrationWarning

__all__ = ["CalibratedClassifier", "CalibrationWarning", "TemperatureCalibrator"]
