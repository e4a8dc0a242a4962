"""Ten million rows through one monitor: memory stays flat, every count is right.

Rows come in batches of 1 to 4000, with every feature of the monitor switched on: a threshold, a
half-life, the estimated temperature, the log and the saved state. `python scripts/soak.py` prints
what was found and writes benchmarks/results/soak.json and .md; with another `--rows` it only
prints. It ends with 1 if anything was wrong.
"""

# ruff: noqa: E501  # the kernels are chosen before tepid is imported
import argparse
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

if importlib.util.find_spec("numba"):
    # Kernels that move to numba in the middle of the run would look like a leak of 15 MB each.
    os.environ.setdefault("TEPID_KERNELS", "numba")

from tepid.online import Monitor, Outputs, Rules, read_log

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import record

ROWS, SEED = 10_000_000, 0
CLASSES, CHUNK, LARGEST, REMEMBER, TEMPERATURE = 10, 5000, 4000, 200, 1.5
# Memory is compared with that at a tenth of the rows, when kernels and history are complete.
GROWTH = 8.0
PACKAGES = ("tepid", "numpy", "numba")
NOTE = f"""\
One monitor, {CLASSES} classes, chunks of {CHUNK} rows, batches of 1 to {LARGEST} rows, a history of
{REMEMBER} chunks; threshold, half-life, estimated temperature, log and saved state are on. The logits
change in the middle of the run, so that alerts are raised. Checked: the counts of rows, chunks and
alerts, the log, the length of the history, the mean confidence of the last chunk against float64,
that the saved state is read back as it was, and that memory grows by less than {GROWTH:.0f} MB after
the first tenth.
"""


def batches(rows: int, seed: int) -> Iterator[np.ndarray]:
    """Batches of random sizes, `rows` in all, cut from a pool; the second half is less confident."""
    rng = np.random.default_rng(seed)
    pool = (3 * rng.normal(size=(1 << 16, CLASSES))).astype(np.float32)
    left = rows
    while left:
        size = min(int(rng.integers(1, LARGEST + 1)), left)
        start = int(rng.integers(0, len(pool) - size))
        batch = pool[start : start + size]
        yield batch if 2 * left > rows else batch * np.float32(0.8)
        left -= size


def memory() -> float:
    """The resident memory of this process, in MB."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmRSS")


def soak(rows: int, seed: int, folder: Path) -> dict[str, Any]:
    """Run, and return what was measured; `wrong` lists the checks that failed."""
    rules = Rules(threshold=0.8, half_life=3, reestimate=True, remember=REMEMBER)
    outputs = Outputs(autosave=folder / "state.npz", every=500, log=folder / "log.jsonl")
    reference = np.concatenate(list(batches(20 * CHUNK, seed + 1)))[: 10 * CHUNK]
    monitor = Monitor.from_reference(
        reference, TEMPERATURE, chunk=CHUNK, rules=rules, outputs=outputs
    )
    seen = count = chunks = alerts = 0
    measured: list[tuple[int, float]] = []
    last = np.zeros((0, CLASSES), np.float32)
    start = time.perf_counter()
    for batch in batches(rows, seed):
        for row in monitor.update(batch, time=float(seen)):
            chunks += 1
            alerts += row["alert"]
        seen += len(batch)
        count += 1
        last = np.concatenate([last, batch])[-2 * CHUNK :]
        if seen * 20 // rows > len(measured):
            measured.append((seen, memory()))
    seconds = time.perf_counter() - start
    monitor.save(folder / "state.npz")
    reading, log = monitor.reading(), read_log(folder / "log.jsonl")
    settled = [mb for at, mb in measured if at >= rows / 10]
    checks = {
        "rows_total": reading["rows_total"] == reading["rows_kept"] == rows,
        "rows_open": reading["rows_open"] == rows % CHUNK,
        "chunks_total": reading["chunks_total"] == chunks == len(log) == rows // CHUNK,
        "alerts_total": reading["alerts_total"] == alerts == sum(row["alert"] for row in log),
        "alerts are raised after the change": alerts > 0,
        "history": len(monitor.history) == min(REMEMBER, chunks) and monitor.history[-1] == log[-1],
        "rows of the log": all(row["rows"] == CHUNK for row in log),
        "mean confidence": _last_confidence_is_right(monitor, last, rows),
        "saved state": Monitor.load(folder / "state.npz").reading() == reading,
        "memory": max(settled) - settled[0] < GROWTH,
    }
    return {
        "rows": rows,
        "batches": count,
        "chunks": chunks,
        "alerts": alerts,
        "seconds": round(seconds, 1),
        "rows_per_second": round(rows / seconds),
        "memory_at_a_tenth_mb": round(settled[0], 1),
        "memory_largest_mb": round(max(settled), 1),
        "memory_at_the_end_mb": round(memory(), 1),
        "memory_mb": [[at, round(mb, 1)] for at, mb in measured],
        "state_bytes": (folder / "state.npz").stat().st_size,
        "log_bytes": (folder / "log.jsonl").stat().st_size,
        "checks": checks,
        "wrong": [name for name, right in checks.items() if not right],
    }


def _last_confidence_is_right(monitor: Monitor, last: np.ndarray, rows: int) -> bool:
    """Compare the last complete chunk, without forgetting, with float64."""
    left = rows % CHUNK
    chunk = last[len(last) - left - CHUNK : len(last) - left]
    z = chunk.astype(np.float64) / TEMPERATURE
    exact = (1 / np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1)).mean()
    keep = monitor.rules.keep
    recent, before = monitor.history[-1], monitor.history[-2]
    # The window is that of the chunk before, times `keep`, and this chunk; both weights are known
    # from the geometric series.
    total = CHUNK * (1 - keep ** (rows // CHUNK)) / (1 - keep)
    earlier = (total - CHUNK) * before["implied_accuracy"]
    expected = (earlier + CHUNK * exact) / total
    return bool(abs(recent["implied_accuracy"] - expected) < 2e-6)


def main() -> None:
    """Run, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    command = f"python scripts/soak.py --rows {args.rows} --seed {args.seed}"
    about = record.circumstances(command, args.seed, 1, PACKAGES)
    with tempfile.TemporaryDirectory() as folder:
        found = soak(args.rows, args.seed, Path(folder))
    shown = [(k, v) for k, v in found.items() if k not in ("memory_mb", "checks", "wrong")]
    checks = [(name, "right" if right else "WRONG") for name, right in found["checks"].items()]
    parts = [
        record.preamble("Soak of the monitor", about),
        NOTE,
        record.table(("measured", "value"), shown) + "\n",
        record.table(("check", "found"), checks) + "\n",
        record.table(("rows seen", "resident memory, MB"), found["memory_mb"]) + "\n",
    ]
    text = "\n".join(parts)
    print(text)
    if (args.rows, args.seed) == (ROWS, SEED):
        record.write("soak", {**about, **found}, text)
    sys.exit(bool(found["wrong"]))


if __name__ == "__main__":
    main()
