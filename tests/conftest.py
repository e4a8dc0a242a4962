"""Seeds and small data; no logic."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import tepid
from tepid.cli import main
from tepid.kernels import tiers
from tests import mending
from tests.needs import same_kernels

SHARED = Path(__file__).parents[2] / "shared" / "logits"

# The first example of a shape compiles a kernel; examples are drawn from a fixed seed.
settings.register_profile(
    "tepid",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tepid")
# Worker processes of Spark and Dask compute with the kernels of the tests.
os.environ.setdefault(tiers.ENVIRONMENT, same_kernels()[tiers.ENVIRONMENT])


@pytest.fixture(scope="session", autouse=True)
def _one_tier():
    """In this process one tier serves, numba if it is there: it must not change during a test."""
    with tiers.using(same_kernels()[tiers.ENVIRONMENT]):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(20191)


@pytest.fixture(scope="session")
def fashion():
    """Real logits with labels: the embedded demo data."""
    data = tepid.demo.fashion()
    return data["logits"].astype(np.float32), data["labels"].astype(np.int64)


@pytest.fixture(scope="session")
def network():
    """Logits of a made-up network whose right temperature is 2: (logits, labels)."""
    rng = np.random.default_rng(7)
    posterior = 3 * rng.normal(size=(4000, 12))
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    return (2 * posterior).astype(np.float32), labels


@pytest.fixture(scope="session")
def shared():
    """The folder of real logit sets, which is not part of the repository."""
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared/logits of real logits is not beside this checkout")
    return SHARED


@pytest.fixture
def tepid_here(monkeypatch, capsys):
    """Run `tepid` in this process, which is quicker: (exit code, stdout, stderr)."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["tepid", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main.run()
        said = capsys.readouterr()
        return ended.value.code or 0, said.out, said.err

    return run


@pytest.fixture(scope="session")
def torchvision():
    """torchvision, mended where its wheel does not fit the build of torch beside it."""
    pytest.importorskip("torch", reason="the laboratory needs torch")
    mending.mend()
    return pytest.importorskip("torchvision", reason="the laboratory needs torchvision")


collect_ignore = ["typing_api.py"]  # checked by mypy, never run
