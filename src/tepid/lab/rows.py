"""Rows of the paper's tables, measured again by its protocol on logits at hand."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tepid import protocol
from tepid.engines import Threads
from tepid.errors import InputError
from tepid.lab.agreement import Cell
from tepid.lab.paper import Published
from tepid.lab.sets import LogitSet

METHODS = {
    "uncalibrated": ("nll", "ece"),
    "temperature": ("nll", "ece", "temperature"),
    "uts": ("nll", "ece", "temperature"),
    "accuracy": ("nll", "ece", "temperature"),
}
# What others call the networks and the data of the paper.
_ALIASES = {"densenetbc100": "densenet100", "ham10000": "isic", "isic2018": "isic", "ham": "isic"}


@dataclass(frozen=True)
class Row:
    """One set of logits by the paper's protocol, beside the paper's row where there is one.

    `cells` are by method and measure; shares, ECE among them, are fractions of one.
    """

    logits: LogitSet
    published: Published | None
    samples: int
    classes: int
    accuracy: Cell
    cells: dict[tuple[str, str], Cell]

    @property
    def same_network(self) -> bool:
        """Whether the paper's row is of a network of the same name."""
        published = self.published
        return published is not None and key(self.logits.network) == key(published.model)

    @property
    def same_training(self) -> bool:
        """Whether all that a network's training settles, before calibration, agrees as well."""
        before = (self.accuracy, *(self.cells["uncalibrated", m] for m in ("nll", "ece")))
        return self.same_network and all(cell.agrees for cell in before)

    @property
    def agreeing(self) -> tuple[int, int]:
        """How many of the cells that the paper has agree with it, and how many it has."""
        told = [c.agrees for c in (self.accuracy, *self.cells.values()) if c.agrees is not None]
        return sum(told), len(told)


def measure(
    every: Iterable[LogitSet],
    published: Sequence[Published],
    *,
    seeds: int = 20,
    engine: Threads | None = None,
) -> tuple[Row, ...]:
    """Every set by the paper's protocol: 20 % of its rows calibrate, 80 % are reported on."""
    if seeds < 2:
        raise InputError(f"seeds must be at least 2, for a spread, got {seeds}")
    rows = []
    for logits in every:
        z, y = logits.read()
        result = protocol.compare(z, y, methods=tuple(METHODS), splits=seeds, engine=engine)
        rows.append(_row(logits, beside(logits, published), result))
    return tuple(rows)


def beside(logits: LogitSet, published: Sequence[Published]) -> Published | None:
    """The paper's row that a set stands beside, if there is one.

    That of its network and data; else of the same family of networks on the same data (ResNet-20
    beside ResNet-110); else the only row of that data. A recipe's name settles nothing, since a
    training may have overridden its network or its data.
    """
    data = [p for p in published if key(p.dataset) == key(logits.data)]
    tries = (
        [p for p in data if key(p.model) == key(logits.network)],
        [p for p in data if _family(p.model) == _family(logits.network)],
        data,
    )
    return next((found[0] for found in tries if len(found) == 1), None)


def key(name: str) -> str:
    """A network or a set of data by the name that the paper has for it, in small letters.

    >>> key("DenseNet-BC-100"), key("CIFAR-10"), key("ham10000")
    ('densenet100', 'cifar10', 'isic')
    """
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return _ALIASES.get(plain, plain)


def _family(network: str) -> str:
    return re.sub(r"\d+$", "", key(network))


def _row(logits: LogitSet, published: Published | None, result: dict[str, Any]) -> Row:
    found = result["methods"]

    def cell(method: str, measure: str) -> Cell:
        spread = found[method][measure]
        paper, rounding = (math.nan, 0.0) if published is None else published.get(method, measure)
        return Cell(spread["mean"], spread["sd"], paper, rounding)

    cells = {(method, m): cell(method, m) for method, names in METHODS.items() for m in names}
    sizes = (int(result["samples"]), int(result["classes"]))
    return Row(logits, published, *sizes, cell("uncalibrated", "accuracy"), cells)
