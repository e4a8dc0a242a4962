"""The rows of the paper's tables, from the recipes, which hold its figures."""

import dataclasses
import math
import re
from dataclasses import dataclass

from tepid.lab.recipe import Figures, Recipe, named, names

# The order of the paper's tables.
_NETWORKS = (
    "densenet40", "densenet100", "resnet110", "wideresnet32", "lenet5", "vgg16", "resnet152",
)  # fmt: skip
_SKIN = "isic"  # the data of Table 2
# Half a unit of the last digit that the paper prints; shares are fractions of one here.
_ROUNDING = {"nll": 5e-4, "temperature": 5e-4, "accuracy": 5e-5}
_ECE_ROUNDING = {1: 5e-6, 2: 5e-4}


@dataclass(frozen=True)
class Published:
    """A row of the paper: Table 1, of eleven networks, or Table 2, of the skin lesions."""

    recipe: str
    model: str
    dataset: str
    table: int
    figures: tuple[tuple[str, str, float], ...]

    def get(self, method: str, measure: str) -> tuple[float, float]:
        """A figure and half a unit of its last digit; NaN where the paper has none."""
        value = next((v for m, name, v in self.figures if (m, name) == (method, measure)), math.nan)
        rounding = _ECE_ROUNDING[self.table] if measure == "ece" else _ROUNDING[measure]
        return value, rounding


def published() -> tuple[Published, ...]:
    """Every row of the paper, in its order."""
    rows = [_row(named(name)) for name in names()]
    return tuple(sorted(rows, key=lambda row: (row.table, _place(row.recipe), row.recipe)))


def _place(recipe: str) -> int:
    return _NETWORKS.index(recipe.rpartition("-")[0])


def _row(recipe: Recipe) -> Published:
    model, _, dataset = re.sub(r" \(.*?\)", "", recipe.title).partition(" on ")
    paper = recipe.paper
    stated = {"uncalibrated": paper.uncalibrated, "temperature": paper.ts, "uts": paper.uts}
    figures = [("uncalibrated", "accuracy", paper.accuracy / 100)]
    for method, figure in stated.items():
        figures += [] if figure is None else _figures(method, figure)
    table = 2 if recipe.data == _SKIN else 1
    return Published(recipe.name, model, dataset, table, tuple(figures))


def _figures(method: str, figures: Figures) -> list[tuple[str, str, float]]:
    percent = dataclasses.replace(figures, ece=figures.ece / 100)
    return [(method, name, value) for name, value in vars(percent).items()]
