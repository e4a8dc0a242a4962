"""The rungs between logits alone and labels for all: what they promise and what they reach."""

import math

import numpy as np
import pytest

import tepid
from tests.precision import CONFIDENCE, apart

# --- an accuracy that is itself uncertain


def test_an_uncertain_accuracy_widens_the_interval(fashion):
    z = fashion[0]
    sure, unsure = (tepid.match_accuracy(z, 0.93, standard_error=e) for e in (0.0, 0.01))
    assert sure.value == unsure.value
    assert unsure.interval[0] < sure.interval[0] < sure.interval[1] < unsure.interval[1]
    # One standard error of the accuracy either way, to first order.
    moved = [tepid.match_accuracy(z, a).value for a in (0.929, 0.931)]
    slope = math.log(moved[0] / moved[1]) / 0.002
    widths = [math.log(t.interval[1] / t.interval[0]) / (2 * 1.96) for t in (sure, unsure)]
    assert widths[1] ** 2 - widths[0] ** 2 == pytest.approx((0.01 * slope) ** 2, rel=0.01)


def test_counted_labels_give_an_accuracy_and_its_error():
    assert tepid.counted(93, 100)[0] == 0.93
    assert tepid.counted(50, 100)[1] == pytest.approx(0.05, rel=0.02)
    assert tepid.counted(10, 10)[1] > 0.05
    assert tepid.counted(0, 10)[1] == pytest.approx(tepid.counted(10, 10)[1])
    for wrong in ((11, 10), (-1, 10), (0, 0)):
        with pytest.raises(tepid.InputError, match="correct must be in 0 to"):
            tepid.counted(*wrong)
    with pytest.raises(tepid.InputError, match=r"standard_error must be in \[0, 1\), got -1"):
        tepid.match_accuracy(np.eye(3), 0.5, standard_error=-1)


# --- logits alone, cautiously


def test_the_guard_matches_the_error_odds_times_t_squared(fashion):
    z = fashion[0]
    t = tepid.guarded(z, budget=1.0)
    uts = tepid.uts(z).value
    confidence = tepid.metrics.confidence(fashion[1], _plain(z))
    odds = confidence / (1 - confidence) / uts**2
    assert t.implied_accuracy == pytest.approx(odds / (1 + odds), rel=1e-5)
    assert t.implied_accuracy == pytest.approx(t(z).max(axis=1).mean(), rel=1e-5)
    assert (t.status, t.method, t.interval) == ("ok", "guarded", None)


@pytest.mark.parametrize("budget", [0.002, 0.01, 0.03])
def test_the_confidence_moves_by_no_more_than_the_budget(fashion, budget):
    z, y = fashion
    before, t = _plain(z), tepid.guarded(z, budget=budget)
    after = t(z)
    # Confidence changes by less than log T does, so an error of T moves it by less than that.
    limit = budget + t.precision
    assert abs(after.max(axis=1).mean() - before.max(axis=1).mean()) <= limit
    # The certificate: over any grouping that does not depend on T the error grows by no more.
    rng = np.random.default_rng(0)
    for groups in (y, z.argmax(axis=1), rng.integers(0, 20, len(z)), np.digitize(z[:, 0], [0, 5])):
        grown = _grouped(after, y, groups) - _grouped(before, y, groups)
        assert grown <= limit


def _plain(z):
    return tepid.Temperature(1.0, "", samples=0, classes=z.shape[1], implied_accuracy=0)(z)


def _grouped(p, y, groups):
    gap = p.max(axis=1) - (p.argmax(axis=1) == y)
    return sum(abs(gap[groups == g].sum()) for g in np.unique(groups)) / len(y)


