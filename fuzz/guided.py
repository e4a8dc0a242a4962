"""Fuzzing guided by coverage: `python -m fuzz.guided [FORMAT ...] [--runs 5000] [--seed 0]`.

atheris instruments tepid, and libFuzzer keeps the inputs that reach new code of it. A mutant is
made of a kept input as `python -m fuzz` makes it of the corpus, and judged by the same rules. Each
format runs in a process of its own, which ends at its first finding and writes the input to
`--findings`. The exit code is 1 if anything was found. With `--record` the table goes to
benchmarks/results/fuzz_guided.json and .md.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# numba cannot compile instrumented code.
os.environ["TEPID_KERNELS"] = "numpy"

ROOT = Path(__file__).parents[1]
CORPUS = Path(__file__).with_name("corpus")
RUNS, SEED = 5_000, 0
LONGEST = 65_536  # bytes of an input
HANG = 60  # seconds
STATISTICS = re.compile(r"#(\d+)\s+(INITED|DONE)\s+cov: (\d+)")
HEADER = ("format", "executions", "branches at first", "branches at last", "finding")
NOTE = """\
Coverage-guided: atheris instruments tepid, and an input that reaches new code is mutated further.
Mutants and rules are those of `python -m fuzz`. Branches are those of tepid that the corpus reaches
at first, and that it reaches with the kept inputs at last. A format ends at its first finding.
"""


def fuzz(name: str, options: list[str]) -> None:
    """Fuzz one format in this process, which does not return."""
    import atheris

    with tempfile.TemporaryDirectory(prefix="fuzz-") as where:
        folder = Path(where)
        with atheris.instrument_imports(include=["tepid"], enable_loader_override=False):
            from fuzz import harnesses, worker

            worker.prepare()
            worker.warm_up(name, folder)  # imports all that the format needs
        harness = harnesses.HARNESSES[name]
        corpus = harnesses.read_corpus(CORPUS, name)
        path = folder / f"mutant{harness.suffix}"
        done = 0

        def test(content: bytes) -> None:
            nonlocal done
            if not content:  # libFuzzer begins with it
                return
            harnesses.put(content, path)
            done += 1
            result, why = worker.judge(harness, path, len(content), deep=done % worker.DEEP == 0)
            if result not in worker.COUNTED:
                raise AssertionError(f"{result}: {why}")

        def mutate(content: bytes, longest: int, seed: int) -> bytes:
            rng = random.Random(seed)
            try:
                other = rng.choice(list(corpus.values()))
                made = harnesses.mutant(harness, rng, {"seed": content, "other": other})
            except Exception:  # a kept input that cannot be taken apart
                made = harnesses.mutant(harness, rng, corpus)
            return made if len(made) <= longest else content

        atheris.Setup([sys.argv[0], *options], test, custom_mutator=mutate)
        atheris.Fuzz()


def run(
    name: str, runs: int, seed: int, findings: Path, worker: tuple[str, ...] = ("-m", "fuzz.guided")
) -> tuple[Any, ...]:
    """Fuzz one format in a process of its own; a row of the table."""
    findings.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as kept:
        options = [
            f"-runs={runs}", f"-seed={seed + 1}", f"-max_len={LONGEST}", f"-timeout={HANG}",
            "-rss_limit_mb=0", f"-artifact_prefix={findings / name}-", kept, str(CORPUS / name),
        ]  # fmt: skip
        command = [sys.executable, *worker, name, "--", *options]
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
        )
    said = done.stderr.decode(errors="replace")
    reached = {stage: (int(count), int(cov)) for count, stage, cov in STATISTICS.findall(said)}
    found = re.findall(r"(?:AssertionError|ERROR): (.*)", said) if done.returncode else []
    if "DONE" not in reached and not found:
        raise RuntimeError(f"{' '.join(command)} failed: {said[-2000:]}")
    (_, first), (executions, last) = (reached.get(at, (0, 0)) for at in ("INITED", "DONE"))
    return name, executions, first, last, found[0][:200] if found else ""


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.guided", description=__doc__)
    parser.add_argument("formats", nargs="*")
    parser.add_argument("--runs", type=int, default=RUNS, help="executions per format")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--findings", type=Path, default=ROOT / ".cache" / "fuzz")
    parser.add_argument("--record", action="store_true", help="write benchmarks/results")
    args = parser.parse_args()
    known = sorted(path.name for path in CORPUS.iterdir())
    rows = []
    for name in args.formats or known:
        rows.append(run(name, args.runs, args.seed, args.findings))
        print(*rows[-1], flush=True)
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import record

    table = record.table(HEADER, rows)
    print(table)
    if args.record:
        command = f"python -m fuzz.guided --runs {args.runs} --seed {args.seed} --record"
        about = record.circumstances(command, args.seed, 1, ("tepid", "atheris", "numpy"))
        figures = {**about, "formats": [dict(zip(HEADER, row, strict=True)) for row in rows]}
        text = f"{record.preamble('Guided fuzzing', about)}\n{NOTE}\n{table}\n"
        record.write("fuzz_guided", figures, text)
    sys.exit(any(row[-1] for row in rows))


if __name__ == "__main__":
    if "--" in sys.argv:
        fuzz(sys.argv[1], sys.argv[3:])
    else:
        main()
