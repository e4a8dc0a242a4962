"""`tepid.calibrate`: every kind of evidence counts, alone and together."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tepid
from tepid.methods.accuracy import parse_accuracy

# A combination reads its terms off interpolated curves.
NEAR = 1e-4


def network(seed=0, rows=4000, classes=5, scale=2.0, strength=2.0):
    """Logits whose right temperature is `scale`, and their labels."""
    rng = np.random.default_rng(seed)
    posterior = strength * rng.normal(size=(rows, classes))
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    return (scale * posterior).astype(np.float32), labels


def some(labels, count, seed=0):
    """Labels of a random sample of rows, -1 elsewhere."""
    chosen = np.random.default_rng(seed).choice(len(labels), count, replace=False)
    known = np.full(len(labels), -1)
    known[chosen] = labels[chosen]
    return known


def fit(*args, **options):
    """`calibrate` without its warnings on weak evidence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tepid.CalibrationWarning)
        return tepid.calibrate(*args, **options)


def width(t):
    return math.log(t.interval[1] / t.interval[0])


def accuracy_of(logits, labels):
    return float((logits.argmax(axis=1) == labels).mean())


# --- the terms


def test_logits_alone_of_low_confidence_keep_one():
    logits, _ = network(strength=0.8, scale=1.0)
    t = tepid.calibrate(logits)
    assert (t.value, t.verdict, t.status, t.helps) == (1.0, "keep", "not-identified", None)
    assert "tepid ask" in t.next_step


def test_logits_alone_of_high_confidence_triple_the_odds_of_an_error():
    logits, _ = network(strength=12.0)
    t = tepid.calibrate(logits)
    before, after = (float(tepid_confidence(logits, v)) for v in (1.0, t.value))
    assert before >= 0.95
    odds = [(1 - c) / c for c in (before, after)]
    assert odds[1] / odds[0] == pytest.approx(3.0, rel=1e-3)
    assert t.status == "not-identified"
    assert t.verdict in ("use", "check")


def test_the_reason_to_keep_one_is_named_with_its_number():
    low, _ = network(rows=200, strength=0.8, scale=1.0)
    confidence = tepid_confidence(low, 1.0)
    t = tepid.calibrate(low)
    assert t.reason == (
        f"Logits alone do not identify T, and their mean confidence is {confidence:.3f}, below "
        "0.95, so T = 1 is kept."
    )
    assert t.implied_accuracy == pytest.approx(confidence, abs=1e-6)
    rare = np.repeat([[8.0, 0.0], [0.0, 8.0]], [188, 12], axis=0)
    t = tepid.calibrate(rare)
    assert t.reason == (
        "Logits alone do not identify T, and 94 % of the rows are predicted as one class, which "
        "explains their confidence, so T = 1 is kept."
    )
    assert t.implied_accuracy == pytest.approx(tepid_confidence(rare, 1.0), abs=1e-6)
    t = tepid.calibrate(1000 * np.eye(4))  # no class is rare
    assert (t.value, t.implied_accuracy) == (1.0, 1.0)
    assert "mean confidence is 1.000, too close to 1," in t.reason


def tepid_confidence(logits, temperature):
    d = np.asarray(logits, np.float64) / temperature
    e = np.exp(d - d.max(axis=1, keepdims=True))
    return (e.max(axis=1) / e.sum(axis=1)).mean()


@pytest.mark.parametrize("scale", [0.02, 1.0, 50.0])
def test_all_labels_agree_with_temperature_scaling(scale):
    logits, labels = network(rows=20000)
    t = fit(scale * logits, labels)
    exact = tepid.temperature_scaling(scale * logits, labels)
    error = math.log(exact.interval[1] / exact.interval[0]) / (2 * 1.96)
    # The prior has the information of a few labels: a small part of the standard error.
    assert abs(math.log(t.value / exact.value)) < error
    assert t.status == "ok"
    assert t.verdict == "use"
    assert width(t) == pytest.approx(2 * 1.96 * error, rel=0.3)


