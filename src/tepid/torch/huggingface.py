"""Hugging Face data as loaders: data sets, outputs of tokenizers, and results of `Trainer.predict`.

Neither `datasets` nor `transformers` is imported: what is given is known by what it has.
"""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from tepid.errors import InputError, RowError
from tepid.torch.loader import LABEL_KEYS, Labels, Reader, without_wrappers

_ROWS = 32
_LABELS = set(LABEL_KEYS)
# What Trainer.predict fills up with where sequences of two batches differ in length.
_FILLED = -100
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

# Tables -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TableLoader:
    """The rows of a data set or of a tokenizer's output as batches of keywords.

    `columns` are those to read; labels are among them only if they are wanted.
    """

    table: Any
    columns: tuple[str, ...]
    collate: Callable[[list[dict[str, Any]]], Any] | None
    name: str

    def __iter__(self) -> Iterator[dict[str, Any]]:
        start = 0
        for rows in _read_rows(self.table, self.columns):
            labels = [_take_label(row) for row in rows]
            batch = dict(self._collate(rows, start))
            if _LABELS & set(self.columns) and not _LABELS & batch.keys():
                batch["labels"] = _stack_labels(labels, start)
            yield batch
            start += len(rows)

    def _collate(self, rows: list[dict[str, Any]], start: int) -> Mapping[str, Any]:
        if self.collate is None:
            return {name: self._stack([row[name] for row in rows], name, start) for name in rows[0]}
        pad = getattr(self.collate, "pad", None)  # of a tokenizer
        made = self.collate(rows) if pad is None else pad(rows, return_tensors="pt")
        if not isinstance(made, Mapping):
            raise InputError(f"collate must return a mapping, got {type(made).__name__}")
        return made

    def _stack(self, values: list[Any], name: str, start: int) -> torch.Tensor:
        what = f"{self.name}, column {name!r},"
        for number, value in enumerate(values):
            if isinstance(value, str) or value is None:
                raise RowError(what, "hold numbers", repr(value), start + number)
        tensors = [torch.as_tensor(value) for value in values]
        for number, tensor in enumerate(tensors):
            if tensor.shape != tensors[0].shape:
                raise RowError(
                    what,
                    "have rows of one length, or collate=tokenizer must pad them",
                    f"{tuple(tensors[0].shape)} and then {tuple(tensor.shape)}",
                    start + number,
                )
        return torch.stack(tensors)


def _read_rows(table: Any, columns: tuple[str, ...]) -> Iterator[list[dict[str, Any]]]:
    """Rows as dictionaries, some at a time."""
    if isinstance(table, Mapping):
        starts = range(0, len(table[columns[0]]), _ROWS)
        parts = ({n: table[n][i : i + _ROWS] for n in columns} for i in starts)
    else:
        stored = isinstance(table, _kinds("Dataset")) and not _is_transformed(table)
        parts = (table.select_columns(list(columns)) if stored else table).iter(_ROWS)
    for part in parts:
        values = zip(*(part[name] for name in columns), strict=True)
        yield [dict(zip(columns, row, strict=True)) for row in values]


def _take_label(row: dict[str, Any]) -> Any:
    """Remove a label that is one number, for which no collator is needed; None if there is none."""
    for name in LABEL_KEYS:
        if name in row and np.ndim(row[name]) == 0:
            return row.pop(name)
    return None


def _stack_labels(labels: list[Any], start: int) -> torch.Tensor:
    for number, label in enumerate(labels):
        if isinstance(label, str):
            raise RowError("labels", "be the numbers of classes", repr(label), start + number)
    return torch.tensor(
        [-1 if label is None else torch.as_tensor(label).item() for label in labels]
    )


# Predictions --------------------------------------------------------------------------------------


def is_prediction(given: Any) -> bool:
    """Whether this is a result of `Trainer.predict`, which has logits and no inputs."""
    return hasattr(given, "predictions") and hasattr(given, "label_ids")


