"""PyTorch: what `calibrate` and `Warmup` find, restore and save."""

import collections
import copy
import dataclasses
import io
import json
import logging
import pickle
import random
import runpy
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import warnings
import weakref
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tepid
from tests import mending
from tests.needs import needed, same_kernels
from tests.precision import CONFIDENCE, apart
from tests.scripts import benchmark

torch = needed("torch")

from torch import nn  # noqa: E402  # only where torch is there
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset  # noqa: E402

from tepid.torch import (  # noqa: E402
    AllReduced,
    Calibrated,
    CalibrationWarning,
    Warmup,
    calibrate,
)

# Most of these rows are few, or made up.
pytestmark = pytest.mark.filterwarnings("ignore::tepid.torch.CalibrationWarning")

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """So that two runs of one model differ by nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def rows(network):
    """The made-up network's logits, which stand for inputs of an identity."""
    return torch.from_numpy(network[0])


# Logits alone keep T = 1, which many mistakes would give as well.
KNOWN = 0.7


@pytest.fixture
def matched(network):
    return tepid.calibrate(network[0], accuracy=KNOWN).value


def _loader(*columns, batch_size=256, **options):
    return DataLoader(TensorDataset(*columns), batch_size=batch_size, **options)


def _known(model, loader, **options):
    return calibrate(model, loader, accuracy=KNOWN, **options)


def _warmup(**options):
    return Warmup(nn.Identity().eval(), accuracy=KNOWN, **options)


def _temperature(value=2.0, classes=12):
    return tepid.Temperature(value, "uts", samples=9, classes=classes, implied_accuracy=0.5)


# What calibrate finds.


@pytest.mark.parametrize("batch_size", [64, 999, 4000])
def test_a_loader_gives_the_temperature_of_its_logits(rows, matched, batch_size):
    calibrated = _known(nn.Identity(), _loader(rows, batch_size=batch_size))
    assert calibrated.calibration.value == pytest.approx(matched, rel=1e-9)
    assert calibrated.calibration.samples == 4000


@given(cuts=st.lists(st.integers(0, 1500), max_size=6).map(sorted))
def test_no_cut_into_batches_changes_the_temperature_empty_ones_included(network, cuts):
    rows = torch.from_numpy(network[0][:1500])
    batches = torch.tensor_split(rows, cuts)
    found = _known(nn.Identity(), batches).calibration
    expected = tepid.calibrate(rows.numpy(), accuracy=KNOWN)
    assert found.value == pytest.approx(expected.value, rel=1e-9)


def test_shuffling_changes_nothing(rows, matched):
    loader = _loader(rows, batch_size=100, shuffle=True)
    assert _known(nn.Identity(), loader).calibration.value == pytest.approx(matched, rel=1e-9)


def _some(labels, count=60):
    known = np.full(len(labels), -1)
    known[:count] = labels[:count]
    return known


class _Half(nn.Module):
    """The first or the second half of the columns, as a model that is stored in the inputs."""

    def __init__(self, which):
        super().__init__()
        self.which = which

    def forward(self, x):
        return x.chunk(2, dim=-1)[self.which]


@pytest.fixture(scope="module")
def rival(network):
    """Another model of the same rows: the same logits with noise of its own."""
    noise = np.random.default_rng(3).normal(size=network[0].shape)
    return (network[0] + 4 * noise).astype(np.float32)


@pytest.fixture
def both(rows, rival):
    """Inputs that hold what two models say of them; `_Half` takes one of them."""
    return torch.cat([rows, torch.from_numpy(rival)], dim=1)


@pytest.mark.slow
def test_every_kind_of_evidence_finds_what_the_function_finds(network, both, rival):
    z, y = network
    labeled, old = (z[:50], y[:50]), (z[1000:3000], y[1000:3000])
    batches = _loader(both, torch.from_numpy(y), torch.from_numpy(_some(y)))

    def loader(rows):
        return [(both[rows], torch.from_numpy(y[rows]))]

    cases = [
        ({}, {}),
        ({"accuracy": tepid.Counted(70, 100)}, {"accuracy": tepid.Counted(70, 100)}),
        ({"labels": True}, {"labels": y}),
        ({"labels": lambda batch: batch[2]}, {"labels": _some(y)}),
        ({"labeled": loader(slice(0, 50))}, {"labeled": labeled}),
        ({"source": loader(slice(1000, 3000))}, {"source": old}),
        ({"models": [_Half(1)]}, {"models": [rival]}),
        ({"models": [_Half(1), _Half(0)]}, {"models": [rival, z]}),
        ({"reference": _Half(1)}, {"reference": rival}),
        ({"reference": rival}, {"reference": rival}),
        ({"reference": torch.from_numpy(_some(y, 900))}, {"reference": _some(y, 900)}),
        (
            {"models": [_Half(1)], "reference": y, "accuracy": 0.7, "labeled": loader(slice(50))},
            {"models": [rival], "reference": y, "accuracy": 0.7, "labeled": labeled},
        ),
    ]
    for given_here, given_there in cases:
        expected = tepid.calibrate(z, **given_there)
        for spill in (False, True):
            found = calibrate(_Half(0), batches, spill=spill, **given_here).calibration
            assert found.value == pytest.approx(expected.value, rel=1e-9), given_here
            assert found.evidence.keys() == expected.evidence.keys()
            assert found.verdict == expected.verdict
            assert found.interval == pytest.approx(expected.interval, rel=1e-4)


@pytest.mark.parametrize("spill", [False, True])
def test_other_modules_see_the_batches_of_a_loader_that_shuffles(network, both, rival, spill):
    loader = _loader(both, torch.from_numpy(network[1]), shuffle=True)
    for options, expected in (
        ({"models": [_Half(1)]}, tepid.calibrate(network[0], models=[rival])),
        ({"reference": _Half(1)}, tepid.calibrate(network[0], reference=rival)),
    ):
        found = calibrate(_Half(0), loader, spill=spill, **options).calibration
        assert found.value == pytest.approx(expected.value, rel=1e-9)


def test_other_modules_run_only_in_passes_that_need_them(both):
    runs = {0: 0, 1: 0}

    class Counting(_Half):
        def forward(self, x):
            runs[self.which] += 1
            return super().forward(x)

    calibrate(Counting(0), [both], models=[Counting(1)])
    assert 0 < runs[1] < runs[0]
    runs.update({0: 0, 1: 0})
    calibrate(Counting(0), [both], models=[Counting(1)], spill=True)
    assert runs == {0: 1, 1: 1}


def test_other_modules_run_in_evaluation_mode_and_get_their_own_back(both):
    class Remembering(_Half):
        def forward(self, x):
            self.seen = (self.training, torch.is_grad_enabled())
            return super().forward(x)

    others = [Remembering(1).train(), Remembering(1).eval()]
    calibrate(_Half(0), [both], models=others[:1], reference=others[1])
    assert [other.seen for other in others] == [(False, False)] * 2
    assert [other.training for other in others] == [True, False]


def test_other_modules_may_have_classes_on_an_axis_and_one_logit_for_two_classes(network, rival):
    z, peer = network[0][:1200], rival[:1200]
    images = torch.from_numpy(np.concatenate([z, peer], axis=1).reshape(12, 100, 24))
    expected = tepid.calibrate(z, models=[peer]).value
    found = calibrate(_Half(0), [images], models=[_Half(1)], class_axis=-1).calibration.value
    assert found == pytest.approx(expected, rel=1e-9)
    judged = network[1][:1200].reshape(12, 100)
    expected = tepid.calibrate(z, reference=network[1][:1200]).value
    found = calibrate(_Half(0), [images], reference=judged, class_axis=-1).calibration.value
    assert found == pytest.approx(expected, rel=1e-9)
    binary = torch.from_numpy(np.stack([z[:, 0], peer[:, 0]], axis=1))
    expected = tepid.calibrate(z[:, 0], reference=peer[:, 0]).value
    for reference in (_Half(1), peer[:, 0], peer[:, :1]):
        found = calibrate(_Half(0), [binary], reference=reference).calibration.value
        assert found == pytest.approx(expected, rel=1e-9)


