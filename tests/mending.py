"""torchvision beside a torch that lacks its compiled operators; as a script, `tepid` after it."""

import importlib.util
import sys

KEPT = []  # an operator lives as long as the library that defined it


def mend():
    """Define the two operators that importing torchvision asks for, where the import fails."""
    if importlib.util.find_spec("torchvision") is None:
        return
    try:
        import torchvision  # noqa: F401, PLC0415  # whether it can be
    except RuntimeError:
        import torch  # noqa: PLC0415  # not before a test needs it

        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        KEPT.append(library)


if __name__ == "__main__":
    from tepid.cli.main import main

    mend()
    main()
