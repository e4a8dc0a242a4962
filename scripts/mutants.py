"""Mutation testing: change the source in one place, and a test must fail.

cosmic-ray makes the mutants. A place in the code (an operator, a number, a decorator, …) is drawn
first, and then one of its mutants: an operator has many, and most fail at once. A first run records
which tests execute which lines. A mutant is tested by the tests that execute its statement, in a
forked process that imports the mutated module from memory; the tree is never changed. The test that
killed it in the last published run comes first. An interrupted run goes on from `.cache/mutants`.
While the source is the same, a killed mutant is not tested again, and after a change of the tests
survivors are.

`python scripts/mutants.py` writes benchmarks/results/mutants.json and .md; with a smaller `--count`
it only prints. `scripts/equivalent_mutants.toml` lists mutants that compute the same, and why.
"""

# ruff: noqa: E402  # the kernels are chosen before anything is imported
import argparse
import ast
import contextlib
import difflib
import functools
import gc
import hashlib
import importlib.util
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any

# Compiling kernels would take longer than the tests, and threads do not survive a fork.
os.environ |= {"TEPID_KERNELS": "numpy", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # no test needs one
ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT), str(ROOT / "benchmarks")]

import coverage
import pytest
import record
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.ast.ast_query import ASTQuery
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from hypothesis import Phase, settings

