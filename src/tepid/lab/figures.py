"""The paper's figures: the members of M_k, reliability diagrams, and galleries of images."""

import math
import os
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tepid import plots
from tepid.errors import InputError
from tepid.lab.runs import split_rows
from tepid.lab.sets import LogitSet, find
from tepid.methods import temperature_scaling, uts
from tepid.plots import style
from tepid.report.summaries import EDGES, Example, Members, TopRows, predict, shuffled_score
from tepid.store import atomic_write
from tepid.summaries.reliability import Reliability
from tepid.summaries.tails import TOLERANCE, Tails
from tepid.validation import Array, Float64, Int64

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")


def write(
    folders: Iterable[str | os.PathLike[str]],
    out: Path,
    *,
    form: str = "png",
    images: Array | None = None,
    names: Sequence[str] | None = None,
) -> list[Path]:
    """Write the figures of every set in these folders into the folder `out`; returns the files.

    The split is the first one of the paper's protocol: temperatures are fitted to 20 % of the rows,
    and the figures show the rest. `images`, one for each row, needs a single set; `names` are
    those of its classes.
    """
    if form not in FORMATS:
        raise InputError(f"form must be one of {', '.join(FORMATS)}, got {form}")
    every = find(folders)
    if images is not None and len(every) > 1:
        raise InputError(f"images must be of one set, got {len(every)} sets")
    out.mkdir(parents=True, exist_ok=True)
    written = [_save(draw_plane(make_plane()), out / f"division-plane.{form}")]
    for one in every:
        for name, figure in of_set(one, images, names):
            written.append(_save(figure, out / f"{one.name}-{name}.{form}"))
    return written


def of_set(
    logits: LogitSet, images: Array | None = None, names: Sequence[str] | None = None
) -> Iterator[tuple[str, "Figure"]]:
    """The figures of one set, by name."""
    z, y = logits.read()
    called = [f"class {k}" for k in range(z.shape[1])] if names is None else list(names)
    if len(called) != z.shape[1]:
        raise InputError(f"names must be one for each of {z.shape[1]} classes, got {len(called)}")
    inside, outside = split_rows(len(z))
    yield "division", draw_members(z[inside], called)
    by_uts = uts(z[inside]).value
    ts = temperature_scaling(z[inside], y[inside]).value
    temperatures = {"uncalibrated": 1.0, "UTS": by_uts, "TS, with labels": ts}
    yield "reliability", draw_reliability(z[outside], y[outside], temperatures)
    if images is None:
        return
    if len(images) != len(z):
        raise InputError(f"images must be one for each of the {len(z)} rows, got {len(images)}")
    both = choose_rows(z[outside], y[outside], by_uts)
    for number in GALLERIES:
        yield f"gallery-{number}", draw_gallery(number, both, images[outside], called)


def _save(figure: "Figure", path: Path) -> Path:
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=150)
    return path


# --- Figure 1 for a network: the rows by S_k


_PANELS = 3
_KINDS = (
    ("predicted k", style.BLUE, ""),
    ("added by the threshold", style.ORANGE, "///"),
    ("not in it", style.GRAY, "..."),
)
# Ticks of the log-odds axis, as probabilities.
_TICKS = (1e-4, 1e-2, 0.1, 0.5, 0.9, 0.99, 0.9999)


def draw_members(logits: Array, names: Sequence[str]) -> "Figure":
    """Histograms of S_k, for the three classes whose M_k has most rows that do not predict k.

    The paper's Figure 1 for more than two dimensions: the axis is the softmax of class k in
    log-odds, the dashed line the threshold, and M_k everything to its right.
    """
    members = Members.of(logits, thresholds=Tails.of(logits).thresholds())
    drawn = members.histogram[:, 1].sum(axis=1)
    chosen = np.argsort(-drawn, kind="stable")[:_PANELS]
    figure = style.make_figure(4 * len(chosen), 3.4)
    for k, ax in zip(chosen.tolist(), np.ravel(figure.subplots(1, len(chosen))), strict=True):
        _draw_class(ax, members, k)
        ax.set(title=names[k], xlabel=f"softmax of {names[k]}", ylabel="rows")
    return figure


