"""What a monitor writes: its state as `.npz`, and a log with one line of JSON for each chunk."""

import dataclasses
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tepid import store
from tepid.errors import InputError
from tepid.online.reference import Reference, Rules, Spread
from tepid.online.state import Chunk, State
from tepid.online.sums import Sums
from tepid.store import shorten
from tepid.validation import Float64, whole

_COUNTS = ("seen", "kept", "closed", "alerts")
_COLUMNS = tuple(field.name for field in dataclasses.fields(Chunk))
_ARRAYS = {"thresholds", "open", "recent", "squares", "span", "history"}
_MOST = sys.float_info.max
# Counts up to here are exact in float64.
_LARGEST_COUNT = 1 << 53


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
        if whole(self.every, "every") < 1:
            raise InputError(f"every must be at least 1 batch, got {self.every}")


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
    header = {
        "reference": reference.as_dict(),
        "rules": {name: _plain(value) for name, value in dataclasses.asdict(rules).items()},
        "counts": {name: getattr(state, name) for name in _COUNTS},
    }
    history = [[getattr(chunk, name) for name in _COLUMNS] for chunk in state.history]
    arrays = {
        "thresholds": np.asarray(reference.thresholds, np.float64),
        "open": state.open.vector,
        "recent": state.recent.vector,
        "squares": np.array([state.open.squares, state.recent.squares]),
        "span": np.array([state.start, state.end]),
        "history": np.array(history, np.float64).reshape(-1, len(_COLUMNS)),
    }
    store.write(path, "Monitor", header, arrays)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def load_state(path: str | os.PathLike[str]) -> tuple[Reference, Rules, State]:
    """Return what `save_state` wrote; raises `InputError` if the file is damaged."""
    kind, header, arrays = store.read(path, ("Monitor",))
    with store.checking(path, kind):
        _check_names("header", header, {"reference", "rules", "counts"})
        _check_names("arrays", arrays, _ARRAYS)
        reference = _load_reference(header["reference"], arrays)
        rules = _load_rules(header["rules"])
        return reference, rules, _load_counts(header["counts"], arrays, reference)


def _load_reference(fields: Any, arrays: store.Arrays) -> Reference:
    names = {f.name for f in dataclasses.fields(Reference) if f.init} - {"thresholds"}
    _check_names("reference", fields, names)
    _check_names("spread", fields["spread"], {f.name for f in dataclasses.fields(Spread)})
    thresholds = _floats("thresholds", arrays["thresholds"])
    store.check_numbers("thresholds", thresholds, (max(thresholds.size, 2),), 0.0, 1.0)
    store.check_count("bins", fields["bins"], 1)
    if 3 * fields["bins"] > arrays["open"].size:  # checked before anything of this size is made
        raise InputError(f"bins must fit the sums, got {shorten(fields['bins'])}")
    _check_type("reestimate", fields["reestimate"], bool)
    _check_number("temperature", fields["temperature"], 0.0)
    if (fields["chunk"] is None) == (fields["period"] is None):
        raise InputError("chunk or period must be given, and not both")
    if fields["chunk"] is not None:
        store.check_count("chunk", fields["chunk"], 1)
    if fields["period"] is not None:
        _check_number("period", fields["period"], sys.float_info.min)
    if fields["estimate"] is not None:
        _check_number("estimate", fields["estimate"], sys.float_info.min)
    _check_number("confidence", fields["confidence"], 0.0, 1 + 1e-6)
    spread = _load_spread(fields["spread"])
    return Reference(**fields | {"spread": spread, "thresholds": thresholds})


def _load_spread(fields: dict[str, Any]) -> Spread:
    _check_number("mean", fields["mean"], -1e-6, 1 + 1e-6)
    _check_number("deviation", fields["deviation"], 0.0, 1e100)
    store.check_count("chunks", fields["chunks"], 2)
    _check_number("rows", fields["rows"], 1.0, _LARGEST_COUNT)
    return Spread(**fields)


