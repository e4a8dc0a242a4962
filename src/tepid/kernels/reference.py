"""The sums of the kernels, in plain array code and float64.

The kernels are tested against this, and arrays that NumPy cannot read, such as tensors on a GPU,
are summed by it where they live; only the sums come back. It uses the names that NumPy, torch and
the array API share.
"""

import sys
from typing import Any

import numpy as np

from tepid.validation import Float64, unusable


def namespace(z: Any) -> Any:
    """The module whose functions take this array."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(z, torch.Tensor):
        return torch
    return z.__array_namespace__() if hasattr(z, "__array_namespace__") else np


def _distances(xp: Any, z: Any) -> tuple[Any, Any, Any]:
    """D = z - max z, the first argmax, and which classes are not masked."""
    z = z.double() if hasattr(z, "double") else xp.asarray(z, dtype=xp.float64)
    largest = xp.amax(z, axis=1) if hasattr(xp, "amax") else xp.max(z, axis=1)
    bad = ~(xp.isfinite(largest) & ~xp.any(xp.isnan(z), axis=1))
    if bool(xp.any(bad)):
        row = int(xp.argmax(xp.where(bad, 1, 0)))
        raise unusable(brought(z[row : row + 1]), 0).moved(row)
    return z - largest[:, None], xp.argmax(z, axis=1), z > -float("inf")


def _softmax(xp: Any, d: Any) -> Any:
    # The kernels' float32 exponential ends here; one definition on every device.
    e = xp.exp(d) * (d > -87.0)
    return e / xp.sum(e, axis=1)[:, None]


def tail_sums(z: Any, weight: Float64) -> Float64:
    """As `tails.tail_sums`, returned."""
    xp = namespace(z)
    k = z.shape[1]
    if not z.shape[0]:
        return np.zeros((4, k))
    d, best, _ = _distances(xp, z)
    u = _like(xp, d, weight)[:, None]
    s = _softmax(xp, d)
    hit = best[:, None] == xp.arange(k, **_device(d))[None, :]
    outside = xp.where(hit, 0.0 * s, s)
    rows = (u * hit, u * outside, u * outside**2, u * (s - outside))
    return np.stack([brought(xp.sum(r, axis=0)) for r in rows])


def curve_sums(
    z: Any, weight: Float64, thresholds: Any, labels: Any, unit: Any, scales: Any, lengths: Any,
    totals: Float64, per: Float64, curves: Float64, confidence: Float64, histogram: Float64,
) -> int:  # fmt: skip
    """As `curves.curve_sums`, one exponential per node; raises where a row cannot be used."""
    if not z.shape[0]:
        return -1
    xp = namespace(z)
    d, best, live = _distances(xp, z)
    x = xp.where(live, d * float(unit), -float("inf"))
    finite = xp.where(live, x, 0.0 * x.shape[0])
    u = _like(xp, d, weight)
    classes, ties = xp.sum(1.0 * live, axis=1), xp.sum(1.0 * (d == 0), axis=1)
    mean = xp.sum(finite, axis=1) / classes
    totals += _sums(xp, (0 * u + 1, u, u / classes, u / ties, u * mean, u * u))
    pairs = _pairs(xp, d, finite, thresholds, labels)
    for w, (count, pull) in enumerate(pairs):
        a, c = u * count, u * pull
        per[w] += _sums(xp, (a, c, c * c, a * mean))
    correct = xp.where(best == _like(xp, best, labels), 1.0, 0.0) if len(labels) else 0.0 * u
    order = [(m, r) for m in range(max(lengths)) for r in range(len(scales)) if m < lengths[r]]
    for q, (m, r) in enumerate(order):
        _node(xp, x, finite, float(scales[r]) * 2.0**m, u, pairs, curves[q], confidence[q])
        _bins(xp, x, float(scales[r]) * 2.0**m, u, correct, histogram[q])
    return -1


def accepted_sums(z: Any, beta: float, threshold: float) -> Float64:
    """As `served.accepted_sums`, returned."""
    xp = namespace(z)
    share = 1.0 / xp.sum(xp.exp(beta * _distances(xp, z)[0]), axis=1)
    accepted = 1.0 * (share >= threshold)
    return np.asarray(_sums(xp, (accepted, accepted * share)), np.float64)


def _pairs(xp: Any, d: Any, x: Any, thresholds: Any, labels: Any) -> list[tuple[Any, Any]]:
    s = _softmax(xp, d)
    pairs = []
    for theta in thresholds:
        inside = (s >= _like(xp, d, theta)[None, :]) & (s > 0)
        pairs.append((xp.sum(1.0 * inside, axis=1), xp.sum(xp.where(inside, x, 0.0 * x), axis=1)))
    if len(labels):
        hit = _like(xp, d, labels)[:, None] == xp.arange(d.shape[1], **_device(d))[None, :]
        pairs.append((xp.sum(1.0 * hit, axis=1), xp.sum(xp.where(hit, x, 0.0 * x), axis=1)))
    return pairs


def _node(
    xp: Any, x: Any, finite: Any, scale: float, u: Any, pairs: Any, curve: Any, confidence: Any
) -> None:
    e = xp.exp(scale * x)
    total = xp.sum(e, axis=1)
    p = e / total[:, None]
    mean = xp.sum(p * finite, axis=1)
    variance = xp.sum(p * finite**2, axis=1) - mean**2
    share = 1.0 / total
    rows = (
        u * (1 - share),
        -u * share * mean,
        u * share * (mean**2 - variance),
        u * (1 - share) ** 2,
    )
    confidence += _sums(xp, rows)
    for w, (count, pull) in enumerate(pairs):
        a, c = u * count, u * pull
        g = a * mean
        curve[w] += _sums(xp, (a * xp.log(total), g, a * variance, g * g, g * c))


def _sums(xp: Any, columns: tuple[Any, ...]) -> Any:
    # One transfer for all of them: a device is waited for once.
    return brought(xp.sum(xp.stack(columns), axis=1))


def _bins(xp: Any, x: Any, scale: float, u: Any, correct: Any, out: Any) -> None:
    bins = out.shape[1]
    if not bins:
        return
    share = brought(1.0 / xp.sum(xp.exp(scale * x), axis=1))
    where = np.clip(
        np.searchsorted(np.arange(bins + 1) / bins, share, side="left") - 1, 0, bins - 1
    )
    u, correct = brought(u), brought(correct)
    for i, values in enumerate((u, u * share, u * correct)):
        out[i] += np.bincount(where, values, bins)


def _like(xp: Any, z: Any, values: Any) -> Any:
    return xp.asarray(np.asarray(values), **_device(z))


def _device(z: Any) -> dict[str, Any]:
    return {"device": z.device} if hasattr(z, "device") and not isinstance(z, np.ndarray) else {}


def brought(values: Any) -> Any:
    """A small array in memory where NumPy can read it."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)
