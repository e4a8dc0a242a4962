"""Break the summaries one operator at a time; a test must notice each.

Works on a copy of the package, never on the tree. A mutant that no test notices is printed with its
line. Usage: `python scripts/mutants.py [FILE …]`, files below `src/tepid`.
"""

import argparse
import ast
import copy
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = ("tails.py", "curve.py", "reliability.py", "summary.py")
TESTS = ("test_summaries.py", "test_metrics.py", "test_kernels.py", "test_methods.py")
OTHERS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Every way to exchange one operator: (line, what changed, the whole text)."""
    tree = ast.parse(source)
    for place, node in enumerate(ast.walk(tree)):
        for changed in _changes(node):
            other = copy.deepcopy(tree)
            target = next(n for i, n in enumerate(ast.walk(other)) if i == place)
            said = changed(target)
            if said:
                yield node.lineno, said, ast.unparse(other)


def _changes(node: ast.AST) -> list:
    if isinstance(node, ast.BinOp) and not _annotates(node):
        return [_exchange_operator]
    if isinstance(node, ast.Compare):
        return [_exchange_comparison]
    if isinstance(node, ast.BoolOp):
        return [_exchange_operator]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        return [_drop_sign]
    return []


def _annotates(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.BitOr) and ast.unparse(node).startswith(("str |", "Lattice |"))


def _exchange_operator(node: ast.BinOp | ast.BoolOp) -> str:
    other = OTHERS.get(type(node.op))
    if other is None:
        return ""
    before = ast.unparse(node)
    node.op = other()
    return f"{before}  →  {ast.unparse(node)}"


def _exchange_comparison(node: ast.Compare) -> str:
    before = ast.unparse(node)
    node.ops[0] = OTHERS[type(node.ops[0])]()
    return f"{before}  →  {ast.unparse(node)}"


def _drop_sign(node: ast.UnaryOp) -> str:
    before = ast.unparse(node)
    node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
    after = ast.unparse(node)
    return f"{before}  →  {after}" if before != after else ""


def noticed(package: Path) -> bool:
    """Whether the tests fail with this package in front of the real one."""
    environment = os.environ | {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
    ]
    tests = [str(ROOT / "tests" / name) for name in TESTS]
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            timeout=180,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main() -> None:
    """Try every mutant and count those that survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=FILES)
    args = parser.parse_args()
    survivors = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder)
        shutil.copytree(ROOT / "src" / "tepid", package / "tepid")
        if noticed(package):
            sys.exit("the tests fail without any mutant")
        for name in args.files:
            path = package / "tepid" / name
            original = path.read_text(encoding="utf-8")
            for line, change, text in mutants(original):
                path.write_text(text, encoding="utf-8")
                tried += 1
                if not noticed(package):
                    survivors += 1
                    print(f"survived: {name}:{line}: {change}", flush=True)
            path.write_text(original, encoding="utf-8")
    print(f"{tried} mutants, {survivors} survived")
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
