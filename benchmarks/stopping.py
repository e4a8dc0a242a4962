"""Labeled temperature scaling by iterations that stop after a number of steps."""

from collections.abc import Callable
from typing import Any

import torch

START = 1.5  # where gpleiss/temperature_scaling begins


def temperatures(logits: Any, labels: Any) -> dict[str, float]:
    """T by each way of stopping early, from the same rows."""
    z, y = torch.from_numpy(logits), torch.from_numpy(labels)
    return {name: way(z, y) for name, way in WAYS.items()}


def _lbfgs(rate: float, steps: int) -> Callable[[Any, Any], float]:
    def way(z: Any, y: Any) -> float:
        t = torch.tensor([START], requires_grad=True)
        optimizer = torch.optim.LBFGS([t], lr=rate, max_iter=steps)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(z / t, y)
            loss.backward()
            return loss

        optimizer.step(closure)
        return t.item()

    return way


def _descent(kind: Any, rate: float, steps: int) -> Callable[[Any, Any], float]:
    def way(z: Any, y: Any) -> float:
        t = torch.tensor([START], requires_grad=True)
        optimizer = kind([t], lr=rate)
        for _ in range(steps):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(z / t, y).backward()
            optimizer.step()
        return t.item()

    return way


WAYS: dict[str, Callable[[Any, Any], float]] = {
    "L-BFGS, rate 0.01, 50 steps": _lbfgs(0.01, 50),  # the setting of gpleiss/temperature_scaling
    "gradient descent, rate 0.01, 50 steps": _descent(torch.optim.SGD, 0.01, 50),
    "Adam, rate 0.01, 50 steps": _descent(torch.optim.Adam, 0.01, 50),
    "Adam, rate 0.1, 50 steps": _descent(torch.optim.Adam, 0.1, 50),
}
