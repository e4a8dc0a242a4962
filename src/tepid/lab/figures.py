"""Every figure of a set of logits, written as files."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tepid import protocol
from tepid.arrays import Array, Int64
from tepid.errors import InputError
from tepid.lab import drawing, galleries, plane
from tepid.lab.sets import LogitSet, find
from tepid.methods import from_labels, from_logits
from tepid.replacing import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRACTION = 0.2
FORMS = ("png", "svg", "pdf")


def write(
    folders: Iterable[str | os.PathLike[str]],
    out: Path,
    *,
    form: str = "png",
    images: Any = None,
    names: Sequence[str] | None = None,
) -> list[Path]:
    """Write the figures of every set in these folders into the folder `out`; returns the files.

    Of each set the first split of the paper's protocol: 20 % of the rows give the temperatures,
    and the figures show the rest. `images`, one for each row, and `names`, one for each class, are
    of the one set that there is.
    """
    if form not in FORMS:
        raise InputError(f"form must be one of {', '.join(FORMS)}, got {form}")
    every = find(folders)
    if images is not None and len(every) > 1:
        raise InputError(f"images must be of one set, got {len(every)} sets")
    out.mkdir(parents=True, exist_ok=True)
    written = [_saved(plane.draw(plane.made()), out / f"division-plane.{form}")]
    for one in every:
        for name, figure in of_set(one, images, names):
            written.append(_saved(figure, out / f"{one.name}-{name}.{form}"))
    return written


def of_set(
    logits: LogitSet, images: Any = None, names: Sequence[str] | None = None
) -> Iterator[tuple[str, "Figure"]]:
    """The figures of one set, by name."""
    z, y = logits.read()
    called = [f"class {k}" for k in range(z.shape[1])] if names is None else list(names)
    if len(called) != z.shape[1]:
        raise InputError(f"names must be one for each of {z.shape[1]} classes, got {len(called)}")
    inside, outside = protocol.split(len(z), round(FRACTION * len(z)), 0, 0)
    uts = from_logits(z[inside]).value
    ts = from_labels(z[inside], y[inside]).value
    yield "division", drawing.division(z[inside], called)
    temperatures = {"uncalibrated": 1.0, "UTS": uts, "TS, with labels": ts}
    yield "reliability", drawing.reliabilities(z[outside], y[outside], temperatures)
    if images is not None:
        yield from _galleries(
            z[outside], y[outside], uts, _checked(images, len(z))[outside], called
        )


def _galleries(
    z: Array, y: Int64, temperature: float, images: Any, names: Sequence[str]
) -> Iterator[tuple[str, "Figure"]]:
    both = galleries.chosen(z, y, temperature)
    for number in galleries.FIGURES:
        yield f"gallery-{number}", galleries.draw(number, both, images, names)


def _checked(images: Any, rows: int) -> Any:
    if len(images) != rows:
        raise InputError(f"images must be one for each of the {rows} rows, got {len(images)}")
    return images


def _saved(figure: "Figure", path: Path) -> Path:
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=150)
    return path
