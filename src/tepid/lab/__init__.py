"""The paper's laboratory: its networks, data and recipes, and one loop that trains them.

Reading recipes needs nothing; `tepid.lab.training`, `tepid.lab.networks` and `tepid.lab.data` are
modules of their own that need PyTorch and torchvision, and are imported when a command runs.
"""

from tepid.lab.recipe import Recipe, named, names

__all__ = ["Recipe", "named", "names"]