def test_the_guard_abstains_where_it_knows_nothing(network):
    t = tepid.guarded(network[0])
    assert (t.value, t.status) == (1.0, "abstained")
    mean = _plain(network[0]).max(axis=1).mean()
    assert t.implied_accuracy == pytest.approx(mean, abs=CONFIDENCE)
    assert "outside .95 to 1" in t.warnings[0]
    constant = tepid.guarded(np.zeros((20, 3)))
    assert constant.status == "abstained"
    assert "UTS found no temperature" in constant.warnings[0]
    for wrong in (0, -1, 2, float("nan")):
        with pytest.raises(tepid.InputError, match=r"budget must be in \(0, 1\], got"):
            tepid.guarded(network[0], budget=wrong)


def test_an_abstained_result_saves_and_loads(network, tmp_path):
    t = tepid.guarded(network[0])
    t.save(tmp_path / "c.json")
    assert tepid.load(tmp_path / "c.json") == t


@pytest.mark.parametrize("fit", [tepid.guarded, lambda z: tepid.from_few_labels(z, Z[:40], Y[:40])])
def test_blocks_row_order_and_row_constants_change_nothing(fit, fashion):
    z = fashion[0][:3000].astype(np.float64)
    whole = fit(z)
    rng = np.random.default_rng(3)
    assert fit(lambda: np.array_split(z, 7)).value == pytest.approx(whole.value, rel=1e-9)
    assert fit(z[rng.permutation(3000)]).value == pytest.approx(whole.value, rel=1e-9)
    moved = fit(z + rng.normal(size=(3000, 1)))
    assert moved.value == pytest.approx(whole.value, rel=apart(whole, moved))


_DATA = tepid.demo.fashion()
Z, Y = _DATA["logits"].astype(np.float32), _DATA["labels"].astype(np.int64)


# --- a few labels


def _posterior(z, y, center, spread):
    """The minimum of loss and prior on a fine grid, refined: another road to the same T."""
    grid = np.log(np.geomspace(0.05, 50, 4001))
    d = z.astype(np.float64) - z.max(axis=1, keepdims=True)

    def height(log_t):
        e = d / np.exp(log_t)
        loss = np.log(np.exp(e).sum(axis=1)) - e[np.arange(len(y)), y]
        return loss.sum() + (log_t - center) ** 2 / (2 * spread**2)

    best = grid[np.argmin([height(g) for g in grid])]
    step = grid[1] - grid[0]
    for _ in range(30):
        left, mid, right = height(best - step), height(best), height(best + step)
        best += step * (left - right) / (2 * (left - 2 * mid + right))
        step /= 2
        if step < 1e-4:
            break
    return math.exp(best)


@pytest.mark.parametrize("n", [1, 5, 25, 200])
def test_few_labels_give_the_least_of_loss_and_prior(fashion, n):
    z, y = fashion
    center = math.log(tepid.uts(z).value)
    t = tepid.from_few_labels(z, z[:n], y[:n])
    assert t.value == pytest.approx(_posterior(z[:n], y[:n], center, 0.4), rel=1e-5)
    assert t.interval[0] < t.value < t.interval[1]
    assert (t.samples, t.method, t.status) == (n, "few-labels", "ok")
    assert t.implied_accuracy == pytest.approx(t(z).max(axis=1).mean(), abs=CONFIDENCE)


def test_labels_that_are_all_right_do_not_send_t_to_zero(fashion):
    z, y = fashion
    right = np.flatnonzero(z.argmax(axis=1) == y)[:20]
    assert tepid.temperature_scaling(z[right], y[right]).status == "at-bound"
    t = tepid.from_few_labels(z, z[right], y[right])
    assert t.status == "ok"
    assert 0.5 < t.value < tepid.uts(z).value
    assert t.warnings == ("Temperature scaling on these labels alone would have found none.",)


def test_many_labels_outweigh_the_prior(fashion):
    z, y = fashion
    t, plain = tepid.from_few_labels(z, z, y), tepid.temperature_scaling(z, y)
    assert t.value == pytest.approx(plain.value, rel=0.01)
    assert t.warnings == ()


