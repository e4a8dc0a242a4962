"""Arrays that are read where they lie, a few rows at a time: HDF5 and zarr."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tepid import shapes
from tepid.errors import InputError
from tepid.sources import places, remote, streams
from tepid.sources.extras import needed


def _nothing(_: int) -> Iterator[Any]:
    return iter(())


@dataclass(frozen=True)
class File:
    """An array that is there as a whole, or one of this `shape` that is read block by block.

    `whole` loads such a one after all.
    """

    name: str
    array: Any = None
    read: Callable[[int], Iterator[Any]] = _nothing
    classes: int | None = None
    estimate: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: Any = None
    whole: Callable[[], Any] | None = None

    def column(self, what: str) -> Any:
        """All of it, as one column."""
        whole = self.array
        if whole is None:
            blocks = list(self.read(1 << 16))
            whole = np.concatenate(blocks) if blocks else np.zeros(0)
            if whole.ndim > 1 and whole.shape[1] > 1:
                got = f"{whole.shape[1]} other columns"
                raise InputError(f"{self.name} must have a column {what!r}, got {got}")
        return whole


def member(file: str, fragment: str, wanted: str, members: list[str]) -> str:
    """The member that is asked for, or the only one where none is."""
    name = fragment or wanted
    if name in members:
        return name
    if not fragment and len(members) == 1:
        return members[0]
    raise InputError(f"{file} must have a member {name!r}, got {', '.join(members) or 'none'}")


def open_hdf5(place: str, fragment: str, wanted: str) -> File:
    """A dataset of an HDF5 file; `group/name` is one within a group."""
    return _described(place, fragment, wanted, _hdf5)


def open_zarr(place: str, fragment: str, wanted: str) -> File:
    """An array of zarr, or one of a group of them."""
    return _described(place, fragment, wanted, _zarr)


def members_of(place: str) -> list[str]:
    """The names of the arrays in a file; an array that stands alone has none."""
    opener = _zarr if places.suffix(place) == ".zarr" else _hdf5
    with _refusing(place), opener(place) as group:
        return [] if hasattr(group, "shape") else _arrays(group)


Opener = Callable[[str], contextlib.AbstractContextManager[Any]]


def _described(place: str, fragment: str, wanted: str, opener: Opener) -> File:
    where = partial(_chosen, place, fragment, wanted, opener)
    with where() as array:
        shape, dtype = tuple(array.shape), np.dtype(array.dtype)
    return File(
        places.base(place), read=partial(_rows, where), shape=shape, dtype=dtype,
        whole=partial(_loaded, where),
    )  # fmt: skip


@contextlib.contextmanager
def _chosen(place: str, fragment: str, wanted: str, opener: Opener) -> Iterator[Any]:
    with _refusing(place), opener(place) as group:
        if hasattr(group, "shape"):
            if fragment:
                raise InputError(
                    f"{places.base(place)} must be a group, got #{fragment} of one array"
                )
            yield group
            return
        if fragment not in group or not hasattr(group[fragment], "shape"):
            fragment = member(places.base(place), fragment, wanted, _arrays(group))
        yield group[fragment]


def _rows(where: Callable[[], Any], rows: int) -> Iterator[Any]:
    """Blocks of whole chunks, so that none is decoded twice, or parts of one that is large."""
    with where() as array:
        chunk = (array.chunks or (rows,))[0]
        step = max(chunk, rows // chunk * chunk)
        for start in range(0, array.shape[0], step):
            yield from shapes.slices(np.asarray(array[start : start + step]), rows)


def _loaded(where: Callable[[], Any]) -> Any:
    with where() as array:
        return np.asarray(array[...])


def _arrays(group: Any) -> list[str]:
    return sorted(name for name in group if hasattr(group[name], "shape"))


@contextlib.contextmanager
def _refusing(place: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (*streams.DAMAGE, TypeError, AttributeError) as error:
        name, ending = places.base(place), places.suffix(place)
        said = f"{name} must be a whole {ending} file, got a damaged one ({error})"
        raise InputError(said) from None


@contextlib.contextmanager
def _hdf5(place: str) -> Iterator[Any]:
    h5py = needed("h5py", "files")
    with contextlib.ExitStack() as stack:
        file: Any = stack.enter_context(streams.seekable(place)) if remote.is_url(place) else place
        yield stack.enter_context(h5py.File(file, "r"))


@contextlib.contextmanager
def _zarr(place: str) -> Iterator[Any]:
    yield needed("zarr", "files").open(place, mode="r")
