"""THE LAW: the summary of the whole is the sum of the summaries of its parts."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tepid
from tests import strategies


def _thresholds(z):
    return np.stack([tepid.Tails.of(z).thresholds(d) for d in (0.5, 1.0)])


def _labels(z):
    return z.argmax(axis=1) if len(z) else np.zeros(0, np.int64)


def _probabilities(z):
    return tepid.Temperature(1.0, "", samples=0, classes=z.shape[1], implied_accuracy=0)(z)


MAKERS = {
    "tails": lambda z, y, theta: tepid.Tails.of(z),
    "curve": lambda z, y, theta: tepid.Curve.of(z, labels=y, thresholds=theta),
    "reliability": lambda z, y, theta: tepid.Reliability.of(_probabilities(z), y),
    "reliability of logits": lambda z, y, theta: tepid.Reliability.of_logits(z, y, temperature=1.7),
}


@pytest.mark.parametrize("of", MAKERS.values(), ids=MAKERS.keys())
@given(data=st.data())
def test_parts_add_to_the_whole(of, data):
    z = data.draw(strategies.logits())
    y, theta = _labels(z), _thresholds(z)
    where = data.draw(strategies.cuts(len(z)))
    parts = [of(a, b, theta) for a, b in zip(np.split(z, where), np.split(y, where), strict=True)]
    order = data.draw(st.permutations(range(len(parts))))
    total = parts[order[0]]
    for i in order[1:]:
        total = total + parts[i]
    assert total == of(z, y, theta)


@pytest.mark.parametrize("of", MAKERS.values(), ids=MAKERS.keys())
def test_rows_in_any_order_give_the_same(of, network, rng):
    z, y = network[0][:300], network[1][:300]
    order = rng.permutation(300)
    theta = _thresholds(z)
    assert of(z[order], y[order], theta) == of(z, y, theta)


@pytest.mark.parametrize("of", MAKERS.values(), ids=MAKERS.keys())
def test_different_rows_are_not_equal(of, network):
    z, y = network
    theta = _thresholds(z)
    assert of(z[:50], y[:50], theta) != of(z[1:51], y[1:51], theta)
    assert of(z[:50], y[:50], theta) != "a summary"


def test_nothing_is_the_zero(network):
    z, y = network[0][:20], network[1][:20]
    theta = _thresholds(z)
    assert tepid.Tails.of(z[:0]) == tepid.Tails.zero(12)
    assert tepid.Tails.of(z) + tepid.Tails.zero(12) == tepid.Tails.of(z)
    zero = tepid.Curve.zero(12, thresholds=theta, labelled=True)
    curve = tepid.Curve.of(z, thresholds=theta, labels=y)
    assert tepid.Curve.of(z[:0], thresholds=theta, labels=y[:0]) == zero
    assert zero + curve == curve
    assert tepid.Reliability.zero() + tepid.Reliability.of_logits(
        z, y
    ) == tepid.Reliability.of_logits(z, y)
    assert tepid.Reliability.of(np.zeros((0, 3)), []) == tepid.Reliability.zero()


@pytest.mark.parametrize("of", MAKERS.values(), ids=MAKERS.keys())
def test_a_number_times_a_summary_counts_its_rows_that_often(of, network):
    z, y = network[0][:50], network[1][:50]
    theta = _thresholds(z)
    twice = of(np.concatenate([z, z]), np.concatenate([y, y]), theta)
    assert 2 * of(z, y, theta) == twice
    assert of(z, y, theta) * 2 == twice
    assert 0.5 * twice == of(z, y, theta)


def test_weights_count_rows(network, rng):
    z, y = network[0][:60], network[1][:60]
    w = rng.integers(0, 4, 60)
    theta = _thresholds(z)
    again = np.repeat(np.arange(60), w)
    assert tepid.Tails.of(z, sample_weight=w) == tepid.Tails.of(z[again])
    mine = tepid.Curve.of(z, labels=y, thresholds=theta, sample_weight=w)
    other = tepid.Curve.of(z[again], labels=y[again], thresholds=theta)
    for name in ("weight", "pairs", "pull", "flat", "loss", "slope", "curvature", "confidence",
                 "confidence_slope", "confidence_curvature", "confidence_square", "histogram",
                 "softest", "sharpest", "spread"):  # fmt: skip
        np.testing.assert_allclose(getattr(mine, name), getattr(other, name), rtol=1e-9, atol=1e-9)
    assert mine.rows == 60
    mine_r = tepid.Reliability.of_logits(z, y, sample_weight=w)
    other_r = tepid.Reliability.of_logits(z[again], y[again])
    np.testing.assert_allclose(mine_r.correct, other_r.correct)
    assert mine_r.nll == pytest.approx(other_r.nll)
    assert mine_r.brier == pytest.approx(other_r.brier)
    assert tepid.Reliability.of(_probabilities(z), y, sample_weight=w).weight == w.sum()


def test_the_square_of_a_weighted_row_is_the_square_of_its_part():
    z = np.array([[2.0, 0.0], [0.0, 1.0]], np.float32)
    one = tepid.Curve.of(z[:1], labels=[1], lattice=tepid.Lattice.point(1.0))
    many = tepid.Curve.of(z, labels=[1, 0], sample_weight=[3, 0], lattice=tepid.Lattice.point(1.0))
    p = 1 / (1 + np.exp(2.0))
    assert one.square[0, 0] == pytest.approx((-2 * p + 2) ** 2, rel=1e-6)
    assert many.square[0, 0] == pytest.approx(9 * one.square[0, 0], rel=1e-9)


@pytest.mark.parametrize("of", MAKERS.values(), ids=MAKERS.keys())
def test_saved_summaries_come_back(of, network, tmp_path):
    z, y = network[0][:50], network[1][:50]
    summary = of(z, y, _thresholds(z))
    summary.save(tmp_path / "summary.npz")
    back = type(summary).load(tmp_path / "summary.npz")
    assert back == summary
    assert back + summary == 2 * summary
    assert [p.name for p in tmp_path.iterdir()] == ["summary.npz"]


def test_mismatched_summaries_refuse_and_name_both(network):
    z, y = network[0][:20], network[1][:20]
    with pytest.raises(tepid.InputError, match="share their classes, got 12 and 11"):
        tepid.Tails.of(z) + tepid.Tails.of(z[:, 1:])
    with pytest.raises(
        tepid.InputError, match=r"Curve summaries must share their starts, got .* and"
    ):
        tepid.Curve.of(z) + tepid.Curve.of(z, lattice=tepid.Lattice.window(-3, 3))
    with pytest.raises(tepid.InputError, match="share their thresholds"):
        tepid.Curve.of(z, thresholds=np.ones(12)) + tepid.Curve.of(z, thresholds=np.zeros(12))
    with pytest.raises(tepid.InputError, match="share their labelled, got True and False"):
        tepid.Curve.of(z, labels=y) + tepid.Curve.of(z)
    with pytest.raises(tepid.InputError, match="share their bins, got 15 and 10"):
        tepid.Reliability.of_logits(z, y) + tepid.Reliability.of_logits(z, y, bins=10)
    with pytest.raises(
        tepid.InputError, match="thresholds must have one entry per class, got 3 for"
    ):
        tepid.Curve.of(z, thresholds=np.zeros(3))


def test_another_file_is_no_summary(network, tmp_path):
    path = tmp_path / "x.npz"
    tepid.Tails.of(network[0][:5]).save(path)
    with pytest.raises(tepid.InputError, match="must hold a Curve summary"):
        tepid.Curve.load(path)
    np.savez(path, format=99, kind="Tails")
    with pytest.raises(tepid.InputError, match="must have summary format 1, got format 99"):
        tepid.Tails.load(path)
    np.savez(path, format=1, kind="Tails", classes=3)
    with pytest.raises(tepid.InputError, match="every field of Tails, got a mismatch in"):
        tepid.Tails.load(path)
    path.write_bytes(b"PK not really")
    with pytest.raises(tepid.InputError, match="must be a summary saved by tepid"):
        tepid.Tails.load(path)


def test_a_crash_while_saving_leaves_the_old_file_whole(network, tmp_path, monkeypatch):
    path = tmp_path / "tails.npz"
    old = tepid.Tails.of(network[0][:5])
    old.save(path)

    def torn(file, **_):
        file.write(b"half")
        raise OSError(28, "no space left")

    monkeypatch.setattr(np, "savez", torn)
    with pytest.raises(OSError, match="no space left"):
        tepid.Tails.of(network[0][:9]).save(path)
    monkeypatch.undo()
    assert tepid.Tails.load(path) == old
    assert [p.name for p in tmp_path.iterdir()] == ["tails.npz"]


def test_thresholds_are_mean_plus_deviations_over_the_rows_not_predicted_k():
    z = np.log([[0.7, 0.2, 0.1], [0.6, 0.1, 0.3], [0.1, 0.8, 0.1]])
    theta = tepid.Tails.of(z).thresholds(1.0)
    assert theta[0] == pytest.approx(0.1)  # one row, no spread
    assert theta[1] == pytest.approx(0.15 + 0.05)
    third = np.array([0.1, 0.3, 0.1])
    assert theta[2] == pytest.approx(third.mean() + third.std())
    assert tepid.Tails.of(z).thresholds(2.0)[1] == pytest.approx(0.15 + 0.1)
    assert tepid.Tails.of(z).weight == 3


def test_a_class_that_every_row_predicts_has_threshold_zero():
    tails = tepid.Tails.of([[3.0, 0.0], [2.0, 0.0]])
    assert tails.thresholds()[0] == 0
    assert (0.3 * tails).thresholds()[0] == 0
    assert tails.thresholds()[1] > 0
    curve = tepid.Curve.of([[3.0, 0.0], [2.0, 0.0]], thresholds=tails.thresholds())
    assert curve.pairs[0] == 2 + 1  # both rows for class 0, the higher one for class 1


@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0, 40.0])
def test_a_curve_holds_what_its_fields_say(network, temperature):
    z, y = network[0][:200].astype(np.float64), network[1][:200]
    z[3, 5] = z[3].max()  # a tie
    z[7, :4] = -np.inf
    y[7] = 11
    u = np.random.default_rng(0).random(200)
    point = tepid.Lattice.point(temperature)
    curve = tepid.Curve.of(z, labels=y, sample_weight=u, lattice=point)
    beta = point.nodes[0]
    assert beta == pytest.approx(1 / temperature, rel=1e-7)
    d = z - z.max(axis=1, keepdims=True)
    e = np.exp(beta * d)
    p = e / e.sum(axis=1, keepdims=True)
    live = np.isfinite(d)
    d0 = np.where(live, d, 0.0)
    top, mean = p.max(axis=1), (p * d0).sum(axis=1)
    variance = (p * d0**2).sum(axis=1) - mean**2
    c = d[np.arange(200), y]
    expected = {
        "rows": 200,
        "weight": u.sum(),
        "softest": (u / live.sum(axis=1)).sum(),
        "sharpest": (u / (d == 0).sum(axis=1)).sum(),
        "spread": (u * d0.sum(axis=1) / live.sum(axis=1)).sum(),
        "pairs": u.sum(),
        "pull": (u * c).sum(),
        "flat": (u * d0.sum(axis=1) / live.sum(axis=1)).sum(),
        "loss": -(u * np.log(p[np.arange(200), y])).sum(),
        "slope": (u * (mean - c)).sum(),
        "curvature": (u * variance).sum(),
        "square": ((u * (mean - c)) ** 2).sum(),
        "confidence": (u * top).sum(),
        "confidence_slope": -(u * top * mean).sum(),
        "confidence_curvature": (u * top * (mean**2 - variance)).sum(),
        "confidence_square": (u * top**2).sum(),
    }
    for name, value in expected.items():
        assert np.ravel(getattr(curve, name)) == pytest.approx(value, rel=2e-5), name


def test_a_masked_class_draws_nobody_in():
    z = np.array([[3.0, 0.0, -np.inf], [2.0, 1.0, -np.inf]])
    curve = tepid.Curve.of(z, thresholds=np.zeros(3))
    assert curve.pairs[0] == 4


def test_a_tie_with_the_threshold_counts_within_the_tolerance():
    z = np.log(np.array([[0.7, 0.3]]))
    for factor, count in ((1.0, 1), (1 + 5e-7, 1), (1 + 3e-6, 0)):
        curve = tepid.Curve.of(z, thresholds=np.array([9.0, 0.3 * factor]))
        assert curve.pairs[0] == count


def test_bins_and_temperatures_that_are_none_are_refused():
    z = np.eye(3)
    for make in (
        lambda b: tepid.Reliability.of_logits(z, [0, 1, 2], bins=b),
        lambda b: tepid.Reliability.of(z, [0, 1, 2], bins=b),
        tepid.Reliability.zero,
        lambda b: tepid.metrics.ece([0, 1, 2], z, bins=b),
        lambda b: tepid.Curve.of(z, bins=b - 1),
    ):
        with pytest.raises(tepid.InputError, match="bins must be at least"):
            make(0)
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(tepid.InputError, match=f"temperature must be .*, got {wrong}"):
            tepid.Reliability.of_logits(z, [0, 1, 2], temperature=wrong)


def test_many_threads_may_save_to_one_path(network, tmp_path):
    tails = tepid.Tails.of(network[0][:5])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: tails.save(tmp_path / "t.npz"), range(100)))
    assert tepid.Tails.load(tmp_path / "t.npz") == tails
    assert [p.name for p in tmp_path.iterdir()] == ["t.npz"]


def test_a_summary_needs_a_folder_and_a_window_an_octave(network, tmp_path):
    with pytest.raises(tepid.InputError, match="in a folder that exists, got"):
        tepid.Tails.of(network[0][:5]).save(tmp_path / "none" / "t.npz")
    with pytest.raises(tepid.InputError, match="at least one octave, got 3 to 3"):
        tepid.Lattice.window(3, 3)
    with pytest.raises(tepid.InputError, match="at least one octave, got -1 to 1"):
        tepid.Lattice.window(-1, 1, per_octave=0)


def test_summaries_of_other_parameters_are_not_equal(network):
    z = network[0][:20]
    assert tepid.Tails.zero(3) != tepid.Tails.zero(4)
    assert tepid.Curve.of(z) != tepid.Curve.of(z, lattice=tepid.Lattice.window(-3, 3))
    assert tepid.Tails.of(z) != 2 * tepid.Tails.of(z)


def test_the_nodes_of_a_window_are_powers_of_two_apart_by_octave():
    nodes = tepid.Lattice.window(-2, 3, per_octave=4).nodes
    np.testing.assert_allclose(nodes, 2.0 ** np.arange(-2, 3.01, 0.25), rtol=1e-7)
    assert tepid.Lattice.window().nodes[0] == 1 / 32
    assert tepid.Lattice.window().nodes[-1] == 32
    assert tepid.Lattice.point(3.0).unit == 0.25