def test_without_a_label_free_temperature_the_prior_is_around_one():
    z = np.zeros((30, 3))
    t = tepid.from_few_labels(z, [[1.0, 0, 0], [0, 2.0, 0]], [0, 1])
    expected = _posterior(np.array([[1.0, 0, 0], [0, 2.0, 0]]), np.array([0, 1]), 0.0, 0.6)
    assert t.value == pytest.approx(expected, rel=1e-5)
    assert any("held near T = 1" in w for w in t.warnings)


def test_few_labels_refuse_other_classes_and_no_labels(fashion):
    z = fashion[0][:2000]
    with pytest.raises(tepid.InputError, match=r"labeled_logits must have the 10 classes .* got 4"):
        tepid.from_few_labels(z, 2 * np.eye(4), [0, 1, 2, 3])
    with pytest.raises(tepid.InputError, match="labels must be given"):
        tepid.from_few_labels(z, z[:5], None)


def test_labels_to_halve_uses_the_prior_that_was_used(fashion, tmp_path):
    z, y = fashion
    constant = np.zeros((50, 10))  # UTS finds no temperature, so that the prior is wider
    for logits, spread in ((z, 0.4), (constant, 0.6)):
        t = tepid.from_few_labels(logits, z[:40], y[:40])
        assert t.prior_spread == spread
        known = (2 * 1.96 / math.log(t.interval[1] / t.interval[0])) ** 2
        each = (known - spread**-2) / 40
        assert tepid.labels_to_halve(t) == math.ceil(3 * known / each)
        t.save(tmp_path / "t.json")
        assert tepid.load(tmp_path / "t.json") == t
    assert tepid.temperature_scaling(z, y).prior_spread is None


def test_four_times_the_information_halves_the_interval(fashion):
    z, y = fashion
    t = tepid.from_few_labels(z, z[:100], y[:100])
    more = tepid.labels_to_halve(t)
    assert 200 < more < 1000
    wider = math.log(t.interval[1] / t.interval[0])
    again = tepid.from_few_labels(z, z[: 100 + more], y[: 100 + more])
    assert math.log(again.interval[1] / again.interval[0]) == pytest.approx(wider / 2, rel=0.25)
    with pytest.raises(tepid.InputError, match="must come from few labels"):
        tepid.labels_to_halve(tepid.temperature_scaling(z, y))


# --- other models on the same rows


def _family(n=3000, k=6, models=4, noise=1.0):
    """Models that see one truth, each with errors of its own: (list of logits, labels)."""
    rng = np.random.default_rng(5)
    truth = 4 * rng.normal(size=(n, k))
    return [truth + noise * rng.normal(size=truth.shape) for _ in range(models)]


def test_one_peer_is_temperature_scaling_on_its_predictions():
    one, two, *_ = _family()
    t = tepid.from_models(one, two)
    assert t.value == pytest.approx(
        tepid.temperature_scaling(one, two.argmax(axis=1)).value, rel=1e-9
    )
    assert (t.method, t.status, t.interval) == ("models", "ok", None)
    differ = (one.argmax(axis=1) != two.argmax(axis=1)).mean()
    assert t.warnings == (
        f"This model and model 1 have a mean accuracy of at most {1 - differ / 2:.4f}.",
    )


def test_several_peers_of_few_classes_match_the_agreement_with_most_of_them():
    one, *peers = _family()
    votes = np.stack([p.argmax(axis=1) for p in peers])
    counts = np.stack([(votes == k).sum(axis=0) for k in range(6)])
    clear = (counts == counts.max(axis=0)).sum(axis=0) == 1
    t = tepid.from_models(one, *peers)
    agreed = (one.argmax(axis=1) == counts.argmax(axis=0))[clear].sum()
    assert agreed / 3000 <= t.implied_accuracy <= (agreed + (~clear).sum()) / 3000
    matched = tepid.match_accuracy(one, t.implied_accuracy)
    assert t.value == pytest.approx(matched.value, rel=apart(t, matched))


