"""Many files as one source: looked at before any work, and each of them a part."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from tepid import arrays
from tepid.errors import InputError, RowError
from tepid.sources import arrayed, arrow, beside, digests, files, places, remote, sheets, stored
from tepid.sources.ahead import ahead
from tepid.sources.block import Block, Part, Source
from tepid.sources.columns import LABELS
from tepid.sources.parts import from_parts
from tepid.sources.shard import Look, Shard

# To decode so many takes a tenth of a second, and a task of Dask some thousandths.
_LOGITS_PER_PIECE = 1 << 24
# Each piece reads what the file says of all its row groups, so that there must not be too many.
_PIECES = 64
# Looking at a file that lies elsewhere is waiting, most of all.
_LOOKING = 16


def looked(shards: tuple[Shard, ...]) -> tuple[Look, ...]:
    """What each file says of itself; all of them must be laid out alike."""
    with ThreadPoolExecutor(min(_LOOKING, len(shards))) as pool:
        looks = tuple(pool.map(look, shards))
    _check_alike(shards, looks)
    return looks


def look(shard: Shard) -> Look:
    """What a file says of itself before its rows are read."""
    check_kind(shard)
    if shard.is_table:
        return sheets.look(shard) if shard.is_text else arrow.look(shard)
    path = places.with_fragment(shard.place, shard.fragment)
    file = files.peeked(path, "logits")
    source = arrayed.from_file(_described(file), shard.name, shard.class_axis)
    members = () if shard.fragment else tuple(files.members(shard.place))
    return Look(
        source.classes,
        _kind(file),
        labelled=any(name in LABELS for name in members),
        rows=source.rows,
        lead=source.lead,
        binary=source.binary,
    )


def check_kind(shard: Shard) -> None:
    """Refuse what is no file of logits, or has no columns to filter by."""
    ending = places.suffix(shard.place)
    if not places.exists(shard.place):
        raise InputError(f"logits file must exist, got {shard.place}")
    if ending not in places.KNOWN:
        raise InputError(f"logits file must end in {places.ENDINGS}, got {shard.name}")
    if shard.filter and not shard.is_table:
        raise InputError(f"filter must go with tables, .csv or .parquet, got {shard.name}")
    if shard.is_table and shard.class_axis not in (None, 1, -1):
        raise InputError(f"class_axis must be left out for a table, got {shard.class_axis}")


def _described(file: stored.File) -> stored.File:
    """The same file without what would be read."""
    if file.array is None:
        return dataclasses.replace(file, whole=None)
    return stored.File(file.name, shape=tuple(file.array.shape), dtype=file.array.dtype)


def _kind(file: stored.File) -> str:
    kind = np.dtype(file.dtype if file.array is None else file.array.dtype)
    return "floating-point numbers" if kind.kind in "fV" else str(kind)


def _check_alike(shards: tuple[Shard, ...], looks: tuple[Look, ...]) -> None:
    """Refuse a set of which some files differ, naming the first that is not as most are."""
    usual = most_common(looks)
    for shard, found in zip(shards, looks, strict=True):
        difference = differing(found, usual)
        if difference:
            raise InputError(f"{shard.name} must be laid out as the other files are, {difference}")


def most_common(looks: tuple[Look, ...]) -> Look:
    """One of those files that are laid out as most are."""
    counts = Counter(look.layout for look in looks)
    layout = counts.most_common(1)[0][0]
    return next(look for look in looks if look.layout == layout)


def differing(found: Look, usual: Look) -> str:
    """In what a file differs from the others, or nothing."""
    named = found.logits and usual.logits  # an array has no names to differ in
    for what, got, must in (
        ("classes", found.classes, usual.classes),
        ("values", found.kind, usual.kind),
        ("columns of logits", _names(found if named else usual), _names(usual)),
        ("labels", "labels" if found.labelled else "none", "labels" if usual.labelled else "none"),
    ):
        if got != must:
            return f"with {what} {must}, got {got}"
    return ""


def _names(look: Look) -> str:
    return ", ".join(look.logits[:20])


def joined(shards: tuple[Shard, ...], looks: tuple[Look, ...], name: str) -> Source:
    """The source of files that were looked at."""
    usual = most_common(looks)
    if usual.labelled:
        shards = tuple(s if s.labels else dataclasses.replace(s, labels="#labels") for s in shards)
    parts = tuple(part_of(*pair) for pair in zip(shards, looks, strict=True))
    counts = [look.estimate if look.rows is None else look.rows for look in looks]
    source = from_parts(
        parts,
        name=name,
        classes=usual.classes,
        columns=list(shards[0].columns),
        estimate=None if None in counts else sum(count or 0 for count in counts),
    )
    lead = looks[0].lead if len(looks) == 1 else None
    mapped = all(map(_is_mapped, shards))
    read = source.read if mapped else partial(ahead, source.read)
    decoded = not mapped and not any(map(_is_whole, shards))
    return dataclasses.replace(source, read=read, binary=usual.binary, lead=lead, decoded=decoded)


def _is_mapped(shard: Shard) -> bool:
    """Whether a file is read as memory is, which nothing can be gained over."""
    here = not remote.is_url(shard.place)
    return here and places.suffix(shard.place) in (".npy", ".safetensors")


def _is_whole(shard: Shard) -> bool:
    """Whether a file is in memory as a whole while it is read, so that one at a time is enough."""
    return places.suffix(shard.place) in (".npz", ".pt", ".pth")


def part_of(shard: Shard, found: Look) -> Part:
    """A file as a part, which is opened when it is read."""
    digest = partial(digests.digest, shard)
    return Part(
        shard.name, partial(blocks, shard), found.rows, digest, pieces=_pieces(shard, found)
    )


def _pieces(shard: Shard, found: Look) -> tuple[Part, ...]:
    """Runs of a file's row groups, where all of them are wanted and nothing is in another file."""
    if shard.filter or len(shard.own) < len(shard.columns):
        return ()
    enough = _LOGITS_PER_PIECE // max(1, found.classes or 2)
    runs = _runs(found.row_groups, max(enough, sum(found.row_groups) // _PIECES))
    return tuple(_piece(shard, found, run) for run in runs) if len(runs) > 1 else ()


def _piece(shard: Shard, found: Look, run: tuple[int, int]) -> Part:
    own = dataclasses.replace(shard, row_groups=run)
    return Part(shard.name, partial(blocks, own), sum(found.row_groups[slice(*run)]))


def _runs(counts: tuple[int, ...], rows: int) -> list[tuple[int, int]]:
    """Neighbours taken together until they have so many rows."""
    runs, start, there = [], 0, 0
    for stop, count in enumerate(counts, start=1):
        there += count
        if there >= rows or stop == len(counts):
            runs.append((start, stop))
            start, there = stop, 0
    return runs


def blocks(shard: Shard, rows: int) -> Iterator[Block]:
    """The rows of a file with all that stands beside them."""
    loose = {
        role: beside.column(where, role, shard)
        for role, where in shard.columns.items()
        if not (shard.is_table and where.startswith("#"))
    }
    seen = 0
    for block in _bare(shard, rows):
        seen = block.row(len(block.logits) - 1) + 1
        found = {role: _cut(column, block, role) for role, column in loose.items()}
        yield _with_logits(block._replace(**found), shard)
    for role, column in loose.items():
        if not shard.filter and len(column) != seen:
            raise beside.mismatch(role, shard.name, seen, len(column))


def _bare(shard: Shard, rows: int) -> Iterator[Block]:
    if shard.is_table:
        yield from sheets.blocks(shard, rows) if shard.is_text else arrow.blocks(shard, rows)
        return
    path = places.with_fragment(shard.place, shard.fragment)
    file = files.open_array(path, "logits", "logits file")
    start = 0
    for piece in arrayed.from_file(file, shard.name, shard.class_axis).read(rows):
        yield Block(piece, None, None, start, shard.name, at=start)
        start += len(piece)


def _with_logits(block: Block, shard: Shard) -> Block:
    if not shard.probabilities:
        return block
    try:
        return block._replace(logits=arrays.logits_of(block.logits))
    except RowError as error:
        name = f"{error.name} of {shard.name}"
        raise RowError(name, error.must, error.got, block.row(error.row)) from None


def _cut(column: Any, block: Block, role: str) -> Any:
    last = block.row(len(block.logits) - 1) + 1
    if len(column) < last:
        raise beside.mismatch(role, block.name, last, len(column))
    return column[block.row(0) : last] if isinstance(block.at, int) else column[block.at]
