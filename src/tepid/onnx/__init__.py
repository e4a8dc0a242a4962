"""Model files: a temperature put into an ONNX graph, and logits read out of one.

Here `onnx` is ONNX itself; this package is `tepid.onnx`, and is imported when first used.
"""

try:
    import onnx as _onnx  # noqa: F401  # only whether it is there
except ImportError:
    raise ImportError(
        "tepid.onnx must have onnx, got none; pip install 'tepid[onnx]' brings it"
    ) from None

from tepid.onnx.heads import Head
from tepid.onnx.inserting import find, insert, recorded
from tepid.onnx.running import run

__all__ = ["Head", "find", "insert", "recorded", "run"]