def test_where_peers_are_even_the_more_confident_one_counts():
    mine = np.tile([9.0, 0.0, 0.0], (400, 1))
    mine[::4] = [0.0, 9.0, 0.0]
    sure, unsure = np.roll(mine, 0, axis=0), np.roll(mine, 1, axis=1) * 0.9
    # The unsure one always differs: too often to be kept beside a third that agrees.
    t = tepid.from_models(mine, sure, unsure)
    assert "Model 2 was left out" in " ".join(t.warnings)


def test_several_peers_of_many_classes_vote_in_equal_parts():
    rng = np.random.default_rng(8)
    truth = 6 * rng.normal(size=(1500, 120))
    one, two, three = (truth + rng.normal(size=truth.shape) for _ in range(3))
    t = tepid.from_models(one, two, three)
    rows = np.concatenate([one, one])
    votes = np.concatenate([two.argmax(axis=1), three.argmax(axis=1)])
    labeled = tepid.temperature_scaling(rows, votes)  # a row's votes are summed in float64 here
    assert t.value == pytest.approx(labeled.value, rel=apart(t, labeled))
    assert t.samples == 1500


def test_the_temperature_follows_the_scale_the_order_and_the_blocks():
    models = _family()
    for count in (2, 4):
        fit = tepid.from_models(*models[:count])
        whole = fit.value
        # Peers are asked for their confidence too, so all are scaled alike by little.
        scaled = tepid.from_models(*(1.05 * m for m in models[:count]))
        assert scaled.value == pytest.approx(1.05 * whole, rel=apart(fit, scaled))
        order = np.random.default_rng(1).permutation(3000)
        mixed = tepid.from_models(*(m[order] for m in models[:count])).value
        assert mixed == pytest.approx(whole, rel=1e-9)
        split = tepid.from_models(*models[:count], engine=tepid.Threads(3)).value
        assert split == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("count", [2, 4])
def test_models_that_stream_in_unequal_blocks_equal_their_arrays(count):
    models = _family()[:count]
    whole = tepid.from_models(*models)
    cuts = [[7, 900], [], [1, 2, 3, 2999], [1500]]
    streams = [
        (lambda m=m, at=at: iter(np.split(m, at))) for m, at in zip(models, cuts, strict=False)
    ]
    streamed = tepid.from_models(*streams)
    assert streamed.value == pytest.approx(whole.value, rel=1e-9)
    assert streamed.warnings == whole.warnings


def test_a_weak_peer_is_left_out_or_refused():
    one, two, three, _ = _family()
    weak = 0.2 * np.random.default_rng(0).normal(size=one.shape)
    with pytest.raises(tepid.InputError, match=r"about as good as this one, got: Model 1 was left"):
        tepid.from_models(one, weak)
    t = tepid.from_models(one, two, weak, three)
    assert t.value == pytest.approx(tepid.from_models(one, two, three).value, rel=1e-9)
    assert any("Model 2 was left out" in w for w in t.warnings)


def test_rows_of_models_must_line_up():
    one, two, *_ = _family()
    with pytest.raises(
        tepid.InputError, match=r"other 1 must have the shape of logits, \(3000, 6\)"
    ):
        tepid.from_models(one, two[:-1])
    with pytest.raises(tepid.InputError, match="at least one more model, got none"):
        tepid.from_models(one)
    said = "other 1 must have one entry for each of the 3000 rows, got"
    with pytest.raises(tepid.InputError, match=f"{said} 2990"):
        tepid.from_models(lambda: [one], two[:-10])
    with pytest.raises(tepid.InputError, match=f"{said} more"):
        tepid.from_models(one, lambda: [two, two[:1]])
    with pytest.raises(tepid.InputError, match="other 1 must have the 6 classes of logits, got 5"):
        tepid.from_models(one, lambda: [two[:, :5]])
    with pytest.raises(tepid.InputError, match="other 2 must be readable more than once"):
        tepid.from_models(one, two, iter([two]))


