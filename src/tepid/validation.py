"""The border: what counts as logits, labels, weights and probabilities, and what is said otherwise.

Nothing here guesses. A one-dimensional array is binary logits, more than two dimensions need a
`class_axis`, and probabilities are probabilities only where the caller calls them so.
"""

import math
import numbers
import operator
import re
import sys
import warnings
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tepid.errors import InputError, ProbabilityWarning, RowError
from tepid.shapes import class_back, class_last, matrix
from tepid.store import shorten
from tepid.tables import TEXT, arrow_values, is_arrow, is_frame, is_number, read_frame

Array = NDArray[Any]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
ClassNames = tuple[Hashable, ...]


# Logits further apart than this, or all of a row nearer together, are beyond float32.
_FAR = float(np.finfo(np.float32).max)
_NEAR = 1e-30
# How far the sum of a row of probabilities may be from one: they may have been rounded.
_MISSED_SUM = 1e-2
# Probabilities that were written with two digits may miss a sum of one by this much.
_ROUNDED = 0.05
# Fewer single values in [0, 1] may well be logits.
_SOME_ROWS = 10
# Heavier weights would overflow in a sum of squares.
_HEAVY = 1e100
# Seeds may be as long as those that NumPy draws.
LARGEST_SEED = (1 << 128) - 1
# Where labels (n, K) are refused.
MULTILABEL = "; for labels (n, K) use tepid.calibrate with multilabel=True"


def as_array(data: ArrayLike, name: str = "logits") -> Any:
    """A NumPy array over the same memory, or the array itself if it lives on another device."""
    if is_foreign(data):
        return data
    if not isinstance(data, np.ndarray):
        data = _to_numpy(data, name)
    if isinstance(data, np.ma.MaskedArray):
        raise InputError(f"{name} must be a plain array, with -inf for what is masked, got a mask")
    try:
        array = np.asarray(data)
    except ValueError:
        raise InputError(
            f"{name} must be one rectangular array, got rows of unequal length"
        ) from None
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise InputError(f"{name} must be numbers, got an array of {array.dtype}")
    return array


def _to_numpy(data: Any, name: str) -> Any:
    """Tensors, Arrow arrays and data frames as NumPy arrays; other data as it is."""
    if is_tensor(data):
        tensor = data.detach()
        try:
            return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
        except (RuntimeError, TypeError) as error:
            raise InputError(f"{name} must be a dense tensor of numbers, got {error}") from None
    if is_arrow(data) and hasattr(data, "null_count"):
        return arrow_values(data)
    return read_frame(data) if name == "logits" and is_frame(data) else data


def is_tensor(data: object) -> bool:
    """Whether this is a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(data, torch.Tensor)


def is_foreign(data: Any) -> bool:
    """Whether the data lives where NumPy cannot read it, such as a tensor on a GPU."""
    if is_tensor(data):
        return bool(data.device.type != "cpu")
    return hasattr(data, "__array_namespace__") and not hasattr(data, "__array__")


def namespace(data: Any) -> Any:
    """The module whose functions take this array: NumPy, torch, or that of its own."""
    if is_tensor(data):
        return sys.modules["torch"]
    own = getattr(data, "__array_namespace__", None)
    return np if own is None else own()


def to_host(values: Any) -> Any:
    """A small array in memory where NumPy can read it."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def as_kernel_input(logits: Any) -> Any:
    """Logits as the kernels take them: float32, C-ordered, read-only, centered where needed.

    An array that NumPy cannot read keeps its type and place.

    Softmax does not see a constant per row, so what float32 cannot hold exactly is first centered
    on its row's maximum. A row that cannot be used becomes NaN here, and the kernels say which.
    """
    z = matrix(logits)
    if type(z) is np.ndarray and z.dtype == np.float32 and _is_plain(z.flags):
        z = z.view()  # what a request waits for takes the short way
        z.flags.writeable = False
        return z
    if is_foreign(logits):
        return z
    if z.dtype.itemsize <= 2 and z.dtype.kind not in "iu":
        z = z.astype(np.float32)
    elif z.dtype != np.float32:
        z = centered(z)
    z = np.require(z, np.float32, ["C", "A"]).view(np.ndarray)
    z.flags.writeable = False
    return z


def _is_plain(flags: Any) -> bool:
    return bool(flags.c_contiguous and flags.aligned)