def test_few_labels_agree_with_an_independent_posterior():
    logits, labels = network(rows=1500, scale=1.7)
    known = some(labels, 30)
    t = fit(logits, known)
    grid = np.linspace(-3, 4, 4001)
    uts = math.log(tepid.uts(logits).value)
    d = np.asarray(logits, np.float64)
    d = d - d.max(axis=1, keepdims=True)
    rows = np.flatnonzero(known >= 0)
    height = -0.5 * ((grid - uts) / np.where(grid < uts, 0.4, 0.8)) ** 2
    mean_distance = np.empty(len(grid))
    for position, u in enumerate(grid):
        b = math.exp(-u)
        e = np.exp(b * d)
        total = e.sum(axis=1)
        height[position] += (b * d[rows, known[rows]] - np.log(total[rows])).sum()
        mean_distance[position] = ((e * d).sum(axis=1) / total).mean()
    mass = np.exp(height - height.max())
    mass /= mass.sum()
    below = np.cumsum(mass) - mass / 2
    act = np.interp(-(mass @ mean_distance), -mean_distance, grid)
    assert math.log(t.value) == pytest.approx(act, abs=1e-3)
    ends = np.interp([0.025, 0.975], below, grid)
    assert np.log(t.interval) == pytest.approx(ends, abs=2e-3)


def test_an_accuracy_with_a_small_error_is_matched():
    logits, labels = network()
    accuracy = accuracy_of(logits, labels)
    t = tepid.calibrate(logits, accuracy=(accuracy, 1e-4))
    exact = tepid.match_accuracy(logits, accuracy)
    assert abs(math.log(t.value / exact.value)) < 0.1
    assert t.interval[0] < exact.value < t.interval[1]


def test_an_accuracy_counted_on_few_rows_moves_the_temperature_less():
    logits, _ = network(strength=12.0)
    counted = {n: fit(logits, accuracy=tepid.Counted(round(0.6 * n), n)) for n in (5, 50, 5000)}
    exact = tepid.match_accuracy(logits, 0.6).value
    gaps = [abs(math.log(t.value / exact)) for t in counted.values()]
    assert gaps[0] > gaps[1] > gaps[2]
    assert width(counted[5]) > width(counted[50]) > width(counted[5000])


def test_a_stronger_reference_gives_nearly_the_temperature_of_the_labels():
    logits, labels = network(rows=8000, scale=2.5)
    strong = np.full(logits.shape, -4.0)
    rng = np.random.default_rng(1)
    right = rng.random(len(labels)) < 0.97
    strong[np.arange(len(labels)), np.where(right, labels, (labels + 1) % 5)] = 4.0
    t = fit(logits, reference=strong)
    assert t.interval[0] < 2.5 < t.interval[1]
    assert abs(math.log(t.value / 2.5)) < 0.2


def test_a_judge_may_name_classes_of_some_rows():
    logits, labels = network(rows=8000, scale=2.5)
    all_rows, part = (fit(logits, reference=some(labels, n)) for n in (8000, 300))
    assert abs(math.log(all_rows.value / 2.5)) < 0.15
    assert part.interval[0] < 2.5 < part.interval[1]
    assert width(part) > width(all_rows)


def test_rows_without_an_answer_of_the_reference_are_nan():
    logits, _ = network(rows=3000)
    reference, _ = network(seed=0, rows=3000, scale=1.0)
    missing = np.arange(3000) % 3 == 0
    holes = reference.copy()
    holes[missing] = np.nan
    t = fit(logits, reference=holes)
    plain = fit(logits[~missing], reference=reference[~missing])
    assert abs(math.log(t.value / plain.value)) < 0.2
    assert t.value != fit(logits, reference=reference).value


def test_a_weak_model_among_models_does_not_ruin_the_answer():
    logits, _ = network(strength=12.0)
    weak = np.random.default_rng(5).normal(size=logits.shape).astype(np.float32)
    alone, with_weak = tepid.calibrate(logits), fit(logits, models=[weak])
    assert with_weak.value == pytest.approx(alone.value, rel=1e-6)
    assert "reference=" in with_weak.next_step
    # Beside labels it moves log T by less than .2.
    _, labels = network(strength=12.0)
    known = some(labels, 50)
    apart = math.log(fit(logits, known, models=[weak]).value / fit(logits, known).value)
    assert abs(apart) < 0.2


