"""Axes, figures and colors that every plot uses."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito (2008), which color-blind readers can tell apart. Where two colors
# meet, a hatch or a dash also separates them in grayscale.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GRAY = "#999999"


def make_axes(ax: "Axes | None", *, width: float = 5.0, height: float = 4.0) -> "Axes":
    """The axes given, or new ones on a figure of this size in inches."""
    return make_figure(width, height).add_subplot() if ax is None else ax


def make_figure(width: float, height: float) -> "Figure":
    """An empty figure of this size in inches, which is not registered with pyplot."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # tables need no matplotlib
    except ImportError:
        raise ImportError(
            "tepid.plots must have matplotlib, got none; pip install 'tepid[plots]' brings it"
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def draw_unit_square(ax: "Axes") -> None:
    """Limit both axes to 0..1 and draw the diagonal, where confidence equals accuracy."""
    ax.plot([0, 1], [0, 1], color=BLACK, linestyle="--", linewidth=1, label="calibrated")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
