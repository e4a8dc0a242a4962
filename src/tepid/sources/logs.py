"""Evaluation logs of language models, `.jsonl`: which kind a file is, and its rows.

A log of lm-evaluation-harness has the field `resps`; a log of responses has `choices`,
`completion_probabilities` or `logprobs`, in the line itself, in `response` or in `response.body`.
"""

import dataclasses
import itertools
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tepid import validation
from tepid.errors import InputError, LogWarning
from tepid.sources import harness_logs, paths, response_logs
from tepid.sources.batch import Batch, Part
from tepid.sources.harness_logs import SampleReader
from tepid.sources.json_lines import (
    Answer,
    LineError,
    find_field,
    finite,
    in_line,
    list_fields,
    read_records,
)
from tepid.sources.response_logs import Options, ResponseReader
from tepid.sources.source import Source
from tepid.sources.spool import Spool
from tepid.tables import ARGUMENTS, TEXT, text_conditions

Reader: TypeAlias = SampleReader | ResponseReader
# So many lines are named in a warning.
_NAMED = 5


class Line(NamedTuple):
    """A line that is a row: its number, its fields and its logits."""

    number: int
    record: Mapping[str, Any]
    answer: Answer


class Counts(NamedTuple):
    """What the first reading of a file found.

    `skipped` counts the lines that name no option, of which `lines` are the first. `bounded` counts
    the rows with an option that is not listed. `temperature` is a sampling temperature other than 1
    with which the values were processed.
    """

    rows: int
    classes: int
    skipped: int
    lines: tuple[int, ...]
    bounded: int
    temperature: float | None


