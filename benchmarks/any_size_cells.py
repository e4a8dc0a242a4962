"""One cell of the table of sizes: data, a fit from wherever it is, its time and its peak memory.

The rows come in eight parts, which are made one by one from the seed and their number: pieces of
one array, files, or chunks of a Dask array that its workers hold. Each figure is taken in a process
of its own, which imports what the cell needs and no more.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import synthetic
from memory import resident

SEED = 0
PARTS = 8
WHERE = ("array", "npy", "parquet")
ENGINES = ("1 thread", "2 threads", "Dask")
# All have their turns until so many rounds are over or the time is up, but three rounds at least;
# fits of a small set have five turns in each.
MOST, LEAST, SMALL = 20, 3, 10**6
GROUP = 1 << 22  # logits in a row group of Parquet


class Size(NamedTuple):
    """So many classes, and so many logits in all rows together."""

    classes: int
    values: int

    @property
    def rows(self) -> int:
        """How many rows that makes."""
        return self.values // self.classes


def part(size: Size, number: int) -> Any:
    """The rows of one part."""
    ends = np.linspace(0, size.rows, PARTS + 1).astype(int)
    z = np.empty((ends[number + 1] - ends[number], size.classes), np.float32)
    return synthetic.fill(z, np.random.default_rng((SEED, number)))


def whole(size: Size) -> Any:
    """The rows of all parts."""
    z = np.empty((size.rows, size.classes), np.float32)
    start = 0
    for number in range(PARTS):
        rows = part(size, number)
        z[start : start + len(rows)] = rows
        start += len(rows)
    return z


def shards(folder: Path, size: Size, where: str) -> list[str]:
    """The files of a set."""
    name = f"{size.classes}-{size.values}"
    return [str(folder / f"{name}-{number}.{where}") for number in range(PARTS)]


def write(folder: Path, size: Size) -> None:
    """Both kinds of files: arrays, and a column of lists, compressed as pyarrow does by default."""
    import pyarrow as pa  # noqa: PLC0415  # its memory must not be in a child that goes without
    import pyarrow.parquet as pq  # noqa: PLC0415

    for number in range(PARTS):
        z = part(size, number)
        np.save(shards(folder, size, "npy")[number], z)
        column = pa.FixedSizeListArray.from_arrays(pa.array(z.reshape(-1)), size.classes)
        pq.write_table(
            pa.table({"logits": column}),
            shards(folder, size, "parquet")[number],
            row_group_size=max(1, GROUP // size.classes),
            use_dictionary=False,
        )


@contextlib.contextmanager
def engines(names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The engines by name; Dask as `--engine dask` starts it, in this process."""
    import tepid  # noqa: PLC0415  # its memory is what is measured

    found: dict[str, Any] = {f"{n} thread{'s' * (n > 1)}": tepid.Threads(n) for n in (1, 2)}
    with contextlib.ExitStack() as stack:
        if "Dask" in names:
            from tepid.engines.dask import connected  # noqa: PLC0415  # the same

            found["Dask"] = stack.enter_context(connected(None))
        yield {name: found[name] for name in names}


def data(folder: Path, size: Size, where: str, engine: Any) -> Any:
    """What a fit is given: an array, files, or what Dask's workers hold already."""
    if where != "array":
        return shards(folder, size, where)
    if not hasattr(engine, "client"):
        return whole(size)
    import dask  # noqa: PLC0415
    import dask.array as da  # noqa: PLC0415
    import distributed  # noqa: PLC0415

    ends = np.linspace(0, size.rows, PARTS + 1).astype(int)
    chunks = [
        da.from_delayed(dask.delayed(part)(size, i), (int(n), size.classes), np.float32)
        for i, n in enumerate(np.diff(ends))
    ]
    held = engine.client.persist(da.concatenate(chunks))
    with engine.client.as_current():
        distributed.wait(held)
    return held


def timed(
    folder: Path, sizes: list[Size], limit: float, names: tuple[str, ...] = ENGINES
) -> list[dict[str, Any]]:
    """How long each fit takes; sizes and ways take turns, so that a busy minute hits them all."""
    with engines(names) as every:
        calls = {(size, *way): call for size in sizes for way, call in _calls(folder, size, every)}
        values = {key: call().value for key, call in calls.items()}  # compiles, warms the cache
        found: dict[Any, list[tuple[float, float]]] = {key: [] for key in calls}
        begun = time.perf_counter()
        for done in range(MOST):
            if done >= LEAST and time.perf_counter() - begun > limit:
                break
            for key, call in calls.items():
                found[key] += [_spent(call) for _ in range(1 if key[0].values > SMALL else 5)]
    return [_cell(*key, spent, values[key]) for key, spent in found.items()]


def _spent(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock and by the processors."""
    start, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - used


def _calls(
    folder: Path, size: Size, every: dict[str, Any]
) -> Iterator[tuple[tuple[str, str], Callable[[], Any]]]:
    import tepid  # noqa: PLC0415

    for where in WHERE:
        threads = [name for name in every if name != "Dask"]
        here = data(folder, size, where, every[threads[0]]) if threads else None
        for name, engine in every.items():
            given = here if name in threads else data(folder, size, where, engine)
            yield (where, name), partial(tepid.from_logits, given, engine=engine)


def _cell(size: Size, where: str, engine: str, spent: Any, t: float) -> dict[str, Any]:
    seconds, used = zip(*spent, strict=True)
    return {
        "classes": size.classes,
        "values": size.values,
        "where": where,
        "engine": engine,
        "seconds": min(seconds),
        "median": statistics.median(seconds),
        "processor_seconds": min(used),
        "calls": len(seconds),
        "rows_per_second": size.rows / min(seconds),
        "temperature": t,
    }


def summary_bytes(classes: int) -> dict[str, int]:
    """How large what travels is: the summary of the first pass, and that of the second."""
    import tepid  # noqa: PLC0415
    from tepid import records  # noqa: PLC0415
    from tepid.methods.logits import uts_question  # noqa: PLC0415

    z = part(Size(classes, 4 * PARTS * classes), 0)
    tails = tepid.Tails.of(z)
    curve = tepid.Curve.of(z, thresholds=uts_question(tails).thresholds, bins=0)
    return {"tails": len(records.packed(tails)), "curve": len(records.packed(curve))}


def peaks(
    folder: Path, sizes: list[Size], where: str, engine: str
) -> list[tuple[Size, dict[str, float]]]:
    """The peak of a fit of each size in turn, the smallest first, in megabytes.

    Own: without the rows themselves where they are in memory. Beyond: beyond what the process held
    after a first fit of the smallest.
    """
    import tepid  # noqa: PLC0415

    found = []
    with engines((engine,)) as every:
        chosen = every[engine]
        tepid.from_logits(data(folder, sizes[0], where, chosen), engine=chosen)
        baseline = resident("VmRSS")
        for size in sizes:
            given = data(folder, size, where, chosen)
            # With what making the rows has left behind, which is no part of a fit.
            held = resident("VmRSS") - baseline if where == "array" else 0.0
            Path("/proc/self/clear_refs").write_text("5")
            tepid.from_logits(given, engine=chosen)
            peak = resident("VmHWM")
            del given
            own = peak - held
            found.append((size, {"peak": peak, "own": own, "beyond": own - baseline}))
    return found
