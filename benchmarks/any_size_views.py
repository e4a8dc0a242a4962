"""What the table of sizes shows: how time grows, that memory does not, disk against memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import record

ENGINES = ("1 thread", "2 threads", "Dask")
WHERE = {"array": "memory", "npy": "npy files", "parquet": "Parquet files"}
# Exponents are fitted to the sizes from a thousandth of the largest on.
THOUSANDFOLD = 1000
EXPONENT, LEAST_RATIO, MOST_GROWTH = 0.05, 0.6, 1.25
NOTE = """\
`tepid.from_logits` with all that it reports, on float32 logits in eight parts; `synthetic` says how
they are made. A logit is one value of one row, so that 10⁸ of them are 10⁷ rows of 10 classes or
10⁵ of 1000. Times are the least of several, sizes and ways take turns, files are in the page cache.
Processor time is that of all threads of the process together: what the clock would show of one
thread on a machine that has nothing else to do, and what other people's work disturbs less.
Exponents are those of `start + b N^p`, fitted by relative squares to the last thousandfold of
sizes, 10⁶ to 10⁹ logits. One is fitted to all the ways of an engine together, each with a start and
a b of its own, and must be within .05 of 1; one is fitted to each way alone, which a busy minute
moves by some hundredths. Dask is what `--engine dask` starts, two
threads in the same process, and from memory it has the rows on its workers. Parquet is a column of
lists in row groups of 2²² logits, of which some are held at once. Megabytes (10⁶ bytes): the most
that a process held during the fit, mapped pages included, beyond what it held after a first fit of
the smallest set, and beyond the rows themselves where they are in memory; of 10⁸ logits those are
400.
"""

Cell = dict[str, Any]
POWERS = np.linspace(0.7, 1.3, 601)


def progress(cells: list[Cell]) -> str:
    """The rates of one number of classes, as soon as they are there."""
    classes = cells[0]["classes"]
    head = f"K = {classes}, rows per second, {cells[-1]['calls']} calls"
    return f"{head}\n{rates(cells, classes)}\n"


def verdicts(cells: list[Cell]) -> dict[str, Any]:
    """The fitted exponents, the growth of memory over the last decade, and the shares of memory."""
    return {
        "together": [_together(_lines(cells), engine) for engine in ENGINES],
        "exponents": [_exponent(line) for line in _lines(cells)],
        "growth": [_growth(line) for line in _lines(cells) if "megabytes" in line[-1]],
        "shares": [
            _share(cells, line[-1]) for line in _lines(cells) if line[0]["where"] != "array"
        ],
    }


def _lines(cells: list[Cell]) -> list[list[Cell]]:
    """The cells that differ in size alone, the smallest first."""
    keys = dict.fromkeys((c["classes"], c["where"], c["engine"]) for c in cells)
    return [[c for c in cells if _key(c) == key] for key in keys]


def _key(cell: Cell) -> tuple[Any, ...]:
    return cell["classes"], cell["where"], cell["engine"]


def _named(cell: Cell) -> Cell:
    return {name: cell[name] for name in ("classes", "where", "engine")}


def _exponent(line: list[Cell]) -> Cell:
    """The exponent p and the seconds of a start in `start + b size^p`, by relative squares."""
    error, exponent = min((_left(line, p)[0], float(p)) for p in POWERS)
    start = _left(line, exponent)[1]
    return {**_named(line[0]), "exponent": exponent, "start": start, "error": error**0.5}


def _together(lines: list[list[Cell]], engine: str) -> Cell:
    """One exponent for all the ways of an engine, each with a start and a scale of its own."""
    own = [line for line in lines if line[0]["engine"] == engine]
    error, exponent = min((sum(_left(line, p)[0] for line in own), float(p)) for p in POWERS)
    return {"engine": engine, "exponent": exponent, "error": (error / len(own)) ** 0.5}


def _left(line: list[Cell], p: float) -> tuple[float, float]:
    """The mean relative square that `start + b size^p` leaves, and the start."""
    used = [c for c in line if THOUSANDFOLD * c["values"] >= line[-1]["values"]]
    size, seconds = (np.array([c[name] for c in used], float) for name in ("values", "seconds"))
    terms = np.stack([np.ones(len(used)), size**p], axis=1) / seconds[:, None]
    scale = terms.max(axis=0)
    found = np.linalg.lstsq(terms / scale, np.ones(len(used)), rcond=None)[0] / scale
    return float(((terms @ found - 1) ** 2).mean()), float(found[0])


def _growth(line: list[Cell]) -> Cell:
    """How the memory of the largest compares with that of one a tenth as large."""
    last = line[-1]
    tenth = max((c for c in line if 10 * c["values"] <= last["values"]), key=lambda c: c["values"])
    held = [c["megabytes"]["own"] for c in (tenth, last)]
    return {**_named(last), "tenth": held[0], "largest": held[1], "growth": held[1] / held[0]}


def _share(cells: list[Cell], last: Cell) -> Cell:
    """The rate from disk as a share of that from memory, at the largest size."""
    same = (c for c in cells if c["values"] == last["values"])
    key = (last["classes"], "array", last["engine"])
    memory = next(c for c in same if _key(c) == key)
    return {**_named(last), "share": memory["seconds"] / last["seconds"]}


def rates(cells: list[Cell], classes: int, by: str = "seconds") -> str:
    """Rows per second of one number of classes: a row for each size, a column for each way."""
    ways = [(where, engine) for where in WHERE for engine in ENGINES]
    head = ["logits", "rows", *(f"{WHERE[w]}, {e}" for w, e in ways)]
    rate: Callable[[Cell], str] = lambda c: _short(c["values"] // c["classes"] / c[by])  # noqa: E731
    return record.table(head, _by_size(cells, classes, ways, rate))


def memory(cells: list[Cell], classes: int) -> str:
    """Megabytes beyond what the process held before, in the same form."""
    ways = [(where, engine) for where in WHERE for engine in ENGINES[1:]]
    head = ["logits", "rows", *(f"{WHERE[w]}, {e}" for w, e in ways)]
    held: Callable[[Cell], str] = lambda c: f"{max(0.0, c['megabytes']['beyond']):.0f}"  # noqa: E731
    return record.table(head, _by_size(cells, classes, ways, held))


def _by_size(
    cells: list[Cell],
    classes: int,
    ways: list[tuple[str, str]],
    shown: Callable[[Cell], str],
) -> list[list[str]]:
    found = {(c["values"], c["where"], c["engine"]): c for c in cells if c["classes"] == classes}
    sizes = dict.fromkeys(values for values, _, _ in found)
    return [
        [_power(n), f"{n // classes:,}"]
        + [shown(found[(n, *way)]) if (n, *way) in found else "" for way in ways]
        for n in sizes
    ]


def findings(judged: dict[str, Any]) -> str:
    """What must be shown, from the least figure of each kind to the greatest."""
    rows = [_common(found) for found in judged["together"]]
    rows += [_grown(judged["exponents"], engine) for engine in ENGINES]
    rows += [_read(judged["shares"], where) for where in ("npy", "parquet")]
    growth = [g["growth"] for g in judged["growth"]]
    verdict = _met(holds=max(growth) <= MOST_GROWTH)
    rows.append(
        (
            "memory for the largest set over that for a tenth of it",
            _span(growth),
            f"≤ {MOST_GROWTH}",
            verdict,
        )
    )
    return record.table(("", "measured", "must be", ""), rows)


def _common(found: Cell) -> tuple[str, ...]:
    verdict = _met(holds=abs(found["exponent"] - 1) <= EXPONENT)
    name = f"exponent of time, {found['engine']}, of memory, files and classes together"
    return name, f"{found['exponent']:.3f}", f"1 ± {EXPONENT}", verdict


def _grown(exponents: list[Cell], engine: str) -> tuple[str, ...]:
    some = [e for e in exponents if e["engine"] == engine]
    found = [e["exponent"] for e in some]
    verdict = _met(holds=all(abs(e - 1) <= EXPONENT for e in found))
    start = f"{1e3 * max(e['start'] for e in some):.0f} ms"
    name = f"exponent of time, {engine}, of each alone, beyond a start of at most {start}"
    return name, _span(found, 3), f"1 ± {EXPONENT}", verdict


def _read(shares: list[Cell], where: str) -> tuple[str, ...]:
    found = [s["share"] for s in shares if s["where"] == where]
    verdict = _met(holds=min(found) >= LEAST_RATIO)
    name = f"rate from {WHERE[where]} over that from memory, threads and Dask"
    return name, _span(found), f"≥ {LEAST_RATIO}", verdict


def _span(found: list[float], digits: int = 2) -> str:
    return f"{min(found):.{digits}f} to {max(found):.{digits}f}"


def _met(*, holds: bool) -> str:
    return "met" if holds else "missed"


def report(figures: dict[str, Any]) -> str:
    """Every table."""
    cells = figures["cells"]
    text = [NOTE, findings(figures["verdicts"]) + "\n"]
    for classes in dict.fromkeys(c["classes"] for c in cells):
        for by, name in (("seconds", "second"), ("processor_seconds", "second of processor time")):
            text += [f"## K = {classes}, rows per {name}\n", rates(cells, classes, by) + "\n"]
        text += [f"## K = {classes}, megabytes\n", memory(cells, classes) + "\n"]
    return "\n".join(text)


def _power(n: int) -> str:
    exponent = len(str(n)) - 1
    lead = n // 10**exponent
    digits = "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(d)] for d in str(exponent))
    return f"10{digits}" if lead == 1 else f"{lead}·10{digits}"


def _short(rate: float) -> str:
    return f"{rate / 1e6:.3g} M" if rate >= 1e6 else f"{rate / 1e3:.3g} k"
