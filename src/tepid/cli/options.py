"""Arguments and options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

_FILES = (
    ".npy, .npz, .csv, .parquet, .arrow, .zarr, .h5, .safetensors or .pt; file#member; a folder, a "
    "quoted 'pattern*', a URL."
)
Logits = Annotated[str, typer.Argument(help=f"Logits, rows by classes: {_FILES}")]
_SHARDS = typer.Argument(help=f"Logits, rows by classes, or several of them: {_FILES}")
Shards = Annotated[list[str], _SHARDS]
SomeShards = Annotated[list[str] | None, _SHARDS]
Labels = Annotated[
    str,
    typer.Argument(
        help="Labels: a column or member of the logits' files, by default `labels`, or a file."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Probabilities = Annotated[
    bool, typer.Option("--probabilities", help="The file holds probabilities, not logits.")
]
ClassAxis = Annotated[
    int | None, typer.Option(help="Where the classes are, for more than two dimensions.")
]
Columns = Annotated[
    str | None,
    typer.Option(help="The columns of a table that are the logits: a,b,c; * matches any text."),
]
Where = Annotated[
    list[str] | None, typer.Option(help="Which rows of a table: column=value; repeatable.")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="CSV: the first line is a header, or with --no-header data."
    ),
]
ThreadCount = Annotated[
    int | None, typer.Option("--threads", help="How many threads; TEPID_THREADS sets it too.")
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="The file to write.")]
Calibration = Annotated[
    Path | None, typer.Option("-c", "--calibration", help="A file that `tepid fit -o` wrote.")
]
Also = Annotated[
    list[str] | None, typer.Option(help="Another model's logits on the same rows; repeatable.")
]
OlderSet = Annotated[
    str | None, typer.Option("--source", help="An older labelled set: `logits` and `labels`.")
]
Few = Annotated[str | None, typer.Option(help="A few labelled rows: `logits` and `labels`.")]
EngineName = Annotated[
    str, typer.Option("--engine", help="Where to sum files: threads here, or dask.")
]
Scheduler = Annotated[
    str | None, typer.Option(help="With --engine dask: a cluster's address, tcp://HOST:8786.")
]
Groups = Annotated[
    str | None,
    typer.Option(
        help="One temperature per group: a column or member of the logits' files, or a file."
    ),
]
AllLabels = Annotated[
    str | None,
    typer.Option(help="Labels of every row: a column or member of the logits' files, or a file."),
]
Accuracy = Annotated[
    str | None,
    typer.Option(help="The model's accuracy: 0.93, 0.93±0.01 (or +-), or 0.91..0.95."),
]
Correct = Annotated[int | None, typer.Option(help="So many were right …")]
Of = Annotated[int | None, typer.Option(help="… of so many that were checked.")]
Shift = Annotated[
    str, typer.Option(help="With --source, what may have shifted: any, label or none.")
]
Guarded = Annotated[
    bool, typer.Option("--guarded", help="Logits alone, but abstain unless it can help.")
]
Budget = Annotated[float, typer.Option(help="With --guarded: how far the confidence may move.")]
Odds = Annotated[
    bool, typer.Option("--odds", help="Logits alone, by the authors' later weighting.")
]
Prior = Annotated[str | None, typer.Option(help="With --odds: a file of the classes' frequencies.")]
Deviations = Annotated[float, typer.Option(help="Standard deviations in the threshold of UTS.")]
Debias = Annotated[
    bool, typer.Option("--debias", help="Remove UTS's bias; for fewer than 1000 rows.")
]
SampleWeight = Annotated[
    str | None, typer.Option(help="Weights: a column or member of the logits' files, or a file.")
]
RunFolder = Annotated[Path, typer.Option("-o", "--output", help="The run's folder.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="key=value in the place of the recipe's.")
]
Seed = Annotated[int, typer.Option(min=0, help="What everything random follows from.")]
Quick = Annotated[bool, typer.Option("--quick", help="A few steps on a few rows: whether it runs.")]
