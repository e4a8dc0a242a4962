"""Mutation testing of the numerical folders with cosmic-ray, on a random sample.

cosmic-ray lists and applies the mutants; scripts/mutants.toml says of which files. This script draws
a sample with a fixed seed and runs, for each mutant, the tests that reach its statement, the fastest
first. It works on copies of the tree, never on the tree. Every process is forked from one that has
loaded NumPy, numba and pytest, since loading them takes longer than most tests.

`python scripts/mutants.py` goes on where an interrupted run stopped (the session is in
.cache/mutants) and writes benchmarks/results/mutants.json and .md. `--fresh` starts again, `--only
FILE:LINE` repeats the mutants of a line, and `--again` repeats the survivors.
"""

import argparse
import ast
import difflib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cosmic_ray.modules
import cosmic_ray.plugins
from cosmic_ray.commands.init import _all_work_items  # noqa: PLC2701  # `init` fills a database
from cosmic_ray.mutating import mutate_code
from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache" / "mutants"
CONFIG = ROOT / "scripts" / "mutants.toml"
# By hand: survivors that no test can kill, by file and changed line, with the reason.
EQUIVALENT = ROOT / "scripts" / "mutants_equivalent.json"
COPIED = ("src", "tests", "benchmarks", "examples", "scripts", "conftest.py", "pyproject.toml")
# Loaded once, before every fork.
HEAVY = (
    "numpy", "numba", "scipy.optimize", "scipy.special", "scipy.stats", "pandas", "polars",
    "pyarrow", "sklearn.calibration", "sklearn.metrics", "hypothesis", "pytest", "sybil", "typer",
    "rich.console", "narwhals", "numba.core.typed_passes", "llvmlite.binding", "hypothesis.extra.numpy",
)  # fmt: skip
# pytest would rewrite the asserts of hypothesis, which is loaded already.
LOADED = "ignore::pytest.PytestAssertRewriteWarning"
QUIET = ("-q", "-p", "no:cacheprovider", "-W", LOADED)
KILLED, SURVIVED, TIMEOUT, UNREACHED = "killed", "survived", "timeout", "no test reaches it"

sys.path.insert(0, str(ROOT / "benchmarks"))
import record


class Mutant(NamedTuple):
    """One change of one file, as cosmic-ray names it."""

    file: str
    operator: str
    occurrence: int
    start: tuple[int, int]
    end: tuple[int, int]

    @property
    def key(self) -> str:
        return f"{self.file}|{self.operator}|{self.occurrence}"