def test_the_verdict_keep_gives_a_model_at_one(rows):
    calibrated = calibrate(nn.Identity(), [rows])
    assert calibrated.calibration.verdict == "keep"
    assert float(calibrated.temperature) == 1.0
    assert torch.equal(calibrated(rows), rows)


def test_evidence_that_does_not_fit_the_loader_is_refused(network, rows):
    cases = [
        ({"reference": network[0][:3999]}, "reference must have one entry for each of the 4000"),
        ({"reference": network[1][:3999]}, "reference must have one entry for each of the 4000"),
        ({"reference": [*network[1], 0]}, "reference must have one entry for each of the"),
        ({"reference": network[0][:, :5]}, "reference must have the 12 classes of logits, got 5"),
        ({"reference": np.where(network[1] == 3, 12, 0)}, "one of the 12 classes .* got 12 at row"),
        ({"reference": np.full(4000, -2)}, "be classes from 0, or -1 without an answer, got -2"),
        ({"models": [nn.Linear(12, 5)]}, "model 1 must have the 12 classes of logits, got 5"),
        ({"models": [nn.Flatten(0, 0), nn.Flatten(0)]}, "model 2 must have"),
        ({"models": nn.Identity()}, "models must be a list of modules, got Identity"),
        ({"models": [network[0]]}, "model 1 must be a torch.nn.Module, got ndarray"),
        ({"labeled": rows}, "labeled must yield batches, got a tensor"),
        ({"source": 5}, "source must yield batches, got int"),
        ({"labeled": [rows]}, "must yield .input, labels."),
    ]
    for options, said in cases:
        with pytest.raises(tepid.InputError, match=said):
            calibrate(nn.Identity(), rows.split(500), **options)
    with pytest.raises(tepid.InputError, match="must be a module for a loader that shuffles"):
        calibrate(nn.Identity(), _loader(rows, shuffle=True), reference=network[1])
    unknown = [(rows, torch.full((4000,), -1))]
    with pytest.raises(tepid.InputError, match="must be known for at least one row, got none"):
        calibrate(nn.Identity(), unknown, labels=True)


def test_labels_follow_their_rows_when_the_loader_shuffles(network, rows):
    loader = _loader(rows, torch.from_numpy(network[1]), shuffle=True)
    expected = tepid.calibrate(*network).value
    found = calibrate(nn.Identity(), loader, labels=True).calibration
    assert found.value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["labels", "label"])
def test_labels_may_be_a_keyword_of_the_batch(network, rows, name):
    y = torch.from_numpy(network[1])
    parts = zip(rows.split(500), y.split(500), strict=True)
    batches = [{"input": part, name: labels} for part, labels in parts]
    found = calibrate(nn.Identity(), batches, labels=True).calibration.value
    assert found == pytest.approx(tepid.calibrate(*network).value, rel=1e-9)
    with pytest.raises(tepid.InputError, match="labels among the keywords, got neither"):
        calibrate(nn.Identity(), [{"input": rows}], labels=True)


def test_labels_are_not_looked_at_unless_they_are_asked_for(rows, matched):
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError("labels were read")

    batches = [(part, Untouchable()) for part in rows.split(500)]
    assert _known(nn.Identity(), batches).calibration.value == pytest.approx(matched, rel=1e-9)
    keyed = [{"input": part, "labels": Untouchable()} for part in rows.split(500)]
    found = _known(nn.Identity(), keyed).calibration.value
    assert found == pytest.approx(matched, rel=1e-9)


@pytest.mark.parametrize(
    ("shape", "axis"), [((40, 12, 10, 10), 1), ((40, 100, 12), -1), ((40, 10, 10, 12), 3)]
)
def test_the_classes_may_be_on_any_axis(network, matched, shape, axis):
    last = network[0].reshape(
        40, *(s for i, s in enumerate(shape) if i and i != axis % len(shape)), 12
    )
    z = torch.from_numpy(np.moveaxis(last, -1, axis).copy())
    calibrated = _known(nn.Identity(), _loader(z, batch_size=7), class_axis=axis)
    assert calibrated.calibration.value == pytest.approx(matched, rel=1e-9)
    p = calibrated.probabilities(z)
    assert p.shape == z.shape
    torch.testing.assert_close(p.sum(dim=axis), torch.ones_like(p.sum(dim=axis)))


def test_more_dimensions_need_a_class_axis(rows):
    with pytest.raises(tepid.InputError, match="class_axis must say where the classes are"):
        calibrate(nn.Identity(), [rows.reshape(40, 100, 12)])


