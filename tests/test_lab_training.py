"""The loop: it learns, it is deterministic, it survives kill -9, and it shares its work."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tepid
from tests import laboratory

torch = pytest.importorskip("torch", reason="the loop is of PyTorch")

from tepid.lab import datasets, networks, training  # noqa: E402  # after the skip

pytestmark = pytest.mark.usefixtures("torchvision", "one_thread")
COMMAND = [sys.executable, str(Path(__file__).with_name("mending.py")), "lab", "train"]
# Small, and with all that has a state: normalization, dropout, momentum and augmentation.
SMALL = [
    "--set", "depth=7", "--set", "width=4", "--set", "dropout=0.3", "--set", "train_rows=48",
]  # fmt: skip


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Every set of the paper, small, in the formats that they are published in."""
    folder = tmp_path_factory.mktemp("sets")
    laboratory.write_cifar(folder, 10)
    laboratory.write_cifar(folder, 100)
    laboratory.write_mnist(folder)
    laboratory.write_svhn(folder)
    laboratory.write_lesions(folder / "isic")
    return folder


def _arrays(run):
    return {name: np.load(run / f"{name}.npy") for name in ("logits", "labels")}


# What makes the large ones small enough for a test.
LIGHTER = {
    "resnet152-isic": ["size=32", "batch=2", "train_rows=2", "test_rows=2", "epochs=1"],
    "densenet100": ["batch=2", "train_rows=4", "test_rows=4"],
    "resnet110": ["batch=2", "train_rows=4", "test_rows=4"],
    "wideresnet32": ["batch=2", "train_rows=4", "test_rows=4"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", tepid.lab.names())
def test_every_recipe_runs_from_files_to_logits(name, sets, tmp_path, tepid_here):
    settings = next((LIGHTER[key] for key in LIGHTER if name.startswith(key)), [])
    options = [part for setting in settings for part in ("--set", setting)]
    folder = sets / "isic" if name.endswith("isic") else sets
    run = tmp_path / "run[red]:cat:"  # no markup and no emoji
    code, out, err = tepid_here(
        "lab", "train", name, "--data", folder, "-o", run, "--quick", "--unchecked", *options
    )
    assert code == 0, err
    assert f"are right; wrote {run}\n" in out
    assert err.splitlines()[0].startswith("epoch 1.00 of ")
    record = json.loads((run / "run.json").read_text())
    recipe = tepid.lab.named(name)
    classes = {"cifar100": 100, "isic": 7}.get(recipe.data, 10)
    found = _arrays(run)
    assert found["logits"].shape == (len(found["labels"]), classes)
    assert found["logits"].dtype == np.float32
    assert record["accuracy"] == (found["logits"].argmax(1) == found["labels"]).mean()
    assert len(record["classes"]) == classes
    assert record["config"]["epochs"] == len(record["history"])
    assert (run / "rows.npy").exists() == (recipe.data == "isic")
    assert not (run / "checkpoint.pt").exists()


def test_weights_and_logits_are_of_the_same_network(sets, tmp_path):
    recipe = tepid.lab.named("lenet5-mnist").quick()
    read = datasets.read(recipe, sets, 0, download=False, checked=True)
    record = training.train(recipe, read, tmp_path)
    network = networks.build(recipe, 10, 1).eval()
    network.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    mean, deviation = (torch.tensor(record[key]) for key in ("mean", "deviation"))
    with torch.inference_mode():
        logits = network((read.test.pixels.float() - mean) / deviation).numpy()
    assert np.allclose(logits, np.load(tmp_path / "logits.npy"), atol=1e-5)
    assert np.array_equal(read.test.labels.numpy(), np.load(tmp_path / "labels.npy"))
    assert record["versions"]["torch"] == torch.__version__
    assert record == json.loads((tmp_path / "run.json").read_text())


def _train(sets, run, *settings, seed=0, progress=lambda _: None):
    recipe = tepid.lab.named("lenet5-mnist").with_settings(settings)
    read = datasets.read(recipe, sets, seed, download=False, checked=True)
    return training.train(recipe, read, run, seed, progress=progress)


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "amp"), [("sgd", "false"), ("adam", "true")])
def test_the_loop_learns_what_can_be_learnt(sets, tmp_path, amp, optimizer):
    rate = {"sgd": 0.02, "adam": 0.003}[optimizer]
    settings = ["epochs=25", "batch=8", f"rate={rate}", f"optimizer={optimizer}", f"amp={amp}"]
    record = _train(sets, tmp_path, *settings)
    assert record["accuracy"] > 0.8
    assert record["history"][-1]["loss"] < record["history"][0]["loss"] / 4
    assert record["history"][-1]["accuracy"] > 0.9


