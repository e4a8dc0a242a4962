"""Files that cannot be used, found by one reading of all before any work is done with them."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from tepid.errors import InputError, RowError
from tepid.shapes import rows_per_block
from tepid.sources import shards
from tepid.sources.block import Block, located
from tepid.sources.shard import Look, Shard


class Sound(NamedTuple):
    """The files that can be used, and the names of the others with what is wrong with each."""

    files: tuple[Shard, ...]
    looks: tuple[Look, ...]
    left_out: tuple[tuple[str, str], ...]


def sound(files: tuple[Shard, ...], name: str, *, labelled: bool) -> Sound:
    """Every file that is whole, laid out as most are, and without a row that must be refused.

    Labels are judged only where they were asked for, since a file may hold -1 in their place.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        looks = list(pool.map(_looked, files))
        good = tuple(look for look in looks if isinstance(look, Look))
        if good:
            usual = shards.most_common(good)
            judge = partial(_judged, usual=usual, labelled=labelled)
            looks = list(pool.map(judge, files, looks))
    kept = [(f, look) for f, look in zip(files, looks, strict=True) if isinstance(look, Look)]
    left = tuple((f.name, why) for f, why in zip(files, looks, strict=True) if isinstance(why, str))
    if not kept:
        raise InputError(f"{name} must have a file that can be used, got none: {left[0][1]}")
    return Sound(tuple(f for f, _ in kept), tuple(look for _, look in kept), left)


def _looked(file: Shard) -> Look | str:
    try:
        return shards.look(file)
    except InputError as error:
        return str(error)


def _judged(file: Shard, look: Look | str, usual: Look, *, labelled: bool) -> Look | str:
    """What a file says of itself, or what is wrong with it."""
    if isinstance(look, str):
        return look
    difference = shards.differing(look, usual)
    if difference:
        return f"{file.name} must be laid out as the other files are, {difference}"
    try:
        for block in shards.blocks(file, rows_per_block(usual.classes or 64)):
            _check(block, labelled=labelled)
    except InputError as error:
        return str(error)
    return look


def _check(block: Block, *, labelled: bool) -> None:
    from tepid.curve import Curve  # noqa: PLC0415  # numba, only when rows are read
    from tepid.lattice import Lattice  # noqa: PLC0415  # the same

    labels = block.labels if labelled else None
    try:
        Curve.of(
            block.logits, lattice=Lattice.point(1.0), labels=labels, sample_weight=block.weight,
            bins=0,
        )  # fmt: skip
    except RowError as error:
        raise located(error, block) from None