class Reached(NamedTuple):
    """What the tests take, and which lines of which file they reach."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[int]]]


# --- which mutants


def sample(paths: list[str], count: int, seed: int) -> tuple[list[Mutant], int]:
    """A random sample of all mutants, and the number of all."""
    files = cosmic_ray.modules.find_modules(ROOT / path for path in paths)
    found = [
        _mutant(item.mutations[0])
        for file in sorted(files)
        for item in _all_work_items([file], {})
        if not _in_annotation(item.mutations[0])
    ]
    return random.Random(seed).sample(found, min(count, len(found))), len(found)


def _mutant(spec: MutationSpec) -> Mutant:
    file = Path(spec.module_path).relative_to(ROOT).as_posix()
    return Mutant(file, spec.operator_name, spec.occurrence, spec.start_pos, spec.end_pos)


def _in_annotation(spec: MutationSpec) -> bool:
    """Whether only a type changes, which fails on import and says nothing about the tests."""
    inside = _annotations(Path(spec.module_path))
    return any(start <= tuple(spec.start_pos) and tuple(spec.end_pos) <= end for start, end in inside)


def _annotations(path: Path, known: dict[Path, list[Any]] = {}) -> list[Any]:  # noqa: B006
    if path not in known:
        nodes = []
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                nodes.append(node.returns)
            elif isinstance(node, ast.arg | ast.AnnAssign):
                nodes.append(node.annotation)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
                if isinstance(node.value.op, ast.BitOr) and _top_level(node):
                    nodes.append(node.value)  # the alias of a type
        known[path] = [
            ((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in nodes if n
        ]
    return known[path]


def _top_level(node: ast.stmt) -> bool:
    return node.col_offset == 0


def changed_text(mutant: Mutant) -> str:
    """The whole file with the change."""
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    operator = cosmic_ray.plugins.get_operator(mutant.operator)()
    text = mutate_code(source, operator, mutant.occurrence)
    assert text is not None, mutant
    return text


def changed_lines(mutant: Mutant) -> tuple[str, str]:
    """The lines before and after."""
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    difference = difflib.unified_diff(source.splitlines(), changed_text(mutant).splitlines(), n=0)
    lines = list(difference)[2:]
    before = " ".join(line[1:].strip() for line in lines if line.startswith("-"))
    after = " ".join(line[1:].strip() for line in lines if line.startswith("+"))
    return before, after


# --- which tests


def tests_of(mutant: Mutant, reached: Reached) -> list[str]:
    """The tests that reach the statement, the fastest first."""
    lines = set(_statement(ROOT / mutant.file, mutant.start[0]))
    by_test = reached.lines.get(mutant.file, {})
    found = [test for test, covered in by_test.items() if lines & set(covered)]
    if not found:  # it runs on import: whatever uses the file may notice
        found = list(by_test) if "" in by_test and lines & set(by_test[""]) else []
    return sorted((t for t in found if t), key=lambda test: reached.seconds[test])


def _statement(path: Path, line: int) -> range:
    """The lines of the smallest statement around a line; of a compound one, its head."""
    best = range(line, line + 1)
    size = 10**9
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            last = max(last, node.lineno)
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            if first <= line <= last and last - first < size:
                size = last - first
                best = range(first, last + 1)
    return best


def within(tests: Iterable[str], reached: Reached, budget: float) -> list[str]:
    """The first tests that take no longer together; at least one."""
    total, chosen = 0.0, []
    for test in tests:
        total += reached.seconds[test]
        if chosen and total > budget:
            break
        chosen.append(test)
    return chosen


# --- processes


def load_heavy() -> None:
    """Import what every test process needs, except tepid."""
    for name in HEAVY:
        try:
            __import__(name)
        except ImportError:
            continue
    assert "tepid" not in sys.modules


def fork_pytest(tree: Path, arguments: list[str], log: Path, watch: Path | None = None) -> int:
    """Start pytest in a fork of this process; its process id, which is also that of its group."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setpgid(0, 0)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree / "src")
        sys.path[:0] = [str(tree / "src"), str(tree)]
        sys.dont_write_bytecode = True
        import pytest

        plugins = [_Watch(tree, watch)] if watch else []
        code = int(pytest.main([*QUIET, *arguments], plugins=plugins))
    except BaseException:  # noqa: BLE001  # nothing may leave the fork
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def copy_tree(to: Path) -> Path:
    """A copy with numba's cache and without Python's, which knows a file by second and size."""
    shutil.rmtree(to, ignore_errors=True)
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("*.pyc"))
        else:
            shutil.copy2(ROOT / name, to / name)
    return to


class _Watch:
    """Records which lines each test reaches, and how long it takes."""

    def __init__(self, tree: Path, to: Path) -> None:
        import coverage

        self.tree, self.to, self.seconds = tree, to, {}
        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[str(tree / "src" / "tepid" / "*")]
        )
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.outcome == "passed":
            was = self.seconds.get(report.nodeid, 0.0)
            self.seconds[report.nodeid] = was + report.duration
        if report.failed:
            self.seconds[report.nodeid] = 1e9

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        lines: dict[str, dict[str, list[int]]] = {}
        for path in data.measured_files():
            by_test = lines.setdefault(Path(path).relative_to(self.tree).as_posix(), {})
            for line, tests in data.contexts_by_lineno(path).items():
                for test in tests:
                    by_test.setdefault(test, []).append(line)
        self.to.write_text(json.dumps([self.seconds, lines]), encoding="utf-8")


def reach(trees: list[Path], tests: list[str], longest: float) -> Reached:
    """Run the tests without a mutant, in as many processes as there are copies."""
    running = []
    for i, tree in enumerate(trees):
        arguments = ["-m", "not slow", *tests[i :: len(trees)]]
        log = CACHE / f"reached-{i}.log"
        running.append(fork_pytest(tree, arguments, log, CACHE / f"reached-{i}.json"))
    for pid in running:
        os.waitpid(pid, 0)
    seconds: dict[str, float] = {}
    lines: dict[str, dict[str, list[int]]] = {}
    for i in range(len(trees)):
        part = json.loads((CACHE / f"reached-{i}.json").read_text(encoding="utf-8"))
        seconds |= part[0]
        for file, by_test in part[1].items():
            lines.setdefault(file, {}).update(by_test)
    for file, by_test in lines.items():
        lines[file] = {t: c for t, c in by_test.items() if not t or seconds.get(t, 1e9) <= longest}
    return Reached(seconds, lines)