def test_ids_of_models_must_be_the_same_and_bad_rows_are_named():
    one, two, *_ = _family()
    ids = np.arange(3000)
    assert tepid.from_models(one, two, ids=(ids, ids)).status == "ok"
    with pytest.raises(tepid.InputError, match="another at row 7 of 1"):
        tepid.from_models(one, two, ids=(ids, np.where(ids == 7, 0, ids)))
    with pytest.raises(tepid.InputError, match="one column per model, 2 of them, got 1"):
        tepid.from_models(one, two, ids=(ids,))
    broken = one.copy()
    broken[11, 2] = np.nan
    with pytest.raises(tepid.InputError, match="got nan for class 2 at row 11"):
        tepid.from_models(broken, two)
    with pytest.raises(tepid.InputError, match=r"^other 2 must .* got nan for class 2 at row 11$"):
        tepid.from_models(one, two, broken)


# --- an older labeled set


def _shifted(seed=2, n=4000, k=6):
    """A source with labels, and a target from the same model on other rows."""
    rng = np.random.default_rng(seed)
    old, new = (3 * rng.normal(size=(n, k)) for _ in range(2))
    labels = [(z + rng.gumbel(size=z.shape)).argmax(axis=1) for z in (old, new)]
    return 2 * old, labels[0], 2 * new, labels[1]


def test_the_source_gives_the_geometric_mean_with_the_matched_accuracy_of_atc():
    old, y, new, _ = _shifted()
    old, new = old * 1.5, new * 1.5  # an accuracy above .75
    y = (old / 3 + 0.4 * np.random.default_rng(1).gumbel(size=old.shape)).argmax(axis=1)
    t = tepid.from_source(new, old, y)
    source = tepid.temperature_scaling(old, y).value

    def entropy(z):
        p = tepid.Temperature(source, "", samples=0, classes=6, implied_accuracy=0)(z)
        return -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)

    right = (old.argmax(axis=1) == y).mean()
    accuracy = (entropy(new) <= np.quantile(entropy(old), right)).mean()
    expected = math.sqrt(source * tepid.match_accuracy(new, accuracy).value)
    assert t.value == pytest.approx(expected, rel=2e-3)
    assert f"suggest an accuracy of {accuracy:.2f}" in t.warnings[0]
    assert "limited" not in t.warnings[0]
    assert t.implied_accuracy == pytest.approx(t(new).max(axis=1).mean(), abs=CONFIDENCE)
    assert (t.method, t.interval, t.samples) == ("source", None, 4000)


def test_an_accuracy_that_is_limited_before_it_is_matched_is_reported_as_it_was(fashion):
    z, y = fashion
    sharp, dull = 100 * z, z / 50  # as if every row had become certain, or none
    certain, uncertain = (tepid.from_source(new, z, y).warnings[0] for new in (sharp, dull))
    assert "suggest an accuracy of 1.000;" in certain
    assert "The accuracy was limited to 0.9995." in certain
    assert "suggest an accuracy of 0.000;" in uncertain
    assert f"The accuracy was limited to {1 / z.shape[1] + 0.005:.4f}." in uncertain


def test_a_weak_source_is_not_stretched():
    old, y, new, _ = _shifted()
    wrong = (y + np.arange(len(y)) % 2) % 6
    t = tepid.from_source(new, old, wrong)
    assert t.value == pytest.approx(tepid.temperature_scaling(old, wrong).value, rel=1e-9)
    assert "too low to say more" in t.warnings[0]