def test_models_that_are_all_less_confident_are_not_used_alone():
    logits, labels = network(rows=300, strength=12.0)
    noise = np.random.default_rng(1).normal(size=logits.shape)
    weak = 0.05 * logits + 0.3 * noise
    alone, with_weak = tepid.calibrate(logits), fit(logits, models=[weak])
    assert "models" in with_weak.evidence  # they name a temperature
    assert (with_weak.value, with_weak.status) == (alone.value, "not-identified")
    said = "Every other model is less confident, so these models are not used alone."
    assert with_weak.reason.endswith(said)
    assert said not in alone.reason
    for identified in (fit(logits, some(labels, 50), models=[weak]), fit(logits, models=[logits])):
        assert said not in identified.reason


def test_models_of_like_strength_find_the_temperature():
    rng = np.random.default_rng(3)
    truth = 3 * rng.normal(size=(6000, 5))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    own, *others = (2.0 * (truth + rng.gumbel(size=truth.shape)) for _ in range(5))
    t = fit(own, models=others)
    best = tepid.temperature_scaling(own, labels)
    assert abs(math.log(t.value / best.value)) < 0.35
    assert t.evidence["models"].weight > 0


def test_an_older_set_of_the_same_distribution_gives_its_temperature():
    logits, labels = network(rows=8000, scale=2.2)
    t = fit(logits[:4000], source=(logits[4000:], labels[4000:]))
    assert abs(math.log(t.value / 2.2)) < 0.15
    assert set(t.evidence) == {"logits", "source"}


def test_labeled_rows_from_elsewhere_count_as_labels():
    logits, labels = network(rows=6000, scale=2.2)
    known = np.where(np.arange(6000) < 100, labels, -1)
    inside = fit(logits, known)
    outside = fit(logits, labeled=(logits[:100], labels[:100]))
    assert outside.value == pytest.approx(inside.value, rel=NEAR)
    halves = fit(
        logits, np.where(np.arange(6000) < 50, labels, -1), labeled=(logits[50:100], labels[50:100])
    )
    assert halves.value == pytest.approx(inside.value, rel=NEAR)


# --- combinations


@pytest.mark.slow
def test_a_combination_is_narrower_than_each_of_its_parts():
    widths = []
    for seed in range(200):
        logits, labels = network(seed, rows=400, scale=1.8)
        known, counted = (
            some(labels, 25, seed),
            tepid.Counted(round(100 * accuracy_of(logits, labels)), 100),
        )
        both = fit(logits, known, accuracy=counted)
        widths.append(
            [width(both), width(fit(logits, known)), width(fit(logits, accuracy=counted))]
        )
    both, labels, accuracy = np.mean(widths, axis=0)
    assert both < 0.95 * min(labels, accuracy)


def test_intervals_of_a_combination_cover_the_right_temperature():
    covered = []
    for seed in range(60):
        logits, labels = network(seed, rows=600, scale=1.8)
        accuracy = (accuracy_of(logits, labels), 0.03)
        t = fit(logits, some(labels, 25, seed), accuracy=accuracy)
        covered.append(t.interval[0] <= 1.8 <= t.interval[1])
    assert np.mean(covered) > 0.88


def test_contradictory_evidence_is_reported_as_tension():
    logits, labels = network(rows=5000, scale=2.0)
    known = some(labels, 400)
    with pytest.warns(tepid.CalibrationWarning, match="contradicts"):
        t = tepid.calibrate(logits, known, accuracy=(0.98, 0.002))
    assert "accuracy" in t.tension
    honest = fit(logits, known, accuracy=(accuracy_of(logits, labels), 0.01))
    assert honest.tension == ()


