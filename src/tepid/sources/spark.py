"""Spark data frames. Rows stay in Spark; nothing here imports Spark by itself."""

import contextlib
import dataclasses
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tepid import shapes
from tepid.errors import InputError
from tepid.sources import arrow, paths
from tepid.sources.batch import Batch, Part
from tepid.sources.source import Source, from_table
from tepid.tables import ARGUMENTS, Columns, Holds, choose_columns, needs_arrow

# The line of a message that names the error; the first line only names a call of the JVM.
_NAMED = re.compile(r"^:?\s*([\w.]+(?:Error|Exception): .*)", re.MULTILINE)


def is_spark(data: object) -> bool:
    """Whether this is a Spark data frame, classic or Spark Connect."""
    return type(data).__module__.startswith("pyspark.sql") and hasattr(data, "mapInArrow")


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn an error of Spark into an `InputError` of one line; its cause has the traceback.

    An error about the data is none of Spark and passes.
    """
    try:
        yield
    except Exception as error:
        package = type(error).__module__.partition(".")[0]
        if package not in {"py4j", "pyspark"} and not isinstance(error, OSError):
            raise
        text = str(error).strip() or type(error).__name__
        named = _NAMED.search(text)
        reason = named[1].rpartition("SparkException: ")[2] if named else text.partition("\n")[0]
        raise InputError(f"Spark must finish its job, got {reason:.200}") from error


@dataclass(frozen=True, eq=False)
class SparkPart(Part):
    """All rows of a Spark data frame, in no order."""

    frame: Any
    columns: Columns
    name: str = "logits"

    def batches(self, size: int) -> Iterator[Batch]:
        """Fetch the rows to this process, a record batch at a time."""
        ipc = needs_arrow("pyarrow.ipc")
        row = 0
        with one_line_errors():
            for sent in self.frame.mapInArrow(_to_bytes, "batch binary").toLocalIterator():
                record = ipc.open_stream(io.BytesIO(sent["batch"])).read_all()
                for batch in RecordPart(record.to_batches(), self.columns, self.name).batches(size):
                    yield batch._replace(start=row, row=row)
                    row += len(batch.logits)

    def select(self, keep: frozenset[str]) -> "SparkPart":
        """The same rows; Spark does not compute other columns."""
        chosen = self.columns.select(keep)
        with one_line_errors():
            frame = self.frame.select(*chosen.every)
        return dataclasses.replace(self, columns=chosen, frame=frame)


@dataclass(frozen=True, eq=False)
class RecordPart(Part):
    """Record batches of one partition, on a worker."""

    records: Iterable[Any]
    columns: Columns
    name: str

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows."""
        row = 0
        for record in self.records:
            batch = arrow.to_batch(record, self.columns, self.name, row)
            yield from batch.split(min(size, shapes.rows_per_batch(batch.logits.shape[1])))
            row += len(batch.logits)


def open_spark(frame: Any, beside: Mapping[str, Any], columns: Any) -> Source:
    """A source over a Spark data frame.

    Labels, weights and groups must be columns: rows in Spark have no order by which an array could
    be matched to them. Every pass computes the frame again, so cache one that is sampled or
    shuffled without a seed.
    """
    for role, given in beside.items():
        if not isinstance(given, str) or paths.names_file(given):
            raise InputError(
                f"{ARGUMENTS[role]} must name a column of the Spark frame, got {given!r:.80}"
            )
    with one_line_errors():
        dtypes = frame.dtypes
    kinds = {name: _kind(form) for name, form in dtypes}
    if len({name.lower() for name in kinds}) < len(dtypes):
        raise InputError("logits must have a different name for each column, got one name twice")
    chosen = choose_columns(kinds, beside, columns, "logits")
    # Under plain names, since Spark takes dots and backticks in a name for syntax.
    plain = {name: f"c{position}" for position, name in enumerate(chosen.every)}
    quoted = {name: "`" + name.replace("`", "``") + "`" for name in plain}
    with one_line_errors():
        projected = frame.selectExpr(*(f"{quoted[name]} AS {plain[name]}" for name in plain))
    renamed = Columns(
        tuple(plain[name] for name in chosen.logits),
        chosen.lists,
        {role: plain[name] for role, name in chosen.beside.items()},
    )
    return from_table((SparkPart(projected, renamed),), "logits", chosen)


def _kind(form: str) -> Holds:
    """What a column of a type of Spark SQL holds."""
    if form.startswith("array<"):
        return "list" if _kind(form[len("array<") : -1]) == "number" else "other"
    numeric = ("float", "double", "int", "bigint", "smallint", "tinyint", "boolean")
    return "number" if form in numeric or form.startswith("decimal") else "other"


def _to_bytes(records: Iterable[Any]) -> Iterator[Any]:
    """Record batches as bytes, one to a row; runs in Spark."""
    pa = needs_arrow()
    for record in records:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, record.schema) as stream:
            stream.write_batch(record)
        yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["batch"])


def probabilities_expression(temperature: float, logits: str = "logits") -> str:
    """An expression of Spark SQL that turns an array column of logits into probabilities.

    Spark computes it by itself, without Python: `frame.selectExpr("*", f"{…} AS probabilities")`.

    >>> print(probabilities_expression(2.0, "z"))
    transform(transform(z, x -> exp((x - array_max(z)) / 2.0D)), e -> e / aggregate(...))
    """
    power = f"transform({logits}, x -> exp((x - array_max({logits})) / {temperature!r}D))"
    total = f"aggregate({power}, 0D, (sum, e) -> sum + e)"
    return f"transform({power}, e -> e / {total})"