COUNT, SEED, PROCESSES = 600, 0, 2
FOLDERS = ("decisions", "methods", "metrics", "posterior", "summaries")
TESTS = (
    "arrays", "calibrate", "calibrate_evidence", "clusters", "decide_cli", "decisions", "formulas",
    "groups", "intervals", "labels", "measures", "methods", "metrics", "multilabel", "precision",
    "scalars", "sites", "summaries", "temperature", "weights",
)  # fmt: skip
# Imported once, before the forks: not tepid, and nothing that starts threads.
PRELOAD = (
    "numpy", "pandas", "rich.console", "scipy.integrate", "scipy.optimize", "scipy.stats",
    "sklearn.frozen", "sklearn.linear_model", "sklearn.multioutput", "sybil", "typer.testing",
)  # fmt: skip
# Bit operators in place of arithmetic raise at once on floats, so they would flatter the tests.
ARITHMETIC = {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"}
BUDGET = 10.0  # seconds of processor time for the tests of one mutant, the shortest first
MEMORY = 8 << 30
EQUIVALENT = ROOT / "scripts" / "equivalent_mutants.toml"
PACKAGES = ("tepid", "cosmic-ray", "coverage", "pytest", "hypothesis", "numpy")
NOTE = f"""\
A mutant changes one place of the source. It is tested by the fast tests that execute its
statement, at most {BUDGET:.0f} s of processor time. It is killed if one fails, cannot be
collected, or takes too long. Mutants that survive and compute the same are *equivalent*, for the
reason given below; the last column leaves them out. Annotations, type aliases and strings are not
mutated, and arithmetic is not exchanged for bit operators.
"""


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    line: int
    operator: str
    diff: str
    text: str  # of the whole file

    @property
    def key(self) -> str:
        """Its name, which does not depend on line numbers."""
        return f"{self.file} {self.operator}\n{self.diff}"


def draw(count: int, seed: int) -> list[Mutant]:
    """The first mutants in the order of a hash without line numbers, which edits change little."""
    places: dict[tuple[str, tuple[int, int]], list[tuple[str, str, int]]] = defaultdict(list)
    for file in _files():
        for start, *mutant in _possible(file, seed):
            places[file, start].append(tuple(mutant))
    drawn = sorted((min(made), place) for place, made in places.items())
    chosen: dict[str, Mutant] = {}  # equal lines of one file may have equal mutants
    for (_, name, number), place in drawn:
        if len(chosen) == count:
            break
        if mutant := _make(*place, name, number):
            chosen.setdefault(mutant.key, mutant)
    return list(chosen.values())


def _files() -> list[str]:
    paths = (path for name in FOLDERS for path in (ROOT / "src" / "tepid" / name).rglob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def _possible(file: str, seed: int) -> Iterator[tuple[tuple[int, int], str, str, int]]:
    """Every mutant of a file: its place, its hash, its operator, and which of the operator's."""
    text = (ROOT / file).read_text("utf-8")
    lines, nodes, types = text.splitlines(), list(ast_nodes(get_ast(text))), _type_spans(text)
    for name in operator_names():
        exchange = re.findall("BinaryOperator_([A-Za-z]+)_([A-Za-z]+)", name)
        if get_operator(name).arguments() or any(
            (a in ARITHMETIC) != (b in ARITHMETIC) for a, b in exchange
        ):
            continue
        kind = get_operator(name)()
        made = ((node, start) for node in nodes for start, _ in kind.mutation_positions(node))
        for number, (node, start) in enumerate(made):
            # The * of keyword-only parameters is no operator.
            outside = not any(first <= start < last for first, last in types)
            if outside and node.parent.type != "parameters":
                where = ASTQuery(node).get_definition_name(), lines[start[0] - 1], start[1]
                identity = repr((seed, file, where, name, number % 2)).encode()
                yield start, hashlib.sha256(identity).hexdigest(), name, number


def _type_spans(text: str) -> list[tuple[tuple[int, int], ...]]:
    """Where annotations and type aliases stand."""
    lines, found = text.splitlines(), []
    for node in ast.walk(ast.parse(text)):
        types = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            types.append(node.value)
        for part in filter(None, types):
            ends = (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)
            found.append(tuple((n, len(lines[n - 1].encode()[:c].decode())) for n, c in ends))
    return found


def _make(file: str, start: tuple[int, int], operator: str, number: int) -> Mutant | None:
    """The mutant, or None if Python refuses it."""
    text = (ROOT / file).read_text("utf-8")
    mutated = mutate_code(text, get_operator(operator)(), number)
    with warnings.catch_warnings(action="ignore"), contextlib.suppress(SyntaxError):
        compile(mutated, file, "exec")
        changes = difflib.unified_diff(text.splitlines(), mutated.splitlines(), n=0, lineterm="")
        diff = "\n".join(x[0] + x[1:].strip() for x in list(changes)[3:])
        return Mutant(file, start[0], operator.removeprefix("core/"), diff, mutated)
    return None


# --- which tests execute which lines


class Recorder:
    """A pytest plugin that records the lines and the seconds of every test."""

    def __init__(self) -> None:
        folders = [str(ROOT / "src" / "tepid" / name) for name in FOLDERS]
        self.coverage = coverage.Coverage(data_file=None, config_file=False, source=folders)
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:  # noqa: D102
        self.coverage.switch_context(_file_of(item.nodeid))  # a fixture may serve the whole file

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:  # noqa: D102
        self.coverage.switch_context(item.nodeid)
        start = time.process_time()
        yield
        self.seconds[item.nodeid] = time.process_time() - start


def _record(path: Path, out: int, folder: str) -> None:
    """Run every test in this process, and write what each executes."""
    recorder = Recorder()
    recorder.coverage.start()
    files = [f"tests/test_{name}.py" for name in TESTS] + _files()
    if code := _pytest(files, folder, recorder, Chosen([], out)):
        os._exit(code)
    recorder.coverage.stop()
    data = recorder.coverage.get_data()
    lines = {file: data.contexts_by_lineno(str(ROOT / file)) for file in _files()}
    path.write_text(json.dumps({"seconds": recorder.seconds, "lines": lines}), "utf-8")


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def choose(mutant: Mutant, recorded: dict[str, Any]) -> list[str]:
    """The tests that execute the mutated statement; the files with the shortest tests come first.

    What runs at import (constants, fields, decorators) is tested by the tests of the module, and
    the defaults of a function by the tests of its body.
    """
    tree = ast.parse((ROOT / mutant.file).read_text("utf-8"))
    around = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and mutant.line in _span(n)]
    functions = [node for node in around if isinstance(node, ast.FunctionDef)]
    lines = range(1, 1 << 20)
    if functions:
        function, statement = functions[-1], around[-1]
        lines = range(function.body[0].lineno, function.end_lineno + 1)
        if mutant.line in lines:
            last = statement.end_lineno if not hasattr(statement, "body") else mutant.line
            lines = range(statement.lineno, last + 1)
    executed = recorded["lines"][mutant.file].items()
    contexts = {test for line, tests in executed if int(line) in lines for test in tests}
    seconds, chosen, total = recorded["seconds"], defaultdict(list), 0.0
    for test in sorted(seconds, key=seconds.get):
        if test in contexts or _file_of(test) in contexts:
            total += seconds[test]
            if total > BUDGET:
                break
            chosen[_file_of(test)].append(test)
    mean = {file: sum(map(seconds.get, tests)) / len(tests) for file, tests in chosen.items()}
    return [test for file in sorted(mean, key=mean.get) for test in chosen[file]]


def _span(node: ast.stmt) -> range:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return range(first, node.end_lineno + 1)


# --- the tests of one mutant, in a process of its own


class Chosen:
    """A pytest plugin that runs chosen tests, or all, and ends the process at the first failure."""

    def __init__(self, tests: list[str], out: int) -> None:
        self.order, self.out = {test: i for i, test in enumerate(tests)}, out

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:  # noqa: D102
        # An example that fails is enough; it need not be small.
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings.default, phases=phases)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:  # noqa: D102
        if self.order:
            kept = [item for item in items if item.nodeid in self.order]
            items[:] = sorted(kept, key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:  # noqa: D102
        if report.failed:
            os.write(self.out, report.nodeid.encode())
            os._exit(1)


def _pytest(files: list[str], folder: str, *plugins: object) -> int:
    for file in _files():  # doctests would import a second copy of a module that is not there yet
        importlib.import_module(_module(file))
    options = [
        "-qx",
        "-mnot slow",
        "-pno:cacheprovider",
        "-pno:xdist",
        f"--basetemp={folder}/tests",
    ]
    preloaded = "-Wignore::pytest.PytestAssertRewriteWarning"
    return int(pytest.main([*options, preloaded, *files], plugins=plugins))


def _module(file: str) -> str:
    return ".".join(Path(file).with_suffix("").parts[1:]).removesuffix(".__init__")


class MutatedLoader(SourceFileLoader):
    """Finds and loads the mutated module."""

    def __init__(self, mutant: Mutant) -> None:
        super().__init__(_module(mutant.file), str(ROOT / mutant.file))
        self.text = mutant.text

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:  # noqa: D102
        if name == self.name:
            return importlib.util.spec_from_file_location(name, self.path, loader=self)
        return None

    def get_code(self, _: str) -> Any:  # noqa: D102
        with warnings.catch_warnings(action="ignore"):
            return compile(self.text, self.path, "exec")


def _test(mutant: Mutant | None, tests: list[str], out: int, folder: str) -> None:
    """Run the tests in this process, one file after the other."""
    if mutant:
        sys.meta_path.insert(0, MutatedLoader(mutant))
    for file in dict.fromkeys(map(_file_of, tests)):
        # Without tests (5): a mutant may change which there are.
        if (code := _pytest([file], folder, Chosen(tests, out))) not in {0, 5}:
            os._exit(code)


def in_child(work: Callable[[int, str], None], seconds: float) -> str:
    """Fork: "survived", "timeout", the test that failed, or "failed" outside of tests."""
    (read, write), folder = os.pipe(), tempfile.mkdtemp()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.setsid()
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            # Ends a process that waits forever, but not one that a busy machine keeps waiting.
            signal.alarm(int(20 * seconds))
            work(write, folder)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    status = os.waitpid(pid, 0)[1]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what the tests started
    with open(read, "rb") as pipe:  # noqa: PTH123
        failed = pipe.read().decode()
    shutil.rmtree(folder, ignore_errors=True)
    if os.WIFSIGNALED(status):
        return "timeout" if os.WTERMSIG(status) in {signal.SIGXCPU, signal.SIGALRM} else "failed"
    return failed or "failed" if status else "survived"


def test_mutant(job: tuple[Mutant, list[str], float]) -> tuple[str, str]:
    """The name of the mutant and what came of it."""
    mutant, tests, seconds = job
    return mutant.key, in_child(functools.partial(_test, mutant, tests), 30 + 4 * seconds)


# --- the whole run


def main() -> None:
    """Test the mutants that have no result yet, and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--processes", type=int, default=PROCESSES)
    args = parser.parse_args()
    for name in PRELOAD:
        importlib.import_module(name)
    pytest.main(["--version"])  # imports its plugins
    gc.freeze()  # what is imported now is not searched for garbage again
    folder, tests = ROOT / ".cache" / "mutants" / _digest("src"), _digest("tests")
    folder.mkdir(parents=True, exist_ok=True)
    recorded = record_tests(folder / f"{tests}.json")
    mutants = draw(args.count, args.seed)
    results = run(mutants, recorded, folder / "results.jsonl", tests, args.processes)
    report(mutants, results, args)


def _digest(folder: str) -> str:
    digest = hashlib.sha256()
    for path in sorted((ROOT / folder).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def record_tests(path: Path) -> dict[str, Any]:
    """The lines and the seconds of every test; also the tests must pass in the order of mutants."""
    if not path.exists():
        new = path.with_suffix(".new")
        _must_pass(functools.partial(_record, new))
        seconds = json.loads(new.read_text("utf-8"))["seconds"]
        _must_pass(functools.partial(_test, None, sorted(seconds, key=seconds.get)))
        new.rename(path)
    recorded: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return recorded


def _must_pass(work: Callable[[int, str], None]) -> None:
    if (result := in_child(work, 3600)) != "survived":
        sys.exit(f"a test fails without any mutant: {result}")


def run(
    mutants: list[Mutant], recorded: dict[str, Any], path: Path, tests: str, processes: int
) -> dict[str, str]:
    """The results by the names of the mutants; each is kept as soon as it is known."""
    results, killers, jobs = {}, _killers(), []
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        key, result, by = json.loads(line)
        if result != "survived" or by == tests:
            results[key] = result
    for mutant in mutants:
        if mutant.key not in results:
            chosen = choose(mutant, recorded)
            chosen.sort(key=lambda test: test != killers.get(mutant.key))
            jobs.append((mutant, chosen, sum(map(recorded["seconds"].get, chosen))))
    with multiprocessing.get_context("fork").Pool(processes) as pool, path.open("a") as file:
        for done, (key, result) in enumerate(pool.imap_unordered(test_mutant, jobs), 1):
            results[key] = result
            print(json.dumps([key, result, tests]), file=file, flush=True)
            print(f"{done}/{len(jobs)} {key}\n{result}\n", flush=True)
    return results


def _killers() -> dict[str, str]:
    path = record.RESULTS / "mutants.json"
    return json.loads(path.read_text("utf-8"))["killed"] if path.exists() else {}


def report(mutants: list[Mutant], results: dict[str, str], args: argparse.Namespace) -> None:
    """Print the table and the survivors, and write them if this is a whole run."""
    entries = tomllib.loads(EQUIVALENT.read_text("utf-8"))["mutant"]
    reasons = {(e["file"], e["diff"].strip()): e["reason"] for e in entries}
    counts = {name: Counter[str]() for name in (*FOLDERS, "all")}
    lists: dict[str, list[dict[str, Any]]] = {"Survivors": [], "Equivalent mutants": []}
    for mutant in sorted(mutants, key=lambda m: (m.file, m.line)):
        reason = reasons.get((mutant.file, mutant.diff))
        outcome = "killed" if results[mutant.key] != "survived" else "same" if reason else "left"
        for name in (Path(mutant.file).parts[2], "all"):
            counts[name][outcome] += 1
        if outcome != "killed":
            said = {"file": mutant.file, "line": mutant.line, "operator": mutant.operator}
            kind = "Equivalent mutants" if reason else "Survivors"
            lists[kind].append({**said, "diff": mutant.diff, "reason": reason or ""})
    command = f"python scripts/mutants.py --count {args.count} --seed {args.seed}"
    about = record.circumstances(command, args.seed, args.processes, PACKAGES)
    header = (
        "folder",
        "mutants",
        "killed",
        "equivalent",
        "survived",
        "killed/all",
        "killed/others",
    )
    table = record.table(header, [(name, *_shares(count)) for name, count in counts.items()])
    late = sum(results[mutant.key] == "timeout" for mutant in mutants)
    text = (
        f"{record.preamble('Mutation testing', about)}\n{NOTE}\n{table}\n\n{late} took too long.\n"
    )
    for title, found in lists.items():
        text += f"\n## {title}\n"
        for s in found:
            text += f"\n`{s['file']}:{s['line']}` {s['reason']}\n\n```diff\n{s['diff']}\n```\n"
    print(text)
    if args.count >= COUNT:
        killed = {m.key: results[m.key] for m in mutants if results[m.key] != "survived"}
        record.write("mutants", {**about, "folders": counts, **lists, "killed": killed}, text)


def _shares(count: Counter[str]) -> tuple[Any, ...]:
    numbers = count.total(), count["killed"], count["same"], count["left"]
    rates = (f"{count['killed'] / max(n, 1):.1%}" for n in (numbers[0], numbers[0] - numbers[2]))
    return (*numbers, *rates)


if __name__ == "__main__":
    main()
