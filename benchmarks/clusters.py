"""How often the interval of clustered rows contains the temperature of the population.

`python benchmarks/clusters.py` writes `results/clusters.json` and `.md`. Simulated images whose
pixels share a temperature and part of their noise; the population is 20,000 of them.
"""

import argparse
import math
import warnings
from typing import Any

import numpy as np
import record

import tepid

SEED = 1
PIXELS, CLASSES = 30, 4
IMAGES = (10, 20, 60, 200)
# Each is a way to fit images, of which the last wrongly takes pixels as independent.
WAYS = {
    "calibrate": lambda z, y: tepid.calibrate(z, y, class_axis=-1),
    "temperature_scaling": lambda z, y: tepid.temperature_scaling(z, y, class_axis=-1),
    "calibrate, pixels as independent": lambda z, y: tepid.calibrate(
        z.reshape(-1, CLASSES), y.reshape(-1)
    ),
}


def draw_images(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    """Logits (count, pixels, classes) and labels of images."""
    shape = (count, PIXELS, CLASSES)
    z = 2 * rng.normal(size=shape) + 1.5 * rng.normal(size=(count, 1, CLASSES))
    own = np.exp(0.35 * rng.normal(size=(count, 1, 1)))
    p = np.exp(z / (2 * own))
    p /= p.sum(axis=-1, keepdims=True)
    noise = math.sqrt(0.5) * (rng.normal(size=(count, 1)) + rng.normal(size=(count, PIXELS)))
    u = 0.5 * (1 + np.vectorize(math.erf)(noise / math.sqrt(2)))
    return z, (p.cumsum(axis=-1) < u[..., None]).sum(axis=-1).clip(max=CLASSES - 1)


def measure(draws: int) -> tuple[float, dict[str, dict[str, float]]]:
    """The temperature of the population, and the share of intervals that contain it."""
    rng = np.random.default_rng(SEED)
    population = draw_images(rng, 20000)
    truth = tepid.temperature_scaling(*population, class_axis=-1).value
    found: dict[str, dict[str, float]] = {}
    for count in IMAGES:
        hits = dict.fromkeys(WAYS, 0)
        for _ in range(draws):
            z, y = draw_images(rng, count)
            for name, fit in WAYS.items():
                low, high = fit(z, y).interval or (math.nan, math.nan)
                hits[name] += low <= truth <= high
        found[str(count)] = {name: hit / draws for name, hit in hits.items()}
    return truth, found


def main() -> None:
    """Measure and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    warnings.simplefilter("ignore", tepid.CalibrationWarning)
    about = record.circumstances("python benchmarks/clusters.py", SEED, 1, ("tepid", "numpy"))
    truth, found = measure(draws)
    head = f"| labeled images | {' | '.join(WAYS)} |\n|{'---|' * (len(WAYS) + 1)}\n"
    lines = [
        f"| {count} | {' | '.join(f'{100 * share:.1f}' for share in shares.values())} |"
        for count, shares in found.items()
    ]
    text = (
        record.preamble("Intervals of clustered rows", about)
        + f"\nShare of 95 % intervals, in percent, that contain the temperature of the population "
        f"({truth:.3f}).\n{draws} draws for each row, {PIXELS} labeled pixels in each image.\n\n"
        + head
        + "\n".join(lines)
        + "\n"
    )
    result = about | {"draws": draws, "truth": truth, "covered": found}
    record.write("clusters", result, text)
    print(text)


if __name__ == "__main__":
    main()
