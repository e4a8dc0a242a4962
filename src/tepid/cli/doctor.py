"""`tepid doctor`."""

import importlib.metadata
import os
import platform
import re
from typing import Any

import tepid
from tepid.cli import console, options

# Extras for those who work on tepid itself.
_OURS = ("dev", "bench", "docs")


def doctor(as_json: options.Json = False) -> None:
    """Print versions, threads, the kernels in use, and how to install missing packages.

    Example: tepid doctor
    """
    from tepid.kernels import tiers  # noqa: PLC0415  # NumPy, only when asked

    packages = _packages_by_extra()
    needed = packages.pop("", [])
    # Of several extras that bring a package, the last to be listed is the smallest.
    extras = sorted(packages, key=lambda extra: len(packages[extra]), reverse=True)
    extra_of = {name: extra for extra in extras for name in packages[extra]}
    found = {
        "tepid": importlib.metadata.version("tepid"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "needed": {name: _version(name) for name in needed},
        "optional": {
            name: {"version": _version(name), "install": f"pip install 'tepid[{extra}]'"}
            for name, extra in sorted(extra_of.items())
        },
        "threads": _threads(),
        "kernels": tiers.describe(),
    }
    if as_json:
        console.print_json(found)
    else:
        _show(found)


def _packages_by_extra() -> dict[str, list[str]]:
    """The packages that each extra brings; those that tepid always needs are under ""."""
    found: dict[str, list[str]] = {}
    for line in importlib.metadata.requires("tepid") or []:
        package = re.match(r"[\w.-]+", line)
        extra = re.search(r"""extra == ["']([\w-]+)["']""", line)
        name = extra[1] if extra else ""
        if package and name not in _OURS:
            found.setdefault(name, []).append(package[0])
    return found


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _threads() -> dict[str, Any]:
    found = {"count": None, "TEPID_THREADS": os.environ.get("TEPID_THREADS"), "problem": None}
    try:
        return found | {"count": tepid.Threads().threads}
    except (tepid.InputError, ImportError) as error:
        return found | {"problem": str(error)}


def _show(found: dict[str, Any]) -> None:
    rows = {"tepid": found["tepid"], "Python": f"{found['python']} on {found['platform']}"}
    rows |= {name: version or "missing" for name, version in found["needed"].items()}
    screen = console.console()
    screen.print(console.two_columns(rows, "versions"))
    optional = {
        name: part["version"] or f"not there; {part['install']}"
        for name, part in found["optional"].items()
    }
    screen.print(console.two_columns(optional, "optional parts"), soft_wrap=True)
    threads, kernels = found["threads"], found["kernels"]
    state = {
        "threads": threads["problem"] or str(threads["count"]),
        "TEPID_THREADS": threads["TEPID_THREADS"] or "not set",
        "kernels": kernels["tier"],
        "problem": kernels["problem"] or "none",
        "numba cache": kernels["cache"]
        or "no folder can be written, so that every process compiles; NUMBA_CACHE_DIR may name one",
        "compiled": f"{kernels['compiled']} of {kernels['kernels']} kernels",
    }
    screen.print(console.two_columns(state, "speed"), soft_wrap=True)