def test_all_kinds_together_report_their_weights():
    logits, labels = network(rows=3000)
    other = logits + np.random.default_rng(1).normal(size=logits.shape)
    t = fit(
        logits, some(labels, 25), accuracy=0.8, models=[other], reference=labels,
        source=(logits[:500], labels[:500]),
    )  # fmt: skip
    assert set(t.evidence) == {"logits", "labels", "accuracy", "models", "reference", "source"}
    assert sum(part.weight for part in t.evidence.values()) == pytest.approx(1.0)
    for part in t.evidence.values():
        assert part.interval[0] < part.interval[1]


def test_weights_are_shares_of_the_precision():
    logits, labels = network(rows=2000)
    t = fit(logits, some(labels, 40))
    p = np.exp(logits / t.value - np.logaddexp.reduce(logits / t.value, axis=1, keepdims=True))
    x = logits / t.value
    information = 40 * ((p * x**2).sum(axis=1) - (p * x).sum(axis=1) ** 2).mean()
    # The variance of the prior, a normal distribution of two pieces.
    spread = (1 - 2 / math.pi) * (0.8 - 0.4) ** 2 + 0.8 * 0.4
    odds = t.evidence["labels"].weight / t.evidence["logits"].weight
    assert odds == pytest.approx(information * spread, rel=0.25)


def test_helps_is_near_one_where_the_network_is_overconfident_and_below_where_it_is_not():
    over, labels = network(rows=5000, scale=3.0)
    fine, fine_labels = network(rows=5000, scale=1.0)
    assert fit(over, some(labels, 100)).helps > 0.99
    assert fit(over, some(labels, 100)).verdict == "use"
    assert fit(fine, some(fine_labels, 100)).helps < 0.9
    assert fit(fine, some(fine_labels, 100)).verdict == "check"


def test_the_next_step_halves_the_interval():
    logits, labels = network(rows=20000)
    t = fit(logits, some(labels, 100))
    more = int(t.next_step.split("-n ")[1].split()[0])
    again = fit(logits, some(labels, 100 + more, seed=1))
    assert width(again) / width(t) == pytest.approx(0.5, abs=0.15)


# --- invariance


@settings(max_examples=15, deadline=None)
@given(cut=st.integers(1, 599), seed=st.integers(0, 10**6))
def test_any_split_and_order_gives_the_same_answer(cut, seed):
    logits, labels = network(rows=600)
    known = some(labels, 40)
    order = np.random.default_rng(seed).permutation(600)
    whole = fit(logits, known, accuracy=0.8)
    shuffled = fit(logits[order], known[order], accuracy=0.8)
    parts = fit([logits[:cut], logits[cut:]], known, accuracy=0.8)
    for other in (shuffled, parts):
        assert other.value == pytest.approx(whole.value, rel=1e-6)
        assert other.interval == pytest.approx(whole.interval, rel=1e-6)


def test_weight_zero_is_the_row_removed_and_weight_two_the_row_twice():
    logits, labels = network(rows=800)
    other, _ = network(seed=1, rows=800)
    known = some(labels, 60)
    weight = np.random.default_rng(2).integers(0, 3, 800)
    rows = np.repeat(np.arange(800), weight)
    weighted = fit(logits, known, models=[other], reference=labels, sample_weight=weight)
    repeated = fit(logits[rows], known[rows], models=[other[rows]], reference=labels[rows])
    assert weighted.value == pytest.approx(repeated.value, rel=1e-6)
    assert weighted.interval == pytest.approx(repeated.interval, rel=1e-6)


def test_normalized_weights_of_labels_are_reported():
    logits, labels = network(rows=800)
    t = fit(logits, labels, sample_weight=np.full(800, 1 / 800))
    assert any("frequencies" in sentence for sentence in t.warnings)
    tenth = np.repeat([0.0625, 0.25], [640, 160])  # exactly a tenth of the number of rows
    assert not any(
        "frequencies" in sentence for sentence in fit(logits, labels, sample_weight=tenth).warnings
    )


