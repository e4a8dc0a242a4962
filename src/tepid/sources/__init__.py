"""Logits from arrays, files, data frames and functions, as batches of rows."""

from tepid.sources.attached import AnyPeer
from tepid.sources.batch import Batch, Part
from tepid.sources.matching import (
    holds_classes,
    is_answers,
    match_answers,
    match_ids,
    open_peer,
    read_answers,
    read_ids,
)
from tepid.sources.multilabel import split_labels
from tepid.sources.opening import open_column, open_source
from tepid.sources.source import Source, attach
from tepid.sources.writing import write_batches, write_table

__all__ = [
    "AnyPeer",
    "Batch",
    "Part",
    "Source",
    "attach",
    "holds_classes",
    "is_answers",
    "match_answers",
    "match_ids",
    "open_column",
    "open_peer",
    "open_source",
    "read_answers",
    "read_ids",
    "split_labels",
    "write_batches",
    "write_table",
]