def centered(z: Array) -> Float64:
    """The distances to each row's maximum, which float32 can hold."""
    z = z.astype(np.float64)
    top = z.max(axis=1, keepdims=True) if len(z) else z
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf marks the row for the kernels
        distance: Float64 = z - top
        far = (distance < -_FAR) & np.isfinite(z) & np.isfinite(top)
    if far.any():
        row, column = divmod(int(far.argmax()), z.shape[1])
        got = f"{z[row, column]:g} for class {column} below {top[row, 0]:g}"
        raise RowError("logits", f"lie within {_FAR:g} of their row's maximum", got, row)
    _refuse_near(distance)
    return distance


def _refuse_near(distance: Float64) -> None:
    widest = -np.min(distance, axis=1, initial=0.0, where=np.isfinite(distance))
    near = (widest > 0) & (widest < _NEAR)
    if near.any():
        row = int(near.argmax())
        must = f"be equal or differ by more than {_NEAR:g} within a row"
        raise RowError("logits", must, f"a difference of {widest[row]:g}", row)


def unusable(logits: Array, row: int) -> RowError:
    """The error for a row that a kernel refused."""
    values = to_host(matrix(logits)[row]).astype(np.float64)
    if np.isnan(values).any():
        got = f"nan for class {int(np.isnan(values).argmax())}"
    elif np.isposinf(values).any():
        got = f"inf for class {int(values.argmax())}"
    else:
        got = "-inf for every class"
    return RowError("logits", "be finite, or -inf for a masked class", got, row)


def label_column(
    labels: Any,
    n: int,
    k: int,
    name: str = "labels",
    weight: Float64 | None = None,
    names: ClassNames | None = None,
) -> Int64:
    """Labels as int64 in 0..k-1, one per row; where a row weighs nothing, its label may be any."""
    y = partial_labels(labels, n, k, name, weight, names)
    unknown = y < 0
    if weight is not None:
        y = np.where(weight > 0, y, 0)
        unknown &= weight > 0
    if unknown.any():
        must = "be known, since this function needs a label for every row"
        raise RowError(name, must, "an unknown one (-1, NaN or empty)", int(unknown.argmax()))
    return y


def partial_labels(
    labels: Any,
    n: int,
    k: int,
    name: str = "labels",
    weight: Float64 | None = None,
    names: ClassNames | None = None,
) -> Int64:
    """Labels as int64 in 0..k-1, one per row, and -1 where the label is unknown.

    Unknown are -1, NaN, None, null and blank text. Every other label is compared with `names` as
    text, so that 1, 1.0 and "1" are one label. Where none of the names is a number, and where there
    are no names, whole numbers are positions of classes. A row of weight zero may have any number.
    True and False are classes 1 and 0 of two; of more classes they are refused, since they mostly
    say whether a prediction was right.
    """
    y = label_values(labels, name)
    y = y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1 or len(y) != n:
        hint = MULTILABEL if y.shape == (n, k) else ""
        raise InputError(
            f"{name} must have one entry for each of the {n} rows, got shape {y.shape}{hint}"
        )
    named = {} if names is None else class_positions(names)
    if names is not None and len(names) != k:
        raise InputError(f"classes must name the {k} classes of the logits, got {len(names)} names")
    if k > 2 and not any(map(_is_flag, names or ())):
        _refuse_flags(y, name)
    y = y.astype(np.int64) if y.dtype.kind == "b" else y
    by_value = any(is_number(key) for key in named)
    if y.dtype.kind not in "OU" and not by_value:
        return _positions(y, k, name, weight)
    codes = np.empty(n, np.int64)
    found: dict[Any, int] = {}
    for row, value in enumerate(y.tolist()):
        try:
            code = found.get(value)
        except TypeError:
            raise RowError(name, "be class numbers or names", shorten(value), row) from None
        if code is None:
            code = found[value] = _code(value, k, named, by_value=by_value)
        if code == _NO_CLASS:
            if weight is None or weight[row] > 0 or not is_number(label_text(value) or ""):
                must = _expected(value, k, names)
                raise RowError(name, must, shorten(value), row)
            code = -1
        codes[row] = code
    return codes


def _refuse_flags(y: Array, name: str) -> None:
    """Raise for a label that is True or False."""
    flags = map(_is_flag, y.tolist() if y.dtype.kind in "bO" else ())
    row = next((row for row, found in enumerate(flags) if found), None)
    if row is not None:
        raise RowError(name, "be class numbers or names", "True and False", row)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


