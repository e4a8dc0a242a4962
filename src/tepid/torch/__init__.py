"""Models of PyTorch: calibrated over an unlabelled loader, or by their first answers in service.

Here `torch` is PyTorch itself; this package is `tepid.torch`, and is imported when first used.
"""

try:
    import torch as _pytorch  # noqa: F401  # only whether it is there
except ImportError:
    raise ImportError(
        "tepid.torch must have PyTorch, got none; pip install 'tepid[torch]' brings it"
    ) from None

from tepid.torch.calibrated import Calibrated
from tepid.torch.calibrating import calibrate
from tepid.torch.distributed import AllReduced
from tepid.torch.warmup import Warmup

__all__ = ["AllReduced", "Calibrated", "Warmup", "calibrate"]
