"""Summaries: the sums that a site shares in place of its rows."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid import store
from tepid.errors import InputError
from tepid.summaries.curve import Curve, Lattice
from tepid.summaries.tails import Tails
from tepid.validation import Float64

# T from 1/64 to 128. Read off four nodes per octave it is within 1e-5 of what the rows give.
LATTICE = Lattice.window(-7, 6, per_octave=4)
_PARTS = {"tails": Tails, "curve": Curve, "labels": Curve}


@dataclass(frozen=True, eq=False)
class Summaries:
    """Sums over the rows of a site: O(k) numbers, and no row.

    `curve` takes each row's predicted class as its label; in the second round it also has the
    thresholds of UTS. `labels` is the curve of the labeled rows, if there are any. `prints`
    identify the sites whose sums it contains, so that none is added twice. The sum over a single
    row is that row itself: a site should not share sums over a few rows.
    """

    tails: Tails
    curve: Curve
    labels: Curve | None
    prints: tuple[str, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return round(self.curve.rows)

    def __add__(self, other: "Summaries") -> "Summaries":
        if not isinstance(other, Summaries):
            raise InputError(f"summaries must be added to summaries, got {type(other).__name__}")
        classes = self.tails.classes, other.tails.classes
        if classes[0] != classes[1]:
            raise InputError(
                f"summaries must be of the same classes, got {classes[0]} and {classes[1]}"
            )
        if not np.array_equal(self.curve.thresholds, other.curve.thresholds):
            raise InputError(
                "summaries must be of one round, given the same merged tails, got two rounds"
            )
        twice = set(self.prints) & set(other.prints)
        if twice:
            raise InputError("summaries must be of different rows, got the same rows twice")
        known = [labels for labels in (self.labels, other.labels) if labels is not None]
        return Summaries(
            self.tails + other.tails,
            self.curve + other.curve,
            sum(known[1:], start=known[0]) if known else None,
            (*self.prints, *other.prints),
        )

    def check_rows_needed(self, **given: Any) -> None:
        """Raise if an argument was given that only rows can answer."""
        for name, value in given.items():
            absent = value is None or value is False or (isinstance(value, tuple) and not value)
            if not absent:
                raise InputError(f"{name} must be left out for summaries, which have no rows")

    def check_weight(self) -> None:
        """Raise if no row counts."""
        if not self.curve.weight:
            raise InputError("sample_weight must not be zero for every row, got only zeros")

    def check_round(self, thresholds: Float64 | None) -> None:
        """Raise unless the curve has the thresholds that the rows of all sites give."""
        self.check_weight()
        used = self.curve.thresholds
        if not len(used):
            raise InputError(
                "summaries must be of the second round, got the first; summarize again, given the "
                "merged ones"
            )
        if thresholds is None or not np.allclose(thresholds, used, rtol=1e-6, atol=1e-12):
            raise InputError(
                "summaries must be of the same rows in both rounds, got thresholds of other rows"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `.npz`."""
        header: dict[str, Any] = {"prints": list(self.prints)}
        arrays: store.Arrays = {}
        for name in _PARTS:
            part = getattr(self, name)
            if part is not None:
                header[name], own = store.fields_of(part)
                arrays |= {f"{name}.{field}": array for field, array in own.items()}
        store.write(path, "Summaries", header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Summaries":
        """Return what `save` wrote; raises `InputError` if the file is damaged."""
        kind, header, arrays = store.read(path, ("Summaries",))
        with store.checking(path, kind):
            loaded = _unpack(header, arrays)
            _check(loaded)
        return loaded


def _unpack(header: store.Header, arrays: store.Arrays) -> Summaries:
    prints = header.pop("prints", None)
    if not isinstance(prints, list) or not all(isinstance(one, str) for one in prints):
        raise InputError(f"prints must be a list of strings, got {store.shorten(prints)}")
    own: dict[str, store.Arrays] = {}
    for name, array in arrays.items():
        part, _, field = name.partition(".")
        own.setdefault(part, {})[field] = array
    if header.keys() != own.keys() or not {"tails", "curve"} <= header.keys() <= _PARTS.keys():
        raise InputError("it must hold tails, a curve and perhaps labels, got others")
    for name, fields in header.items():
        if not isinstance(fields, dict):
            raise InputError(f"{name} must be fields by name, got {store.shorten(fields)}")
    parts: dict[str, Any] = {
        name: store.build(kind, header[name], own[name])
        for name, kind in _PARTS.items()
        if name in header
    }
    return Summaries(parts["tails"], parts["curve"], parts.get("labels"), tuple(prints))


def _check(summaries: Summaries) -> None:
    """Refuse sums that `summarize` cannot have made, as a damaged file may hold them."""
    tails, curve, labels = summaries.tails, summaries.curve, summaries.labels
    tails.check()
    for each in (curve, labels):
        if each is None:
            continue
        each.check()
        if tails.classes != each.classes:
            raise InputError(f"classes must agree, got {tails.classes} and {each.classes}")
        if each.lattice != LATTICE or each.bins or not each.labeled:
            raise InputError("the curves must be on the lattice of summaries, got another one")
    if len(curve.thresholds) not in (0, 3) or (labels is not None and len(labels.thresholds)):
        raise InputError(f"thresholds must be none or three, got {len(curve.thresholds)}")
    if abs(tails.weight - curve.weight) > 1e-6 * curve.weight:
        raise InputError(f"weights must agree, got {tails.weight:g} and {curve.weight:g}")
    if labels is not None and labels.weight > curve.weight * (1 + 1e-6):
        raise InputError(f"weights must agree, got {labels.weight:g} labeled of {curve.weight:g}")
