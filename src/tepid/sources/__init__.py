"""Logits from arrays, files and functions, as blocks of rows; and blocks back into files."""

from tepid.sources.block import Block, Source
from tepid.sources.grouping import open_groups
from tepid.sources.opening import open_column, open_source
from tepid.sources.writing import write_blocks

__all__ = ["Block", "Source", "open_column", "open_groups", "open_source", "write_blocks"]