def test_the_source_follows_batches_row_order_and_row_constants():
    old, y, new, _ = _shifted(n=2000)
    fit = tepid.from_source(new, old, y)
    whole = fit.value
    rng = np.random.default_rng(4)
    a, b = rng.permutation(2000), rng.permutation(2000)
    mixed = tepid.from_source(new[a], old[b], y[b]).value
    assert mixed == pytest.approx(whole, rel=1e-7)
    blocks = tepid.from_source(
        lambda: np.array_split(new, 5), lambda: np.array_split(old, 3), y
    ).value
    assert blocks == pytest.approx(whole, rel=1e-7)
    moved = tepid.from_source(new + rng.normal(size=(2000, 1)), old, y)
    assert moved.value == pytest.approx(whole, rel=apart(fit, moved))
    scaled = tepid.from_source(7 * new, 7 * old, y)
    assert scaled.value == pytest.approx(7 * whole, rel=apart(fit, scaled))


def test_a_source_that_does_not_fit_is_refused():
    old, y, new, _ = _shifted(n=100)
    with pytest.raises(tepid.InputError, match="source_labels must be given"):
        tepid.from_source(new, old)
    y5 = np.minimum(y, 4)
    with pytest.raises(tepid.InputError, match="must have the 6 classes of logits, got 5"):
        tepid.from_source(new, old[:, :5], y5)
    new[5, 1] = np.nan
    with pytest.raises(tepid.InputError, match="got nan for class 1 at row 5"):
        tepid.from_source(new, old, y)


class _Counted:
    """Blocks that count how often they are read."""

    def __init__(self, z):
        self.z, self.times = z, 0

    def __call__(self):
        self.times += 1
        return iter(np.array_split(self.z, 4))


def test_the_target_may_be_an_iterator_and_the_source_may_not():
    old, y, new, _ = _shifted(n=3000)
    t = tepid.from_source(3 * new, 3 * old, y)
    once = tepid.from_source(iter(np.array_split(3 * new, 4)), 3 * old, y)
    assert once.value == pytest.approx(t.value, rel=1e-9)
    with pytest.raises(tepid.InputError, match="source_logits must be readable more than once"):
        tepid.from_source(new, iter([old]), y)


def test_an_accuracy_out_of_reach_is_said(fashion):
    z, y = fashion
    t = tepid.from_source(z / 1e5, z, y)  # as if the target were all but noise
    assert "No T within a factor of 8 of the source's gives it." in t.warnings[0]


def test_models_and_a_source_take_any_class_axis():
    one, two, *_ = _family(n=600)
    y = one.argmax(axis=1)
    turned = [z.reshape(20, 30, 6).transpose(2, 0, 1) for z in (one, two)]
    found = tepid.from_models(*turned, class_axis=0)
    assert found.value == pytest.approx(tepid.from_models(one, two).value, rel=1e-6)
    moved = tepid.from_source(turned[0], turned[1], y.reshape(20, 30), class_axis=0)
    assert moved.value == pytest.approx(tepid.from_source(one, two, y).value, rel=1e-6)


# --- advice


def test_advice_uses_the_firmest_evidence_that_is_there(fashion):
    z, y = fashion
    few, old = (z[:60], y[:60]), (z[5000:7000], y[5000:7000])
    rng = np.random.default_rng(0)
    other = z + rng.normal(size=z.shape).astype(np.float32)
    alone = tepid.advise(z)
    assert (alone.use, alone.verdict) == ("guarded", "check")
    assert list(alone.answers) == ["uts", "guarded"]
    assert "the model's accuracy" in alone.would_help
    assert tepid.advise(z, others=(other,)).use == "models"
    assert tepid.advise(z, others=(other,), source=old).use == "source"
    known = tepid.advise(z, source=old, accuracy=0.93)
    assert (known.use, known.verdict) == ("accuracy", "use")
    everything = tepid.advise(z, others=(other,), source=old, accuracy=0.93, few=few)
    assert everything.use == "accuracy"
    assert everything.temperature == tepid.match_accuracy(z, 0.93)
    assert tepid.advise(z, few=few, source=old).temperature == tepid.from_few_labels(z, *few)
    assert tepid.advise(z, few=few, accuracy=0.93, labels=y).use == "temperature"
    values = [t.value for t in everything.answers.values()]
    assert everything.spread == max(values) / min(values)
    assert everything.confidence == pytest.approx(_plain(z).max(axis=1).mean(), abs=CONFIDENCE)
    assert f"T = {everything.temperature.value:.3f}" in str(everything)


