"""The methods: exact, invariant, and honest about what they cannot know."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

import tepid
from tepid.lab.odds import from_odds
from tepid.posterior.calibration import fit_methods
from tepid.sources import open_source
from tests import truth
from tests.precision import CONFIDENCE, apart


def _fits(z, y, accuracy):
    return {
        "uts": tepid.uts(z),
        "temperature": tepid.temperature_scaling(z, y),
        "accuracy": tepid.match_accuracy(z, accuracy),
    }


def _three(z, y, accuracy):
    return {name: t.value for name, t in _fits(z, y, accuracy).items()}


def _exact(z, y, accuracy):
    return {
        "uts": truth.least_loss(z, truth.uts_pairs(z)),
        "temperature": truth.least_loss(z, truth.label_pairs(z, y)),
        "accuracy": truth.matching(z, accuracy),
    }


@pytest.mark.parametrize("name", ["network", "fashion"])
def test_all_three_agree_with_a_float64_root_finder(name, request):
    z, y = request.getfixturevalue(name)
    accuracy = (z.argmax(axis=1) == y).mean()
    exact = _exact(z, y, accuracy)
    for method, t in _fits(z, y, accuracy).items():
        assert t.value == pytest.approx(exact[method], rel=t.precision), method


@pytest.mark.slow
def test_all_three_are_exact_on_every_real_set(shared):
    paths = sorted(shared.glob("*.npz"))
    assert len(paths) == 30
    for path in paths:
        with np.load(path) as data:
            z, y = data["logits"], data["labels"]
        accuracy = (z.argmax(axis=1) == y).mean()
        exact = _exact(z, y, accuracy)
        for method, t in _fits(z, y, accuracy).items():
            assert t.value == pytest.approx(exact[method], rel=t.precision), (path.name, method)


@pytest.mark.parametrize("per_octave", [1, 2, 4])
def test_a_curve_alone_gives_the_temperature_to_its_stated_bound(fashion, per_octave):
    z, y = fashion
    bound = tepid.summaries.optimum.INTERPOLATION[per_octave]
    accuracy = (z.argmax(axis=1) == y).mean()
    curve = tepid.summaries.Curve.of(
        z,
        labels=y,
        thresholds=tepid.summaries.Tails.of(z).thresholds(),
        lattice=tepid.summaries.Lattice.window(-4, 4, per_octave),
    )
    for reading, exact in (
        (tepid.summaries.optimum.least_loss(curve, 0), truth.least_loss(z, truth.uts_pairs(z))),
        (
            tepid.summaries.optimum.least_loss(curve, 1),
            truth.least_loss(z, truth.label_pairs(z, y)),
        ),
        (tepid.summaries.optimum.matching_confidence(curve, accuracy), truth.matching(z, accuracy)),
    ):
        assert reading.where == "inside"
        assert reading.temperature == pytest.approx(exact, rel=bound)


@pytest.mark.slow
def test_a_curve_alone_keeps_its_bound_on_every_real_set(shared):
    for path in sorted(shared.glob("*.npz")):
        with np.load(path) as data:
            z, y = data["logits"], data["labels"]
        accuracy = (z.argmax(axis=1) == y).mean()
        theta = tepid.summaries.Tails.of(z).thresholds()
        fits = _fits(z, y, accuracy)
        for per_octave, bound in tepid.summaries.optimum.INTERPOLATION.items():
            lattice = tepid.summaries.Lattice.window(per_octave=per_octave)
            curve = tepid.summaries.Curve.of(z, labels=y, thresholds=theta, lattice=lattice)
            found = {
                "uts": tepid.summaries.optimum.least_loss(curve, 0).temperature,
                "temperature": tepid.summaries.optimum.least_loss(curve, 1).temperature,
                "accuracy": tepid.summaries.optimum.matching_confidence(
                    curve, accuracy
                ).temperature,
            }
            for method, t in fits.items():
                close = pytest.approx(t.value, rel=bound + t.precision)
                assert found[method] == close, (path.name, per_octave, method)


@given(data=st.data())
def test_any_blocks_give_the_array_s_temperature(network, data):
    z, y = network[0][:600], network[1][:600]
    where = sorted(data.draw(st.lists(st.integers(0, 600), max_size=6)))
    blocks = np.split(z, where)
    whole = _three(z, y, 0.8)
    assert _three(lambda: blocks, y, 0.8) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_any_number_of_threads_gives_the_same(fashion, threads):
    z = fashion[0]
    one = tepid.uts(z, engine=tepid.Threads(1)).value
    assert tepid.uts(z, engine=tepid.Threads(threads)).value == pytest.approx(one, rel=1e-9)


def test_row_constants_row_order_and_class_order_change_nothing(network, rng):
    z, y = network[0].astype(np.float64), network[1]
    whole = _fits(z, y, 0.8)
    constants = rng.normal(size=(len(z), 1))
    classes = rng.permutation(z.shape[1])
    for changed in (
        _fits(z + constants, y, 0.8),
        _fits(z[:, classes], np.argsort(classes)[y], 0.8),
    ):
        for method, t in whole.items():
            other = changed[method]
            assert other.value == pytest.approx(t.value, rel=apart(t, other)), method
    rows = rng.permutation(len(z))
    same = {method: t.value for method, t in whole.items()}
    assert _three(z[rows], y[rows], 0.8) == pytest.approx(same, rel=1e-9)


def test_no_pairs_leave_nothing_identified(fashion):
    t = tepid.uts(fashion[0][:2000], deviations=1e6)
    assert t.status == "not-identified"
    assert t.warnings[0].startswith("No row reaches the threshold of UTS")


def test_labels_of_rows_that_weigh_nothing_may_be_any(network):
    z, y = network[0][:500], network[1][:500].copy()
    w = np.ones(500)
    w[::7] = 0
    clean = tepid.temperature_scaling(z[w > 0], y[w > 0])
    y[::7] = 255
    assert tepid.temperature_scaling(z, y, sample_weight=w).value == pytest.approx(
        clean.value, rel=1e-9
    )
    masked = z.copy()
    masked[::7, 0] = -np.inf
    t = tepid.temperature_scaling(masked, np.where(w > 0, y, 0), sample_weight=w)
    assert t.value == pytest.approx(clean.value, rel=1e-9)
    scored = tepid.summaries.Reliability.of_logits(z, y, sample_weight=w)
    assert scored.correct.sum() == (z.argmax(axis=1) == y)[w > 0].sum()


@pytest.mark.parametrize("scale", [1e-30, 1e-9, 0.02, 0.3, 50.0, 1e9, 1e30])
def test_labels_and_accuracy_follow_the_scale_of_the_logits(network, scale):
    z, y = network[0].astype(np.float64), network[1]
    for fit, evidence in ((tepid.temperature_scaling, y), (tepid.match_accuracy, 0.8)):
        one, other = fit(z, evidence), fit(scale * z, evidence)
        assert other.value == pytest.approx(scale * one.value, rel=apart(one, other))


def test_the_right_temperature_of_a_made_up_network_is_found(network):
    z, y = network
    t = tepid.temperature_scaling(z, y)
    assert t.interval[0] < 2.0 < t.interval[1]
    assert t.interval[1] / t.interval[0] < 1.2
    assert t.method == "temperature"
    assert t.sensitivity is None


@pytest.mark.slow
def test_intervals_cover_the_truth_about_as_often_as_they_say():
    covered = {"labels": 0, "accuracy": 0}
    runs = 300
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        posterior = 3 * rng.normal(size=(400, 5))
        y = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
        low, high = tepid.temperature_scaling(2 * posterior, y).interval
        covered["labels"] += low < 2 < high
        low, high = tepid.match_accuracy(2 * posterior, 0.77).interval
        covered["accuracy"] += low < _SETTLED < high
    assert 0.92 * runs < covered["labels"] < 0.98 * runs
    assert 0.92 * runs < covered["accuracy"] < 0.98 * runs


def _settled():
    posterior = 3 * np.random.default_rng(99).normal(size=(200_000, 5))
    return tepid.match_accuracy(2 * posterior, 0.77).value


_SETTLED = _settled()


def test_uts_gives_no_interval_but_its_sensitivity(fashion):
    z = fashion[0]
    t = tepid.uts(z)
    assert t.interval is None
    assert t.method == "uts"
    half, double = (tepid.uts(z, deviations=d).value for d in (0.5, 2.0))
    assert t.sensitivity == pytest.approx((half, double), rel=6e-3)
    assert t.value != pytest.approx(half, rel=1e-3)
    other = tepid.uts(z, deviations=2.0)
    exact = truth.least_loss(z, truth.uts_pairs(z, 2.0))
    assert other.value == pytest.approx(exact, rel=other.precision)
    assert other.sensitivity[0] == pytest.approx(t.value, rel=6e-3)


def test_the_implied_accuracy_is_the_mean_confidence_at_the_temperature(fashion):
    z, y = fashion
    for t in (tepid.uts(z), tepid.temperature_scaling(z, y), tepid.match_accuracy(z, 0.93)):
        assert t.implied_accuracy == pytest.approx(t(z).max(axis=1).mean(), abs=CONFIDENCE)
    assert tepid.match_accuracy(z, 0.93).implied_accuracy == pytest.approx(0.93, abs=CONFIDENCE)


def test_a_range_of_accuracies_gives_a_range_of_temperatures(fashion):
    z = fashion[0]
    t = tepid.match_accuracy(z, tepid.Range(0.9, 0.94))
    ends = tuple(tepid.match_accuracy(z, a).value for a in (0.94, 0.9))
    assert t.interval == pytest.approx(ends, rel=2e-4)
    assert t.value == pytest.approx(tepid.match_accuracy(z, 0.92).value, rel=1e-9)
    assert t.interval[0] < t.value < t.interval[1]


def test_an_uncertain_accuracy_widens_the_interval_and_moves_nothing(fashion):
    z = fashion[0]
    sure, unsure = (tepid.match_accuracy(z, (0.93, error)) for error in (0.0, 0.01))
    assert sure.value == unsure.value
    assert tepid.match_accuracy(z, 0.93) == sure
    assert unsure.interval[0] < sure.interval[0] < sure.interval[1] < unsure.interval[1]
    # One standard error of the accuracy either way, to first order.
    moved = [tepid.match_accuracy(z, a).value for a in (0.929, 0.931)]
    slope = math.log(moved[0] / moved[1]) / 0.002
    widths = [math.log(t.interval[1] / t.interval[0]) / (2 * 1.96) for t in (sure, unsure)]
    assert widths[1] ** 2 - widths[0] ** 2 == pytest.approx((0.01 * slope) ** 2, rel=0.01)


def test_a_count_is_matched_as_its_share_with_its_error(fashion):
    z = fashion[0]
    widths = []
    for checked in (100, 400):
        t = tepid.match_accuracy(z, tepid.Counted(93 * checked // 100, checked))
        assert t.value == tepid.match_accuracy(z, 0.93).value
        widths.append(math.log(t.interval[1] / t.interval[0]))
    assert widths[0] / widths[1] == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("wrong", [(11, 10), (-1, 10), (0, 0), (1.5, 2), (1, "2")])
def test_a_count_that_is_none_is_refused(wrong):
    with pytest.raises(tepid.InputError, match=r"(correct|checked) must be"):
        tepid.Counted(*wrong)


def test_weights_count_rows_in_every_method(network, rng):
    z, y = network[0][:1500], network[1][:1500]
    w = rng.integers(0, 4, 1500)
    again = np.repeat(np.arange(1500), w)
    assert tepid.uts(z, sample_weight=w).value == pytest.approx(tepid.uts(z[again]).value, rel=1e-9)
    assert tepid.temperature_scaling(z, y, sample_weight=w).value == pytest.approx(
        tepid.temperature_scaling(z[again], y[again]).value, rel=1e-9
    )
    assert tepid.match_accuracy(z, 0.8, sample_weight=w).value == pytest.approx(
        tepid.match_accuracy(z[again], 0.8).value, rel=1e-9
    )


def test_uts_says_where_it_was_measured_to_fail(fashion, network):
    confident, unsure = fashion[0], network[0]
    assert tepid.uts(confident).warnings == ()
    few = tepid.uts(confident[:999]).warnings
    assert len(few) == 1
    assert "fewer than 1000 rows; there are 999" in few[0]
    assert tepid.uts(confident[:1000]).warnings == ()
    low = tepid.uts(unsure).warnings
    assert len(low) == 1
    mean = tepid.metrics.confidence(network[1], _softmax(unsure))
    assert f"at T = 1 is {mean:.3f}. Below 0.95" in low[0]
    one = tepid.uts([[3.0, 0.0], [2.0, 0.0]]).warnings
    assert any("Every row is predicted as class 0" in w for w in one)
    assert any("fewer rows (2) than classes (3)" in w for w in _few_rows().warnings)
    assert not any("fewer rows" in w for w in tepid.uts(confident[:10]).warnings)


def _few_rows():
    return tepid.uts([[3.0, 0.0, 1.0], [2.0, 0.0, 2.5]])


def _softmax(z):
    return tepid.Temperature(1.0, "", samples=0, classes=z.shape[1], implied_accuracy=0)(z)


def test_a_stream_that_cannot_be_read_again_gives_what_its_curve_gives(fashion):
    z, y = fashion
    again = tepid.temperature_scaling(z, y)
    once = tepid.temperature_scaling(iter(np.split(z, 7 * [0] + [5000])), y)
    assert once.value == pytest.approx(again.value, rel=apart(once, again))
    assert once.precision == 4e-4
    assert again.precision == 5e-6
    assert once.interval is None
    assert once.implied_accuracy == pytest.approx(again.implied_accuracy, abs=1e-4)
    matched = tepid.match_accuracy(iter([z]), 0.93)
    again = tepid.match_accuracy(z, 0.93)
    assert matched.value == pytest.approx(again.value, rel=apart(matched, again))
    with pytest.raises(tepid.InputError, match="readable more than once"):
        tepid.uts(iter([z]))


def test_a_stream_that_ends_outside_its_window_is_at_the_bound(network):
    z, y = network
    t = tepid.temperature_scaling(iter([1000 * z]), y)
    assert (t.status, t.value) == ("at-bound", 32.0)
    assert "above the range that was searched" in t.warnings[0]
    t = tepid.temperature_scaling(iter([1e-4 * z]), y)
    assert (t.status, t.value) == ("at-bound", 1 / 32)
    assert "below the range that was searched" in t.warnings[0]


def test_sums_of_labels_that_no_temperature_fits_give_no_interval(network):
    z = network[0][:300]
    for worst in (z.argmin(axis=1), z.argmax(axis=1)):
        t = tepid.temperature_scaling(tepid.summarize(z, worst))
        assert (t.status, t.interval) == ("at-bound", None)


def test_a_report_fits_what_each_method_fits(network):
    z, y = network[0][:400], network[1][:400].copy()
    y[300:] = -1
    accuracy = (z[:300].argmax(axis=1) == y[:300]).mean()
    found, _ = fit_methods(open_source(z, labels=y), tepid.Threads(1))
    assert list(found) == ["temperature", "accuracy", "calibrate", "uts"]
    for name, exact in (
        ("temperature", tepid.temperature_scaling(z[:300], y[:300])),
        ("accuracy", tepid.match_accuracy(z, accuracy)),
        ("calibrate", tepid.calibrate(z)),
        ("uts", tepid.uts(z)),
    ):
        assert found[name].value == pytest.approx(exact.value, rel=apart(found[name], exact)), name
    alone, _ = fit_methods(open_source(z), tepid.Threads(1))
    assert alone == {name: found[name] for name in ("calibrate", "uts")}


def test_a_billion_deviations_are_the_most():
    z = 3 * np.random.default_rng(0).normal(size=(50, 3))
    assert tepid.uts(z, deviations=1e9).status == "not-identified"
    with pytest.raises(tepid.InputError, match=r"deviations must be a number in 0 to 1e\+09, got"):
        tepid.uts(z, deviations=np.nextafter(1e9, np.inf))


def test_bad_arguments_are_named():
    z = np.eye(3)
    with pytest.raises(tepid.InputError, match=r"accuracy must be in \[0, 1\], got 93"):
        tepid.match_accuracy(z, 93)
    with pytest.raises(tepid.InputError, match=r"accuracy must be in \[0, 1\], got -0.1"):
        tepid.match_accuracy(z, -0.1)
    with pytest.raises(tepid.InputError, match=r"accuracy must be in \[0, 1\], got nan"):
        tepid.match_accuracy(z, float("nan"))
    with pytest.raises(tepid.InputError, match=r"a range from low to high, got .*0.9.*0.8"):
        tepid.match_accuracy(z, tepid.Range(0.9, 0.8))
    with pytest.raises(tepid.InputError, match=r"error of accuracy must be in \[0, 1\), got -1"):
        tepid.match_accuracy(z, (0.5, -1))
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(tepid.InputError, match=rf"deviations must be .*, got {wrong}"):
            tepid.uts(z, deviations=wrong)
    for wrong in ("ninety", None, (0.1, 0.2, 0.3), np.zeros(9)):
        with pytest.raises(
            tepid.InputError, match=r"^accuracy must be (a number|like 0\.93|\(value, st)"
        ):
            tepid.match_accuracy(z, wrong)
    with pytest.raises(tepid.InputError, match="temperature must be a number above zero, got -2"):
        tepid.Temperature(-2.0, "", samples=1, classes=2, implied_accuracy=0.5)
    with pytest.raises(tepid.InputError, match="labels must be given"):
        tepid.temperature_scaling(z)
    with pytest.raises(tepid.InputError, match="threads must be a whole number in 1 to 256, got 0"):
        tepid.uts(z, engine=tepid.Threads(0))


def test_logits_that_float32_cannot_hold_are_refused():
    with pytest.raises(
        tepid.InputError, match=r"within 3.4.*e\+38 .* got 0 for class 1 below 1e\+300 at"
    ):
        tepid.temperature_scaling(np.array([[1.0, 0.0], [1e300, 0.0]]), [0, 1])


def test_a_temperature_beyond_float32_is_at_the_bound():
    far = np.zeros((50, 2), np.float32)
    far[:, 0] = 2e-38
    t = tepid.temperature_scaling(far, np.arange(50) % 5 == 0)
    assert t.status == "at-bound"
    assert 0 < t.value < 1e-30
    assert tepid.match_accuracy(far, 0.8).status == "at-bound"


def test_a_loss_that_is_flat_between_two_scales_gives_no_interval():
    z = np.zeros((100, 2), np.float32)
    z[:, 0] = 1.0
    z[:50, 0] = 2e-37
    t = tepid.temperature_scaling(z, np.arange(100) < 50)
    assert t.value > 0
    assert t.interval is None or all(math.isfinite(end) for end in t.interval)


def test_a_producer_may_reuse_its_memory(rng):
    z = (3 * rng.normal(size=(20_000, 30))).astype(np.float32)
    buffer = np.empty((1000, 30), np.float32)

    def blocks():
        for start in range(0, 20_000, 1000):
            buffer[:] = z[start : start + 1000]
            yield buffer

    whole = tepid.uts(z).value
    assert tepid.uts(blocks, engine=tepid.Threads(4)).value == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_first_bad_row_is_the_one_named(threads):
    z = np.zeros((400_000, 30), np.float32)
    z[3::35_000, 4] = np.nan
    with pytest.raises(tepid.InputError, match=r"at row 3$"):
        tepid.uts(z, engine=tepid.Threads(threads))


def test_evidence_near_chance_gives_no_endless_interval():
    assert tepid.temperature_scaling([[2.0, 1], [1, 1.999]], [0, 0]).interval is None
    t = tepid.match_accuracy([[0.0, 0], [0, 1.0]], 0.75 - 1e-6)
    assert t.interval is None or all(math.isfinite(end) for end in t.interval)


def test_rows_that_weigh_nothing_do_not_narrow_an_interval(network):
    z, y = network[0][:500], network[1][:500]
    w = np.zeros(500)
    w[:50] = 3.0
    for fit, evidence in ((tepid.temperature_scaling, y), (tepid.match_accuracy, 0.8)):
        few = fit(z[:50], evidence[:50] if fit is tepid.temperature_scaling else evidence)
        assert fit(z, evidence, sample_weight=w).interval == pytest.approx(few.interval, rel=1e-9)


@pytest.mark.parametrize("n", [7, 50, 300])
def test_an_accuracy_of_chance_is_at_the_bound(n):
    z = np.random.default_rng(n).normal(size=(n, 7))
    t = tepid.match_accuracy(z, 1 / 7)
    assert t.status == "at-bound"
    assert t.interval is None


def test_the_stated_precision_widens_where_the_loss_is_flat():
    rng = np.random.default_rng(11435)
    z = rng.normal(size=(500, 2))
    flat = None
    for seed in range(200):
        y = np.random.default_rng(seed).integers(0, 2, 500)
        t = tepid.temperature_scaling(z, y)
        exact = truth.least_loss(z, truth.label_pairs(z, y), 1e-3, 1e9) if t.status == "ok" else 1
        if t.status == "ok":
            assert abs(t.value / exact - 1) <= t.precision
            flat = max(flat or 0, t.precision)
    assert flat > 5e-6


def test_progress_is_told_and_ends_at_all_rows(fashion):
    told = []
    tepid.uts(fashion[0], engine=tepid.Threads(2, lambda *step: told.append(step)))
    stages = [stage for stage, _, _ in told]
    assert list(dict.fromkeys(stages)) == ["reading", "summing", "finishing"]
    assert all(total == 10_000 for _, _, total in told)
    assert told[-1][1] == 10_000


def test_the_number_of_threads_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("TEPID_THREADS", "3")
    assert tepid.Threads().threads == 3
    assert tepid.Threads(2).threads == 2
    monkeypatch.setenv("TEPID_THREADS", "many")
    with pytest.raises(tepid.InputError, match=r"TEPID_THREADS must be .*, got 'many'"):
        tepid.Threads().threads  # noqa: B018  # the reading is the test


@pytest.mark.parametrize("count", [0, -1, 257, 2.5, "many", [2]])
def test_a_number_of_threads_that_is_none_is_refused(count):
    with pytest.raises(tepid.InputError, match=r"^threads must be a whole number in 1 to 256, got"):
        tepid.uts(np.eye(3), engine=tepid.Threads(count))


# --- the authors' later weighting


def _odds(z, prior):
    """The definition as written, with SciPy's minimisers: T."""
    z = z.astype(np.float64)
    n, k = z.shape
    s, predicted = softmax(z, axis=1), z.argmax(axis=1)
    outside = np.arange(k) != predicted[:, None]
    odds = np.where(outside, s, 0.0) / np.where(outside, 1 - s, 1.0)
    lacking = np.maximum(0, 1 - 0.99 * np.bincount(predicted, minlength=k) / (n * prior))

    def misfit(log_e):
        return ((((odds ** np.exp(log_e)) * outside).mean(axis=0) - lacking) ** 2).sum()

    grid = np.linspace(-3.4, 3.4, 300)
    near = grid[np.argmin([misfit(g) for g in grid])]
    found = minimize_scalar(misfit, bounds=(near - 0.05, near + 0.05), options={"xatol": 1e-10})
    pairs = np.where(outside, odds ** np.exp(found.x), 0.0) / (k - 1) + ~outside

    def loss(log_t):
        return -(pairs * log_softmax(z / np.exp(log_t), axis=1)).sum()

    return np.exp(minimize_scalar(loss, bounds=(-4, 4), options={"xatol": 1e-10}).x)