def _load_rules(fields: Any) -> Rules:
    _check_names("rules", fields, {f.name for f in dataclasses.fields(Rules)})
    for name in ("false_alarms", "sample"):
        _check_number(name, fields[name])
    if fields["half_life"] is not None:
        _check_number("half_life", fields["half_life"])
    for name in ("seed", "bins", "remember"):
        _check_type(name, fields[name], int)
    _check_type("reestimate", fields["reestimate"], bool)
    limits = fields["limits"]
    if limits is not None:
        if not isinstance(limits, list) or len(limits) != 2:
            raise InputError(f"limits must be two numbers, got {shorten(limits)}")
        for limit in limits:
            _check_number("limits", limit)
    return Rules(**fields | {"limits": None if limits is None else tuple(limits)})


def _load_counts(counts: Any, arrays: store.Arrays, reference: Reference) -> State:
    _check_names("counts", counts, set(_COUNTS))
    for name in _COUNTS:
        store.check_count(name, counts[name])
        _check_number(name, counts[name], 0, _LARGEST_COUNT)
    if counts["kept"] > counts["seen"]:
        raise InputError(f"kept must be at most {counts['seen']} rows, got {counts['kept']}")
    squares = _floats("squares", arrays["squares"])
    store.check_numbers("squares", squares, (2,), 0.0)
    opened = _load_sums("open", arrays["open"], squares[0], reference)
    start, end = _load_span(arrays["span"], empty=not opened.weight)
    return State(
        open=opened,
        recent=_load_sums("recent", arrays["recent"], squares[1], reference),
        start=start,
        end=end,
        history=_load_history(arrays["history"], counts["closed"]),
        **counts,
    )


def _load_sums(name: str, vector: Any, squares: float, reference: Reference) -> Sums:
    store.check_numbers(name, _floats(name, vector), (reference.layout.size,))
    sums = Sums(reference.layout, vector, float(squares))
    sums.tails.check()
    sums.curve.check()
    if bool(sums.weight) != bool(squares) or sums.weight > _LARGEST_COUNT:
        raise InputError(f"squares must fit the weight of {name}, got {squares:g}")
    return sums


def _load_span(span: Any, *, empty: bool) -> tuple[float, float]:
    """The times of the first and last batch of the open chunk; NaN if it is empty."""
    _floats("span", span)
    if span.shape == (2,):
        start, end = span.tolist()
        if np.isnan(span).all() if empty else np.isfinite(span).all() and start <= end:
            return start, end
    raise InputError("span must be two times, got others")


def _load_history(table: Any, closed: int) -> tuple[Chunk, ...]:
    _floats("history", table)
    if table.ndim != 2 or table.shape[1] != len(_COLUMNS) or len(table) > closed:
        raise InputError(f"history must have the columns of a chunk, got shape {table.shape}")
    index, start, end, rows, weight, squares, confidence, raw, estimate = table.T
    shape = index.shape
    expected = np.arange(closed - len(table), closed)
    store.check_numbers("index", index, shape, expected, expected)
    store.check_numbers("start", start, shape, high=end)
    store.check_numbers("end", end, shape)
    least, most = np.nextafter(0.0, 1.0), float(_LARGEST_COUNT)
    for name, column in (("rows", rows), ("weight", weight), ("squares", squares)):
        store.check_numbers(name, column, shape, least, most)
    store.check_numbers("confidence", confidence, shape, 0.0, weight * (1 + 1e-6))
    store.check_numbers("raw_confidence", raw, shape, 0.0, weight * (1 + 1e-6))
    known = estimate[~np.isnan(estimate)]
    store.check_numbers("estimate", known, known.shape, least)
    return tuple(Chunk(*row) for row in table.tolist())


def _floats(name: str, value: Any) -> Float64:
    if value.dtype != np.float64:
        raise InputError(f"{name} must be float64, got {value.dtype}")
    return np.asarray(value)


def _check_names(name: str, value: Any, names: set[str]) -> None:
    if not isinstance(value, dict) or value.keys() != names:
        got = sorted(value.keys() ^ names) if isinstance(value, dict) else type(value).__name__
        raise InputError(f"{name} must have the fields of a monitor, got a mismatch in {got}")


def _check_type(name: str, value: Any, kind: type) -> None:
    if type(value) is not kind:
        raise InputError(f"{name} must be of type {kind.__name__}, got {shorten(value)}")


def _check_number(name: str, value: Any, low: float = -_MOST, high: float = _MOST) -> None:
    if type(value) not in (int, float) or not low <= value <= high:
        raise InputError(f"{name} must be a number in its range, got {shorten(value)}")
