"""The rows of the paper's tables, as published and as measured again by its protocol.

The published figures come from the recipes. Shares, ECE among them, are fractions of one here.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tepid import comparison
from tepid.engines import Threads
from tepid.errors import InputError
from tepid.lab.recipe import Recipe, named, names
from tepid.lab.sets import LogitSet

# The methods of the tables with their measures.
METHODS = {
    "uncalibrated": ("nll", "ece"),
    "temperature": ("nll", "ece", "temperature"),
    "uts": ("nll", "ece", "temperature"),
    "accuracy": ("nll", "ece", "temperature"),
}
# Other names of the paper's networks and data sets.
_ALIASES = {"densenetbc100": "densenet100", "ham10000": "isic", "isic2018": "isic", "ham": "isic"}
# The order of the paper's tables.
_NETWORKS = (
    "densenet40", "densenet100", "resnet110", "wideresnet32", "lenet5", "vgg16", "resnet152",
)  # fmt: skip
# Half a unit of the last digit that the paper prints; shares are fractions of one here.
_ROUNDING = {"nll": 5e-4, "temperature": 5e-4, "accuracy": 5e-5}
_ECE_ROUNDING = {1: 5e-6, 2: 5e-4}
# The paper reports one split; two standard deviations hold 95 % of splits.
_SPREADS = 2.0


@dataclass(frozen=True)
class Published:
    """A row of the paper: of Table 1, eleven networks, or of Table 2, the skin lesions."""

    recipe: str
    model: str
    dataset: str
    table: int
    figures: tuple[tuple[str, str, float], ...]

    def get(self, method: str, measure: str) -> tuple[float, float]:
        """A figure and its rounding, half a unit of its last digit; NaN without one."""
        value = next((v for m, name, v in self.figures if (m, name) == (method, measure)), math.nan)
        rounding = _ECE_ROUNDING[self.table] if measure == "ece" else _ROUNDING[measure]
        return value, rounding


@dataclass(frozen=True)
class Cell:
    """Mean and standard deviation of a figure over splits, and the paper's figure or NaN.

    `rounding` is half a unit of the last digit that the paper prints.
    """

    mean: float = math.nan
    sd: float = math.nan
    paper: float = math.nan
    rounding: float = 0.0

    @property
    def agrees(self) -> bool | None:
        r"""Whether $|\bar x - x_{paper}| \le 2 s$ plus the rounding; None without both figures.

        s is the standard deviation of one split, because the paper's figure is of one split.

        >>> Cell(mean=1.453, sd=0.021, paper=1.450).agrees
        True
        >>> Cell(mean=1.453, sd=0.021, paper=1.500).agrees
        False
        """
        gap = abs(self.mean - self.paper)
        if math.isnan(gap):
            return None
        return gap <= _SPREADS * (0.0 if math.isnan(self.sd) else self.sd) + self.rounding

    def as_json(self) -> dict[str, Any]:
        """The cell for JSON, with None for NaN."""
        numbers = {"mean": self.mean, "sd": self.sd, "paper": self.paper}
        plain = {name: None if math.isnan(v) else v for name, v in numbers.items()}
        return plain | {"agrees": self.agrees}


@dataclass(frozen=True)
class Row:
    """One set of logits measured by the paper's protocol, and the paper's row if there is one.

    `cells` are keyed by method and measure.
    """

    logits: LogitSet
    published: Published | None
    samples: int
    classes: int
    accuracy: Cell
    cells: dict[tuple[str, str], Cell]

    @property
    def same_network(self) -> bool:
        """Whether the paper's row is of the same network."""
        paper = None if self.published is None else canonical_name(self.published.model)
        return canonical_name(self.logits.network) == paper

    @property
    def same_training(self) -> bool:
        """Whether accuracy, NLL and ECE before calibration agree as well."""
        before = (self.accuracy, *(self.cells["uncalibrated", m] for m in ("nll", "ece")))
        return self.same_network and all(cell.agrees for cell in before)

    @property
    def agreeing(self) -> tuple[int, int]:
        """The number of cells that agree with the paper, and of cells that the paper has."""
        every = [cell.agrees for cell in (self.accuracy, *self.cells.values())]
        return every.count(True), len(every) - every.count(None)


def published() -> tuple[Published, ...]:
    """Every row of the paper, in its order."""

    def place(row: Published) -> tuple[int, int, str]:
        return row.table, _NETWORKS.index(row.recipe.rpartition("-")[0]), row.recipe

    return tuple(sorted((_published_row(named(name)) for name in names()), key=place))


def measure_sets(
    every: Iterable[LogitSet],
    published: Sequence[Published],
    *,
    seeds: int = 20,
    engine: Threads | None = None,
) -> tuple[Row, ...]:
    """Measure every set by the paper's protocol: calibrate on 20 % of its rows, report on 80 %."""
    if seeds < 2:
        raise InputError(f"seeds must be at least 2, for a spread, got {seeds}")
    rows = []
    for logits in every:
        z, y = logits.read()
        result = comparison.compare(z, y, methods=tuple(METHODS), splits=seeds, engine=engine)
        rows.append(_measured_row(logits, find_published(logits, published), result))
    return tuple(rows)


def find_published(logits: LogitSet, published: Sequence[Published]) -> Published | None:
    """The paper's row to compare a set with, if there is one.

    The row of its network and data; else of the same family of networks on the same data
    (ResNet-20 beside ResNet-110); else the only row of that data. The recipe's name is not used,
    since a training may have overridden its network or its data.
    """
    data = [p for p in published if canonical_name(p.dataset) == canonical_name(logits.data)]
    tries = (
        [p for p in data if canonical_name(p.model) == canonical_name(logits.network)],
        [p for p in data if _family(p.model) == _family(logits.network)],
        data,
    )
    return next((found[0] for found in tries if len(found) == 1), None)


def canonical_name(name: str) -> str:
    """The paper's name for a network or a data set, in lower case without punctuation.

    >>> canonical_name("DenseNet-BC-100"), canonical_name("CIFAR-10"), canonical_name("ham10000")
    ('densenet100', 'cifar10', 'isic')
    """
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return _ALIASES.get(plain, plain)


def _family(network: str) -> str:
    return re.sub(r"\d+$", "", canonical_name(network))


def _measured_row(logits: LogitSet, published: Published | None, result: dict[str, Any]) -> Row:
    found = result["methods"]

    def cell(method: str, measure: str) -> Cell:
        spread = found[method][measure]
        paper, rounding = (math.nan, 0.0) if published is None else published.get(method, measure)
        return Cell(spread["mean"], spread["sd"], paper, rounding)

    cells = {(method, m): cell(method, m) for method, names in METHODS.items() for m in names}
    sizes = (int(result["samples"]), int(result["classes"]))
    return Row(logits, published, *sizes, cell("uncalibrated", "accuracy"), cells)


def _published_row(recipe: Recipe) -> Published:
    model, _, dataset = re.sub(r" \(.*?\)", "", recipe.title).partition(" on ")
    paper = recipe.paper
    stated = {"uncalibrated": paper.uncalibrated, "temperature": paper.ts, "uts": paper.uts}
    figures = [("uncalibrated", "accuracy", paper.accuracy / 100)]
    for method, found in stated.items():
        if found is not None:
            percent = vars(found) | {"ece": found.ece / 100}
            figures += [(method, name, value) for name, value in percent.items()]
    return Published(recipe.name, model, dataset, 2 if recipe.data == "isic" else 1, tuple(figures))
