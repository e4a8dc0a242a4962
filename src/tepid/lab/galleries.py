"""Images with what calibration did to the confidence in them: the paper's Figures 2 and 3."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tepid.arrays import Array, Int64
from tepid.errors import InputError
from tepid.plots import canvas
from tepid.report.picks import Pick, Top, lot
from tepid.report.summaries import predictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How many images of each kind there are in the paper's figures, and how many in a row.
FIGURES = {2: (3, 3), 3: (8, 4)}
_LETTERS = 30  # of a line above an image


@dataclass(frozen=True)
class Chosen:
    """Rows that are right or that are wrong, and the mean confidence of all such rows."""

    picks: list[Pick]
    before: float
    after: float

    def said(self, kind: str) -> str:
        """The means in words."""
        return f"{kind}: mean confidence {self.before:.2f} before, {self.after:.2f} after"


def chosen(logits: Array, labels: Int64, temperature: float) -> tuple[Chosen, Chosen]:
    """Rows that are right and rows that are wrong, both by a fixed lot, so that nobody chose them.

    The surest mistakes, which a report shows, stay sure at any temperature; these are what
    calibration does on average.
    """
    before, after = (predictions(logits, labels=labels, temperature=t) for t in (1.0, temperature))
    columns = (labels, before.best, before.confidence, after.confidence)

    def of(kind: Array) -> Chosen:
        rows = np.flatnonzero(kind)
        own = [column[rows] for column in columns]
        means = [float(column.mean()) if len(rows) else math.nan for column in own[2:]]
        return Chosen(Top.of(lot(rows), rows, *own).picks(), *means)

    right = before.best == labels
    return of(right), of(~right)


def draw(number: int, both: tuple[Chosen, Chosen], images: Any, names: Sequence[str]) -> "Figure":
    """Figure 2 or 3 of the paper: rows that were right above, rows that were wrong below.

    `images` are uint8 (n, h, w) or (n, h, w, 3), one for each row of the logits.
    """
    if number not in FIGURES:
        raise InputError(f"number must be 2 or 3, got {number}")
    count, across = FIGURES[number]
    parts = [part.picks[:count] for part in both]
    lines = [-(-len(part) // across) for part in parts]
    if not sum(lines):
        raise InputError("gallery must hold at least one row, got none")
    figure = canvas.figure(2.3 * across, 2.9 * sum(lines))
    places = np.reshape(figure.subplots(sum(lines), across), (sum(lines), across))
    for ax in places.flat:
        ax.set_axis_off()
    for part, start in zip(parts, (0, lines[0]), strict=True):
        for place, pick in enumerate(part):
            _image(places[start + place // across, place % across], pick, images, names)
    said = (part.said(kind) for part, kind in zip(both, ("right", "wrong"), strict=True))
    figure.suptitle("\n".join(said), fontsize=10, x=0.01, ha="left")
    return figure


def _image(ax: Any, pick: Pick, images: Any, names: Sequence[str]) -> None:
    pixels = np.squeeze(np.asarray(images[pick.row]))
    ax.imshow(pixels, cmap="gray" if pixels.ndim == 2 else None)
    lines = (f"label {names[pick.label]}", f"predicted {names[pick.prediction]}")
    numbers = f"confidence {pick.before:.2f}\ncalibrated {pick.after:.2f}"
    ax.set_title(
        "\n".join([*(textwrap.fill(line, _LETTERS) for line in lines), numbers]),
        fontsize=8,
        loc="left",
        color=canvas.BLACK if pick.label == pick.prediction else canvas.VERMILION,
    )
