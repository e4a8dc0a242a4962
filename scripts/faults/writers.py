"""The writers: killed while they write over a file, they leave the old one or the new one."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tepid
from faults.killing import Account, End, killed

_CLASSES = 20
# Files are written over and over until the process is killed, at the latest after so long.
_SECONDS = 0.25


@dataclass(frozen=True)
class Writer:
    """What writes one of two contents to a path, and the bytes of either."""

    name: str
    path: Path
    write: Callable[[Path, int], None]
    whole: tuple[bytes, bytes]

    @property
    def victim(self) -> str:
        """What it is called in the account."""
        return f"writer of {self.path.suffix[1:]}: {self.name}"


def made(folder: Path, rng: np.random.Generator) -> list[Writer]:
    """A writer for each kind of file; each has a folder of its own."""
    both = [(4 * rng.normal(size=(20_000, _CLASSES))).astype(np.float32) for _ in range(2)]
    fits = [tepid.uts(z, engine=tepid.Threads(1)) for z in both]
    sums = [tepid.summarize(z, engine=tepid.Threads(1)) for z in both]
    rows = [t(z) for t, z in zip(fits, both, strict=True)]

    def batches(path: Path, which: int) -> None:
        tepid.sources.write_batches(path, iter(np.array_split(rows[which], 10)))

    def report(path: Path, which: int) -> None:
        z, engine = both[which][:2000], tepid.Threads(1)
        tepid.report.write(path, z, temperatures=[fits[which]], engine=engine)

    kinds: dict[str, tuple[str, Callable[[Path, int], None]]] = {
        f"rows.{ending}": ("probabilities", batches) for ending in ("npy", "npz", "csv", "parquet")
    }
    kinds["calibration.json"] = ("temperature", lambda path, i: fits[i].save(path))
    kinds["sums.npz"] = ("summaries", lambda path, i: sums[i].save(path))
    kinds["report.html"] = ("report", report)
    found = [_writer(folder / name, *kind) for name, kind in kinds.items()]
    return [writer for writer in found if writer is not None]


def _writer(path: Path, name: str, write: Callable[[Path, int], None]) -> Writer | None:
    folder = path.parent / path.name.replace(".", "-")
    folder.mkdir(parents=True)
    contents: list[Any] = []
    for which in (0, 1):
        try:
            write(folder / path.name, which)
        except tepid.InputError as error:
            if "output must end in" in str(error):  # a format that is not written
                return None
            raise
        contents.append((folder / path.name).read_bytes())
    return Writer(name, folder / path.name, write, (contents[0], contents[1]))


def trial(writer: Writer, rng: np.random.Generator, account: Account) -> None:
    """Kill a process that writes the two contents in turn."""

    def job() -> None:
        for number in itertools.count():
            writer.write(writer.path, number % 2)

    end = killed(job, rng.uniform(0, _SECONDS))
    account.check(writer.victim, "it writes until it is killed", holds=end is End.KILLED)
    account.did(writer.victim, "kill -9")
    holds = writer.path.read_bytes() in writer.whole
    account.check(writer.victim, "the file is the old or the new one, whole", holds=holds)
    account.check_folder(writer.victim, writer.path.parent, {writer.path.name})
    writer.write(writer.path, 0)
    alone = list(writer.path.parent.iterdir()) == [writer.path]
    account.check(writer.victim, "the next writer leaves nothing else", holds=alone)
