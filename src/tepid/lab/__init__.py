"""The paper's experiments: its networks, data, recipes, tables and figures.

Recipes, tables and figures need no PyTorch. `tepid.lab.datasets`, `networks` and `training` need
PyTorch and mostly torchvision, and are imported when a command runs.
"""

from tepid.lab.recipe import Recipe, named, names

__all__ = ["Recipe", "named", "names"]