def _open_predictions(
    given: Any, reader: Reader, name: str
) -> tuple[Reader, list[tuple[torch.Tensor, ...]]]:
    """The logits and labels of `Trainer.predict` as a loader, and a reader that runs no model."""
    first, labels = (
        part[0] if isinstance(part, (tuple, list)) else part
        for part in (given.predictions, given.label_ids)
    )
    logits = torch.as_tensor(np.asarray(first))
    if not logits.is_floating_point():
        raise InputError(f"{name} must have logits as its predictions, got {logits.dtype}")
    known = None if labels is None else torch.as_tensor(np.asarray(labels))
    axis = reader.class_axis
    if logits.ndim == 3 and axis in (-1, 2):
        # Sequences: positions that hold nothing are not rows.
        there = (logits != _FILLED).any(dim=-1)
        known = known[there] if known is not None and known.shape == there.shape else known
        logits, axis = logits[there], None
    columns = (logits,) if known is None else (logits, known)
    taken = dataclasses.replace(
        reader,
        model=nn.Identity(),
        device=torch.device("cpu"),
        forward=None,
        amp=None,
        class_axis=axis,
    )
    return taken, [columns]


# Any of them --------------------------------------------------------------------------------------


def open_loader(
    given: Any, reader: Reader, labels: Labels, collate: Any, name: str
) -> tuple[Reader, Iterable[Any]]:
    """What yields batches, and how to read them, for loaders and for Hugging Face data."""
    if is_prediction(given):
        return _open_predictions(given, reader, name)
    if not is_table(given):
        return reader, given
    columns = _columns_of(given, name)
    chosen = _model_columns(columns, reader, name)
    wanted = [column for column in LABEL_KEYS if column in columns][:1] if labels else []
    return reader, TableLoader(given, (*chosen, *wanted), collate, name)


def is_table(given: Any) -> bool:
    """Whether this has all rows by column: a data set, or what a tokenizer returns."""
    return isinstance(given, (Mapping, *_kinds("Dataset", "IterableDataset")))


def _kinds(*names: str) -> tuple[Any, ...]:
    """Classes of `datasets`, if it is imported; no other can make such data."""
    found = (getattr(sys.modules.get("datasets"), name, None) for name in names)
    return tuple(kind for kind in found if isinstance(kind, type))


def _columns_of(given: Any, name: str) -> list[str]:
    if isinstance(given, _kinds("DatasetDict", "IterableDatasetDict")):
        splits = ", ".join(map(repr, given))
        raise InputError(f"{name} must be one split of the data, got a DatasetDict with {splits}")
    if isinstance(given, Mapping):
        return _check_lengths(given, name)
    # A stream may not know its columns, and a transform makes others.
    if not given.column_names or _is_transformed(given):
        return list(next(iter(given), {}))
    return list(given.column_names)


def _is_transformed(table: Any) -> bool:
    """Whether a data set makes its columns when it is read, as `set_transform` lets it."""
    return isinstance(table, _kinds("Dataset")) and table.format["type"] == "custom"


def _check_lengths(table: Mapping[str, Any], name: str) -> list[str]:
    for column, values in table.items():
        if not isinstance(values, (Sequence, torch.Tensor, np.ndarray)):
            got = type(values).__name__
            raise InputError(f"{name}, column {column!r}, must have one entry per row, got {got}")
    lengths = {column: len(values) for column, values in table.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"{name} must have columns of one length, got {lengths}")
    return list(table)


def _model_columns(columns: list[str], reader: Reader, name: str) -> list[str]:
    """The columns that the model takes as keywords, as `Trainer` chooses them."""
    inputs = [column for column in columns if column not in LABEL_KEYS]
    parameters = inspect.signature(without_wrappers(reader.model).forward).parameters.values()
    named = [p.name for p in parameters if p.kind in _BY_NAME and p.name not in LABEL_KEYS]
    chosen = [column for column in inputs if column in named]
    if chosen:
        return chosen
    if inputs and (reader.forward is not None or not named):
        return inputs
    raise InputError(
        f"{name} must have a column that the model takes ({', '.join(named)}), got "
        f"{', '.join(columns) or 'none'}; tokenize text first: "
        "data.map(lambda rows: tokenizer(rows['text'], truncation=True), batched=True)"
    )
