"""PyTorch models: calibrate them over a loader, or from their first outputs in service.

Inside this package `import torch` is PyTorch itself; the package is `tepid.torch`.
"""

try:
    import torch as _pytorch  # noqa: F401  # only whether it is installed
except ImportError:
    raise ImportError("tepid.torch needs PyTorch: pip install 'tepid[torch]'") from None

from tepid.errors import CalibrationWarning
from tepid.torch.calibration import AllReduced, calibrate
from tepid.torch.folding import fold, recorded
from tepid.torch.modules import Calibrated, Warmup

__all__ = [
    "AllReduced",
    "Calibrated",
    "CalibrationWarning",
    "Warmup",
    "calibrate",
    "fold",
    "recorded",
]
