"""ONNX model files: insert a temperature into a graph, or run a model for its logits.

Inside this package `import onnx` is ONNX itself; the package is `tepid.onnx`.
"""

try:
    import onnx as _onnx  # noqa: F401  # only whether it is installed
except ImportError:
    raise ImportError("tepid.onnx needs onnx: pip install 'tepid[onnx]'") from None

from tepid.onnx.heads import Head
from tepid.onnx.inference import run
from tepid.onnx.insertion import find, insert, recorded

__all__ = ["Head", "find", "insert", "recorded", "run"]
