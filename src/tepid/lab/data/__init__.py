"""The images of the paper's tables, read from the files that their authors publish."""

from pathlib import Path

from tepid.lab.data import lesions, stored
from tepid.lab.data.images import Data, Images
from tepid.lab.recipe import Recipe

__all__ = ["Data", "Images", "read"]


def read(recipe: Recipe, path: Path, seed: int, *, download: bool, checked: bool) -> Data:
    """The training and test set of a recipe, cut to its `train_rows` and `test_rows`."""
    if recipe.data == "isic":
        return lesions.read(path, recipe, seed)
    found = stored.read(recipe.data, path, download=download, checked=checked)
    return found.first(recipe.train_rows, recipe.test_rows)