@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("uniform", [True, False])
def test_odds_are_the_definition_as_written(k, uniform):
    rng = np.random.default_rng(k)
    z = 4 * rng.normal(size=(700, k)) + np.linspace(0, 2, k)
    prior = np.full(k, 1 / k) if uniform else rng.dirichlet(np.full(k, 5.0))
    t = from_odds(z, prior=None if uniform else prior)
    assert t.value == pytest.approx(_odds(z, prior), rel=2e-3)
    assert t.implied_accuracy == pytest.approx(t(z).max(axis=1).mean(), abs=CONFIDENCE)
    assert (t.method, t.interval) == ("odds", None)
    blocks = from_odds(lambda: np.array_split(z, 6), prior=None if uniform else prior)
    assert blocks.value == pytest.approx(t.value, rel=1e-9)


def test_odds_count_weighted_rows_as_repeated_ones(network):
    z = network[0][:400]
    u = np.arange(400) % 3
    weighted = from_odds(open_source(z, sample_weight=u.astype(float)))
    assert weighted.value == pytest.approx(from_odds(np.repeat(z, u, axis=0)).value, rel=1e-6)


@pytest.mark.parametrize("prior", [[0.5, 0.5], [1.0] * 12, [0.0] + [1 / 11] * 11, "even"])
def test_a_prior_that_is_none_is_refused(network, prior):
    with pytest.raises(tepid.InputError, match="prior must be"):
        from_odds(network[0], prior=prior)


