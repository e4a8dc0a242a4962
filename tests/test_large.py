"""Twenty gigabytes in 400 MB of memory; `make bench` runs it, and nothing else does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tepid

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("TEPID_LARGE"),
        reason="it reads twenty gigabytes three times; TEPID_LARGE=1 lets it",
    ),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="/proc tells the peak"),
]
CLASSES, ROWS, COPIES = 1000, 50_000, 100
MEGABYTES = 400

FIT = """\
import json, pathlib, sys
import tepid
t = tepid.uts(sys.argv[1])
status = pathlib.Path("/proc/self/status").read_text()
peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
print(json.dumps({"temperature": t.value, "samples": t.samples, "megabytes": peak * 1024 / 1e6}))
"""


def test_twenty_gigabytes_are_fitted_in_four_hundred_megabytes(tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    z = (4 * np.random.default_rng(5).normal(size=(ROWS, CLASSES))).astype(np.float32)
    np.save(folder / "000.npy", z)
    for number in range(1, COPIES):
        (folder / f"{number:03}.npy").hardlink_to(folder / "000.npy")
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size >= 20e9
    command = [sys.executable, "-c", FIT, str(folder)]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert told["samples"] == ROWS * COPIES
    assert told["megabytes"] < MEGABYTES
    # A hundred times the same rows have the temperature of the rows.
    assert told["temperature"] == pytest.approx(tepid.uts(z).value, rel=1e-9)
    print(f"{size / 1e9:.1f} GB in {told['megabytes']:.0f} MB")  # noqa: T201  # for `pytest -s`
