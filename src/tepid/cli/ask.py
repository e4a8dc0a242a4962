"""`tepid ask`: a random sample of rows for a person to label."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import tepid
from tepid.cli import console, options
from tepid.cli.options import FileOptions

if TYPE_CHECKING:
    from tepid.sources import Source
    from tepid.validation import Array

# As `tepid fit` compares ids: as text, in which 007 is not row 7.
_ROW_NUMBER = re.compile("0|[1-9][0-9]{0,17}")


def ask(
    *,
    logits: options.Shards,
    out: Annotated[Path, typer.Option("-o", "--output", help="The .csv file to write.")],
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="Number of rows.")] = 25,
    texts: Annotated[
        Path | None, typer.Option(help="A text file with one line per row, added as a column.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="A file that this command wrote before; its labels are kept."),
    ] = None,
    ids: options.Ids = None,
    classes: options.Classes = None,
    seed: options.Seed = 0,
    reading: FileOptions,
    as_json: options.Json = False,
) -> None:
    """Choose random rows to label: writes their ids and an empty column `label`.

    With --labels, -n rows are added to those of the earlier file.

    Example: tepid ask logits.npy -n 25 -o to_label.csv
    """
    options.check_suffix(out, ".csv")
    options.check_output(out, *logits, str(texts) if texts else None)
    if out.exists():
        raise tepid.InputError(f"output must not exist, since it may hold labels, got {out}")
    source = reading.open(logits, ids=ids)
    names = options.class_names(classes, source)
    every = tepid.sources.read_ids(source) if "id" in source.columns else None
    known = {} if labels is None else _known_labels(labels, every, str(source.name))
    sample = choose_rows(source, number + len(known), seed, also=frozenset(known))
    if known and max(known) >= sample.rows:
        raise _unknown_id(labels, max(known), str(source.name))
    new = sorted([row for row in sample.chosen if row not in known][:number])
    lines = None if texts is None else _read_lines(texts, sample.rows)
    table = []
    for row in (*known, *new):
        k = sample.predicted[row]
        text = {} if lines is None else {"text": lines[row]}
        prediction = str(k) if names is None else names[k]
        own = str(row) if every is None else str(every[row])
        table.append({"id": own} | text | {"prediction": prediction, "label": known.get(row, "")})
    rows = sample.rows
    _write(out, table)
    if as_json:
        console.print_json({"output": str(out), "rows": len(table), "new": len(new), "of": rows})
        return
    kept = f", {len(known)} of them from {labels}" if known else ""
    console.print_line(f"wrote {len(table)} of {rows} rows to {out}{kept}")
    said = {"--ids": ids, "--classes": classes, "--columns": reading.columns}
    again = "".join(f" {name} {value}" for name, value in said.items() if value)
    again += "".join(f" --where {condition}" for condition in reading.where or ())
    again += " --probabilities" if reading.probabilities else ""
    console.print_line(
        f"Fill in the column label, then: tepid fit {' '.join(logits)}{again} --labels {out}"
    )


def _known_labels(path: Path, ids: "Array | None", logits: str) -> dict[int, str]:
    """The labels of an earlier file by the number of their row, empty ones too."""
    answers = tepid.sources.read_answers(str(path), "--labels")
    place = {} if ids is None else {key: row for row, key in enumerate(ids.tolist())}
    found = {}
    for key, label in zip(answers.ids.tolist(), answers.labels.tolist(), strict=True):
        row = int(key) if ids is None and _ROW_NUMBER.fullmatch(key) else place.get(key)
        if row is None:
            raise _unknown_id(path, key, logits)
        found[row] = label
    return found


def _unknown_id(path: Path | None, key: object, logits: str) -> Exception:
    return tepid.InputError(f"{path} must have the ids of rows of {logits}, got {str(key)!r}")


@dataclass(frozen=True)
class Sample:
    """Random rows in random order, the classes of these and of others, and the number of rows."""

    chosen: list[int]
    predicted: dict[int, int]
    rows: int


def choose_rows(
    source: "Source", number: int, seed: int, also: frozenset[int] = frozenset()
) -> Sample:
    """A random sample of rows; the classes of the rows in `also` are reported too."""
    import numpy as np  # noqa: PLC0415  # only when asked

    rng = np.random.default_rng(seed)
    keys, rows, predicted = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
    wanted = np.array(sorted(also), np.int64)
    others: dict[int, int] = {}
    seen = 0
    for batch in source.select().batches(1 << 16):
        z = tepid.shapes.matrix(tepid.validation.as_array(batch.logits))
        classes = z.argmax(axis=1)
        here = wanted[(wanted >= seen) & (wanted < seen + len(z))]
        others |= dict(zip(here.tolist(), classes[here - seen].tolist(), strict=True))
        keys = np.concatenate([keys, rng.random(len(z))])
        rows = np.concatenate([rows, seen + np.arange(len(z))])
        predicted = np.concatenate([predicted, classes])
        seen += len(z)
        least = np.argsort(keys)[:number]
        keys, rows, predicted = keys[least], rows[least], predicted[least]
    found = dict(zip(rows.tolist(), predicted.tolist(), strict=True))
    return Sample(rows.tolist(), others | found, seen)


def _read_lines(path: Path, rows: int) -> list[str]:
    lines = options.read_lines(path)
    if len(lines) != rows:
        raise tepid.InputError(
            f"{path} must have a line for each of the {rows} rows, got {len(lines)}"
        )
    return lines


def _write(out: Path, table: list[dict[str, str]]) -> None:
    import numpy as np  # noqa: PLC0415  # only when asked

    columns = {name: np.array([row[name] for row in table], object) for name in table[0]}
    tepid.sources.write_table(out, iter([columns]))
