"""Which rows of a table are wanted: `split == 'test' and site != 3`.

Columns, numbers and texts are compared with ==, !=, <, <=, >, >= and `in`, and joined by and, or,
not and parentheses. It is read as Python's grammar and is never run as Python.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tepid.arrays import Array
from tepid.errors import InputError, RowError

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_SAYS = "compare columns with numbers and texts"


@dataclass(frozen=True)
class Filter:
    """A condition on the columns of a table, and the names of those it needs."""

    text: str
    tree: ast.expr
    names: tuple[str, ...]

    def kept(self, columns: Mapping[str, Array]) -> Array:
        """Which rows fulfil it; a missing value equals nothing and is not above or below."""
        if not len(columns[self.names[0]]):  # of an empty file nobody knows what its columns hold
            return np.zeros(0, bool)
        return _condition(self.tree, columns)


def parsed(text: str) -> Filter:
    """The condition that a text states, or a refusal that shows what it cannot hold.

    >>> parsed("site in (1, 2) and not split == 'train'").names
    ('site', 'split')
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"filter must {_SAYS}, got {text!r}") from None
    _check_condition(tree)
    found = {node.id: None for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if not found:
        raise InputError(f"filter must name a column, got {text!r}")
    return Filter(text, tree, tuple(found))


def _check_condition(node: ast.expr) -> None:
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            _check_condition(value)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _check_condition(node.operand)
    elif isinstance(node, ast.Compare):
        _check_comparisons(node)
    elif not isinstance(node, ast.Name):
        raise _refused(node)


def _check_comparisons(node: ast.Compare) -> None:
    _check_value(node.left)
    for op, value in zip(node.ops, node.comparators, strict=True):
        _check_comparison(op, value)


def _check_comparison(op: ast.cmpop, value: ast.expr) -> None:
    if isinstance(op, (ast.In, ast.NotIn)):
        if not isinstance(value, (ast.Tuple, ast.List, ast.Set)) or not value.elts:
            raise _refused(value)
        for each in value.elts:
            _constant(each)
    elif type(op) not in _COMPARISONS:
        raise InputError(f"filter must {_SAYS}, got {type(op).__name__.lower()}")
    else:
        _check_value(value)


def _check_value(node: ast.expr) -> None:
    if not isinstance(node, ast.Name):
        _constant(node)


def _constant(node: ast.expr) -> Any:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        sign = -1 if isinstance(node.op, ast.USub) else 1
        node = node.operand
    if not isinstance(node, ast.Constant) or not isinstance(node.value, (str, int, float)):
        raise _refused(node)
    return node.value if isinstance(node.value, str) else sign * node.value


def _refused(node: ast.expr) -> InputError:
    return InputError(f"filter must {_SAYS}, got {ast.unparse(node)}")


def _condition(node: ast.expr, columns: Mapping[str, Array]) -> Array:
    if isinstance(node, ast.BoolOp):
        join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        return np.asarray(join.reduce([_condition(value, columns) for value in node.values]))
    if isinstance(node, ast.UnaryOp):
        return ~_condition(node.operand, columns)
    if isinstance(node, ast.Compare):
        left, kept = node.left, []
        for op, right in zip(node.ops, node.comparators, strict=True):
            kept.append(_compared(left, op, right, columns))
            left = right
        return np.asarray(np.logical_and.reduce(kept))
    name = getattr(node, "id", "")
    if columns[name].dtype.kind != "b":
        raise InputError(f"filter must compare column {name!r} with something, got it alone")
    return columns[name]


def _compared(
    left: ast.expr, op: ast.cmpop, right: ast.expr, columns: Mapping[str, Array]
) -> Array:
    if isinstance(op, (ast.In, ast.NotIn)):
        each = [_matched(left, ast.Eq(), value, columns) for value in getattr(right, "elts", [])]
        among = np.logical_or.reduce(each)
        return np.asarray(~among if isinstance(op, ast.NotIn) else among)
    return _matched(left, op, right, columns)


def _matched(left: ast.expr, op: ast.cmpop, right: ast.expr, columns: Mapping[str, Array]) -> Array:
    sides = [columns[n.id] if isinstance(n, ast.Name) else _constant(n) for n in (left, right)]
    names = [n.id for n in (left, right) if isinstance(n, ast.Name)]
    textual = [_is_text(side) for side in sides]
    if textual[0] != textual[1]:
        sides = [_number(side, " and ".join(names)) for side in sides]
    missing = _missing(sides[0]) | _missing(sides[1])
    full = [_filled(side) for side in sides]
    matched = np.asarray(_COMPARISONS[type(op)](*full))
    matched = np.broadcast_to(matched, np.broadcast_shapes(matched.shape, missing.shape))
    return np.where(missing, isinstance(op, ast.NotEq), matched)


def _is_text(side: Any) -> bool:
    return isinstance(side, str) or (isinstance(side, np.ndarray) and side.dtype.kind in "OUT")


def _missing(side: Any) -> Array:
    if isinstance(side, np.ndarray) and side.dtype.kind == "O":
        return np.array([value is None for value in side.tolist()], bool)
    return np.asarray(side != side) if isinstance(side, np.ndarray) else np.zeros((), bool)  # noqa: PLR0124


def _filled(side: Any) -> Any:
    if isinstance(side, np.ndarray) and side.dtype.kind == "O":
        return np.array(["" if value is None else str(value) for value in side.tolist()], str)
    return side


def _number(side: Any, name: str) -> Any:
    """The texts of a table of text as the numbers that they are to be compared with."""
    if not _is_text(side):
        return side
    if isinstance(side, str):
        raise InputError(f"filter must compare column {name!r} with a number, got {side!r}")
    numbers = np.full(len(side), np.nan)
    for row, value in enumerate(side.tolist()):
        try:
            numbers[row] = np.nan if value in (None, "") else float(value)
        except ValueError:
            must = f"compare column {name!r} with a text"
            raise RowError(
                "filter", must, f"a number where the column holds {value!r}", row
            ) from None
    return numbers
