"""The rule by which a kernel moves from NumPy to numba.

A process starts on NumPy. Importing numba and reading a compiled kernel takes most of a second,
compiling one takes seconds, and a fit of 10,000 rows takes NumPy 20 ms. So each kernel keeps an
account of the time that numba would have saved. It moves to numba when that time, with the work at
hand, reaches what loading it costs: at the worst a process takes twice as long as with the better
choice. Compiling counts a quarter, since later runs read the result. Worker processes decide for
themselves in the same way.

`TEPID_KERNELS=numpy` or `numba` decides instead. Where numba is missing, switched off, damaged or
too old, NumPy serves, and one warning says why, once in a process and only when it matters.
"""

import contextlib
import importlib
import importlib.util
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tepid.errors import InputError, PerformanceWarning
from tepid.kernels import cache

ENVIRONMENT = "TEPID_KERNELS"
# LLVM before that of numba 0.62 cannot compile `llvm.maximum` and ends the process.
OLDEST = (0, 62)

# Measured on two cores of an AMD EPYC at 3 GHz with NumPy 2.4 and numba 0.68; half or twice as much
# changes little, since both sides of the rule scale with the machine.
# Seconds that numba saves, per logit:
TAIL, SERVED, SCORE, SOFTMAX, GAPS, MEMBER = 8e-9, 1.7e-8, 5e-9, 1.5e-9, 2e-8, 5e-8
# … and per logit and node of a curve; a row of a node costs as much as this many logits.
NODE, ROW = 1.5e-9, 30
# … and per call, for a node and for all else but the softmax: a service must not stop to load numba
# for microseconds.
CALL_NODE, CALL = 1.2e-5, 1e-4
# Seconds to import numba and set up its compiler, and to read a kernel from the cache.
IMPORT, READ = 0.6, 0.02
# The share of compiling that the work at hand must pay for, as later runs read the result.
OWN_SHARE = 0.25


class Kernel(NamedTuple):
    """Where a compiled kernel is, and the seconds that numba takes to compile it."""

    module: str
    function: str
    compiling: float


KERNELS = {
    "narrow_tail_sums": Kernel("tails", "narrow_tail_sums", 1.8),
    "wide_tail_sums": Kernel("tails", "wide_tail_sums", 0.7),
    "narrow_curve_sums": Kernel("curves", "narrow_curve_sums", 5.5),
    "wide_curve_sums": Kernel("curves", "wide_curve_sums", 2.2),
    "narrow_served_sums": Kernel("served", "narrow_served_sums", 1.6),
    "wide_served_sums": Kernel("served", "wide_served_sums", 1.3),
    "accepted_sums": Kernel("served", "accepted_sums", 0.4),
    "member_sums": Kernel("tails", "member_sums", 0.4),
    "class_sums": Kernel("tails", "class_sums", 0.8),
    "score_sums": Kernel("scores", "score_sums", 0.4),
    "class_gaps": Kernel("scores", "class_gaps", 0.2),
    "softmax_ff": Kernel("scores", "softmax", 0.3),
    "softmax_fd": Kernel("scores", "softmax", 0.3),
    "softmax_dd": Kernel("scores", "softmax", 0.3),
    "residuals": Kernel("scores", "residuals", 0.3),
}

Compiled = Callable[..., Any]


@dataclass
class _Process:
    """What this process has loaded, spent and said."""

    loaded: dict[str, Compiled] = field(default_factory=dict)  # the kernels that numba serves
    spent: dict[str, float] = field(default_factory=dict)  # what it would have saved for others
    cached: dict[str, bool] = field(default_factory=dict)  # whether numba's cache has a kernel
    ahead: float = 0.0  # the logits that the passes that are running read
    failure: str | None = None  # why numba cannot serve, once that is known
    forced: str | None = None
    warned: bool = False
    announced: bool = False
    account: threading.Lock = field(default_factory=threading.Lock)
    loading: threading.Lock = field(default_factory=threading.Lock)

    def renew_locks(self) -> None:
        """A child that was forked while another thread held a lock would wait for it forever."""
        self.account, self.loading = threading.Lock(), threading.Lock()


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.renew_locks)


def choose(name: str, seconds: float, arguments: tuple[Any, ...]) -> Compiled | None:
    """The compiled kernel, or None if NumPy serves; `seconds` are what it saves in this call."""
    found = _process.loaded.get(name)
    return found if found is not None else _decide(name, seconds, arguments)


def _decide(name: str, seconds: float, arguments: tuple[Any, ...]) -> Compiled | None:
    tier = forced_tier()
    if tier == "numpy" or (_process.failure is not None and tier is None):
        return None
    if tier is None:
        with _process.account:
            spent = _process.spent.get(name, 0.0)
            _process.spent[name] = spent + seconds
            saved = spent + seconds * max(1.0, _process.ahead / max(arguments[0].size, 1))
        if saved < READ or saved < price(name):
            return None
    with _process.loading:
        if name not in _process.loaded:
            reason = _process.failure or _unavailable() or _load(name, arguments)
            if reason is not None and tier == "numba":
                raise InputError(f"{ENVIRONMENT}=numba is not possible: {reason}")
            if reason is not None:
                _process.failure = reason
                _warn(f"{reason} NumPy is used instead, which is slower; the results are the same.")
    return _process.loaded.get(name)


