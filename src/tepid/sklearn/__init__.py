"""scikit-learn estimators: a calibrator of logits, and a calibrated classifier.

Inside this package `import sklearn` is scikit-learn itself; the package is `tepid.sklearn`.
"""

try:
    import sklearn as _scikit_learn  # noqa: F401  # only whether it is installed
except ImportError:
    raise ImportError("tepid.sklearn needs scikit-learn: pip install 'tepid[sklearn]'") from None

from tepid.errors import CalibrationWarning
from tepid.sklearn.estimators import CalibratedClassifier, TemperatureCalibrator

__all__ = ["CalibratedClassifier", "CalibrationWarning", "TemperatureCalibrator"]