def _positions(y: Array, k: int, name: str, weight: Float64 | None) -> Int64:
    """Numbers as positions of classes."""
    unknown = (y == -1) | np.isnan(y) if y.dtype.kind == "f" else y == -1
    wrong = ~unknown & ((y < 0) | (y >= k) | (y != np.floor(y)))
    if weight is not None:
        unknown |= wrong & (weight == 0)
        wrong &= ~unknown
    if wrong.any():
        row = int(wrong.argmax())
        whole = y[row] == np.floor(y[row])
        must = f"be in 0..{k - 1}" if whole else f"be whole numbers in 0..{k - 1}"
        raise RowError(name, must, str(y[row]), row)
    return np.where(unknown, -1, y).astype(np.int64)


# What `_code` gives for a label that is none of the classes.
_NO_CLASS = -2


def _code(value: object, k: int, named: Mapping[str, int], *, by_value: bool) -> int:
    text = label_text(value)
    if text is None:
        return -1
    if text in named:
        return named[text]
    if text.lower() in ("-1", "nan", "none", "null"):
        return -1
    if by_value or not re.fullmatch("[0-9]{1,18}", text) or int(text) >= k:
        return _NO_CLASS
    return int(text)


def _expected(value: object, k: int, names: ClassNames | None) -> str:
    if names is None:
        numeric = is_number(label_text(value) or "")
        need = "classes= must give the names of the classes in the order of the logits"
        return f"be in 0..{k - 1}" if numeric else f"be in 0..{k - 1}, or {need}"
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"be one of the classes {', '.join(repr(_plain(name)) for name in names[:20])}{more}"


def _plain(name: Hashable) -> Hashable:
    """A name of NumPy's types as Python's own."""
    plain: Hashable = name.item() if isinstance(name, np.generic) else name
    return plain


def label_values(labels: Any, name: str = "labels") -> Array:
    """Labels as an array of numbers, text or objects, of any shape."""
    if is_tensor(labels):
        labels = labels.detach().cpu()
    if is_arrow(labels) and str(getattr(labels, "type", "")) == "bool" and labels.null_count:
        labels = np.array(labels.to_pylist(), object)  # as numbers they would not be refused
    values = labels if isinstance(labels, np.ndarray) else _to_numpy(labels, name)
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{name} must be a plain array, with -1 where unknown, got a mask")
    try:
        y = _untyped(values)
    except ValueError:
        raise InputError(f"{name} must be one label per row, got rows of unequal length") from None
    if y.dtype.kind == "M":
        y = np.where(np.isnat(y), "", y.astype(str))
    if y.dtype.kind in "ST":
        y = y.astype(object)
    if y.dtype.name == "bfloat16":
        y = y.astype(np.float32)
    if y.dtype.kind not in "fiubOU":
        raise InputError(f"{name} must be class numbers or names, got an array of {y.dtype}")
    return y


def _untyped(values: Any) -> Array:
    """An array of the values, in which a number of a mixed list stays a number."""
    array = np.asarray(values)
    listed = isinstance(values, list | tuple) and array.dtype.kind == "U"
    return np.asarray(values, object) if listed else array