def forced_tier() -> str | None:
    """The tier that the environment names, or None."""
    tier = _process.forced or os.environ.get(ENVIRONMENT) or None
    if tier not in (None, "numpy", "numba"):
        raise InputError(f"{ENVIRONMENT} must be numpy or numba, got {tier!r}")
    return tier


def price(name: str) -> float:
    """The seconds until a kernel is served by numba: import, and read or compile."""
    kernel = KERNELS[name]
    importing = 0.0 if "tepid.kernels.compiled.elementary" in sys.modules else IMPORT
    if _is_cached(name):
        return importing + READ
    return importing + kernel.compiling * (OWN_SHARE if cache.folder() else 1.0)


def _is_cached(name: str) -> bool:
    if name not in _process.cached:  # looked up once, as a loop of small fits comes here often
        kernel = KERNELS[name]
        _process.cached[name] = cache.is_cached(kernel.module, kernel.function, numba_version())
    return _process.cached[name]


@contextlib.contextmanager
def expecting(logits: float) -> Iterator[None]:
    """While this many logits are summed in batches, the work at hand is all of them."""
    with _process.account:
        _process.ahead += logits
    try:
        yield
    finally:
        with _process.account:
            _process.ahead -= logits


@contextlib.contextmanager
def using(tier: str) -> Iterator[None]:
    """Serve every kernel by one tier, for tests and measurements."""
    before, loaded = _process.forced, dict(_process.loaded)
    _process.forced = tier
    _process.loaded.clear()
    try:
        yield
    finally:
        _process.forced = before
        _process.loaded.clear()
        _process.loaded.update(loaded)


def _unavailable() -> str | None:
    """Why numba cannot be used here, in a sentence, before it is imported."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return "NUMBA_DISABLE_JIT switches numba off."
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed: pip install 'tepid[fast]'."
    version = numba_version()
    if version is not None and tuple(map(int, version.split(".")[:2])) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        return (
            f"numba {version} is too old, at least {needed} is needed: pip install 'tepid[fast]'."
        )
    return None


def numba_version() -> str | None:
    """The version of numba that is installed."""
    import importlib.metadata  # noqa: PLC0415  # 20 ms, and only for large work

    try:
        return importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        return None


def _load(name: str, arguments: tuple[Any, ...]) -> str | None:
    """Import numba and compile or read a kernel; returns why that failed."""
    kernel = KERNELS[name]
    try:
        with _announced(name):
            module = importlib.import_module(f"tepid.kernels.compiled.{kernel.module}")
            function = getattr(module, kernel.function)
            signature = tuple(function.typeof_pyval(argument) for argument in arguments)
            try:
                function.compile(signature)
            except OSError as error:  # compiled, but not written
                if signature not in function.overloads:
                    raise
                _warn(f"numba cannot write its cache ({error}), so it compiles in every process.")
    except Exception as error:  # noqa: BLE001  # numba and damaged files raise whatever they like
        said = " ".join(f"{type(error).__name__} {error}".split())[:200]
        damaged = cache.damaged(kernel.module)
        if damaged is not None:
            return f"The numba cache {damaged} is damaged; delete it to be fast again."
        return f"numba failed ({said})."
    if function.stats.cache_path is None:
        _warn(
            "numba found no folder for its cache that can be written, so it compiles in every "
            "process; NUMBA_CACHE_DIR may name one."
        )
    _process.loaded[name] = function
    return None


@contextlib.contextmanager
def _announced(name: str) -> Iterator[None]:
    """After one second of compiling, print what takes so long, unless in a worker process."""
    timer = threading.Timer(1.0, _announce)
    timer.daemon = True
    if not _is_cached(name) and not _in_worker():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _announce() -> None:
    if not _process.announced and sys.stderr is not None:
        _process.announced = True
        sys.stderr.write(
            "tepid: compiling for this processor, which takes some seconds; later runs read the "
            f"result ({ENVIRONMENT}=numpy does without).\n"
        )
        sys.stderr.flush()


def _in_worker() -> bool:
    multiprocessing = sys.modules.get("multiprocessing.process")
    child = multiprocessing is not None and multiprocessing.parent_process() is not None
    return child or "pyspark.worker" in sys.modules


def _warn(sentence: str) -> None:
    if not _process.warned:
        _process.warned = True
        warnings.warn(sentence, PerformanceWarning, stacklevel=2)


# What `tepid doctor` prints -----------------------------------------------------------------------


def describe() -> dict[str, Any]:
    """The tier of a new process and why, and the state of numba's cache."""
    problem = _unavailable()
    damaged = [str(path) for path in cache.damaged_files()]
    if problem is None and damaged:
        problem = f"The numba cache {damaged[0]} is damaged; delete it to be fast again."
    try:
        forced = forced_tier()
    except InputError as error:
        forced, problem = None, str(error)
    version, folder = numba_version(), cache.folder()
    cached = sum(
        cache.is_cached(kernel.module, kernel.function, version) for kernel in KERNELS.values()
    )
    return {
        "tier": _tier_of_new_process(forced, problem),
        "numba": version,
        "problem": problem,
        "cache": None if folder is None else str(folder),
        "writable": folder is not None,
        "compiled": cached,
        "kernels": len(KERNELS),
    }


def _tier_of_new_process(forced: str | None, problem: str | None) -> str:
    if forced is not None:
        return f"{forced}, as {ENVIRONMENT} says"
    if problem is not None:
        return "numpy"
    return "numpy for small work, numba when the work is worth loading or compiling it"