def test_odds_survive_hostile_logits():
    z = np.array([[9.0, 0, -np.inf], [0, 9.0, 1], [1e4, 0, 0], [0, 0, 0]])
    assert np.isfinite(from_odds(z).value)
    assert from_odds(np.zeros((5, 3))).status == "not-identified"
    z[1, 2] = np.nan
    with pytest.raises(tepid.InputError, match="got nan for class 2 at row 1"):
        from_odds(z)


def _odds_error(z, temperature):
    """The sandwich standard error of log T in float64, with the definition's own weights."""
    z = z.astype(np.float64)
    k = z.shape[1]
    s, predicted = softmax(z, axis=1), z.argmax(axis=1)
    outside = np.arange(k) != predicted[:, None]
    odds = np.where(outside, s, 0.0) / np.where(outside, 1 - s, 1.0)
    lacking = np.maximum(0, 1 - 0.99 * np.bincount(predicted, minlength=k) * k / len(z))
    grid = np.exp(np.linspace(-3.4, 3.4, 2000))
    means = np.stack([(odds**e * outside).mean(axis=0) for e in grid])
    exponent = grid[((means - lacking) ** 2).sum(axis=1).argmin()]
    pairs = np.where(outside, odds**exponent, 0.0) / (k - 1) + ~outside
    d = z - z.max(axis=1, keepdims=True)
    p = softmax(z / temperature, axis=1)
    mean = (p * d).sum(axis=1)
    total = pairs.sum(axis=1)
    parts = total * mean - (pairs * d).sum(axis=1)
    bend = (total * ((p * d**2).sum(axis=1) - mean**2)).sum()
    return temperature * np.sqrt((parts**2).sum()) / bend


def test_groups_of_odds_are_shrunk_by_the_sandwich_standard_error():
    z = 4 * np.random.default_rng(0).normal(size=(600, 5)) + np.linspace(0, 2, 5)
    site = np.arange(600) % 2
    z[site == 1] *= 1.02
    found, pooled = from_odds(open_source(z, groups=site)), from_odds(z).value
    own = [from_odds(z[site == g]).value for g in (0, 1)]
    error = np.array([_odds_error(z[site == g], own[g]) for g in (0, 1)])
    x, w = np.log(own), error**-2.0
    excess = (w * (x - (w @ x) / w.sum()) ** 2).sum() - 1
    between = max(0.0, excess / (w.sum() - (w**2).sum() / w.sum()))
    kept = between / (between + error**2)
    assert kept == pytest.approx([0.504, 0.484], abs=0.001)  # so that the error matters
    expected = np.exp(np.log(pooled) + kept * (x - np.log(pooled)))
    assert [found.groups[g].value for g in "01"] == pytest.approx(expected, rel=1e-3)