def test_a_seed_decides_everything(sets, tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        torch.rand(7)  # what was drawn before does not matter
        _train(sets, tmp_path / name, "epochs=2", "batch=8", seed=seed)
    a, b, c = (_arrays(tmp_path / name)["logits"] for name in "abc")
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_progress_counts_up_to_the_last_epoch(sets, tmp_path):
    seen = []
    _train(sets, tmp_path, "epochs=3", "batch=8", progress=seen.append)
    assert [round(t.done, 1) for t in seen[:5]] == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert seen[-1].done == seen[-1].epochs == 3
    assert seen[-1].seconds_left == 0
    assert all(t.seconds_left > 0 and 0 <= t.accuracy <= 1 for t in seen[:-1])


def test_an_interrupted_run_ends_as_an_undisturbed_one(sets, tmp_path):
    settings = ["epochs=4", "batch=16", "optimizer=adam", "schedule=one-cycle", "rate=0.003"]
    _train(sets, tmp_path / "whole", *settings)

    def stop(now):
        if now.done > 2.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _train(sets, tmp_path / "cut", *settings, progress=stop)
    assert (tmp_path / "cut" / "checkpoint.pt").exists()
    assert not (tmp_path / "cut" / "run.json").exists()
    seen = []
    _train(sets, tmp_path / "cut", *settings, progress=seen.append)
    assert seen[0].done > 2  # it did not begin anew
    whole, cut = (_arrays(tmp_path / name)["logits"] for name in ("whole", "cut"))
    assert np.array_equal(whole, cut)


def test_a_run_that_is_done_is_not_done_again_and_another_is_refused(sets, tmp_path):
    first = _train(sets, tmp_path, "epochs=1")
    seen = []
    assert _train(sets, tmp_path, "epochs=1", progress=seen.append) == first
    assert seen == []
    with pytest.raises(
        tepid.InputError, match=r"a run of the same recipe, got epochs = 2 where .*1"
    ):
        _train(sets, tmp_path, "epochs=2")
    with pytest.raises(tepid.InputError, match="got seed = 1 where it has 0"):
        _train(sets, tmp_path, "epochs=1", seed=1)


def test_a_checkpoint_of_another_recipe_is_refused(sets, tmp_path):
    def stop(now):
        if now.done > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _train(sets, tmp_path, "epochs=2", progress=stop)
    with pytest.raises(tepid.InputError, match=r"got rate = 0.1 where it has 0.05"):
        _train(sets, tmp_path, "epochs=2", "rate=0.1")


def test_a_training_that_diverges_says_so(sets, tmp_path):
    with pytest.raises(tepid.InputError, match=r"rate must let the training converge, got 1e\+30"):
        _train(sets, tmp_path, "epochs=2", "rate=1e30")
    assert not (tmp_path / "run.json").exists()


def test_the_loop_leaves_pytorch_as_it_was(sets, tmp_path):
    _train(sets, tmp_path, "epochs=1")
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_last_batch_of_one_row_is_left_out(sets, tmp_path):
    seen = []
    _train(sets, tmp_path, "epochs=1", "batch=8", "train_rows=17", progress=seen.append)
    assert [t.done for t in seen] == [0.5, 1.0]
    with pytest.raises(tepid.InputError, match=r"train_rows must be at least 2 .*, got 1"):
        _train(sets, tmp_path / "one", "epochs=1", "train_rows=1")


def _environment():
    source = str(Path(tepid.__file__).parents[1])
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": source}


def _spawn(run, sets, *options, before=()):
    command = [
        *before,
        *COMMAND[1 if before else 0 :],
        *options,
        "--data",
        str(sets),
        "-o",
        str(run),
    ]
    return subprocess.Popen(
        command, env=_environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _ended(process):
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return err


@pytest.mark.slow
def test_a_run_that_was_killed_ends_with_the_same_bits(sets, tmp_path):
    options = ["densenet40-cifar10", "--quick", "--unchecked", *SMALL, "--set", "epochs=40"]
    whole = _spawn(tmp_path / "whole", sets, *options)
    killed = _spawn(tmp_path / "killed", sets, *options)
    while not (tmp_path / "killed" / "checkpoint.pt").exists():
        assert killed.poll() is None, killed.communicate()[1]
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not (tmp_path / "killed" / "run.json").exists()
    said = _ended(_spawn(tmp_path / "killed", sets, *options))
    assert not said.startswith("epoch 1.00 of 40")  # it went on, and did not begin anew
    _ended(whole)
    one, other = (_arrays(tmp_path / name) for name in ("whole", "killed"))
    assert np.array_equal(one["logits"], other["logits"])
    weights = [
        torch.load(tmp_path / n / "weights.pt", weights_only=True) for n in ("whole", "killed")
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert len(json.loads((tmp_path / "killed" / "run.json").read_text())["history"]) == 40


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(sets, tmp_path):
    # LeNet-5 has no batch normalization, so that halves of a batch give the gradient of the whole.
    options = ["lenet5-mnist", "--quick", "--set", "epochs=6", "--set", "train_rows=40"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    together = _spawn(tmp_path / "two", sets, *options, before=torchrun)
    _ended(_spawn(tmp_path / "one", sets, *options))
    said = _ended(together)
    assert len(re.findall(r"^epoch \d", said, re.MULTILINE)) == 6  # one of them speaks
    one, two = (_arrays(tmp_path / name)["logits"] for name in ("one", "two"))
    assert np.allclose(one, two, rtol=1e-4, atol=1e-5)
    record = json.loads((tmp_path / "two" / "run.json").read_text())
    assert record["config"]["processes"] == 2
    alone = json.loads((tmp_path / "one" / "run.json").read_text())
    for key in ("loss", "accuracy"):
        sums = ([epoch[key] for epoch in r["history"]] for r in (record, alone))
        assert next(sums) == pytest.approx(next(sums), rel=1e-4)


def test_a_machine_without_pytorch_is_told_what_to_install(sets, tmp_path, tepid_here, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("tepid.lab.")]:
        if name != "tepid.lab.recipe":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    for attribute in ("datasets", "training"):
        monkeypatch.delattr(tepid.lab, attribute, raising=False)
    code, _, err = tepid_here("lab", "train", "lenet5-mnist", "--data", sets, "-o", tmp_path / "r")
    assert code == 2
    assert err.startswith("tepid: tepid lab must have PyTorch and torchvision, got: ")
    assert err.rstrip().endswith("pip install 'tepid[lab]' brings them")


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (
            ImportError("none"),
            "must have torchvision, got none; pip install 'tepid\\[lab\\]' brings",
        ),
        (RuntimeError("no nms"), "torchvision must fit the PyTorch beside it, got: no nms"),
    ],
)
def test_a_torchvision_that_cannot_be_had_is_one_sentence(failure, sentence, tmp_path, monkeypatch):
    class Broken:
        def find_spec(self, name, *_):
            if name.startswith("torchvision"):
                raise failure

    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(tepid.InputError, match=sentence):
        datasets.read(tepid.lab.named("vgg16-cifar10"), tmp_path, 0, download=False, checked=True)
