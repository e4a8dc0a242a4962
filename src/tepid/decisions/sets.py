"""Prediction sets: the classes that are expected to contain the label."""

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tepid import shapes, validation
from tepid.decisions.rows import (
    PER_UNIT,
    RANGE,
    Interval,
    Temperatures,
    at_least,
    bins_of,
    calibrated,
    end_text,
    lower_edges,
    probabilities_of,
    sum_by_bin,
    sum_rows,
)
from tepid.engines import Engine
from tepid.errors import InputError
from tepid.sources import Batch, Source
from tepid.summaries.summary import add, equal, scale
from tepid.validation import Array, Float64


@dataclass(frozen=True, eq=False)
class SetSums:
    """Pairs (row, class) by bin of their probability; masked classes are left out."""

    PARAMETERS: ClassVar[tuple[str, ...]] = ()

    rows: float
    count: Float64  # (bins,)
    mass: Float64  # (3, bins): the sums of the probability at T, low and high

    @classmethod
    def of(cls, batch: Batch, temperatures: Temperatures) -> "SetSums":
        """The sums of a batch."""
        p = probabilities_of(batch, temperatures)
        u = validation.weight_column(batch.weight, p.shape[1])
        possible = shapes.matrix(validation.as_array(batch.logits)) > -np.inf
        where = bins_of(p[0], PER_UNIT).reshape(-1)
        width = 2 * RANGE * PER_UNIT
        each = u[:, None] * possible
        mass = [sum_by_bin(where, (each * at).reshape(-1), width) for at in p]
        return cls(float(u.sum()), sum_by_bin(where, each.reshape(-1), width), np.stack(mass))

    __add__ = add
    __mul__ = __rmul__ = scale
    __eq__ = equal


@dataclass(frozen=True)
class Conformal:
    """Split conformal prediction: sets that cover the label with a finite-sample guarantee.

    Over random labeled rows and new ones of the same distribution the sets contain the label in at
    least the wanted share of cases, if T was fitted to other rows. `level` is the least probability
    of a class in the set. It is 0 where there are too few labeled rows for the guarantee; the set
    then holds every class that is not masked. Groups keep their own temperatures only where the
    labeled rows have groups too.
    """

    level: float
    labeled: int
    temperatures: Temperatures

    def __call__(
        self,
        logits: Any,
        *,
        groups: Any = None,
        class_axis: int | None = None,
        probabilities: bool = False,
    ) -> Array:
        """Which classes are in the set of each row: True or False, in the shape of the logits."""
        own = groups if self.temperatures.groups else None
        p, possible = calibrated(
            logits, self.temperatures, groups=own, class_axis=class_axis,
            probabilities=probabilities,
        )  # fmt: skip
        return np.asarray(shapes.class_back((p >= self.level) & possible, class_axis))


@dataclass(frozen=True)
class PredictionSets:
    """The classes of each row whose probability is at least `level`; call it on logits.

    `coverage` is the expected share of rows whose set contains the label, `size` the mean number of
    classes in a set. A set may be empty. `conformal` is split conformal prediction where labeled
    rows were given.
    """

    wanted: float
    level: float
    coverage: Interval
    size: float
    rows: float
    temperatures: Temperatures
    conformal: Conformal | None
    verdict: str | None
    assumption: str

    def __call__(
        self,
        logits: Any,
        *,
        groups: Any = None,
        class_axis: int | None = None,
        probabilities: bool = False,
    ) -> Array:
        """Which classes are in the set of each row: True or False, in the shape of the logits."""
        p, possible = calibrated(
            logits, self.temperatures, groups=groups, class_axis=class_axis,
            probabilities=probabilities,
        )  # fmt: skip
        return np.asarray(
            shapes.class_back(at_least(p, np.array(self.level), PER_UNIT) & possible, class_axis)
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        one = self.conformal
        return {
            "wanted": self.wanted,
            "level": self.level,
            "coverage": self.coverage.as_dict(),
            "size": self.size,
            "rows": self.rows,
            "conformal": None if one is None else {"level": one.level, "labeled": one.labeled},
            "verdict": self.verdict,
            "assumption": self.assumption,
        }

    def __str__(self) -> str:
        lines = [
            f"wanted: {100 * self.wanted:g} % of the sets contain the label",
            f"sets: probability at least {self.level:.4g}; expected coverage {self.coverage}",
            f"mean size: {self.size:.2f}",
        ]
        if self.conformal is not None:
            lines.append(
                f"split conformal with {self.conformal.labeled} labeled rows: probability at least "
                f"{self.conformal.level:.4g}"
            )
        return end_text(lines, self.verdict, self.assumption)


def find_sets(
    source: Source,
    temperatures: Temperatures,
    coverage: float,
    *,
    labeled: Source | None,
    verdict: str | None,
    engine: Engine | None,
) -> PredictionSets:
    """The prediction sets at the level where their expected coverage is the wanted one."""
    coverage = validation.number(coverage, "coverage")
    if not 0 < coverage < 1:
        raise InputError(f"coverage must be in (0, 1), got {coverage}")
    conformal = None if labeled is None else _conformal(labeled, temperatures, coverage)
    of = partial(SetSums.of, temperatures=temperatures)
    sums = sum_rows(of, source, engine, "summing probabilities")
    above = np.cumsum(sums.mass[:, ::-1], axis=1)[:, ::-1] / sums.rows
    reached = np.flatnonzero(above[0] >= coverage)
    first = int(reached[-1]) if len(reached) else 0
    return PredictionSets(
        coverage,
        float(lower_edges(PER_UNIT)[first]),
        Interval.of(above[:, first]),
        float(sums.count[first:].sum() / sums.rows),
        sums.rows,
        temperatures,
        conformal,
        verdict,
        temperatures.assumption,
    )


def _conformal(labeled: Source, temperatures: Temperatures, coverage: float) -> Conformal:
    """The level by the quantile of the label's probability on labeled rows."""
    groups = temperatures.groups if labeled.grouped else {}
    own = dataclasses.replace(temperatures, groups=groups)
    scores: list[Float64] = []
    for batch in labeled.batches(1 << 16):
        p = probabilities_of(batch, own)[0]
        known = np.flatnonzero(batch.labels >= 0)
        scores.append(p[known, batch.labels[known]])
    found = np.sort(np.concatenate(scores))
    if not len(found):
        raise InputError("labels must be known for at least one row, got none")
    # The rank of the least probability that may be left out; 1e-9 forgives 0.07 * 100 > 7.
    rank = len(found) - math.ceil((len(found) + 1) * coverage - 1e-9)
    return Conformal(float(found[rank]) if rank >= 0 else 0.0, len(found), own)