def test_a_narrow_interval_needs_no_more_labels():
    logits, labels = network(rows=4000)
    steps = set()
    for count in (25, 100, 200, 300, 400, 600, 1000, 4000):
        t = fit(logits, some(labels, count))
        narrow = t.interval[1] / t.interval[0] < 1.25
        steps.add(narrow)
        assert t.next_step.startswith("Apply T" if narrow else "Labels of")
    assert steps == {True, False}


def test_many_labels_leave_nothing_but_to_apply_the_temperature():
    logits, labels = network(rows=1000)
    t = fit(logits, labels)
    assert t.interval[1] / t.interval[0] < 1.25
    assert t.next_step == "Apply T: tepid apply CALIBRATION LOGITS"


def test_labels_of_more_clusters_are_asked_for_in_proportion_to_their_rows():
    """Labeled rows of equal logits say nothing, so clusters change nothing but the unit."""
    logits, _ = network(rows=200)
    equal, answers = np.ones((60, 5)), np.arange(60) % 5
    rows = fit(logits, labeled=(equal, answers)).next_step
    more = int(rows.split()[2])
    assert rows.startswith(f"Labels of {more} more random rows would halve the interval")
    source = tepid.open_source(equal, labels=answers, clusters=np.arange(60) % 13)
    clusters = math.ceil(more * 13 / 60)
    assert clusters != more * 13 / 60  # a part of a cluster is a whole one
    assert fit(logits, labeled=source).next_step == (
        f"Labels of {clusters} more random clusters would halve the interval."
    )


def test_only_fewer_rows_than_classes_are_reported():
    logits, _ = network(rows=5)
    assert not any("fewer rows" in sentence for sentence in fit(logits).warnings)
    assert "There are fewer rows (4) than classes (5)." in fit(logits[:4]).warnings


def test_summaries_of_sites_give_the_same_answer():
    logits, labels = network(rows=3000)
    known = some(labels, 80)
    sites = [(logits[:1000], known[:1000]), (logits[1000:], known[1000:])]
    first = sum((tepid.summarize(*site) for site in sites[1:]), tepid.summarize(*sites[0]))
    second = [tepid.summarize(*site, given=first) for site in sites]
    merged = second[0] + second[1]
    for options in ({}, {"accuracy": 0.8}):
        t, rows = fit(merged, **options), fit(logits, known, **options)
        assert t.value == pytest.approx(rows.value, rel=1e-5)
        assert t.interval == pytest.approx(rows.interval, rel=1e-4)
    with pytest.raises(tepid.InputError, match="second round"):
        tepid.calibrate(first)
    with pytest.raises(tepid.InputError, match="reference must be left out"):
        tepid.calibrate(merged, reference=labels)
    assert tepid.temperature_scaling(tepid.summarize(logits, labels)).value == pytest.approx(
        tepid.temperature_scaling(logits, labels).value, rel=1e-5
    )


def test_masked_classes_do_not_break_other_models():
    logits, labels = network(rows=1000)
    masked = logits.copy()
    wrong = (masked.argmax(axis=1) + 1) % 5
    masked[np.arange(0, 1000, 10), wrong[::10]] = -np.inf
    named = np.array(labels)
    named[::10] = wrong[::10]
    t = fit(masked, reference=named)
    assert any("100 rows were left out" in sentence for sentence in t.warnings)
    keep = np.arange(1000) % 10 != 0
    plain = fit(masked, reference=np.where(keep, named, -1))
    assert t.value == pytest.approx(plain.value, rel=1e-6)


# --- groups


def test_groups_are_shrunk_toward_all_rows():
    hot, hot_labels = network(0, rows=3000, scale=3.0)
    cold, cold_labels = network(1, rows=3000, scale=1.2)
    logits, labels = np.concatenate([hot, cold]), np.concatenate([hot_labels, cold_labels])
    groups = np.repeat(["hot", "cold"], 3000)
    known = some(labels, 400)
    t = fit(logits, known, groups=groups)
    own = {name: fit(logits[groups == name], known[groups == name]) for name in ("hot", "cold")}
    assert own["cold"].value < t.groups["cold"].value < t.value < t.groups["hot"].value
    assert t.groups["hot"].value < own["hot"].value * 1.001
    for name, right in (("hot", 3.0), ("cold", 1.2)):
        low, high = t.groups[name].interval
        assert low < right < high