def test_advice_fits_its_methods_in_four_shared_passes(fashion):
    z, y = 3 * fashion[0].astype(np.float32), fashion[1]
    passes = []

    def rows():
        passes.append(1)
        return iter(np.array_split(z, 3))

    advice = tepid.advise(rows, accuracy=0.93, labels=y)
    assert len(passes) <= 4
    separate = {
        "uts": tepid.uts(z),
        "guarded": tepid.guarded(z),
        "accuracy": tepid.match_accuracy(z, 0.93),
        "temperature": tepid.temperature_scaling(z, y),
    }
    assert list(advice.answers) == list(separate)
    for name, t in separate.items():
        assert advice.answers[name].value == pytest.approx(t.value, rel=t.precision)
        assert advice.answers[name].implied_accuracy == pytest.approx(t.implied_accuracy, abs=1e-6)


def test_advice_reads_all_evidence_as_probabilities_if_told_so(network):
    z, y = network
    p = _plain(z)
    expected = tepid.advise(z, few=(z[:60], y[:60]), source=(z[500:], y[500:]), others=(z,))
    found = tepid.advise(
        p, few=(p[:60], y[:60]), source=(p[500:], y[500:]), others=(p,), probabilities=True
    )
    for name, t in expected.answers.items():
        assert found.answers[name].value == pytest.approx(t.value, rel=1e-4), name


def test_advice_says_when_not_to_use_a_temperature(network, fashion):
    z, y = network
    advice = tepid.advise(z)
    assert (advice.use, advice.verdict) == ("guarded", "do not use")
    assert tepid.judged(tepid.uts(z))[0] == "do not use"
    assert tepid.judged(tepid.uts(fashion[0]))[0] == "check"
    assert tepid.judged(tepid.temperature_scaling(z, y))[0] == "use"
    bound = tepid.temperature_scaling(z, z.argmax(axis=1))
    assert tepid.judged(bound) == (
        "do not use",
        "no temperature was found, its status is at-bound",
    )


# --- what the posterior covers


@pytest.mark.slow
def test_the_posterior_covers_the_truth_where_temperature_scaling_is_right():
    covered = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        scale = math.exp(0.4 * rng.normal())
        posterior = 6 * rng.normal(size=(1500, 5))
        y = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
        free = tepid.uts(posterior).value
        # Logits whose right temperature lies around the label-free one as the prior says.
        for _ in range(3):
            free = tepid.uts(posterior * scale * free).value
        z = posterior * scale * free
        t = tepid.from_few_labels(z, z[:60], y[:60])
        covered += t.interval[0] < scale * free < t.interval[1]
    assert 0.90 * 300 < covered <= 300


def test_a_bad_row_of_the_older_set_is_called_its_own():
    old, y, new, _ = _shifted(n=200)
    with pytest.raises(tepid.InputError, match=r"^source_labels must be in 0\.\.5, got"):
        tepid.from_source(new, old, y + 5)
    old[7, 1] = np.nan
    with pytest.raises(tepid.InputError, match=r"^source_logits must .* class 1 at row 7$"):
        tepid.from_source(new, old, y)


def test_ids_must_be_as_many_as_the_rows_and_votes_for_masked_classes_are_named():
    one, two, *_ = _family()
    with pytest.raises(tepid.InputError, match="ids must have one entry for each of 3000 rows"):
        tepid.from_models(one, two, ids=[[1], [1]])
    masked = one.copy()
    masked[5, two[5].argmax()] = -np.inf
    with pytest.raises(tepid.InputError, match="a peer's vote must name a class that is not mask"):
        tepid.from_models(masked, two)
