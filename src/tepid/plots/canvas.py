"""Where to draw, and in which colours."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito (2008), told apart by people who see few colours and, by their order in lightness,
# in grey; where two of them meet, a hatch or a dash tells them apart as well.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GREY = "#999999"


def axes(ax: "Axes | None", *, width: float = 5.0, height: float = 4.0) -> "Axes":
    """The axes that were given, or new ones of so many inches on a figure of their own."""
    return figure(width, height).add_subplot() if ax is None else ax


def figure(width: float, height: float) -> "Figure":
    """An empty figure of so many inches, which pyplot does not know of."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # so that tables need no matplotlib
    except ImportError:
        raise ImportError(
            "tepid.plots must have matplotlib, got none; pip install 'tepid[plots]' brings it"
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def unit_square(ax: "Axes") -> None:
    """Both axes from 0 to 1, with the diagonal that calibration lies on."""
    ax.plot([0, 1], [0, 1], color=BLACK, linestyle="--", linewidth=1, label="calibrated")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