def test_a_group_without_evidence_takes_the_answer_of_all_rows():
    logits, labels = network(rows=3000, scale=2.5)
    groups = np.where(np.arange(3000) < 2000, "a", "b")
    known = np.where(groups == "a", some(labels, 300), -1)
    t = fit(logits, known, groups=groups)
    assert t.groups["b"].value == t.value
    alone = tepid.calibrate(logits, groups=groups)
    assert {group.value for group in alone.groups.values()} == {alone.value}


def test_an_accuracy_by_group_counts_for_each():
    hot, hot_labels = network(0, rows=3000, scale=3.0)
    cold, cold_labels = network(1, rows=3000, scale=1.0)
    groups = np.repeat(["hot", "cold"], 3000)
    known = {
        "hot": (accuracy_of(hot, hot_labels), 0.01), "cold": (accuracy_of(cold, cold_labels), 0.01),
    }  # fmt: skip
    t = fit(np.concatenate([hot, cold]), accuracy=known, groups=groups)
    assert abs(math.log(t.groups["hot"].value / 3.0)) < 0.3
    assert abs(math.log(t.groups["cold"].value / 1.0)) < 0.3
    with pytest.raises(tepid.InputError, match="one entry for each group"):
        tepid.calibrate(hot, accuracy={"x": 0.9}, groups=np.repeat("hot", 3000))


# --- the boundary


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.93", 0.93),
        ("93%", 0.93),
        ("93 %", 0.93),
        ("0.93±0.01", (0.93, 0.01)),
        ("0.93+-0.01", (0.93, 0.01)),
        ("93±1%", (0.93, 0.01)),
        ("186/200", tepid.Counted(186, 200)),
        ("0.91..0.95", tepid.Range(0.91, 0.95)),
        ("91..95%", tepid.Range(0.91, 0.95)),
    ],
)
def test_an_accuracy_is_read_as_people_type_it(text, value):
    found = parse_accuracy(text)
    assert found == value or found == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["", "x", "1.2", "93", "200/186", "0.9..0.8", "0.9±2", "-1", "1e999"]
)
def test_an_accuracy_that_is_none_is_refused(text):
    with pytest.raises(tepid.InputError, match=r"accuracy|correct"):
        parse_accuracy(text)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"labels": [-1] * 50}, "labels must be known for at least one row"),
        ({"labels": [7] * 50}, "labels must be in 0..4, got 7 at row 0"),
        ({"accuracy": 1.5}, "accuracy must be in"),
        ({"accuracy": (0.9, 0.1, 0.1)}, "accuracy must be"),
        ({"accuracy": True}, "accuracy must be in"),
        ({"models": np.zeros((50, 5))}, "models must be a list"),
        ({"models": [np.zeros((50, 4))]}, "model 1 must have"),
        ({"models": [np.zeros((49, 5))]}, "model 1 must have"),
        ({"reference": np.full((50, 5), np.inf)}, "reference must"),
        ({"reference": [9] * 50}, "reference must"),
        ({"source": np.zeros((3, 5))}, "source must be a pair"),
        ({"labeled": (np.zeros((3, 5)), [-1, -1, -1])}, "at least one row"),
        ({"labeled": (np.zeros((3, 4)), [0, 1, 2])}, "labeled must have the 5 classes"),
    ],
)
def test_wrong_evidence_is_refused_in_one_sentence(options, sentence):
    logits, _ = network(rows=50)
    with pytest.raises(tepid.InputError, match=sentence) as caught:
        tepid.calibrate(logits, **options)
    assert "\n" not in str(caught.value)


def test_a_rare_class_does_not_make_a_model_overconfident():
    """A calibrated detector of a rare class is confident because the class is rare."""
    rng = np.random.default_rng(0)
    z = rng.normal(-6, 2, 20000)
    t = tepid.calibrate(z)
    assert tepid.calibrate(np.stack([0 * z, z], axis=1)) == t
    assert (t.value, t.verdict) == (1.0, "keep")
    assert "of the rows are predicted as one class" in t.reason
    balanced = np.where(rng.random(20000) < 0.5, z, -z)
    assert tepid.calibrate(balanced).value > 1