def test_one_logit_per_row_is_binary(rng):
    z = (4 * rng.normal(size=3000)).astype(np.float32)
    expected = tepid.calibrate(z, accuracy=KNOWN)
    for inputs in (torch.from_numpy(z), torch.from_numpy(z)[:, None]):
        calibrated = _known(nn.Identity(), [inputs])
        assert calibrated.calibration.value == pytest.approx(expected.value, rel=1e-9)
        np.testing.assert_allclose(calibrated.probabilities(inputs), expected(z), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_logits_of_any_precision_are_taken(rows, dtype):
    inputs = rows.to(getattr(torch, dtype))
    expected = tepid.calibrate(inputs, accuracy=KNOWN).value
    assert _known(nn.Identity(), [inputs]).calibration.value == pytest.approx(expected, rel=1e-9)


def test_autocast_runs_the_model_in_the_type_that_was_asked_for(rows):
    seen = []

    class Model(nn.Linear):
        def forward(self, x):
            z = super().forward(x)
            seen.append(z.dtype)
            return z

    model = Model(12, 12)
    calibrate(model, [rows[:1500]], amp=torch.bfloat16)
    assert set(seen) == {torch.bfloat16}
    seen.clear()
    calibrate(model, [rows[:1500]])
    assert set(seen) == {torch.float32}


def test_forward_says_how_to_run_what_is_run_otherwise(rows, matched):
    class Model(nn.Module):
        def forward(self, left, right):
            return torch.cat([left, right], dim=1)

    batches = [{"pair": (part[:, :5], part[:, 5:])} for part in rows.split(300)]
    found = _known(Model(), batches, forward=lambda model, batch: model(*batch["pair"]))
    assert found.calibration.value == pytest.approx(matched, rel=1e-9)


def test_a_batch_keeps_its_kind_on_its_way_to_the_device(rows):
    class Own(NamedTuple):
        image: object
        words: object

    class Movable:
        def to(self, device):
            return f"on {device}"

    seen = []

    def forward(model, batch):
        seen.append(batch)
        return model(batch["pair"].image)

    calibrate(nn.Identity(), [{"pair": Own(rows, "cat"), "more": [Movable()]}], forward=forward)
    assert type(seen[0]["pair"]) is Own
    assert seen[0]["pair"].words == "cat"
    assert seen[0]["more"] == ["on cpu"]


# What calibrate leaves as it was.


class _Mixed(nn.Module):
    """Some parts train, one does not; it remembers in which mode it was run."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(12)
        self.drop = nn.Dropout(0.5)
        self.frozen = nn.BatchNorm1d(12).eval()
        self.seen, self.broken = [], False
        self.cache = None

    def forward(self, x):
        self.seen.append((self.training, self.drop.training, torch.is_grad_enabled()))
        if self.broken:
            raise RuntimeError("broken")
        self.cache = 2 * x[:1]
        return self.frozen(self.drop(self.norm(x)))


@pytest.mark.parametrize("broken", [False, True])
def test_modes_gradients_and_weights_are_as_before_also_after_an_error(rows, broken):
    model = _Mixed().train()
    model.frozen.eval()
    model.norm.weight.requires_grad_(requires_grad=False)
    model.broken = broken
    before = copy.deepcopy(model.state_dict())
    if broken:
        with pytest.raises(RuntimeError, match="broken"):
            calibrate(model, _loader(rows))
    else:
        calibrate(model, _loader(rows))
    assert set(model.seen) == {(False, False, False)}
    assert [m.training for m in model.modules()] == [True, True, True, False]
    assert [p.requires_grad for p in model.parameters()] == [False, True, True, True]
    assert torch.is_grad_enabled()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_what_a_model_caches_can_still_be_trained_with(rows):
    model = _Mixed()
    calibrate(model, [rows[:1200]])
    weight = torch.ones(12, requires_grad=True)
    (model.cache * weight).sum().backward()
    assert weight.grad is not None


@pytest.mark.parametrize("broken", [False, True])
def test_random_numbers_go_on_as_if_nothing_had_been_drawn(rows, broken):
    generator = torch.Generator().manual_seed(3)
    loader = _loader(rows, shuffle=True, generator=generator)
    model = _Mixed()
    model.broken = broken

    def states():
        numpy = np.random.get_state()[1].tolist()  # noqa: NPY002  # the state in question
        return (
            random.getstate(),
            numpy,
            torch.get_rng_state().tolist(),
            generator.get_state().tolist(),
        )

    before = states()
    try:
        calibrate(model, loader)
    except RuntimeError:
        assert broken
    assert states() == before


# Loaders that cannot be read twice, or are not the same twice.


class _Augmenting(Dataset):
    def __init__(self, rows, draw):
        self.rows, self.draw = rows, draw

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i] * (0.5 + self.draw())


@pytest.mark.parametrize(
    "draw",
    [
        lambda: float(torch.rand(())),
        random.random,
        np.random.random,  # what old augmentations draw from
    ],
)
def test_augmentation_by_the_usual_random_numbers_gives_the_same_rows_on_every_pass(rows, draw):
    loader = DataLoader(_Augmenting(rows[:1500], draw), batch_size=100, shuffle=True)
    repeated = _known(nn.Identity(), loader).calibration
    spilled = _known(nn.Identity(), loader, spill=True).calibration
    assert repeated.value == pytest.approx(spilled.value, rel=1e-9)


def test_other_rows_on_the_second_pass_are_refused_and_spilling_helps(rows):
    own = np.random.default_rng(0)
    loader = DataLoader(_Augmenting(rows[:1500], own.random), batch_size=100)
    with pytest.raises(tepid.InputError, match=r"same rows on every pass.*spill=True"):
        calibrate(nn.Identity(), loader)
    assert _known(nn.Identity(), loader, spill=True).calibration.status == "ok"


def test_a_stream_that_runs_dry_is_refused_and_spilling_helps(rows, matched):
    class Stream(IterableDataset):
        def __init__(self):
            self.left = iter(rows)

        def __iter__(self):
            return self.left

    with pytest.raises(tepid.InputError, match="4000 rows and then 0"):
        _known(nn.Identity(), DataLoader(Stream(), batch_size=500))
    loader = DataLoader(Stream(), batch_size=500)
    found = _known(nn.Identity(), loader, spill=True).calibration.value
    assert found == pytest.approx(matched, rel=1e-9)


def test_the_same_rows_in_another_rounding_are_the_same_rows(rows):
    class Rounding(nn.Module):
        passes = 0

        def forward(self, x):
            self.passes += 1
            noise = torch.rand(x.shape, generator=torch.Generator().manual_seed(self.passes))
            return x * (1 + 2e-3 * (noise - 0.5))

    assert _known(Rounding(), [rows]).calibration.status == "ok"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_an_iterator_is_read_once_and_its_file_goes_away(
    rows, matched, tmp_path, monkeypatch, dtype
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runs = []

    def forward(model, batch):
        runs.append(len(batch))
        return model(batch)

    parts = iter(rows.to(getattr(torch, dtype)).split(512))
    found = _known(nn.Identity(), parts, forward=forward).calibration
    assert sum(runs) == 4000
    assert not list(tmp_path.iterdir())
    assert found.value == pytest.approx(matched, rel=1e-9 if dtype != "bfloat16" else 0.02)


def test_a_spilled_file_goes_away_after_an_error(rows, tmp_path):
    def forward(model, batch):
        if batch is parts[3]:
            raise RuntimeError("the fourth")
        return model(batch)

    parts = rows.split(500)
    with pytest.raises(RuntimeError, match="the fourth"):
        calibrate(nn.Identity(), parts, forward=forward, spill=tmp_path)
    assert not list(tmp_path.iterdir())


def test_spilled_rows_keep_their_labels(network, rows):
    parts = iter(_loader(rows, torch.from_numpy(network[1])))
    found = calibrate(nn.Identity(), parts, labels=True).calibration.value
    assert found == pytest.approx(tepid.calibrate(*network).value, rel=1e-9)


def test_a_model_may_write_every_answer_into_the_same_memory(rows, matched):
    class Static(nn.Module):
        def __init__(self):
            super().__init__()
            self.answer = torch.empty(100, 12)

        def forward(self, x):
            return self.answer.copy_(x)

    found = _known(Static(), rows.split(100), engine=tepid.Threads(4)).calibration
    assert found.value == pytest.approx(matched, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("spill", [False, True])
def test_no_more_than_a_few_batches_are_held_at_once(rng, spill):
    data = [torch.from_numpy(rng.normal(size=(1000, 50)).astype(np.float32)) for _ in range(100)]
    alive = weakref.WeakSet()
    most = []

    class Counting(nn.Module):
        def forward(self, x):
            z = 9 * x
            alive.add(z)
            most.append(len(alive))
            return z

    calibrate(nn.Identity(), data[:2])  # compiles
    tracemalloc.start()
    # One thread: how many blocks wait for several depends on who is given time.
    calibrate(Counting(), data, spill=spill, engine=tepid.Threads(1))
    _, peak = tracemalloc.get_traced_memory()  # NumPy's memory, not torch's
    tracemalloc.stop()
    assert max(most) <= 2
    # The NumPy tier computes in float64 and holds several arrays of a batch.
    assert peak < 30 * data[0].nbytes  # less than a third of the whole


# What is refused, by name.


def test_what_cannot_be_used_is_named(rows):
    cases = [
        ((lambda x: x, [rows]), {}, "model must be a torch.nn.Module, got function"),
        ((nn.Identity(), 5), {}, "loader must yield batches, got int"),
        ((nn.Identity(), []), {}, "must have at least one row, got none"),
        ((nn.Identity(), [()]), {}, "must yield batches that hold an input"),
        ((nn.Identity(), [rows]), {"labels": True}, "must yield .input, labels."),
        ((nn.Identity(), [rows]), {"accuracy": 1.2}, "accuracy must be in .0, 1., got 1.2"),
        ((nn.Identity(), [rows]), {"forward": lambda m, b: {"out": b}}, "got dict with out"),
        ((nn.Identity(), [rows]), {"forward": lambda m, b: None}, "got NoneType"),
        ((nn.Identity(), [rows, rows[:, :5]]), {}, "12 classes in every row, got 5"),
    ]
    for args, options, said in cases:
        with pytest.raises(tepid.InputError, match=said):
            calibrate(*args, **options)


def test_a_row_that_is_not_finite_is_named_by_its_place_in_the_loader(rows):
    hurt = rows.clone()
    hurt[1234, 5] = float("nan")
    with pytest.raises(tepid.InputError, match="got nan for class 5 at row 1234"):
        calibrate(nn.Identity(), _loader(hurt, batch_size=100))


def test_a_masked_class_is_legal(rows):
    masked = rows.clone()
    masked[:, 3] = float("-inf")
    found = _known(nn.Identity(), [masked]).calibration.value
    expected = tepid.calibrate(masked.numpy(), accuracy=KNOWN).value
    assert found == pytest.approx(expected, rel=1e-9)


def test_an_unreliable_temperature_warns_once_where_calibrate_was_called(network, rows):
    labeled = _loader(rows, torch.from_numpy(network[1]))
    with pytest.warns(CalibrationWarning, match=r"T = .* \(calibrate, ok\): T = ") as caught:
        calibrate(nn.Identity(), labeled, labels=True, accuracy=(0.99, 0.001))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "contradicts the other evidence" in str(caught[0].message)
    assert CalibrationWarning is tepid.CalibrationWarning


def test_a_reliable_temperature_does_not_warn(network, rows):
    labeled = _loader(rows, torch.from_numpy(network[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrate(nn.Identity(), labeled, labels=True)
        calibrate(nn.Identity(), labeled)  # whose verdict tells that nothing is known


def test_without_torch_the_extra_is_named(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch')")
    code = (
        "import sys\nsys.path.insert(0, sys.argv[1])\nimport tepid\n"
        "try:\n    tepid.torch\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "pip install 'tepid[torch]'" in done.stdout


# The wrapped model.


@dataclasses.dataclass
class _ModelOutput(collections.OrderedDict):
    """As in transformers: a dictionary whose entries are attributes too."""

    loss: object = None
    logits: object = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                super().__setitem__(field.name, getattr(self, field.name))

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __reduce__(self):
        return type(self), tuple(getattr(self, f.name) for f in dataclasses.fields(self))


@dataclasses.dataclass(frozen=True)
class _Frozen:
    logits: object
    features: object


class _Plain:
    def __init__(self, logits):
        self.logits, self.features = logits, "features"


class _Named(NamedTuple):
    features: object
    logits: object


@pytest.mark.parametrize(
    "output",
    [
        lambda z: _ModelOutput(loss=torch.ones(()), logits=z),
        lambda z: {"features": "features", "logits": z},
        lambda z: collections.OrderedDict(features="features", logits=z),
        lambda z: _Named("features", z),
        lambda z: (z, "features"),
        lambda z: [z, "features"],
        lambda z: _Frozen(z, "features"),
        _Plain,
    ],
)
def test_the_output_keeps_its_kind_and_all_else_in_it(rows, matched, output):
    class Model(nn.Module):
        def forward(self, x):
            self.last = output(x)
            return self.last

    model = Model()
    calibrated = _known(model, _loader(rows))
    assert calibrated.calibration.value == pytest.approx(matched, rel=1e-9)
    answer = calibrated(rows[:7])
    assert type(answer) is type(model.last)
    expected = rows[:7] / calibrated.temperature
    if isinstance(answer, (list, tuple)) and not isinstance(answer, _Named):
        assert torch.equal(answer[0], expected)
        assert answer[1] == "features"
        assert torch.equal(model.last[0], rows[:7])
        return
    logits = answer.logits if hasattr(answer, "logits") else answer["logits"]
    assert torch.equal(logits, expected)
    if isinstance(answer, _ModelOutput):
        assert torch.equal(answer["logits"], expected)
        assert torch.equal(answer.loss, torch.ones(()))
        assert list(answer) == ["loss", "logits"]
        assert torch.equal(model.last.logits, rows[:7])
    elif isinstance(answer, dict):
        assert answer["features"] == "features"
        assert torch.equal(model.last["logits"], rows[:7])
    else:
        assert answer.features == "features"
        assert torch.equal(model.last.logits, rows[:7])


def test_logits_may_have_another_name(rows, matched):
    class Segmenting(nn.Module):
        def forward(self, x):
            return {"out": x, "aux": x + 1}

    calibrated = _known(Segmenting(), [rows], output="out")
    assert calibrated.calibration.value == pytest.approx(matched, rel=1e-9)
    answer = calibrated(rows)
    assert torch.equal(answer["out"], rows / calibrated.temperature)
    assert torch.equal(answer["aux"], rows + 1)


def test_a_model_with_features_and_a_head_is_calibrated_like_any_other(rows):
    class Timm(nn.Module):
        """As in timm."""

        num_classes = 12

        def __init__(self):
            super().__init__()
            self.head = nn.Linear(12, 12)

        def forward_features(self, x):
            return torch.relu(x)

        def forward_head(self, x, pre_logits=False):  # noqa: FBT002  # timm's own
            return x if pre_logits else self.head(x)

        def forward(self, x):
            return self.forward_head(self.forward_features(x))

    torch.manual_seed(0)
    model = Timm().eval()
    calibrated = calibrate(model, _loader(rows), accuracy=(0.5, 1e-4))
    assert calibrated.model.forward_features(rows).shape == rows.shape
    with torch.no_grad():
        sure = float(calibrated.probabilities(rows).amax(dim=1).mean())
    assert sure == pytest.approx(0.5, abs=0.005)


@pytest.mark.slow
def test_a_transformer_of_hugging_face_is_calibrated_by_its_keywords():
    mending.mend()  # it imports torchvision where that is, for images that this model does not have
    transformers = needed("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, num_labels=3, initializer_range=1.0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(config).eval()
    tokens = torch.randint(50, (600, 8), generator=torch.Generator().manual_seed(1))
    data = [
        {"input_ids": part, "attention_mask": torch.ones_like(part), "labels": part[:, 0] % 3}
        for part in tokens.split(100)
    ]
    calibrated = calibrate(model, data, accuracy=0.6)
    with torch.no_grad():
        logits = model(input_ids=tokens).logits
        plain, answer = model(**data[0]), calibrated(**data[0])
    expected = tepid.calibrate(logits, accuracy=0.6)
    # Batches of another size round the logits differently.
    assert calibrated.calibration.value == pytest.approx(expected.value, rel=1e-4)
    assert type(answer) is type(plain)
    assert torch.equal(answer.logits, plain.logits / calibrated.temperature)
    assert torch.equal(answer["logits"], answer.logits)
    assert torch.equal(answer.loss, plain.loss)


def test_probabilities_are_those_of_the_calibration(rows):
    calibrated = _known(nn.Identity(), [rows])
    np.testing.assert_allclose(
        calibrated.probabilities(rows), calibrated.calibration(rows.numpy()), atol=1e-6
    )
    assert calibrated.probabilities(rows.double()).dtype == torch.float64
    assert calibrated.probabilities(rows.half()).dtype == torch.float32


def test_state_goes_round_with_weights_only(rows):
    model = nn.Linear(12, 12)
    calibrated = calibrate(model, [rows], accuracy=tepid.Range(0.5, 0.6))
    file = io.BytesIO()
    torch.save(calibrated.state_dict(), file)
    file.seek(0)
    other = Calibrated(nn.Linear(12, 12), _temperature())
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.calibration == calibrated.calibration
    assert torch.equal(other.temperature, calibrated.temperature)
    assert torch.equal(other(rows), calibrated(rows))
    stored = calibrated.state_dict()["_extra_state"]
    assert json.loads(bytes(stored.tolist()))["verdict"] == calibrated.calibration.verdict


def test_a_state_that_is_no_calibration_is_refused():
    calibrated = Calibrated(nn.Identity(), _temperature())
    for state in (None, "text", torch.tensor([1, 2], dtype=torch.uint8)):
        with pytest.raises(tepid.InputError, match="must hold a calibration of tepid"):
            calibrated.set_extra_state(state)
    nothing = torch.tensor(list(b"{}"), dtype=torch.uint8)
    with pytest.raises(tepid.InputError, match="must have calibration format 1 or 2, got None"):
        calibrated.set_extra_state(nothing)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_answer_alike_and_stand_alone(rows, again):
    calibrated = Calibrated(nn.Linear(12, 12), _temperature(3.0))
    other = again(calibrated)
    assert torch.equal(other(rows), calibrated(rows))
    other.temperature.fill_(1.0)
    assert float(calibrated.temperature) == 3.0
    assert other.calibration == calibrated.calibration


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_the_temperature_keeps_its_digits_in_every_precision(rows, dtype):
    kind = getattr(torch, dtype)
    calibrated = Calibrated(nn.Linear(12, 12), _temperature(1.7449708)).to(kind)
    assert calibrated.temperature.dtype == torch.float32
    assert float(calibrated.temperature) == pytest.approx(1.7449708, rel=1e-7)
    z = calibrated.model(rows.to(kind))
    assert calibrated(rows.to(kind)).dtype == kind
    expected = torch.softmax(z.double() / 1.7449708, dim=1)
    torch.testing.assert_close(
        calibrated.probabilities(rows.to(kind)).double(), expected, atol=1e-6, rtol=0
    )


def test_a_model_without_memory_can_be_wrapped_and_filled_later(rows):
    calibrated = Calibrated(nn.Linear(12, 12), _temperature(3.0))
    assert Warmup(nn.Linear(12, 12)).to("meta").to_empty(device="cpu").temperature.numel() == 1
    empty = copy.deepcopy(calibrated).to("meta")
    assert empty.temperature.is_meta
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(calibrated.state_dict())
    assert torch.equal(filled(rows), calibrated(rows))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_compiles_as_one_graph(rows, backend):
    calibrated = Calibrated(nn.Linear(12, 12).eval(), _temperature()).eval()
    compiled = torch.compile(calibrated, backend=backend, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(rows), calibrated(rows))
    torch.compiler.reset()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch.export's own, of its own parts
def test_it_exports_with_the_temperature_inside(rows):
    calibrated = Calibrated(nn.Linear(12, 12).eval(), _temperature()).eval()
    program = torch.export.export(calibrated, (rows[:5],))
    assert "temperature" in program.state_dict
    torch.testing.assert_close(program.module()(rows[:5]), calibrated(rows[:5]))


def test_it_goes_into_data_parallel(rows):
    calibrated = Calibrated(nn.Linear(12, 12), _temperature())
    assert torch.equal(nn.DataParallel(calibrated)(rows), calibrated(rows))


def test_it_says_its_temperature_and_takes_over_the_mode():
    calibrated = Calibrated(nn.Linear(12, 12).eval(), _temperature(1.5))
    assert "T = 1.5 (uts)" in repr(calibrated)
    assert not calibrated.training


# Multi-label rows, and images.


EACH = np.array([1.0, 1.5, 2.0, 3.0, 5.0])


@pytest.fixture(scope="module")
def several():
    """Logits (3000, 5) that are too large by `EACH`, and labels of the first 1500 rows."""
    rng = np.random.default_rng(4)
    z = 3 * rng.normal(size=(3000, 5))
    y = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(np.int64)
    y[1500:] = -1
    return torch.tensor(z * EACH, dtype=torch.float32), torch.from_numpy(y)


@pytest.mark.slow
@pytest.mark.parametrize("multilabel", [True, "per-label"])
@pytest.mark.parametrize("kind", [torch.int64, torch.float32])
def test_the_temperatures_of_labels_are_those_of_the_function(several, multilabel, kind):
    z, y = several
    expected = tepid.calibrate(z, y, multilabel=multilabel)
    loader = _loader(z, y.to(kind))
    for rows, spill in ((loader, False), (loader, True), (iter(loader), False)):
        found = calibrate(nn.Identity(), rows, labels=True, multilabel=multilabel, spill=spill)
        np.testing.assert_allclose(found.calibration.per_label, expected.per_label, rtol=1e-6)
        np.testing.assert_allclose(found.calibration.interval, expected.interval, rtol=1e-6)
    shuffled = _loader(z, y.to(kind), shuffle=True)
    again = calibrate(nn.Identity(), shuffled, labels=True, multilabel=multilabel).calibration
    # Rows in another order fall into other buckets, from which the interval is estimated.
    np.testing.assert_allclose(again.per_label, expected.per_label, rtol=0.02)
    if multilabel == "per-label":
        np.testing.assert_allclose(found.calibration.per_label, EACH, rtol=0.15)
    assert found.calibration.label_names == ("0", "1", "2", "3", "4")
    assert found.temperature.shape == (() if multilabel is True else (5,))
    torch.testing.assert_close(found.probabilities(z), found.calibration(z), atol=1e-6, rtol=0)
    torch.testing.assert_close(torch.sigmoid(found(z)), found.calibration(z), atol=1e-6, rtol=0)


@pytest.mark.slow
def test_multilabel_takes_every_kind_of_evidence(several):
    z, y = several
    model, other, strong = nn.Identity(), _Scaled(0.8), _Scaled(0.5)
    unlabeled, few = _loader(z), _loader(z[:200], y[:200])
    same = {"multilabel": "per-label"}
    pairs = [
        ({"accuracy": 0.8}, {"accuracy": 0.8}),
        ({"models": [other]}, {"models": [0.8 * z]}),
        ({"reference": strong}, {"reference": 0.5 * z}),
        ({"reference": 0.5 * z}, {"reference": 0.5 * z}),
        ({"labeled": few}, {"labeled": (z[:200], y[:200])}),
        ({"source": few}, {"source": (z[:200], y[:200])}),
    ]
    for ours, wanted in pairs:
        found = calibrate(model, unlabeled, **same, **ours).calibration
        expected = tepid.calibrate(z, **same, **wanted)
        np.testing.assert_allclose(found.per_label, expected.per_label, rtol=1e-5)


class _Scaled(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, z):
        return self.by * z


def _labels(values=(0.5, 1.0, 4.0)):
    known = {"samples": 9, "classes": 2, "implied_accuracy": 0.8}
    groups = {str(i): tepid.Temperature(v, "labels", **known) for i, v in enumerate(values)}
    names = tuple(groups)
    return tepid.Temperature(1.5, "labels", **known, groups=groups, label_names=names)


@pytest.mark.parametrize("axis", [1, -1])
def test_temperatures_of_labels_are_on_the_class_axis(axis):
    z = torch.randn((4, 3, 5) if axis == 1 else (4, 5, 3))
    calibrated = Calibrated(nn.Identity(), _labels(), class_axis=axis)
    expected = _labels()(z, class_axis=axis)
    torch.testing.assert_close(calibrated.probabilities(z), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(torch.sigmoid(calibrated(z)), expected, atol=1e-6, rtol=0)


def test_labels_on_an_axis_are_read_there(several):
    z, y = several
    images, marks = z.reshape(100, 30, 5).mT, y.reshape(100, 30, 5).mT
    found = calibrate(
        nn.Identity(), _loader(images, marks, batch_size=7), labels=True, multilabel=True,
        class_axis=1,
    ).calibration  # fmt: skip
    expected = tepid.calibrate(images, marks, multilabel=True, class_axis=1)
    assert found.value == pytest.approx(expected.value, rel=1e-6)
    np.testing.assert_allclose(found.interval, expected.interval, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_temperatures_of_labels_keep_their_digits_and_the_logits_their_dtype(dtype):
    kind = getattr(torch, dtype)
    t = _labels((1.7449708, 0.3333333, 2.0))
    calibrated = Calibrated(nn.Linear(3, 3), t).to(kind)
    assert calibrated.temperature.dtype == torch.float32
    assert calibrated.temperature.tolist() == pytest.approx(t.per_label, rel=1e-7)
    x = torch.randn(20, 3, dtype=kind)
    assert calibrated(x).dtype == kind
    expected = torch.sigmoid(calibrated.model(x).double() / torch.tensor(t.per_label))
    got = calibrated.probabilities(x)
    assert got.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    torch.testing.assert_close(got.double(), expected, atol=1e-6, rtol=0)


def test_the_state_of_labels_goes_round_also_into_one_with_another_number():
    calibrated = Calibrated(nn.Linear(3, 3), _labels())
    x = torch.randn(8, 3)
    for start in (_labels((1.0, 1.0, 1.0)), _temperature()):
        other = Calibrated(nn.Linear(3, 3), start)
        other.load_state_dict(calibrated.state_dict())
        assert other.calibration == calibrated.calibration
        assert torch.equal(other(x), calibrated(x))
        assert torch.equal(other.probabilities(x), calibrated.probabilities(x))
    program = torch.export.export(calibrated.eval(), (x,))
    torch.testing.assert_close(program.module()(x), calibrated(x))


def test_what_is_not_multi_label_is_refused(several):
    z, y = several
    model = nn.Identity()
    cases = [
        ({}, [(z, y)], "got 15000; multilabel=True is for labels"),
        ({"multilabel": "each"}, [(z, y)], "multilabel must be True, False or"),
        ({"multilabel": True}, [(z, y[:, 0])], r"shape \(3000, 5\) of the logits, got \(3000,\)"),
        ({"multilabel": True}, [(z[:9], y[:9]), (z[:2], 2 * y[:2])], "got 2 for label . at row 9"),
        ({"multilabel": True}, [(z[:, :1], y[:, :1])], "a column for each label"),
        ({"multilabel": True}, [(z, y), (z[:, :3], y[:, :3])], "5 labels in every row, got 3"),
    ]
    for options, loader, said in cases:
        with pytest.raises(tepid.InputError, match=said):
            calibrate(model, loader, labels=True, **options)
    with pytest.raises(tepid.InputError, match=r"logits must be \(n, 3\), one for each label"):
        Calibrated(model, _labels())(z)
    with pytest.raises(tepid.InputError, match="for a warm-up, got a multi-label one"):
        Warmup(model, temperature=_labels())


@pytest.mark.slow
def test_a_multilabel_transformer_of_hugging_face_is_calibrated():
    mending.mend()  # it imports torchvision where that is, for images that this model does not have
    transformers = needed("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, num_labels=4, initializer_range=1.0,
        problem_type="multi_label_classification",
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(config).eval()
    tokens = torch.randint(50, (600, 8), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = model(input_ids=tokens).logits
    labels = torch.bernoulli(torch.sigmoid(logits / 3), generator=torch.Generator().manual_seed(2))
    data = [
        {"input_ids": part, "attention_mask": torch.ones_like(part), "labels": own}
        for part, own in zip(tokens.split(100), labels.split(100), strict=True)
    ]
    calibrated = calibrate(model, data, labels=True, multilabel=True)
    low, high = calibrated.calibration.interval
    assert low < 3 < high
    with torch.no_grad():
        plain, answer = model(**data[0]), calibrated(**data[0])
        probabilities = calibrated.probabilities(**data[0])
    assert torch.equal(answer.loss, plain.loss)
    torch.testing.assert_close(torch.sigmoid(answer.logits), probabilities)


@pytest.mark.parametrize("spill", [False, True])
@pytest.mark.parametrize("batch_size", [7, 60])
def test_an_image_is_the_unit_of_the_interval(batch_size, spill):
    rng = np.random.default_rng(2)
    # The pixels of an image are too confident by a factor of their own.
    z = 2 * rng.normal(size=(60, 4, 12, 12))
    y = (z / rng.uniform(1, 4, size=(60, 1, 1, 1)) + rng.gumbel(size=z.shape)).argmax(axis=1)
    y[20:] = -1
    loader = _loader(torch.from_numpy(z), torch.from_numpy(y), batch_size=batch_size)
    found = calibrate(nn.Identity(), loader, labels=True, class_axis=1, spill=spill).calibration
    expected = tepid.calibrate(z, y, class_axis=1)
    assert found.value == pytest.approx(expected.value, rel=1e-6)
    np.testing.assert_allclose(found.interval, expected.interval, rtol=1e-6)
    flat = tepid.calibrate(np.moveaxis(z, 1, -1).reshape(-1, 4), y.reshape(-1))
    assert np.log(found.interval[1] / found.interval[0]) > 1.5 * np.log(
        flat.interval[1] / flat.interval[0]
    )


# The warm-up.


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 37, 1000, 4000])
def test_the_first_rows_fix_the_temperature_however_they_are_batched(rows, batch):
    serving = _warmup(samples=1500)
    for part in rows.split(batch)[: -(-1600 // batch)]:
        serving(part)
    expected = tepid.calibrate(rows[:1500].numpy(), accuracy=KNOWN)
    assert serving.calibration == expected
    assert float(serving.temperature) == pytest.approx(expected.value, rel=1e-7)


def test_a_warm_up_answers_at_the_first_temperature_until_it_is_over(rows):
    serving = _warmup(samples=1500, temperature=1.25)
    assert torch.equal(serving(rows[:1499]), rows[:1499] / 1.25)
    assert serving.seen == 1499
    with pytest.raises(tepid.InputError, match="must have seen 1500 rows to be over, got 1499"):
        serving.calibrated()
    assert torch.equal(serving(rows[1499:1600]), rows[1499:1600] / 1.25)
    assert serving.seen == 1500
    later = serving(rows[2000:])
    assert torch.equal(later, rows[2000:] / serving.temperature)
    assert float(serving.temperature) != 1.25
    fixed = serving.calibrated()
    assert torch.equal(fixed(rows), serving(rows))
    assert fixed.calibration == serving.calibration


def test_a_warm_up_is_said_once(rows, caplog):
    caplog.set_level(logging.INFO, "tepid")
    serving = _warmup(samples=1000)
    for part in rows.split(400):
        serving(part)
    said = [record for record in caplog.records if "first 1000 rows" in record.getMessage()]
    assert len(said) == 1
    assert said[0].name == "tepid"


def test_training_does_not_count(rows):
    serving = Warmup(nn.Identity(), samples=1000)
    serving(rows)
    assert serving.seen == 0
    serving.eval()(rows)
    assert serving.seen == 1000


def test_a_warm_up_saves_copies_without_gradients_and_nothing_afterwards(rows):
    model = nn.Linear(12, 12).eval()
    serving = Warmup(model, samples=1000)
    assert serving(rows[:600]).requires_grad
    kept = serving.get_extra_state()["kept"]
    assert not kept.requires_grad
    assert kept.shape == (600, 12)
    serving(rows[600:])
    assert serving.get_extra_state()["kept"] is None


def test_a_saved_warm_up_goes_on_where_it_was(rows):
    serving = _warmup(samples=1500)
    serving(rows[:700])
    file = io.BytesIO()
    torch.save(serving.state_dict(), file)
    file.seek(0)
    other = _warmup(samples=1500)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.seen == 700
    other(rows[700:1600])
    assert other.calibration == tepid.calibrate(rows[:1500].numpy(), accuracy=KNOWN)
    again = _warmup(samples=1500)
    again.load_state_dict(other.state_dict())
    assert again.calibration == other.calibration
    assert torch.equal(again.temperature, other.temperature)


def test_a_longer_warm_up_loaded_into_a_shorter_one_ends_with_the_next_row(rows):
    serving = _warmup(samples=1500)
    serving(rows[:1400])
    other = _warmup(samples=1000)
    other.load_state_dict(serving.state_dict())
    assert other.calibration is None
    other(rows[1400:1401])
    assert other.calibration.samples == 1000


def test_a_compiled_model_is_warmed_up(rows):
    # Before torch 2.3 a compiled model is in training, whatever its model was.
    serving = Warmup(torch.compile(nn.Linear(12, 12), backend="eager").eval(), samples=1000)
    with torch.no_grad():
        serving(rows)
    torch.compiler.reset()
    assert serving.calibration.samples == 1000


def test_a_warm_up_is_copied_and_pickled_midway(rows):
    serving = _warmup(samples=1000)
    serving(rows[:500])
    for other in (copy.deepcopy(serving), pickle.loads(pickle.dumps(serving))):
        other(rows[500:1000])
        assert other.calibration == tepid.calibrate(rows[:1000].numpy(), accuracy=KNOWN)
    assert serving.seen == 500


def test_threads_warm_it_up_together(rows):
    serving = _warmup(samples=2000)
    started = threading.Barrier(4)

    def serve(parts):
        started.wait()
        for part in parts:
            serving(part)

    parts = rows.split(20)
    threads = [threading.Thread(target=serve, args=(parts[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert serving.calibration.samples == 2000
    assert serving.seen == 2000


def test_rows_that_are_not_finite_are_left_out_and_said(rows, caplog):
    hurt = rows.clone()
    hurt[10, 3], hurt[20, 0], hurt[30] = float("nan"), float("inf"), float("-inf")
    serving = _warmup(samples=1000)
    serving(hurt)
    good = np.delete(rows.numpy(), [10, 20, 30], axis=0)[:1000]
    assert serving.calibration == tepid.calibrate(good, accuracy=KNOWN)
    assert "3 rows were left out" in caplog.text


@pytest.mark.parametrize("hopeless", [True, False])
def test_where_the_rows_give_no_temperature_the_first_one_stays(rows, hopeless, caplog):
    caplog.set_level(logging.INFO, "tepid")
    serving = Warmup(nn.Identity().eval(), samples=100, temperature=1.5)
    serving(torch.zeros(200, 5) if hopeless else rows)
    assert serving.calibration.verdict == "keep"
    assert serving.calibration.value == 1.0
    assert float(serving.temperature) == 1.5
    assert "give no T, so T = 1.5 stays" in caplog.text
    assert serving.calibration.next_step in caplog.text
    assert float(serving.calibrated().temperature) == 1.5


def test_high_confidence_alone_gives_a_warm_up_its_temperature(rows):
    serving = Warmup(nn.Identity().eval(), samples=1500)
    serving(9 * rows)
    assert serving.calibration == tepid.calibrate(9 * rows[:1500].numpy())
    assert serving.calibration.status == "not-identified"
    assert float(serving.temperature) == pytest.approx(serving.calibration.value) != 1


def test_a_warm_up_takes_an_accuracy_in_every_form(rows):
    for accuracy in (0.7, (0.7, 0.01), tepid.Counted(70, 100), tepid.Range(0.6, 0.8)):
        serving = Warmup(nn.Identity().eval(), samples=1500, accuracy=accuracy)
        serving(rows)
        assert serving.calibration == tepid.calibrate(rows[:1500].numpy(), accuracy=accuracy)
        assert float(serving.temperature) == pytest.approx(serving.calibration.value)


def test_a_warm_up_refuses_what_it_cannot_do():
    with pytest.raises(tepid.InputError, match="samples must be at least 1, got 0"):
        Warmup(nn.Identity(), samples=0)
    with pytest.raises(tepid.InputError, match="temperature must be a number above zero, got 0"):
        Warmup(nn.Identity(), temperature=0)
    with pytest.raises(tepid.InputError, match=r"accuracy must be in \[0, 1\], got 93"):
        Warmup(nn.Identity(), accuracy=93)


def test_a_warm_up_in_half_precision_keeps_the_digits_of_its_temperature(rows):
    serving = _warmup(samples=1000)
    serving(rows)
    before = serving.temperature.clone()
    serving.half()
    assert torch.equal(serving.temperature, before)
    assert serving(rows.half()).dtype == torch.float16


# Tensors that NumPy cannot read.


class Elsewhere(torch.Tensor):
    """A tensor as if on a GPU: NumPy cannot read it, and what is brought back is written down."""

    brought: list[int] = []  # noqa: RUF012  # a ledger for all of them

    def __array__(self, *args, **kwargs):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def numpy(self):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def tolist(self):
        raise TypeError("a hidden transfer")

    def cpu(self):
        Elsewhere.brought.append(self.numel())
        return self.as_subclass(torch.Tensor)


@pytest.fixture
def elsewhere(monkeypatch):
    """Sends a tensor there, and gives the sizes of what came back."""
    known = tepid.validation.is_foreign
    monkeypatch.setattr(
        tepid.validation, "is_foreign", lambda data: isinstance(data, Elsewhere) or known(data)
    )
    Elsewhere.brought.clear()
    return lambda tensor: tensor.as_subclass(Elsewhere)


@pytest.mark.parametrize("options", [{}, {"accuracy": 0.7}, {"labels": True}])
def test_what_is_elsewhere_is_summed_there_and_only_sums_come_back(
    network, rows, elsewhere, options
):
    labels = torch.from_numpy(network[1])
    batches = list(zip(rows.split(500), labels.split(500), strict=True))
    here = calibrate(nn.Identity(), batches, **options).calibration
    there = calibrate(
        nn.Identity(), batches, forward=lambda m, b: elsewhere(b[0]), **options
    ).calibration
    assert there.value == pytest.approx(here.value, rel=apart(here, there))
    # Confidence changes by less than log T does.
    close = apart(here, there) + 2 * CONFIDENCE
    assert there.implied_accuracy == pytest.approx(here.implied_accuracy, abs=close)
    # One number per row at most: its predicted class, or the logit of its label.
    assert 0 < max(Elsewhere.brought) <= 500


def test_a_whole_tensor_elsewhere_needs_no_loader(network, rows, elsewhere):
    images = elsewhere(rows.reshape(40, 10, 10, 12).permute(0, 3, 1, 2))
    binary = rows[:, 0]
    for there, here in (
        (tepid.uts(elsewhere(rows)), tepid.uts(network[0])),
        (tepid.uts(images, class_axis=1), tepid.uts(network[0])),
        (tepid.uts(elsewhere(binary)), tepid.uts(binary.numpy())),
    ):
        assert there.value == pytest.approx(here.value, rel=apart(here, there))
    # The sums of all nodes at once, and nothing that has an entry per row.
    assert max(Elsewhere.brought) < 400


def test_a_bad_row_elsewhere_is_named(rows, elsewhere):
    hurt = rows.clone()
    hurt[1234, 5] = float("nan")
    with pytest.raises(tepid.InputError, match="got nan for class 5 at row 1234"):
        calibrate(nn.Identity(), hurt.split(100), forward=lambda m, b: elsewhere(b))
    masked = rows.clone()
    masked[7, 2] = float("-inf")
    labels = torch.full((4000,), 2)
    with pytest.raises(tepid.InputError, match=r"class 2, whose logit is -inf, at row 7"):
        calibrate(
            nn.Identity(), [(masked, labels)], labels=True, forward=lambda m, b: elsewhere(b[0])
        )


def test_spilling_and_old_sets_bring_back_one_batch_at_a_time(network, rows, elsewhere):
    parts = rows.split(500)
    old = [(rows[:1000], torch.from_numpy(network[1][:1000]))]
    plain = calibrate(nn.Identity(), parts, source=old).calibration.value

    def forward(_, batch):
        return elsewhere(batch[0] if isinstance(batch, tuple) else batch)

    found = calibrate(nn.Identity(), parts, source=old, forward=forward).calibration.value
    assert found == pytest.approx(plain, rel=1e-9)
    calibrate(nn.Identity(), parts, spill=True, forward=forward)
    assert max(Elsewhere.brought) <= 1000 * 12


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({5: float("nan")}, "got nan for class 5 at row 33"),
        ({5: float("inf")}, "got inf for class 5 at row 33"),
        ({k: float("-inf") for k in range(12)}, "got -inf for every class at row 33"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_probabilities_elsewhere_refuse_the_rows_that_are_refused_here(
    rows, elsewhere, bad, said, dtype
):
    t = _temperature(1.5)
    hurt = rows[:60].clone().to(getattr(torch, dtype))
    for k, value in bad.items():
        hurt[33, k] = value
    images = hurt.reshape(5, 3, 4, 12).permute(0, 3, 1, 2)
    for z, options in ((hurt, {}), (images, {"class_axis": 1})):
        for there in (z, elsewhere(z)):
            with pytest.raises(tepid.InputError, match=said):
                t(there, **options)


@pytest.mark.parametrize("value", [1e-300, 1e-3, 1.5, 1e3, 1e300])
def test_probabilities_elsewhere_are_those_of_here(rows, elsewhere, value):
    t = _temperature(value)
    masked = rows[:60].clone()
    masked[7, 2] = float("-inf")
    masked[8] += 1e4
    for z in (masked, masked.double(), masked[:0]):
        there = t(elsewhere(z))
        assert isinstance(there, Elsewhere)
        torch.testing.assert_close(there.as_subclass(torch.Tensor), t(z), atol=1e-6, rtol=1e-5)
    assert not Elsewhere.brought
    binary = _temperature(value, classes=2)
    for z in (masked[:, 0], masked[:, :1]):
        there = binary(elsewhere(z)).as_subclass(torch.Tensor)
        torch.testing.assert_close(there, binary(z), atol=1e-6, rtol=1e-5)
    hurt = masked[:, 0].clone()
    hurt[3] = float("nan")
    with pytest.raises(tepid.InputError, match="got nan for class 1 at row 3"):
        binary(elsewhere(hurt))


def test_probabilities_of_tensors_without_values_have_the_right_shape_and_device():
    t = _temperature()
    z = torch.empty((5, 12, 3, 4), device="meta", dtype=torch.float16)
    p = t(z, class_axis=1)
    assert (p.shape, p.device.type, p.dtype) == (z.shape, "meta", torch.float32)
    binary = _temperature(classes=2)
    assert binary(torch.empty(5, device="meta")).shape == (5, 2)
    assert binary(torch.empty((5, 1), device="meta")).shape == (5, 2)
    with pytest.raises(tepid.InputError, match="must have the 12 classes"):
        t(torch.empty((5, 3), device="meta"))


# Several processes.


@pytest.fixture(scope="module")
def ranks(tmp_path_factory, network):
    """What two processes found, by case."""
    folder = tmp_path_factory.mktemp("ranks")
    np.save(folder / "logits.npy", network[0])
    np.save(folder / "labels.npy", network[1])
    cases = ["uneven", "empty", "evidence", "spilled", "wrapped", "nan", "labels", "no-labels"]
    script = Path(__file__).with_name("ranks.py")
    command = [sys.executable, str(script), str(folder), *cases]
    # On a busy machine gloo may fail to connect two processes; a wrong result fails every time.
    for _ in range(3):
        (folder / "meeting").unlink(missing_ok=True)
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=300, env=same_kernels()
        )
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = (json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1))
    return {case: (one[case], two[case]) for case in cases}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["uneven", "empty", "evidence", "spilled", "wrapped"])
def test_processes_with_a_part_each_find_what_one_finds_on_the_whole(ranks, network, case):
    z, y = network
    expected = tepid.calibrate(z, accuracy=0.7)
    if case == "evidence":
        expected = tepid.calibrate(
            z, y, accuracy=0.7, models=[z.clip(-5, 5)], reference=y, source=(z[:1000], y[:1000])
        )
    one, two = ranks[case]
    assert one == two
    assert one["samples"] == 4000
    assert one["value"] == pytest.approx(expected.value, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["labels", "no-labels"])
def test_processes_find_the_temperatures_of_labels(ranks, network, case):
    z, y = network
    expected = tepid.calibrate(z, np.eye(12)[y], multilabel="per-label")
    one, two = ranks[case]
    assert one == two
    # The rows of the second process fall into other buckets, from which intervals are estimated.
    assert one["value"] == pytest.approx(expected.value, rel=1e-4)
    np.testing.assert_allclose(one["per_label"], expected.per_label, rtol=0.01)


@pytest.mark.slow
def test_a_failure_in_one_process_ends_both(ranks):
    assert "got nan for class 2 at row 200" in ranks["nan"][1]["error"]
    assert "got on rank 1: RowError: logits must be finite" in ranks["nan"][0]["error"]


def test_the_engine_is_for_arrays_too(network, tmp_path):
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/one", rank=0, world_size=1)
    try:
        found = tepid.calibrate(*network, engine=AllReduced()).value
        nothing = np.empty((0, 12), np.float32)
        with pytest.raises(tepid.InputError, match="at least one row, got none"):
            tepid.calibrate(nothing, engine=AllReduced())
    finally:
        dist.destroy_process_group()
    assert found == pytest.approx(tepid.calibrate(*network).value, rel=1e-9)


# The recipes and the guide.


@pytest.mark.parametrize("name", ["resnet20", "warmup"])
def test_the_figures_of_the_guide_come_from_their_committed_files(name):
    result = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
    assert result["command"].startswith(f"python benchmarks/{name}.py")
    readme = benchmark("readme")
    guide = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert getattr(readme, name)(result) in guide


def test_a_real_network_is_calibrated_as_far_as_is_known():
    result = json.loads((ROOT / "benchmarks" / "results" / "resnet20.json").read_text())
    rows = {row["evidence"]: row for row in result["rows"]}
    assert result["accuracy"] == pytest.approx(0.9173, abs=1e-4)
    assert result["uts"]["all"] == pytest.approx(1.745, abs=1e-3)
    assert rows["none, UTS"]["temperature"] == pytest.approx(1.745, abs=0.1)
    assert rows["none, UTS"]["ece"] < 3.5
    assert rows["uncalibrated"]["ece"] > 5
    assert rows["its published accuracy, .9173"]["ece"] < 1.2


def test_the_calibrated_onnx_file_of_a_real_network_gives_what_apply_gives():
    result = json.loads((ROOT / "benchmarks" / "results" / "resnet20.json").read_text())
    calibrated = {row["evidence"]: row for row in result["rows"][1:]}
    assert result["onnx"]["images"] == 10_000
    for row in calibrated.values():
        assert row["onnx_own"] < 1e-6
        # torch and onnxruntime round the logits themselves differently.
        assert row["onnx"] < result["onnx"]["logits_differ"] < 1e-4
    found = result["onnx"]["fitted_temperature"]
    assert found == pytest.approx(calibrated["none, UTS"]["temperature"], rel=1e-5)
    guide = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    largest = max(row["onnx_own"] for row in calibrated.values())
    assert f"up to {_short(result['onnx']['logits_differ'])}." in guide
    assert f"difference is {_short(largest)}." in guide


def _short(value):
    return f"{value:.1e}".replace("e-0", "e-")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch_calibrate", "torch_warmup"])
def test_the_examples_run(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    assert "T = " in capsys.readouterr().out


def test_a_tensor_is_no_loader():
    said = r"loader must yield batches, got a tensor of shape \(8, 3\); \[tensor\] is a loader"
    with pytest.raises(tepid.InputError, match=said):
        tepid.torch.calibrate(torch.nn.Identity(), torch.randn(8, 3))
