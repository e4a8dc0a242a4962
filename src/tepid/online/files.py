"""What a monitor writes: its state as `.npz`, and a log with one line of JSON for each chunk."""

import dataclasses
import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid import store
from tepid.errors import InputError
from tepid.online.reference import LARGEST_COUNT, Reference, Rules, Spread
from tepid.online.state import Chunk, State
from tepid.online.sums import Sums
from tepid.store import shorten
from tepid.validation import Float64, check_bins, whole

_COUNTS = ("seen", "kept", "closed", "alerts")
# The other fields of Rules are those of the reference.
_RULES = (
    "false_alarms", "limits", "accepted_limits", "half_life", "sample", "seed", "remember",
)  # fmt: skip


@dataclass(frozen=True)
class Outputs:
    """Where a monitor writes while it runs.

    `autosave` is a file that holds the state after every `every` batches, written atomically: a
    process that is killed loses at most the batches since then. `log` is a file that gets one line
    of JSON for each chunk; only one process may write to it. A file that cannot be written is an
    error of the `update` that tried; its rows are counted all the same.
    """

    autosave: str | os.PathLike[str] | None = None
    every: int = 1
    log: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        whole(self.every, "every", 1)


# The log.


def append_log(path: str | os.PathLike[str], row: dict[str, Any]) -> None:
    """Add a row to the log, in one write."""
    with Path(path).open("ab") as file:
        file.write(json.dumps(row, allow_nan=False).encode() + b"\n")


def repair_log(path: str | os.PathLike[str]) -> None:
    """Remove an incomplete last line that a killed process left; refuse any other file."""
    if not Path(path).parent.is_dir():
        raise InputError(f"log must be in a folder that exists, got {path}")
    if not Path(path).exists():
        return
    read_log(path)
    with Path(path).open("r+b") as file:
        whole_file = file.read()
        end = whole_file.rfind(b"\n") + 1
        rest = whole_file[end:]
        if rest and not rest.startswith(b"{"):
            raise InputError(f"log must be a log of chunks, got {rest[:40]!r} in {path}")
        file.truncate(end)