def test_equal_logits_give_one():
    t = tepid.calibrate(np.zeros((10, 3)))
    assert (t.value, t.status, t.verdict) == (1.0, "not-identified", "keep")


def test_the_result_is_printed_in_five_lines_and_saved(tmp_path):
    logits, labels = network(rows=2000)
    t = fit(logits, some(labels, 60), accuracy=0.8, groups=np.arange(2000) % 2)
    assert len(str(t).splitlines()) == 5 + bool(t.groups)
    assert "verdict" in str(t)
    t.save(tmp_path / "t.json")
    assert tepid.load(tmp_path / "t.json") == t


def test_strings_are_labels_through_classes():
    logits, labels = network(rows=500)
    names = ["ant", "bee", "cat", "dog", "eel"]
    words = [names[k] if i < 100 else None for i, k in enumerate(labels)]
    t = fit(logits, words, classes=names)
    assert t.value == pytest.approx(
        fit(logits, np.where(np.arange(500) < 100, labels, -1)).value, rel=1e-9
    )
    with pytest.raises(tepid.InputError, match="fox"):
        tepid.calibrate(logits, ["fox"] * 500, classes=names)


def test_rows_are_matched_by_id():
    logits, labels = network(rows=500)
    other, _ = network(seed=0, rows=500, scale=1.0)
    ids = np.array([f"row-{i}" for i in range(500)])
    order = np.random.default_rng(0).permutation(500)
    plain = fit(logits, models=[other], reference=labels)
    shuffled = fit(
        logits, models=[(other[order], ids[order])], reference=(labels[order], ids[order]), ids=ids
    )
    assert shuffled.value == pytest.approx(plain.value, rel=1e-9)
    part = fit(logits, reference=(labels[:100], ids[:100]), ids=ids)
    same = fit(logits, reference=np.where(np.arange(500) < 100, labels, -1))
    assert part.value == pytest.approx(same.value, rel=1e-9)


# --- evidence in doubt


def test_a_source_without_ids_is_not_matched_by_id():
    z, _ = network(rows=100)
    with pytest.raises(tepid.InputError, match="reference must be a pair"):
        tepid.calibrate(z, ids=np.arange(100), reference=tepid.open_source(2 * z))


def test_labels_in_another_order_of_classes_are_doubted():
    logits, labels = network(rows=1000)
    with pytest.warns(tepid.CalibrationWarning, match="no better than by chance"):
        t = tepid.calibrate(logits, (labels + 1) % 5)
    assert t.verdict == "check"
    assert "order of the logits' columns" in t.next_step


def test_an_accuracy_below_chance_is_doubted():
    logits, _ = network(rows=1000)
    t = fit(logits, accuracy=0.05)
    assert (t.verdict, t.next_step) == ("check", "Check the accuracy: it is no better than chance.")


def test_contradictory_evidence_is_never_to_be_used_unchecked():
    logits, labels = network(rows=5000, scale=2.0)
    t = fit(logits, some(labels, 400), accuracy=(0.98, 0.002))
    assert t.helps > 0.9
    assert t.verdict == "check"


def test_a_mask_of_correct_rows_is_no_label():
    logits, labels = network(rows=100)
    with pytest.raises(tepid.InputError, match="got True and False"):
        tepid.calibrate(logits, logits.argmax(axis=1) == labels)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4, 1e8])
def test_the_interval_contains_the_temperature_at_every_scale(scale):
    logits, labels = network(rows=500)
    accuracy = accuracy_of(logits, labels)
    for options in ({}, {"labels": labels}, {"accuracy": (accuracy, 0.01)}):
        t = fit(np.asarray(logits, np.float64) * scale, **options)
        assert t.interval[0] <= t.value <= t.interval[1]
        if options:
            assert abs(math.log(t.value / (2 * scale))) < 0.5


