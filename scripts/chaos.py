"""Random kills and faults during fits, the monitor, training, every writer, Dask and Spark.

Each target first runs undisturbed. Then its processes are killed with -9 at random moments and
started again, or its files are damaged. `python scripts/chaos.py` prints the faults and the checks,
and writes benchmarks/results/chaos.json and .md. With another `--count` or `--only` it only prints.
The exit code is 1 if a check failed.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Results are compared bit for bit, and the two tiers of kernels round differently. By default the
# tier depends on whether a process has loaded numba.
os.environ["TEPID_KERNELS"] = "numba"

import numpy as np
from faults import fits, monitors, trainings, writers
from faults.processes import Findings

import tepid

# Processes that are started use the same tepid, also if PYTHONPATH is relative and they change the
# folder.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(tepid.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
)

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import record

SEED, COUNT = 0, 200
PACKAGES = ("tepid", "numpy", "numba", "distributed", "pyspark")
NOTE = """\
A kill is `kill -9` of a working process at a random moment. A kill that came too late is not
counted. After each fault the same job runs again or continues. The checks:

- A fit on threads gives the temperature of an undisturbed fit, bit for bit. It refuses a damaged
  file. A fit that fails leaves the result of an earlier fit.
- A monitor loses no batch that it saved.
- A training in the laboratory resumes, and ends with the same weights and logits, bit for bit.
- Every command with an output option, and every other function that writes a file, leaves the old
  or the new file, whole.
- A fit on Dask or Spark gives the temperature of threads to a relative error of 1e-9, or fails with
  one sentence and leaves the result of an earlier fit.

Leftovers are temporary files of killed writers. Their names begin with a dot and end in .tmp.
"""


def run_local(count: int, only: list[str], rng: np.random.Generator, folder: Path) -> Findings:
    """Cause at least `count` faults in processes of this machine."""
    findings = Findings()
    trials: list[Callable[[], None]] = []
    if "fit" in only:
        fit = fits.prepare(folder / "fits", rng)
        trials.append(lambda: fits.trial(fit, rng, findings))
    if "monitor" in only:
        watch = monitors.prepare(folder / "monitor", rng)
        trials.append(lambda: monitors.trial(watch, rng, findings))
    if "training" in only:
        network = trainings.prepare(folder / "training", rng)
        trials.append(lambda: trainings.trial(network, rng, findings))
    if "writers" in only:
        every = writers.prepare(folder / "files", rng)
        turns = iter(range(10**6))
        one = lambda: writers.trial(every[next(turns) % len(every)], rng, findings)  # noqa: E731
        trials += [one] * 6
    while trials and findings.total < count:
        for trial in trials:
            trial()
    return findings


def run_clusters(
    count: int, only: list[str], rng: np.random.Generator, folder: Path, findings: Findings
) -> None:
    """Kill processes of Dask and Spark, once for each 40 faults elsewhere and at least once."""
    if not {"dask", "spark"} & set(only):
        return
    from faults import clusters  # noqa: PLC0415  # starts threads, and this process forks before

    work = clusters.prepare(folder / "clusters", rng)
    kills = max(1, count // 40)
    if "dask" in only:
        clusters.try_dask(work, rng, findings, kills=kills)
    if "spark" in only:
        clusters.try_spark(work, rng, findings, kills=kills)


def table_rows(findings: Findings) -> list[tuple[Any, ...]]:
    """For each target its faults, checks, failed checks and leftovers."""
    failed = [target for target, _ in findings.failed]
    return [
        (
            target,
            ", ".join(f"{n} × {f}" for (t, f), n in sorted(findings.faults.items()) if t == target),
            findings.checks[target],
            failed.count(target),
            findings.leftovers[target],
        )
        for target in sorted(findings.checks)
    ]


def main() -> None:
    """Run, print and write."""
    targets = ["fit", "monitor", "training", "writers", "dask", "spark"]
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=COUNT)
    options.add_argument("--seed", type=int, default=SEED)
    options.add_argument("--only", nargs="+", choices=targets, default=targets)
    chosen = options.parse_args()
    command = f"python scripts/chaos.py --count {chosen.count} --seed {chosen.seed}"
    about = record.circumstances(command, chosen.seed, 2, PACKAGES)
    rng = np.random.default_rng(chosen.seed)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        findings = run_local(chosen.count, chosen.only, rng, Path(folder))
        run_clusters(chosen.count, chosen.only, rng, Path(folder), findings)
    seconds = time.perf_counter() - start
    found = table_rows(findings)
    head = ("target", "faults", "checks", "failed", "leftovers")
    total = (
        f"{findings.total} kills and faults in {seconds:.0f} s, {findings.checks.total()} checks, "
        f"{len(findings.failed)} failed.\n"
    )
    text = "\n".join(
        [record.preamble("Chaos", about), NOTE, record.table(head, found) + "\n", total]
    )
    print(text)
    for target, sentence in findings.failed:
        print(f"FAILED, {target}: {sentence}", file=sys.stderr)
    if (chosen.count, chosen.seed, chosen.only) == (COUNT, SEED, targets):
        figures = {
            "total": findings.total,
            "checks": findings.checks.total(),
            "failed": findings.failed,
            "targets": [dict(zip(head, row, strict=True)) for row in found],
        }
        record.write("chaos", {**about, **figures}, text)
    sys.exit(bool(findings.failed))


if __name__ == "__main__":
    main()
