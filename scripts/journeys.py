"""How many files of tepid four everyday calls cross, counted by `sys.setprofile`.

`python scripts/journeys.py` prints a table; `--files` also lists the files. Importing a module does
not count, calling into it does. Nothing is enforced.
"""

import argparse
import contextlib
import inspect
import io
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tepid

ROOT = Path(tepid.__file__).parent


def crossed(work: Callable[[], object]) -> set[str]:
    """The files whose functions were called, in every thread."""
    seen: set[str] = set()

    def profile(frame: object, event: str, _: object) -> None:
        # Bodies of modules and classes run when they are imported; they have no fast locals.
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED:
            seen.add(code.co_filename)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    here = [Path(name) for name in seen if Path(name).is_relative_to(ROOT)]
    return {path.relative_to(ROOT).as_posix() for path in here}


def command(*arguments: str) -> Callable[[], None]:
    """A command of tepid, in this process."""

    def run() -> None:
        from tepid.cli.app import app  # noqa: PLC0415  # the command line is one of the walks

        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            app(list(arguments), prog_name="tepid")

    return run


def walks(folder: Path) -> dict[str, Callable[[], object]]:
    """The four calls, on small data."""
    rng = np.random.default_rng(0)
    z = (4 * rng.normal(size=(2000, 5))).astype(np.float32)
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    shards = folder / "shards"
    shards.mkdir()
    for number, part in enumerate(np.array_split(z, 3)):
        np.save(shards / f"{number}.npy", part)
    np.savez(folder / "z.npz", logits=z, labels=y)
    monitor = tepid.online.Monitor.from_reference(z, 1.5, chunk=500)
    report = str(folder / "report.html")
    return {
        "tepid.uts(array)": lambda: tepid.uts(z),
        "tepid fit folder --engine dask": command("fit", str(shards), "--engine", "dask"),
        "tepid report": command(
            "report", str(folder / "z.npz"), "--labels", "labels", "-o", report
        ),
        "Monitor.update": lambda: monitor.update(z[:100]),
    }


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="list the files of each walk")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, work in walks(Path(folder)).items():
            files = crossed(work)
            print(f"{len(files):4}  {name}")
            if wanted.files:
                print("".join(f"        {file}\n" for file in sorted(files)), end="")


if __name__ == "__main__":
    main()