@dataclass(frozen=True, eq=False)
class LogPart(Part):
    """A log. `fields` maps `labels`, `weight`, `group` and `id` to the field of each.

    The id is that of the format where its field is empty. A row with fewer choices than `classes`
    has -inf for the others; one with more, in a log that is matched with another, is NaN.
    """

    path: str
    name: str
    reader: Reader
    fields: Mapping[str, str]
    counts: Counts
    classes: int
    where: Mapping[str, str]
    portable = True

    @property
    def rows(self) -> int:
        """The number of rows, which the first reading counted."""
        return self.counts.rows

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the rows."""
        lines = read_log(self.path, self.name, self.reader, self.where)
        rows = (self._row(line) for line in lines if isinstance(line, Line))
        first = 0
        while some := list(itertools.islice(rows, size)):
            yield self._batch(some, first)
            first += len(some)

    def select(self, keep: frozenset[str]) -> "LogPart":
        """The same rows with fewer fields."""
        fields = {role: name for role, name in self.fields.items() if role in keep}
        return dataclasses.replace(self, fields=fields)

    def _row(self, line: Line) -> tuple[list[float], dict[str, Any]]:
        with in_line(self.name, line.number):
            beside = {role: self._beside(line, role, name) for role, name in self.fields.items()}
        return line.answer.logits, beside

    def _beside(self, line: Line, role: str, name: str) -> Any:
        if role == "labels":
            return self.reader.label(line.record, name, line.answer.logits)
        if role == "weight":
            return finite(find_field(line.record, name), name)
        found = self.reader.group(line.record, name) if name else self.reader.id(line.record)
        if isinstance(found, bool) or not isinstance(found, (str, int)):
            raise LineError(f"have names or whole numbers in {name}", repr(found)[:80])
        return found

    def _batch(self, rows: Sequence[tuple[list[float], dict[str, Any]]], first: int) -> Batch:
        logits = np.full((len(rows), self.classes), -np.inf)
        for row, (values, _) in enumerate(rows):
            logits[row, : len(values)] = values if len(values) <= self.classes else np.nan
        beside: dict[str, Any] = {}
        for role in self.fields:
            column = [found[role] for _, found in rows]
            if ARGUMENTS[role] in TEXT:
                beside[role] = validation.group_column(np.array(column, object), ARGUMENTS[role])
            elif role == "labels" and self.reader.names is not None:
                beside[role] = np.array(column, object)
            else:
                beside[role] = np.array(column)
        return Batch(logits, start=first, name=self.name, row=first, **beside)


def read_log(
    path: str, name: str, reader: Reader, where: Mapping[str, str]
) -> Iterator[Line | int]:
    """The lines that are rows, and the number of each response that names no option."""
    for number, record in read_records(path, name):
        with in_line(name, number):
            wanted = all(str(reader.group(record, key)) == value for key, value in where.items())
            answer = reader.read(record) if wanted else None
        if answer is not None:
            yield Line(number, record, answer)
        elif wanted and isinstance(reader, ResponseReader):
            yield number


# Opening ------------------------------------------------------------------------------------------


def open_log(
    path: str,
    name: str,
    named: Mapping[str, str],
    columns: str | Sequence[str] | None,
    where: Any = None,
    *,
    pattern: str | None = None,
    position: int | None = None,
) -> Source:
    """A source over one log; the file is read once to count its rows and classes.

    `columns` are the options of a log of responses, and `named` maps roles to fields. Every row
    has an id where the log has one.
    """
    number, first = next(read_records(path, name), (0, None))
    if first is None:
        raise InputError(f"{name} must hold one JSON object in each line, got an empty file")
    conditions = text_conditions(where, "a log")
    with in_line(name, number):
        reader = _choose_reader(path, name, first, columns, pattern, position)
    fields = _check_fields(named, reader, first, name, number)
    counts = _count(path, name, reader, conditions)
    part = LogPart(path, name, reader, fields, counts, counts.classes, conditions)
    return Source(
        (part,),
        name,
        counts.classes or None,
        frozenset(fields),
        names=reader.names,
        spool=Spool(),
    )


def _choose_reader(
    path: str,
    name: str,
    first: Mapping[str, Any],
    columns: str | Sequence[str] | None,
    pattern: str | None,
    position: int | None,
) -> Reader:
    is_samples, is_responses = harness_logs.FIELD in first, response_logs.is_response(first)
    if is_samples == is_responses:
        fields = f"{harness_logs.FIELD} of lm-evaluation-harness or {response_logs.FIELDS}"
        both = ", not both" if is_samples else ""
        must = f"have the field {fields} of a response with log-probabilities{both}"
        raise LineError(must, list_fields(first))
    if is_samples:
        for argument, given in (("columns", columns), ("pattern", pattern), ("position", position)):
            if given is not None:
                raise InputError(
                    f"{argument} must be left out for a log of lm-evaluation-harness, got {given!r}"
                )
        return SampleReader(first.get("filter"), harness_logs.task_of(paths.base_name(path)))
    response_logs.check_pattern(pattern)
    if position is not None:
        validation.whole(position, "position")
    if columns is None and pattern is None:
        raise InputError(
            f"{name} is a log of responses, so that its answer options must be named: "
            "columns=['A', 'B'] (--columns A,B), or choices of tepid.llm.read_responses"
        )
    if columns is None:
        columns = _find_options(path, name, pattern or "", position)
    options = Options.of(columns, pattern)
    return ResponseReader(options, position, identified=response_logs.own_id(first) is not None)


def _find_options(path: str, name: str, pattern: str, position: int | None) -> list[str]:
    """The options that a pattern finds in a log, in alphabetical order."""
    found: set[str] = set()
    for number, record in read_records(path, name):
        with in_line(name, number):
            found |= response_logs.find_options(record, pattern, position)
        if len(found) > 1000:
            raise InputError(f"pattern must match the options alone, got over 1000 in {name}")
    if len(found) < 2:
        raise InputError(f"pattern must match two or more options, got {sorted(found)} in {name}")
    return sorted(found)


def _check_fields(
    named: Mapping[str, str], reader: Reader, first: Mapping[str, Any], name: str, number: int
) -> dict[str, str]:
    """The fields by role; raises if the first line lacks one. Values of labels are not read."""
    fields = dict(named)
    if fields.get("id", "id") == "id" and reader.identified:
        fields["id"] = ""
    for role, field_name in fields.items():
        given = role == "labels" and field_name == "labels" and isinstance(reader, SampleReader)
        by_file = role == "group" and field_name == "task" and reader.task is not None
        if field_name and not given and not by_file:
            try:
                find_field(first, field_name)
            except LineError as error:
                raise InputError(
                    f"{ARGUMENTS[role]} must name a field of {name}, which has {error.got}, "
                    f"got {field_name!r} (line {number})"
                ) from None
    return fields


def _count(path: str, name: str, reader: Reader, where: Mapping[str, str]) -> Counts:
    rows = classes = skipped = bounded = 0
    temperature, lines = None, list[int]()
    for line in read_log(path, name, reader, where):
        if not isinstance(line, Line):
            skipped += 1
            lines += [line] if skipped <= _NAMED else []
            continue
        rows += 1
        classes = max(classes, len(line.answer.logits))
        bounded += bool(line.answer.bounded)
        if temperature is None:
            temperature = reader.processed(line.record)
    if skipped and not rows:
        raise InputError(
            f"{name} must name one of the options {', '.join(reader.names or ())} in its "
            f"responses, got none in {skipped} lines"
        )
    return Counts(rows, classes, skipped, tuple(lines), bounded, temperature)


def join_logs(sources: list[Source]) -> list[Source]:
    """The same sources; logs among them get the classes of the one with most."""
    if not all(is_log(source) for source in sources):
        return sources
    most = max(source.classes or 0 for source in sources)
    return [resized(source, most) for source in sources]


def is_log(source: Any) -> bool:
    """Whether all rows of a source come from logs."""
    return isinstance(source, Source) and all(isinstance(leaf, LogPart) for leaf in source.leaves())


def names_log(data: Any) -> bool:
    """Whether a path, or a list of paths, names logs."""
    if not paths.are_paths(data):
        return False
    first = data if paths.is_path(data) else data[0]
    found = [os.fspath(first)]
    if not paths.is_single(first):
        found = paths.expand(first, "logits file")
    return paths.suffix(paths.split_member(found[0])[0]) in paths.LOGS


def resized(source: Source, classes: int | None) -> Source:
    """The same rows of a log with this number of classes, as in `LogPart`."""
    if classes is None or source.classes == classes:
        return source
    return source.map_leaves(
        lambda leaf: dataclasses.replace(leaf, classes=classes), classes=classes
    )


def halved(source: Source) -> Source | None:
    """The same rows with half the bound for options that are not listed; None if all are."""
    if not any(part.counts.bounded for part in log_parts(source)):
        return None

    def change(leaf: Any) -> Any:
        if not isinstance(leaf, LogPart) or not isinstance(leaf.reader, ResponseReader):
            return leaf
        reader = dataclasses.replace(leaf.reader, bound=leaf.reader.bound / 2)
        return dataclasses.replace(leaf, reader=reader)

    return source.map_leaves(change)


def log_parts(source: Source) -> list[LogPart]:
    """The logs of a source."""
    return [leaf for leaf in source.leaves() if isinstance(leaf, LogPart)]


def warn_counts(source: Source) -> None:
    """Emit a `LogWarning` for what was left out, bounded or processed."""
    for part in log_parts(source):
        for sentence in describe_counts(part.name, part.counts):
            warnings.warn(sentence, LogWarning, stacklevel=4)


def describe_counts(name: str, counts: Counts) -> Iterator[str]:
    """What there is to say of a log, in sentences."""
    if counts.skipped:
        lines = ", ".join(map(str, counts.lines)) + (", …" if counts.skipped > _NAMED else "")
        yield (
            f"{counts.skipped} of {counts.rows + counts.skipped} responses of {name} name no "
            f"option or failed and are left out: lines {lines}."
        )
    if counts.bounded:
        yield (
            f"In {counts.bounded} of {counts.rows} responses of {name} an option is not listed: "
            "its probability is below the smallest listed one, which is divided among the options "
            "that are missing."
        )
    if counts.temperature is not None:
        yield (
            f"The log-probabilities of {name} were processed with the sampling temperature "
            f"{counts.temperature:g}, so that T corrects them and not those of the model: log them "
            "at temperature 1, or before sampling."
        )