class Trial(NamedTuple):
    """A mutant under test."""

    mutant: Mutant
    tree: Path
    started: float
    allowed: float
    log: Path
    complete: bool


def start(mutant: Mutant, tree: Path, tests: list[str], allowed: float, *, complete: bool) -> int:
    """Write the mutant into the copy and start its tests; the process id."""
    (tree / mutant.file).write_text(changed_text(mutant), encoding="utf-8")
    return fork_pytest(tree, ["-x", *tests], tree / "log")


def run(
    mutants: Iterable[Mutant], trees: list[Path], reached: Reached, settings: dict[str, Any]
) -> Iterator[tuple[Mutant, str, float, str]]:
    """Each mutant with its fate, the seconds it took and the last line of pytest."""
    waiting, free = list(mutants)[::-1], list(trees)
    running: dict[int, Trial] = {}
    while waiting or running:
        while waiting and free:
            mutant = waiting.pop()
            every = tests_of(mutant, reached)
            if not every:
                yield mutant, UNREACHED, 0.0, ""
                continue
            chosen = within(every, reached, settings["budget"])
            tree = free.pop()
            allowed = settings["timeout"] + 4 * sum(reached.seconds[t] for t in chosen)
            pid = start(mutant, tree, chosen, allowed, complete=len(chosen) == len(every))
            complete = len(chosen) == len(every)
            running[pid] = Trial(mutant, tree, time.time(), allowed, tree / "log", complete)
        time.sleep(0.02)
        for pid, trial in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            late = time.time() - trial.started > trial.allowed
            if not ended and not late:
                continue
            if not ended:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            del running[pid]
            shutil.copy2(ROOT / trial.mutant.file, trial.tree / trial.mutant.file)
            free.append(trial.tree)
            fate = TIMEOUT if not ended else KILLED if status else SURVIVED
            yield trial.mutant, fate, time.time() - trial.started, _last_line(trial.log)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    said = [line for line in lines if line.startswith(("FAILED", "ERROR"))] or lines[-1:]
    return said[0][:200] if said else ""


def main() -> None:
    """Draw, run and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--again", action="store_true", help="repeat the survivors with every test")
    parser.add_argument("--map", action="store_true", help="find again which tests reach what")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--count", type=int)
    args = parser.parse_args()
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    settings = {"timeout": config["cosmic-ray"]["timeout"]} | config["sample"]
    count = args.count or settings["count"]
    CACHE.mkdir(parents=True, exist_ok=True)
    session, map_file = CACHE / "session.jsonl", CACHE / "reached.json"
    if args.fresh:
        session.unlink(missing_ok=True)
    mutants, total = sample(config["cosmic-ray"]["module-path"], count, settings["seed"])
    print(f"{len(mutants)} of {total} mutants", flush=True)
    load_heavy()
    trees = [copy_tree(CACHE / f"tree-{i}") for i in range(args.workers)]
    if args.map or args.fresh or not map_file.exists():
        began = time.time()
        reached = reach(trees, settings["tests"], settings["longest"])
        map_file.write_text(json.dumps(reached), encoding="utf-8")
        print(f"{len(reached.seconds)} tests in {time.time() - began:.0f} s", flush=True)
    reached = Reached(*json.loads(map_file.read_text(encoding="utf-8")))
    results = read_session(session)
    if args.again:
        settings["budget"] = 1e9
        todo = [m for m in mutants if results.get(m.key, {}).get("fate") in (SURVIVED, UNREACHED)]
    else:
        todo = [m for m in mutants if m.key not in results]
    with session.open("a", encoding="utf-8") as file:
        for done, (mutant, fate, seconds, said) in enumerate(run(todo, trees, reached, settings)):
            line = {"key": mutant.key, "fate": fate, "seconds": round(seconds, 2), "said": said}
            file.write(json.dumps(line) + "\n")
            file.flush()
            if fate in (SURVIVED, UNREACHED):
                before, after = changed_lines(mutant)
                print(f"{done}: {fate}: {mutant.file}:{mutant.start[0]}: {before}  →  {after}", flush=True)
    write(mutants, total, read_session(session), settings)


def read_session(path: Path) -> dict[str, dict[str, Any]]:
    """The last result of each mutant."""
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {line["key"]: line for line in lines}


def write(mutants: list[Mutant], total: int, results: dict[str, Any], settings: Any) -> None:
    """TODO."""
    print(Counter(results[m.key]["fate"] for m in mutants if m.key in results))


if __name__ == "__main__":
    main()