def label_text(value: object) -> str | None:
    """A label as text, by which labels and classes are compared; None for a missing one.

    >>> [label_text(value) for value in (1, 1.0, "1.0", True, " cat ", float("nan"), "")]
    ['1', '1', '1', '1', 'cat', None, None]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if _is_flag(value):
        return str(int(bool(value)))
    text = value.decode(errors="replace") if isinstance(value, bytes) else _text(value, "labels")
    text = text.strip()
    # A whole number may be too large for a float, and is never NaN.
    whole_number = isinstance(value, numbers.Integral)
    if not text or (isinstance(value, numbers.Real) and not whole_number and math.isnan(value)):
        return None
    if re.fullmatch("[+-]?[0-9]{1,300}", text):
        return str(int(text))
    if not is_number(text):
        return text
    number = float(text)
    return str(int(number)) if number.is_integer() else repr(number)


def _text(value: object, name: str) -> str:
    try:
        return str(value)
    except ValueError:
        raise InputError(f"{name} must be names or numbers, got {shorten(value)}") from None


def class_names(classes: Any, k: int | None = None) -> ClassNames:
    """The names of the classes in the order of the logits, or a refusal.

    >>> class_names(["cat", "dog"], 2)
    ('cat', 'dog')
    """
    if isinstance(classes, str | bytes | Mapping | set | frozenset) or not isinstance(
        classes, Iterable
    ):
        raise InputError(
            f"classes must be a list of the names of the classes in the order of the logits, "
            f"got {classes!r:.80}"
        )
    names = tuple(classes.tolist() if isinstance(classes, np.ndarray) else classes)
    if k is not None and len(names) != k:
        raise InputError(f"classes must name the {k} classes of the logits, got {len(names)} names")
    try:
        class_positions(names)
    except TypeError:
        raise InputError("classes must be text or numbers, got a list or an array") from None
    return names


@lru_cache(maxsize=16)
def class_positions(names: ClassNames) -> dict[str, int]:
    """The position of each class by the text of its name."""
    positions: dict[str, int] = {}
    for position, name in enumerate(names):
        text = label_text(name)
        if text is None:
            raise InputError(f"classes must each have a name, got none at position {position}")
        if text in positions:
            raise InputError(f"classes must have different names, got {name!r} twice")
        positions[text] = position
    return positions


def weight_column(weight: Any, n: int, name: str = "sample_weight") -> Float64:
    """Weights as float64, finite and not negative, one per row; ones where there are none."""
    if weight is None:
        return np.ones(n)
    u = np.ascontiguousarray(as_array(weight, name), np.float64)
    if u.shape != (n,):
        raise InputError(
            f"{name} must have one entry for each of the {n} rows, got shape {u.shape}"
        )
    wrong = ~((u == 0) | ((u >= 1 / _HEAVY) & (u <= _HEAVY)))
    if wrong.any():
        row = int(wrong.argmax())
        raise RowError(name, f"be zero or in {1 / _HEAVY:g} to {_HEAVY:g}", str(u[row]), row)
    return u


def side_column(values: Any, name: str) -> Array:
    """What lies beside the logits, by the name of its argument: text, labels or numbers."""
    if name in TEXT:
        return group_column(values, name)
    return label_values(values) if name == "labels" else np.asarray(as_array(values, name))


def group_column(groups: Any, name: str = "groups") -> Array:
    """The names of groups as text, one per row: strings, or whole numbers as they are written.

    Blanks around a name do not count, and 1.0 is 1, so that one group has one name in every file.
    """
    if isinstance(groups, np.ma.MaskedArray):
        raise InputError(f"{name} must be a plain array, with a name for each row, got a mask")
    if is_arrow(groups) and hasattr(groups, "null_count"):
        groups = arrow_values(groups)
    try:
        column = _untyped(groups).reshape(-1)
    except ValueError:
        raise InputError(f"{name} must be one name per row, got rows of unequal length") from None
    if column.dtype.kind in "ST":
        try:
            column = np.char.decode(column) if column.dtype.kind == "S" else column.astype(object)
        except UnicodeDecodeError as error:
            raise InputError(f"{name} must be UTF-8 text, got {error.object!r}") from None
    if column.dtype.kind not in "iubUfO":
        raise InputError(f"{name} must be names or whole numbers, got {column.dtype}")
    if column.dtype.kind in "fO":
        column = np.array(
            [_group(value, name, row) for row, value in enumerate(column.tolist())], str
        )
    return np.char.strip(column.astype(str))


def _group(value: object, name: str, row: int) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if not isinstance(value, (str, numbers.Integral)):
        raise RowError(name, "be names or whole numbers", shorten(value), row)
    return _text(value, name)


def check_bins(bins: int, least: int = 1) -> int:
    """The number of bins, or a refusal."""
    return whole(bins, "bins", least)


def check_temperature(temperature: Any) -> float:
    """A temperature, finite and above zero, with 1/T finite, or a refusal."""
    value = number(temperature, "temperature")
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"temperature must be a number above zero, got {temperature}")
    if math.isinf(1 / value):
        raise InputError(f"temperature must be at least 5.6e-309, got {value:g}")
    return value


def probability_matrix(probabilities: Any, name: str = "probabilities") -> Array:
    """Probabilities as (n, k): in [0, 1], rows summing to one; (n,) and (n, 1) are P(class 1)."""
    p = as_array(probabilities, name)
    p = p[:, None] if p.ndim == 1 else p
    if p.ndim != 2 or p.shape[1] == 0:
        raise InputError(
            f"{name} must have one row per sample and one column per class, got {p.shape}"
        )
    if p.shape[1] == 1:
        p = np.concatenate([1 - p.astype(np.float64), p], axis=1)
    wrong = ~((p >= 0) & (p <= 1))
    if wrong.any():
        row, column = divmod(int(wrong.argmax()), p.shape[1])
        raise RowError(name, "be in [0, 1]", f"{p[row, column]} for class {column}", row)
    total = p.sum(axis=1, dtype=np.float64)
    wrong = np.abs(total - 1) > _MISSED_SUM
    if wrong.any():
        row = int(wrong.argmax())
        raise RowError(name, "sum to one over the classes", f"a sum of {total[row]:.6g}", row)
    return np.asarray(p)


def look_like_probabilities(logits: Any) -> bool:
    """Whether every row of a batch (n, k) is non-negative and sums to one, up to rounding.

    One value per row looks like a probability if it is in [0, 1], for at least ten rows. The first
    row decides for almost all logits, so this costs next to nothing.
    """
    if logits.ndim not in (1, 2) or not len(logits):
        return False
    if logits.ndim == 1 or logits.shape[1] == 1:
        ends = (logits[:1], logits) if len(logits) >= _SOME_ROWS else ()
        return bool(ends) and all(bool(((rows >= 0) & (rows <= 1)).all()) for rows in ends)
    if type(logits) is np.ndarray and min(logits[0, :16].tolist()) < 0:
        return False  # almost all logits end here
    for rows in (logits[:1], logits):
        if not bool((rows >= 0).all()):
            return False
        if not bool((abs(rows.sum(-1) - 1) <= _ROUNDED).all()):
            return False
    return True


def warn_probabilities(name: str = "logits") -> None:
    """Warn that values look like probabilities and were read as logits."""
    warnings.warn(
        f"The values of {name} look like probabilities but were read as logits. If they are "
        "probabilities, pass probabilities=True (--probabilities).",
        ProbabilityWarning,
        stacklevel=3,
    )


def log_probabilities(probabilities: Any, class_axis: int | None = None) -> Any:
    """The logarithms of probabilities of any shape, in that shape; a tensor stays a tensor."""
    if is_tensor(probabilities):
        found = log_probabilities(as_array(probabilities.detach().cpu()), class_axis)
        return sys.modules["torch"].from_numpy(found).to(probabilities.device)
    p = class_last(as_array(probabilities), class_axis)
    if p.ndim < 3:
        return class_back(logits_of(p), class_axis)
    return class_back(logits_of(p.reshape(-1, p.shape[-1])).reshape(p.shape), class_axis)


def logits_of(
    probabilities: ArrayLike, *, floor: float = 0.0, name: str = "probabilities"
) -> Array:
    """Logits with these probabilities: their logarithm, `-inf` where a probability is zero.

    `floor` is added to each probability, for models such as forests whose zeros do not mean
    impossible. `name` is what errors call the values. A constant per row is lost, which softmax
    does not see.

    >>> logits_of([[0.5, 0.5], [1.0, 0.0]])
    array([[-0.693..., -0.693...],
           [ 0.        ,       -inf]])
    """
    p = probability_matrix(probabilities, name)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log((p if p.dtype.kind == "f" else p.astype(np.float64)) + floor))


def whole(value: Any, name: str, least: int | None = None, most: int = sys.maxsize) -> int:
    """A whole number of at least `least`, or a refusal; neither 1.0 nor "1" nor True is one.

    The result is an `int`, which does not overflow: use it in place of `value`.

    >>> whole(3, "bins")
    3
    """
    if not isinstance(value, bool):
        try:
            found = operator.index(value)
        except TypeError:
            pass
        else:
            if abs(found) > most:  # perhaps too long to be written
                raise InputError(f"{name} must be at most {most}, got a larger number")
            if least is not None and found < least:
                raise InputError(f"{name} must be at least {least}, got {value}")
            return found
    raise InputError(f"{name} must be a whole number, got {shorten(value)}")


def number(value: Any, name: str) -> float:
    """A real number as `float`, infinite and NaN included, or a refusal.

    >>> number(3, "budget")
    3.0
    """
    if not isinstance(value, (str, bytes)):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise InputError(f"{name} must be a number, got {shorten(value)}")


def flag(value: Any, name: str) -> bool:
    """True or False, or a refusal.

    >>> flag(np.True_, "reestimate")
    True
    """
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {shorten(value)}")
    return bool(value)


def replace_fields(record: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass to their checked values, in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(record, name, value)
