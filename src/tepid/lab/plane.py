"""Three classes in a plane and a classifier of them, so that M_k can be drawn: Figure 1."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tepid.arrays import Array, Float64, Int64
from tepid.plots import canvas
from tepid.tails import TOLERANCE, Tails

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CENTRES = np.array([[0.0, 1.6], [-1.4, -0.8], [1.4, -0.8]])
_SPREAD = 0.8
_STEPS = 300


@dataclass(frozen=True)
class Plane:
    """Points (n, 2), and a linear classifier of them: logits are `points @ weights + offsets`."""

    points: Float64
    weights: Float64
    offsets: Float64

    def softmax(self, points: Array) -> Float64:
        """The probabilities of the classes at these points (…, 2)."""
        z = self.logits(points)
        e = np.exp(z - z.max(axis=-1, keepdims=True))
        shares: Float64 = e / e.sum(axis=-1, keepdims=True)
        return shares

    def logits(self, points: Array) -> Float64:
        """The logits of the classes at these points (…, 2)."""
        z: Float64 = points @ self.weights + self.offsets
        return z


def made(rows: int = 450, seed: int = 0) -> Plane:
    r"""Points of three round classes, and the discriminant that their labels give.

    With the classes' means $m_k$ and their common covariance $C$, the logits are
    $x^\top C^{-1} m_k - \tfrac12 m_k^\top C^{-1} m_k + \log \pi_k$ (Fisher's linear discriminant).
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(_CENTRES), rows)
    points = _CENTRES[labels] + _SPREAD * rng.normal(size=(rows, 2))
    return Plane(points, *_discriminant(points, labels))


def _discriminant(points: Float64, labels: Int64) -> tuple[Float64, Float64]:
    means = np.stack([points[labels == k].mean(axis=0) for k in range(len(_CENTRES))])
    within = points - means[labels]
    weights = np.linalg.solve(within.T @ within / len(points), means.T)
    priors = np.bincount(labels) / len(labels)
    return weights, np.log(priors) - 0.5 * (means.T * weights).sum(axis=0)


def draw(plane: Plane) -> "Figure":
    """One picture for each class: M_k is shaded, its edge dashed, the decisions' edges black."""
    figure = canvas.figure(11, 4.3)
    theta = Tails.of(plane.logits(plane.points)).thresholds()
    for k, ax in enumerate(figure.subplots(1, len(_CENTRES), sharex=True, sharey=True)):
        _edges(ax, plane, k, theta[k])
        _points(ax, plane, k, theta[k])
        ax.set(title=f"$M_{k + 1}$: $S_{k + 1} \\geq \\theta_{k + 1} = {theta[k]:.3f}$")
        ax.set_aspect("equal")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _edges(ax: "Axes", plane: Plane, k: int, theta: float) -> None:
    low, high = plane.points.min(axis=0) - 0.3, plane.points.max(axis=0) + 0.3
    x, y = (np.linspace(low[axis], high[axis], _STEPS) for axis in (0, 1))
    grid: Any = np.stack(np.meshgrid(x, y), axis=-1)
    share, z = plane.softmax(grid)[..., k], plane.logits(grid)
    ax.contourf(x, y, share, levels=[theta, 1.0], colors=[canvas.SKY], alpha=0.35)
    ax.contour(x, y, share, levels=[theta], colors=[canvas.BLUE], linestyles="--")
    for other in range(z.shape[-1]):
        lead = z[..., other] - np.delete(z, other, axis=-1).max(axis=-1)
        ax.contour(x, y, lead, levels=[0.0], colors=[canvas.BLACK], linewidths=1.2)


def _points(ax: "Axes", plane: Plane, k: int, theta: float) -> None:
    predicted = plane.logits(plane.points).argmax(axis=1) == k
    drawn = (plane.softmax(plane.points)[:, k] >= theta * (1 - TOLERANCE)) & ~predicted
    kinds = (
        (~predicted & ~drawn, ".", canvas.GREY, "not in it"),
        (predicted, "o", canvas.BLUE, "in it, and predicted so"),
        (drawn, "^", canvas.ORANGE, "in it, drawn in beside them"),
    )
    for rows, marker, colour, label in kinds:
        x, y = plane.points[rows].T
        ax.plot(x, y, marker, color=colour, markersize=4, markeredgewidth=0, label=label)