def read_log(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the rows of a log, in order.

    An incomplete last line, left by a crash, is skipped. A chunk can be logged twice, if the
    process died after its line was written and before its state was saved. The later line counts.
    """
    store.check_regular(path)
    *lines, _ = Path(path).read_bytes().split(b"\n")
    rows: dict[int, dict[str, Any]] = {}
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            rows.pop(row["chunk"], None)
            rows[row["chunk"]] = row
        except (ValueError, TypeError, KeyError, RecursionError):
            must = "hold one chunk as JSON in every line"
            raise InputError(f"{path} must {must}, got {line[:40]!r} in line {number}") from None
    return list(rows.values())


# The state.


def save_state(
    path: str | os.PathLike[str], reference: Reference, rules: Rules, state: State
) -> None:
    """Write a monitor to `.npz`."""
    own = {name: getattr(rules, name) for name in _RULES}
    header = {
        "reference": reference.as_dict(),
        "rules": {k: v.item() if isinstance(v, np.generic) else v for k, v in own.items()},
        "counts": {name: getattr(state, name) for name in _COUNTS},
    }
    arrays = {
        "thresholds": reference.thresholds,
        "open": state.open.vector,
        "recent": state.recent.vector,
        "span": np.array([state.start, state.end]),
        "history": np.array(state.history, np.float64).reshape(-1, len(Chunk._fields)),
    }
    store.write(path, "Monitor", header, arrays)


def load_state(path: str | os.PathLike[str]) -> tuple[Reference, Rules, State]:
    """Return what `save_state` wrote; raises `InputError` if the file is damaged."""
    kind, header, arrays = store.read(path, ("Monitor",))
    with store.checking(path, kind):
        _check_names("header", header, ("reference", "rules", "counts"))
        _check_names("arrays", arrays, ("thresholds", "open", "recent", "span", "history"))
        for name, array in arrays.items():
            if array.dtype != np.float64:
                raise InputError(f"{name} must be float64, got {array.dtype}")
        reference = _load_reference(header["reference"], arrays)
        rules = _load_rules(header["rules"], reference)
        return reference, rules, _load_counts(header["counts"], arrays, reference)


def _load_reference(fields: Any, arrays: store.Arrays) -> Reference:
    names = [f.name for f in dataclasses.fields(Reference) if f.init and f.name != "thresholds"]
    _check_names("reference", fields, names)
    _check_names("spread", fields["spread"], [f.name for f in dataclasses.fields(Spread)])
    if 3 * check_bins(fields["bins"]) > arrays["open"].size:
        # Checked before anything of this size is made.
        raise InputError(f"bins must fit the sums, got {shorten(fields['bins'])}")
    accepted = fields["accepted"]
    if accepted is not None:
        _check_names("accepted", accepted, [f.name for f in dataclasses.fields(Spread)])
    loaded = {
        "spread": Spread(**fields["spread"]),
        "accepted": None if accepted is None else Spread(**accepted),
        "thresholds": arrays["thresholds"],
    }
    return Reference(**fields | loaded)


def _load_rules(fields: Any, reference: Reference) -> Rules:
    _check_names("rules", fields, _RULES)
    for name in ("limits", "accepted_limits"):
        limits = fields[name]
        fields[name] = tuple(limits) if isinstance(limits, list) else limits
    own = {name: getattr(reference, name) for name in ("bins", "reestimate", "threshold")}
    return Rules(**fields, **own)


def _load_counts(counts: Any, arrays: store.Arrays, reference: Reference) -> State:
    _check_names("counts", counts, _COUNTS)
    for name in _COUNTS:
        store.check_count(name, counts[name])
    if not counts["kept"] <= counts["seen"] <= LARGEST_COUNT >= counts["closed"]:
        raise InputError(f"counts must be possible, got {shorten(counts)}")
    opened, recent = (_load_sums(name, arrays[name], reference) for name in ("open", "recent"))
    span = arrays["span"]  # NaN of an empty chunk
    if opened.weight or not np.array_equal(span, [np.nan, np.nan], equal_nan=True):
        store.check_numbers("span", span, (2,), high=span.ravel()[-1:])
    start, end = span.tolist()
    history = _load_history(arrays["history"], counts["closed"])
    return State(opened, recent, start, end, **counts, history=history)


def _load_sums(name: str, vector: Float64, reference: Reference) -> Sums:
    store.check_numbers(name, vector, (reference.layout.size,))
    sums = Sums(reference.layout, vector)
    sums.tails.check()
    sums.curve.check()
    store.check_numbers(name, sums.weight, (), 0.0, LARGEST_COUNT)
    store.check_numbers(name, vector[-2:], (2,), 0.0, sums.weight * (1 + 1e-6))
    return sums


def _load_history(table: Float64, closed: int) -> tuple[Chunk, ...]:
    if table.ndim != 2 or table.shape[1] != len(Chunk._fields) or len(table) > closed:
        raise InputError(f"history must have the columns of a chunk, got shape {table.shape}")
    start, end, *sums, confidence, raw_confidence, accepted, sure, estimate = table.T
    shape, least, most = start.shape, np.nextafter(0.0, 1.0), float(LARGEST_COUNT)
    store.check_numbers("start", start, shape, high=end)
    store.check_numbers("end", end, shape)
    for name, column in zip(("rows", "weight", "squares"), sums, strict=True):
        store.check_numbers(name, column, shape, least, most)
    for column in (confidence, raw_confidence):
        store.check_numbers("confidence", column, shape, 0.0, sums[1] * (1 + 1e-6))
    store.check_numbers("accepted", accepted, shape, 0.0, sums[1] * (1 + 1e-6))
    store.check_numbers("accepted_confidence", sure, shape, 0.0, accepted * (1 + 1e-6))
    known = estimate[~np.isnan(estimate)]
    store.check_numbers("estimate", known, known.shape, least)
    return tuple(Chunk(*row) for row in table.tolist())


def _check_names(name: str, value: Any, names: Collection[str]) -> None:
    if not isinstance(value, dict) or value.keys() != set(names):
        got = sorted(value.keys() ^ names) if isinstance(value, dict) else type(value).__name__
        raise InputError(f"{name} must have the fields of a monitor, got a mismatch in {got}")
