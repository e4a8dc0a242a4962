"""Options that several commands share, and what they stand for.

A command takes a group of options as one parameter, a dataclass such as `FileOptions`: `expand`
turns it into the options of its fields. `check_output` refuses an output that cannot be written
before anything is read.
"""

import contextlib
import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack, get_type_hints

import typer

import tepid
from tepid.cli import console

if TYPE_CHECKING:
    from tepid.sources import Source

_FILES = (
    ".npy, .npz, .csv, .parquet, .arrow, .zarr, .h5, .safetensors, .pt or .jsonl (an evaluation "
    "log); file#member for one array of a file; a folder, a quoted glob or a URL."
)
IN_FILE = "a column or array in the logits' file, or another file"
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
AllLabels = Annotated[str | None, typer.Option(help=f"Labels: {IN_FILE}; empty if unknown.")]
SampleWeight = Annotated[str | None, typer.Option(help=f"Weights of the rows: {IN_FILE}.")]
Groups = Annotated[str | None, typer.Option(help=f"One temperature per group: {IN_FILE}.")]
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
ClassAxis = Annotated[
    int | None,
    typer.Option(
        help="Axis of the classes in arrays of more than two dimensions: 1 for (n, k, h, w)."
    ),
]
Calibration = Annotated[
    Path | None, typer.Option("-c", "--calibration", help="A file that `tepid fit -o` wrote.")
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="The file to write.")]
ThreadCount = Annotated[
    int | None,
    typer.Option(
        "--threads", help="Number of threads; by default TEPID_THREADS, or one per processor."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


# --- groups of options


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """The same command, with the fields of each dataclass among its parameters as options."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {
        name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += inspect.signature(groups[name]).parameters.values()
            hints |= get_type_hints(groups[name], include_extras=True)
        else:
            parameters.append(parameter)
    parameters = [
        p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters
    ]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            own = {field.name: values.pop(field.name) for field in dataclasses.fields(group)}
            values[name] = group(**own)
        command(**values)

    run.__annotations__ = {p.name: p.annotation for p in parameters}
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


def given_options(context: typer.Context) -> list[str]:
    """The options that were typed, by their long names, and the names of the arguments."""
    given = []
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is not None and source.name == "COMMANDLINE":
            given.append(max(parameter.opts, key=len))
    return given


# --- reading logits


class _Columns(TypedDict, total=False):
    """Columns beside the logits: a column or member of the same files, or a file."""

    labels: str | None
    classes: list[str] | None
    sample_weight: str | None
    groups: str | None
    clusters: str | None
    ids: str | None


@dataclass(frozen=True)
class FileOptions:
    """How files are read: which columns and rows, and what the values are."""

    columns: Annotated[
        str | None,
        typer.Option(
            help="The logit columns of a table: a,b,c or 'logit_*'. For a log of responses, the "
            "answer options: A,B,C,D."
        ),
    ] = None
    where: Annotated[
        list[str] | None, typer.Option(help="Read only rows with column=value; repeatable.")
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="CSV: the first line is a header; --no-header: it is data."
        ),
    ] = None
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="The file holds probabilities, not logits.")
    ] = False
    class_axis: ClassAxis = None

    def open(self, logits: str | list[str], **beside: Unpack[_Columns]) -> "Source":
        """The logits of a command, with labels, weights and groups beside them."""
        return tepid.sources.open_source(
            logits if isinstance(logits, str) or len(logits) > 1 else logits[0],
            class_axis=self.class_axis,
            where=self._conditions(),
            columns=self._column_names(),
            header=self.header,
            probabilities=self.probabilities,
            **beside,
        )

    def open_other(self, logits: str, **beside: Unpack[_Columns]) -> "Source":
        """Other logits of the same layout; all of their rows are read.

        An option that the format of the other file cannot have is not applied to it.
        """
        paths = tepid.sources.paths
        ending = paths.suffix(paths.split_member(logits)[0])
        is_array = ending in paths.ARRAYS
        has_no_header = is_array or ending in (*paths.ARROW, *paths.LOGS)
        return tepid.sources.open_source(
            logits,
            columns=None if is_array else self._column_names(),
            header=None if has_no_header else self.header,
            probabilities=self.probabilities,
            **beside,
        )

    def open_labeled(self, path: str | None, **beside: Unpack[_Columns]) -> "Source | None":
        """Other logits with the column or member `labels` beside them."""
        beside["labels"] = "labels"
        return None if path is None else self.open_other(path, **beside)

    def _column_names(self) -> list[str] | None:
        return None if self.columns is None else [c.strip() for c in self.columns.split(",")]

    def _conditions(self) -> dict[str, str] | None:
        conditions: dict[str, str] = {}
        for condition in self.where or ():
            name, sign, value = (part.strip() for part in condition.partition("="))
            if not sign or not name:
                raise tepid.InputError(f"--where must be column=value, got {condition}")
            if name in conditions:
                raise tepid.InputError(f"--where must name each column once, got {name} twice")
            conditions[name] = value
        return conditions or None


def column_name(text: str | None) -> str | None:
    """The column that an option names, or None if it names a file."""
    return None if text is None or tepid.sources.paths.names_file(text) else text


# --- names of classes


def read_classes(text: str) -> list[str]:
    """The names of classes: separated by commas, or the lines of a text file."""
    file = classes_file(text)
    names = text.split(",") if file is None else read_lines(Path(file))
    return [name.strip() for name in names if name.strip()]


def classes_file(text: str | None) -> str | None:
    """The file that `--classes` names, if it names one."""
    # A list of names may be longer than the name of a file can be, for which pathlib raises.
    return text if text is not None and os.path.isfile(text) else None  # noqa: PTH113


def class_names(text: str | None, source: "Source") -> list[str] | None:
    """The names of the classes of a source: those given, or those of its columns."""
    if text is None:
        return [str(name) for name in source.names or ()] or None
    names = read_classes(text)
    k = tepid.sources.matching.class_count(source)  # lists in a table are not counted yet
    try:
        tepid.validation.class_names(names, k)
    except tepid.InputError as error:
        raise tepid.InputError(f"--{error}") from None
    return names


def read_lines(path: Path) -> list[str]:
    """The lines of a text file."""
    from tepid.store import check_regular  # noqa: PLC0415  # NumPy

    check_regular(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except ValueError:
        raise tepid.InputError(f"{path} must be text in UTF-8, got another file") from None
    return text.removesuffix("\n").split("\n")


# --- the engine


@dataclass(frozen=True)
class EngineOptions:
    """Where the summaries are computed; options that contradict each other are refused."""

    threads: ThreadCount = None
    engine: Annotated[str, typer.Option(help="Engine: threads, or dask for a cluster.")] = "threads"
    scheduler: Annotated[
        str | None,
        typer.Option(help="With --engine dask: the address of a cluster, tcp://HOST:8786."),
    ] = None

    def __post_init__(self) -> None:
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
    return any(paths.exists(name) and file.samefile(name) for name in names if name)
