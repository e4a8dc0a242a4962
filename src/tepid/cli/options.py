"""Arguments and options that several commands share, and what they stand for.

`FileOptions` opens the logits, `EngineOptions` chooses the engine, and `check_output` refuses an
output that cannot be written before anything is read.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

import typer

import tepid
from tepid.cli import console

if TYPE_CHECKING:
    from tepid.sources import Source

_FILES = (
    ".npy, .npz, .csv, .parquet, .arrow, .zarr, .h5, .safetensors, .pt or .jsonl (an evaluation "
    "log); file#member for one array of a file; a folder, a quoted glob or a URL."
)
Logits = Annotated[str, typer.Argument(help=f"Logits, rows × classes: {_FILES}")]
_SHARDS = typer.Argument(help=f"One or more files of logits, rows × classes: {_FILES}")
Shards = Annotated[list[str], _SHARDS]
SomeShards = Annotated[list[str] | None, _SHARDS]
Labels = Annotated[
    str,
    typer.Argument(
        help="Labels: a column or array in the logits' file, by default `labels`, or another file."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Probabilities = Annotated[
    bool, typer.Option("--probabilities", help="The file holds probabilities, not logits.")
]
ClassAxis = Annotated[
    int | None,
    typer.Option(
        help="Axis of the classes in arrays of more than two dimensions: 1 for (n, k, h, w)."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="The logit columns of a table: a,b,c or 'logit_*'. For a log of responses, the answer "
        "options: A,B,C,D."
    ),
]
Where = Annotated[
    list[str] | None, typer.Option(help="Read only rows with column=value; repeatable.")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="CSV: the first line is a header; --no-header: it is data."
    ),
]
ThreadCount = Annotated[
    int | None,
    typer.Option(
        "--threads", help="Number of threads; by default TEPID_THREADS, or one per processor."
    ),
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="The file to write.")]
Calibration = Annotated[
    Path | None, typer.Option("-c", "--calibration", help="A file that `tepid fit -o` wrote.")
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        help="Logits of another model of comparable strength on the same rows; repeatable."
    ),
]
Reference = Annotated[
    str | None,
    typer.Option(
        help="A stronger model on the same rows: its logits, or a table with `id` and `label`."
    ),
]
OlderSet = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="An older labeled set whose rows may differ: a file with `logits` and `labels`.",
    ),
]
LabeledRows = Annotated[
    str | None,
    typer.Option(
        "--labeled",
        help="Labeled rows that are not among the logits: a file with `logits` and `labels`.",
    ),
]
Ids = Annotated[
    str | None,
    typer.Option(
        help="The column with the ids of the rows, to match rows by id; logs already have ids."
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        help="Class names in the order of the columns: a,b,c, or a text file with one per line."
    ),
]
EngineName = Annotated[
    str, typer.Option("--engine", help="Engine: threads, or dask for a cluster.")
]
Scheduler = Annotated[
    str | None, typer.Option(help="With --engine dask: the address of a cluster, tcp://HOST:8786.")
]
Groups = Annotated[
    str | None,
    typer.Option(
        help="One temperature per group: a column or array in the logits' file, or another file."
    ),
]
Clusters = Annotated[
    str | None,
    typer.Option(
        help="The image, patient or other unit of each row, if rows are not independent: a column "
        "or array in the logits' file, or another file."
    ),
]
Multilabel = Annotated[
    bool,
    typer.Option(
        "--multilabel", help="Multi-label: a sigmoid per column, and one T for all columns."
    ),
]
PerLabel = Annotated[
    bool, typer.Option("--per-label", help="Like --multilabel, with one T per label.")
]
AllLabels = Annotated[
    str | None,
    typer.Option(
        help="Labels: a column or array in the logits' file, or another file; empty if unknown."
    ),
]
Accuracy = Annotated[
    str | None,
    typer.Option(help="The model's accuracy: 0.93, 93%, 0.93±0.01 (or +-), 186/200, 0.91..0.95."),
]
SampleWeight = Annotated[
    str | None,
    typer.Option(
        help="Weights of the rows: a column or array in the logits' file, or another file."
    ),
]
RunFolder = Annotated[Path, typer.Option("-o", "--output", help="The run's folder.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value replaces a value of the recipe; repeatable."),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="Train a few steps on a few rows, to test that it runs.")
]


# --- reading logits


class _Columns(TypedDict, total=False):
    """Columns beside the logits: a column or member of the same files, or a file."""

    labels: str | None
    classes: list[str] | None
    sample_weight: str | None
    groups: str | None
    clusters: str | None
    ids: str | None


class _Layout(TypedDict):
    columns: list[str] | None
    header: bool | None
    probabilities: bool


@dataclass(frozen=True)
class FileOptions:
    """How files are read: which columns and rows, and what the values are."""

    columns: str | None = None
    where: tuple[str, ...] = ()
    header: bool | None = None
    probabilities: bool = False
    class_axis: int | None = None

    @classmethod
    def of(
        cls,
        columns: str | None,
        where: list[str] | None,
        header: bool | None,
        probabilities: bool,
        class_axis: int | None,
    ) -> "FileOptions":
        """From the options of a command, in the order in which every command lists them."""
        return cls(columns, tuple(where or ()), header, probabilities, class_axis)

    @property
    def given(self) -> list[str]:
        """The options that differ from their defaults."""
        options = {
            "--columns": self.columns is not None,
            "--where": bool(self.where),
            "--header": self.header is not None,
            "--probabilities": self.probabilities,
            "--class-axis": self.class_axis is not None,
        }
        return [name for name, there in options.items() if there]

    def open(self, logits: str | list[str], **beside: Unpack[_Columns]) -> "Source":
        """The logits of a command, with labels, weights and groups beside them."""
        return tepid.sources.open_source(
            logits if isinstance(logits, str) or len(logits) > 1 else logits[0],
            class_axis=self.class_axis,
            where=self._conditions(),
            **self._layout(),
            **beside,
        )

    def open_other(self, logits: str, **beside: Unpack[_Columns]) -> "Source":
        """Other logits of the same layout; all of their rows are read.

        An option that the format of the other file cannot have is not applied to it.
        """
        return tepid.sources.open_source(logits, **self._other_layout(logits), **beside)

    def open_labeled(self, path: str | None, **beside: Unpack[_Columns]) -> "Source | None":
        """Other logits with the column or member `labels` beside them."""
        beside["labels"] = "labels"
        return None if path is None else self.open_other(path, **beside)

    def _layout(self) -> _Layout:
        columns = None if self.columns is None else [c.strip() for c in self.columns.split(",")]
        return {"columns": columns, "header": self.header, "probabilities": self.probabilities}

    def _other_layout(self, logits: str) -> _Layout:
        paths, layout = tepid.sources.paths, self._layout()
        ending = paths.suffix(paths.split_member(logits)[0])
        if ending in paths.ARRAYS:
            layout["columns"] = None
        if ending in (*paths.ARRAYS, *paths.ARROW, *paths.LOGS):
            layout["header"] = None
        return layout

    def _conditions(self) -> dict[str, str] | None:
        pairs = [condition.partition("=") for condition in self.where]
        for (name, sign, _), condition in zip(pairs, self.where, strict=True):
            if not sign or not name:
                raise tepid.InputError(f"--where must be column=value, got {condition}")
        conditions = {name.strip(): value.strip() for name, _, value in pairs}
        if len(conditions) < len(pairs):
            raise tepid.InputError(
                f"--where must name each column once, got {' and '.join(self.where)}"
            )
        return conditions or None


# --- the engine


@dataclass(frozen=True)
class EngineOptions:
    """Where the summaries are computed."""

    threads: int | None = None
    engine: str = "threads"
    scheduler: str | None = None

    def check(self) -> None:
        """Raise if the options contradict each other."""
        if self.engine not in ("threads", "dask"):
            raise tepid.InputError(f"--engine must be threads or dask, got {self.engine}")
        if self.scheduler is not None and self.engine != "dask":
            raise tepid.InputError("--scheduler must go with --engine dask, got it alone")
        if self.threads is not None and self.engine == "dask":
            raise tepid.InputError("--threads must go without --engine dask, got both")

    @contextlib.contextmanager
    def start(self) -> Iterator["tepid.engines.Engine"]:
        """The engine, which draws its progress."""
        with console.threads_with_progress(self.threads) as here:
            if self.engine == "threads":
                yield here
                return
            try:
                from tepid.engines.dask import connected  # noqa: PLC0415  # optional
            except ImportError:
                raise tepid.InputError(
                    "--engine dask must have Dask installed, got none: pip install 'tepid[dask]'"
                ) from None
            with connected(self.scheduler, here.progress) as engine:
                yield engine


# --- outputs


def check_suffix(output: Path, *suffixes: str, what: str = "output") -> None:
    """Raise unless the name of an output ends in one of the suffixes."""
    if output.suffix.lower() not in suffixes:
        raise tepid.InputError(f"{what} must end in {suffixes[0]}, got {output.name}")


def check_output(output: Path, *inputs: str | os.PathLike[str] | None) -> None:
    """Raise if an output is also an input, or cannot be written."""
    given = [os.fspath(each) for each in inputs if each is not None]
    if output.exists() and any(is_among(output, each) for each in given):
        raise tepid.InputError(f"output must not be one of the inputs, got {output}")
    if not output.parent.is_dir():
        raise tepid.InputError(f"output must be in a folder that exists, got {output}")
    if output.exists() and not output.is_file():
        kind = "the folder " if output.is_dir() else ""
        raise tepid.InputError(f"output must be a file, got {kind}{output}")


def is_among(file: Path, given: str) -> bool:
    """Whether a file that exists is among those that a path, a folder or a glob names."""
    paths = tepid.sources.paths
    names = [given, paths.split_member(given)[0]]
    if not paths.is_url(given) and not paths.is_single(given):
        with contextlib.suppress(tepid.InputError):  # no files, which the reader reports
            names += [paths.split_member(path)[0] for path in paths.expand(given, "input")]
    return any(Path(name).exists() and file.samefile(name) for name in names if name)
