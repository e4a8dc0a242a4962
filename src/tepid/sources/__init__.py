"""Logits from arrays, files, data frames and functions, as batches of rows."""

from tepid.sources.batch import Batch, Part, Source
from tepid.sources.opening import open_column, open_source
from tepid.sources.writing import write_batches

__all__ = ["Batch", "Part", "Source", "open_column", "open_source", "write_batches"]