def _draw_class(ax: "Axes", members: Members, k: int) -> None:
    ends = _log_odds(EDGES)
    step = ends[1] - ends[0]
    left = np.concatenate([[ends[0] - step], ends])
    for counts, (label, color, hatch) in zip(members.histogram[k], _KINDS, strict=True):
        ax.bar(
            left, counts, step, align="edge", color=color, edgecolor="white", linewidth=0.3,
            hatch=hatch, alpha=0.8, label=f"{label}: {counts.sum():,.0f}",
        )  # fmt: skip
    theta = members.thresholds[k]
    edge = _log_odds(np.clip(theta, 1e-12, 1 - 1e-12))
    ax.axvline(float(edge), color=style.BLUE, linestyle="--", label=f"θ = {theta:.3g}")
    ax.set_yscale("log")
    ax.set_xticks(_log_odds(np.array(_TICKS)), [f"{tick:g}" for tick in _TICKS])
    ax.legend(fontsize="x-small")


def _log_odds(share: Array) -> Float64:
    return np.asarray(np.log(share / (1 - share)))


def draw_reliability(logits: Array, labels: Int64, temperatures: dict[str, float]) -> "Figure":
    """Reliability diagrams at each of these temperatures, side by side."""
    figure = style.make_figure(4 * len(temperatures), 4.6)
    places = np.ravel(figure.subplots(1, len(temperatures)))
    for ax, (name, t) in zip(places, temperatures.items(), strict=True):
        plots.reliability(Reliability.of_logits(logits, labels, temperature=t), ax)
        ax.set_xlabel(f"confidence; {name}, T = {t:.3f}")
    return figure


# --- Figure 1 in a plane: three classes and a linear classifier


_CENTERS = np.array([[0.0, 1.6], [-1.4, -0.8], [1.4, -0.8]])
_SPREAD = 0.8
_STEPS = 300


@dataclass(frozen=True)
class Plane:
    """Points (n, 2) and a linear classifier: logits are `points @ weights + offsets`."""

    points: Float64
    weights: Float64
    offsets: Float64

    def logits(self, points: Array) -> Float64:
        """The logits of the classes at these points (…, 2)."""
        return np.asarray(points @ self.weights + self.offsets)

    def softmax(self, points: Array) -> Float64:
        """The probabilities of the classes at these points (…, 2)."""
        e = np.exp(self.logits(points))
        return np.asarray(e / e.sum(axis=-1, keepdims=True))


