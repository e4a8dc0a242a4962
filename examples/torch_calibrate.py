"""A PyTorch classifier, calibrated over a loader without labels.

Trains a small network until it overfits synthetic data, and calibrates it on unlabeled rows twice:
from its logits alone, and from its accuracy, which a test report would give.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tepid


def data(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and labels of five overlapping classes."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(5, 20, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(5, (rows,), generator=generator)
    return centers[labels] + 2.2 * torch.randn(rows, 20, generator=generator), labels


def trained(inputs: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """A network that overfits its training rows."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return model


def main() -> None:
    """Train, calibrate, compare."""
    torch.set_num_threads(1)
    model = trained(*data(1000, seed=1))
    unlabeled, _ = data(2000, seed=2)
    loader = DataLoader(TensorDataset(unlabeled), batch_size=256)

    alone = tepid.torch.calibrate(model, loader)
    known = tepid.torch.calibrate(model, loader, accuracy=0.76)

    inputs, labels = data(4000, seed=3)
    print(f"{'':<24}{'T':>7}{'ECE':>8}")
    with torch.no_grad():
        before = model(inputs).softmax(dim=1)
        print(f"{'uncalibrated':<24}{1:>7.3f}{tepid.metrics.ece(labels, before):>8.3f}")
        for name, calibrated in (("logits alone", alone), ("accuracy known", known)):
            error = tepid.metrics.ece(labels, calibrated.probabilities(inputs))
            print(f"{name:<24}{calibrated.calibration.value:>7.3f}{error:>8.3f}")

    torch.save(known.state_dict(), "calibrated.pt")  # holds T with its interval and warnings
    again = tepid.torch.Calibrated(trained(*data(10, seed=1)), alone.calibration)
    again.load_state_dict(torch.load("calibrated.pt", weights_only=True))
    print(f"loaded: T = {again.calibration.value:.3f} ({again.calibration.method})")


if __name__ == "__main__":
    main()
