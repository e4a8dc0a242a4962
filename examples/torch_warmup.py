"""A classifier in service that fits its temperature to the first requests and its accuracy.

It needs no labels and no loader. The wrapped model answers the first 2000 rows at T = 1 and all
later rows at the temperature fitted to them.
"""

import logging

import torch
from torch import nn

import tepid


def main() -> None:
    """Serve a stream of small batches."""
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = nn.Linear(20, 10).eval()  # in place of your network
    with torch.no_grad():
        model.weight.copy_(12 * torch.randn(10, 20, generator=generator) / 20**0.5)

    serving = tepid.torch.Warmup(model, samples=2000, accuracy=0.8)
    with torch.no_grad():
        for request in range(200):
            inputs = torch.randn(16, 20, generator=generator)
            t = float(serving.temperature)
            probabilities = serving.probabilities(inputs)
            if request in (0, 124, 125, 199):
                sure = float(probabilities.amax(dim=1).mean())
                print(f"request {request:>3}: T = {t:.3f}, mean confidence {sure:.3f}")

    fixed = serving.calibrated()  # the same model without the bookkeeping
    assert torch.equal(fixed.probabilities(inputs), serving.probabilities(inputs))


if __name__ == "__main__":
    main()