def make_plane(rows: int = 450, seed: int = 0) -> Plane:
    r"""Points of three round classes, and the linear discriminant fitted to their labels.

    With the classes' means $m_k$ and their common covariance $C$, the logits are
    $x^\top C^{-1} m_k - \tfrac12 m_k^\top C^{-1} m_k + \log \pi_k$ (Fisher's linear discriminant).
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(_CENTERS), rows)
    points = _CENTERS[labels] + _SPREAD * rng.normal(size=(rows, 2))
    means = np.stack([points[labels == k].mean(axis=0) for k in range(len(_CENTERS))])
    within = points - means[labels]
    weights = np.linalg.solve(within.T @ within / rows, means.T)
    offsets = np.log(np.bincount(labels) / rows) - 0.5 * (means.T * weights).sum(axis=0)
    return Plane(points, weights, offsets)


def draw_plane(plane: Plane) -> "Figure":
    """One panel per class: M_k shaded, its edge dashed, the decision boundaries black."""
    figure = style.make_figure(11, 4.3)
    theta = Tails.of(plane.logits(plane.points)).thresholds()
    for k, ax in enumerate(figure.subplots(1, len(_CENTERS), sharex=True, sharey=True)):
        _draw_edges(ax, plane, k, theta[k])
        _draw_points(ax, plane, k, theta[k])
        ax.set(title=f"$M_{k + 1}$: $S_{k + 1} \\geq \\theta_{k + 1} = {theta[k]:.3f}$")
        ax.set_aspect("equal")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_edges(ax: "Axes", plane: Plane, k: int, theta: float) -> None:
    low, high = plane.points.min(axis=0) - 0.3, plane.points.max(axis=0) + 0.3
    x, y = (np.linspace(low[axis], high[axis], _STEPS) for axis in (0, 1))
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    share, z = plane.softmax(grid)[..., k], plane.logits(grid)
    ax.contourf(x, y, share, levels=[theta, 1.0], colors=[style.SKY], alpha=0.35)
    ax.contour(x, y, share, levels=[theta], colors=[style.BLUE], linestyles="--")
    for other in range(z.shape[-1]):
        lead = z[..., other] - np.delete(z, other, axis=-1).max(axis=-1)
        ax.contour(x, y, lead, levels=[0.0], colors=[style.BLACK], linewidths=1.2)


def _draw_points(ax: "Axes", plane: Plane, k: int, theta: float) -> None:
    predicted = plane.logits(plane.points).argmax(axis=1) == k
    drawn = (plane.softmax(plane.points)[:, k] >= theta * (1 - TOLERANCE)) & ~predicted
    kinds = (
        (~predicted & ~drawn, ".", style.GRAY, "not in it"),
        (predicted, "o", style.BLUE, "in it, and predicted so"),
        (drawn, "^", style.ORANGE, "in it, added by the threshold"),
    )
    for rows, marker, color, label in kinds:
        x, y = plane.points[rows].T
        ax.plot(x, y, marker, color=color, markersize=4, markeredgewidth=0, label=label)


# --- Figures 2 and 3: galleries


# The paper's figures by number: images of each kind, and images per line.
GALLERIES = {2: (3, 3), 3: (8, 4)}
_LETTERS = 30  # per line above an image


@dataclass(frozen=True)
class GalleryRows:
    """Examples of correct or of wrong rows, and the mean confidence of all such rows."""

    picks: list[Example]
    before: float
    after: float


def choose_rows(
    logits: Array, labels: Int64, temperature: float
) -> tuple[GalleryRows, GalleryRows]:
    """Correct and wrong rows, both in a fixed random order, so that they show the average effect.

    The most confident mistakes, which a report shows, stay confident at any temperature.
    """
    before, after = (predict(logits, labels=labels, temperature=t) for t in (1.0, temperature))
    columns = (labels, before.best, before.confidence, after.confidence)

    def of(kind: Array) -> GalleryRows:
        rows = np.flatnonzero(kind)
        own = [column[rows] for column in columns]
        means = [float(column.mean()) if len(rows) else math.nan for column in own[2:]]
        return GalleryRows(TopRows.of(shuffled_score(rows), rows, *own).examples(), *means)

    right = before.best == labels
    return of(right), of(~right)


def draw_gallery(
    number: int, both: tuple[GalleryRows, GalleryRows], images: Array, names: Sequence[str]
) -> "Figure":
    """Figure 2 or 3 of the paper: correct rows above, wrong rows below.

    `images` are uint8 (n, h, w) or (n, h, w, 3), one for each row of the logits.
    """
    count, across = GALLERIES[number]
    parts = [part.picks[:count] for part in both]
    lines = [-(-len(part) // across) for part in parts]
    if not sum(lines):
        raise InputError("gallery must hold at least one row, got none")
    figure = style.make_figure(2.3 * across, 2.9 * sum(lines))
    places = np.reshape(figure.subplots(sum(lines), across), (sum(lines), across))
    for ax in places.flat:
        ax.set_axis_off()
    for part, start in zip(parts, (0, lines[0]), strict=True):
        for place, pick in enumerate(part):
            _draw_image(places[start + place // across, place % across], pick, images, names)
    captions = (
        f"{kind}: mean confidence {part.before:.2f} before, {part.after:.2f} after"
        for kind, part in zip(("right", "wrong"), both, strict=True)
    )
    figure.suptitle("\n".join(captions), fontsize=10, x=0.01, ha="left")
    return figure


def _draw_image(ax: "Axes", pick: Example, images: Array, names: Sequence[str]) -> None:
    pixels = np.squeeze(np.asarray(images[pick.row]))
    ax.imshow(pixels, cmap="gray" if pixels.ndim == 2 else None)
    lines = (
        f"label {names[pick.label]}",
        f"predicted {names[pick.prediction]}",
        f"confidence {pick.before:.2f}",
        f"calibrated {pick.after:.2f}",
    )
    title = "\n".join(textwrap.fill(line, _LETTERS) for line in lines)
    color = style.BLACK if pick.label == pick.prediction else style.VERMILION
    ax.set_title(title, fontsize=8, loc="left", color=color)
