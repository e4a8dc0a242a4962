"""Images with what calibration did to the confidence in them: the paper's Figures 2 and 3."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tepid.arrays import Array, Int64
from tepid.errors import InputError
from tepid.plots import canvas
from tepid.report.picks import Pick, Picks
from tepid.report.summaries import predictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How many images of each kind there are in the paper's figures, and how many in a row.
FIGURES = {2: (3, 3), 3: (8, 4)}


def picked(logits: Array, labels: Int64, temperature: float) -> tuple[list[Pick], list[Pick]]:
    """Rows that are right, by a fixed lot, and the surest of those that are wrong."""
    before, after = (predictions(logits, labels=labels, temperature=t) for t in (1.0, temperature))
    rows = np.arange(len(logits))
    picks = Picks.of(before, after, rows, there=np.ones(len(logits), bool), labels=labels)
    return picks.right.picks(), picks.wrong.picks()


def draw(
    number: int, picks: tuple[list[Pick], list[Pick]], images: Any, names: Sequence[str]
) -> "Figure":
    """Figure 2 or 3 of the paper: rows that were right above, rows that were wrong below.

    `images` are uint8 (n, h, w) or (n, h, w, 3), one for each row of the logits.
    """
    if number not in FIGURES:
        raise InputError(f"number must be 2 or 3, got {number}")
    count, across = FIGURES[number]
    parts = [part[:count] for part in picks]
    lines = [-(-len(part) // across) for part in parts]
    if not sum(lines):
        raise InputError("picks must hold at least one row, got none")
    figure = canvas.figure(2.3 * across, 2.9 * sum(lines))
    places = np.reshape(figure.subplots(sum(lines), across), (sum(lines), across))
    for ax in places.flat:
        ax.set_axis_off()
    for part, start in zip(parts, (0, lines[0]), strict=True):
        for place, pick in enumerate(part):
            _image(places[start + place // across, place % across], pick, images, names)
    return figure


def _image(ax: Any, pick: Pick, images: Any, names: Sequence[str]) -> None:
    pixels = np.squeeze(np.asarray(images[pick.row]))
    ax.imshow(pixels, cmap="gray" if pixels.ndim == 2 else None)
    ax.set_title(
        f"label {names[pick.label]}\npredicted {names[pick.prediction]}\n"
        f"confidence {pick.before:.2f}\ncalibrated {pick.after:.2f}",
        fontsize=8,
        loc="left",
        color=canvas.BLACK if pick.label == pick.prediction else canvas.VERMILION,
    )