@pytest.mark.parametrize(("octave", "end"), [(-6, 0), (5, 1)])
def test_an_interval_is_not_cut_where_the_first_window_ends(octave, end):
    """The prior of multi-label rows follows evidence that is far from T = 1: only scales differ."""
    z = 4 * np.random.default_rng(0).normal(size=(40, 3))
    near, far = (
        fit(z * 2.0**power, accuracy=(0.8, 0.1), multilabel=True) for power in (octave, 2 * octave)
    )
    # T lies within the first window, and an end of its interval does not.
    assert 2.0**-6 < near.value < 2.0**7
    assert not 2.0**-6 < near.interval[end] < 2.0**7
    found, expected = ((t.value, *t.interval) for t in (near, far))
    assert found == pytest.approx([each / 2.0**octave for each in expected], rel=1e-3)


def test_evidence_for_a_temperature_out_of_reach_is_refused():
    logits, labels = network(rows=200)
    for scale in (1e-20, 1e20):
        with pytest.raises(tepid.InputError, match="logits must"):
            tepid.calibrate(np.asarray(logits, np.float64) * scale, labels)


def test_an_accuracy_may_be_given_as_people_type_it():
    logits, _ = network(rows=500)
    assert fit(logits, accuracy="186/200") == fit(logits, accuracy=tepid.Counted(186, 200))
    assert parse_accuracy("0.93±1%") == pytest.approx((0.93, 0.01))
    with pytest.raises(tepid.InputError, match="accuracy must be like"):
        parse_accuracy("0.91..95%")


def test_a_table_without_answers_has_no_known_label():
    pd = pytest.importorskip("pandas")
    logits, _ = network(rows=50)
    with pytest.raises(tepid.InputError, match="at least one row"):
        tepid.calibrate(logits, pd.DataFrame({"id": [], "label": []}))


def test_unknown_labels_may_be_written_out():
    pd = pytest.importorskip("pandas")
    logits, labels = network(rows=300)
    words = ["NaN", "None", "null", ""] + [str(k) for k in labels[4:60]]
    table = pd.DataFrame({"id": [str(i) for i in range(60)], "label": words})
    known = np.where((np.arange(300) >= 4) & (np.arange(300) < 60), labels, -1)
    assert fit(logits, table).value == pytest.approx(fit(logits, known).value, rel=1e-9)


def test_ids_of_a_judge_are_as_many_as_its_answers():
    logits, labels = network(rows=50)
    with pytest.raises(tepid.InputError, match="ids of reference must be one for each of its 50"):
        tepid.calibrate(logits, reference=(labels, np.arange(5)), ids=np.arange(50))


def test_a_data_frame_is_applied_by_its_columns():
    pd = pytest.importorskip("pandas")
    logits, labels = network(rows=60)
    names = ["ant", "bee", "cat", "dog", "eel"]
    frame = pd.DataFrame(logits, columns=names)
    t = fit(frame, labels, columns=names)
    assert np.array_equal(t(frame, columns=names), t(logits))
    with pytest.raises(tepid.InputError, match="columns must go with a data frame"):
        t(logits, columns=names)


@pytest.mark.filterwarnings("ignore::tepid.CalibrationWarning")
@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 100.0, 1e4, 1e8])
def test_the_interval_contains_the_temperature(scale):
    rng = np.random.default_rng(4)
    for _ in range(15):
        z = scale * rng.integers(0, 2, size=(4, 3))
        labels = rng.integers(-1, 3, size=4) if rng.random() < 0.5 else None
        t = tepid.calibrate(z, labels, accuracy=float(rng.choice([0.3, 0.7, 0.99])))
        assert t.interval[0] <= t.value <= t.interval[1]


@pytest.mark.filterwarnings("ignore::tepid.CalibrationWarning")
def test_a_temperature_that_changes_no_probability_stays_where_the_prior_is():
    t = tepid.calibrate(1e4 * np.array([[1, 1, 0], [0, 1, 1]]), accuracy=0.99)
    assert t.value == pytest.approx(1, rel=1e-6)
