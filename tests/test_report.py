"""The report: its sums, its words, its size, and what hostile names can do to it."""

import base64
import dataclasses
import html.parser
import io
import itertools
import json
import re
import struct
import zlib

import numpy as np
import PIL.Image
import pytest
from scipy.special import softmax
from scipy.stats import binomtest

import tepid
from tepid.report.summaries import predict
from tepid.summaries.reliability import wilson_interval
from tests.precision import CONFIDENCE

MOST_EXAMPLES = 12
EVIL = "</script><script>alert(1)</script><!-- & \" ' <img src=x onerror=alert(1)> \u2028"


class _Page(html.parser.HTMLParser):
    """The elements of a page, what they say, and the data between them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.heads, self.words, self.inside = [], [], [], [], []
        self.feed(text)
        self.close()
        raw = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
        self.data = json.loads(raw.group(1))
        self.said = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, text):
        if self.inside and self.inside[-1] not in ("script", "style"):
            self.words.append(text)
            if self.inside[-1] in ("h1", "h2", "h3"):
                self.heads.append((self.inside[-1], text))


@pytest.fixture
def page(tmp_path):
    """Write a report and take it apart."""

    def written(*args, name="report.html", **kwargs):
        tepid.report.write(tmp_path / name, *args, **kwargs)
        return _Page((tmp_path / name).read_text(encoding="utf-8"))

    return written


def _temperature(value=1.5, method="uts", classes=12, **kwargs):
    fields = {"samples": 9, "implied_accuracy": 0.5} | kwargs
    return tepid.Temperature(value, method, classes=classes, **fields)


def _cards(made):
    """The example rows of a page by kind: row, label, prediction, and confidence in percent."""
    said = made.said.replace("\u00a0", " ").partition("Confidence at T = 1 and at")[2]
    found, kind = {}, None
    titles = "Right: drawn by a fixed lot|Wrong: the surest mistakes|Rows whose confidence moved"
    card = r"row (\d+) (?:label (\d+) )?predicted (\d+) T = 1 ([\d.]+) % T = \S+ ([\d.]+) %"
    for part in re.finditer(f"({titles})|{card}", said):
        title, row, label, prediction, before, after = part.groups()
        kind = title.split()[0].strip(":") if title else kind
        if row is not None:
            shown = int(row), label and int(label), int(prediction), float(before), float(after)
            found.setdefault(kind, []).append(shown)
    return found


def _columns(made):
    columns = made.data["classes"]["columns"]
    return {c["title"].replace("\u00a0", " "): np.array(c["values"], float) for c in columns}


# --- the sums


def _same(a, b):
    """Compare nested data, numbers up to rounding."""
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            _same(a[key], b[key])
    elif isinstance(a, list):
        for x, y in zip(a, b, strict=True):
            _same(x, y)
    else:
        assert a == (pytest.approx(b, rel=1e-6, abs=1e-9) if isinstance(b, float) else b)


@pytest.mark.slow
@pytest.mark.parametrize("labeled", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_a_report_does_not_depend_on_the_batches(page, labeled, seed):
    rng = np.random.default_rng(seed)
    z = np.round(3 * rng.normal(size=(200, 4)))  # many ties
    y = rng.integers(0, 4, 200) if labeled else None
    where = np.sort(rng.integers(0, 201, rng.integers(1, 7)))
    given = {"temperatures": [_temperature(1.7, classes=4)], "labels": y, "title": "both"}
    whole = page(z, **given)
    parts = page(lambda: iter(np.split(z, where)), **given)
    _same(parts.data, whole.data)
    assert parts.said == whole.said
    assert sum(map(len, _cards(whole).values())) == (2 if labeled else 1) * MOST_EXAMPLES


def test_the_examples_are_the_most_confident_mistakes_and_correct_rows(page, network):
    z, y = network
    examples = _cards(page(z, labels=y, temperatures=[_temperature(1.7)]))
    assert examples.keys() == {"Right", "Wrong"}
    p = softmax(z.astype(float), axis=1)
    best, top = p.argmax(axis=1), p.max(axis=1)
    wrong = np.flatnonzero(best != y)
    surest = wrong[np.argsort(-top[wrong], kind="stable")][:MOST_EXAMPLES]
    assert [example[0] for example in examples["Wrong"]] == surest.tolist()
    assert [example[3] for example in examples["Wrong"]] == pytest.approx(
        100 * top[surest], abs=6e-3
    )
    right = examples["Right"]
    assert len(right) == MOST_EXAMPLES
    assert all(label == prediction == best[row] == y[row] for row, label, prediction, *_ in right)
    assert np.ptp([example[0] for example in right]) > len(z) / 2


def test_without_labels_the_examples_are_the_rows_that_moved_most(page, network):
    z = network[0]
    examples = _cards(page(z, temperatures=[_temperature(1.7)]))
    top = softmax(z.astype(float), axis=1).max(axis=1)
    after = softmax(z.astype(float) / 1.7, axis=1).max(axis=1)
    most = np.argsort(after - top, kind="stable")[:MOST_EXAMPLES]
    assert examples.keys() == {"Rows"}
    assert [example[0] for example in examples["Rows"]] == most.tolist()
    assert [example[4] for example in examples["Rows"]] == pytest.approx(
        100 * after[most], abs=6e-3
    )
    assert all(label is None for _, label, *_ in examples["Rows"])


def test_members_are_those_of_the_definition_and_of_the_curve(page, network):
    z = network[0]
    theta = tepid.summaries.Tails.of(z).thresholds()
    made = page(z, temperatures=[_temperature()])
    s = softmax(z.astype(float), axis=1)
    inside, predicted = s >= theta, z.argmax(axis=1)[:, None] == np.arange(12)
    members = _columns(made)["|M_k|"]
    np.testing.assert_array_equal(members, inside.sum(axis=0))
    assert members.sum() == tepid.summaries.Curve.of(z, thresholds=theta).pairs[0]
    division = made.data["division"]
    histogram = np.array(division["counts"])
    kinds = (predicted, inside & ~predicted, ~inside & ~predicted)
    for i, kind in enumerate(kinds):
        np.testing.assert_array_equal(histogram[:, i].sum(axis=1), kind.sum(axis=0))
    edges = np.concatenate([[0], division["edges"], [2]])
    for k in (0, 7):
        exact = np.histogram(s[predicted[:, k], k], edges)[0]
        assert np.abs(histogram[k, 0] - exact).sum() <= 2  # at an edge, in float32


def test_a_row_predicted_k_below_its_threshold_is_no_member(page):
    sure = np.log([[0.49, 0.5, 0.01]] * 9)  # they set the threshold of class 0
    made = page(
        np.vstack([sure, np.log([[0.4, 0.3, 0.3]])]), temperatures=[_temperature(classes=3)]
    )
    columns = _columns(made)
    assert (columns["predicted"][0], columns["|M_k|"][0]) == (1, 9)
    assert np.sum(made.data["division"]["counts"][0], axis=1).tolist() == [1, 9, 0]


def test_a_masked_class_draws_nobody_in(page):
    z = np.array([[0.0, 0.0, -np.inf], [1.0, 0.0, -np.inf]])
    columns = _columns(page(z, temperatures=[_temperature(classes=3)]))
    assert (columns["θ_k"][2], columns["|M_k|"][2]) == (0, 0)


def test_classes_agree_with_plain_numpy(page, network):
    z, y = network
    p = softmax(z.astype(float) / 1.7, axis=1)
    best = p.argmax(axis=1)
    columns = _columns(page(z, labels=y, temperatures=[_temperature(1.7)]))
    errors = []
    for k in range(12):
        where = np.clip(np.ceil(p[:, k] * 15).astype(int) - 1, 0, 14)
        gap = np.bincount(where, p[:, k] - (y == k), 15)
        errors.append(np.abs(gap).sum() / len(z))
        assert columns["predicted"][k] == (best == k).sum()
        assert columns["expected precision"][k] == pytest.approx(p[best == k, k].mean(), rel=1e-5)
        assert columns["labeled"][k] == (y == k).sum()
        right = ((best == k) & (y == k)).sum()
        precision, recall = right / (best == k).sum(), right / (y == k).sum()
        assert columns["precision"][k] == pytest.approx(precision, rel=1e-5)
        assert columns["recall"][k] == pytest.approx(recall, rel=1e-5)
        f1 = 2 * precision * recall / (precision + recall)
        assert columns["F1"][k] == pytest.approx(f1, rel=1e-5)
    np.testing.assert_allclose(columns["class ECE, T = 1.7"], errors, rtol=1e-5)


class _Elsewhere:
    """An array on another device, which NumPy cannot read as it is."""

    def __init__(self, array):
        self.array = array

    def __array_namespace__(self):
        return np


class _WithCpu(_Elsewhere):
    def cpu(self):
        return self.array


class _WithDlpack(_Elsewhere):
    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("kind", [_WithCpu, _WithDlpack])
def test_a_batch_on_another_device_is_copied(kind, network):
    z = network[0][:50]
    (best, confidence, _), (same, equal, _) = predict(kind(z)), predict(z)
    np.testing.assert_array_equal(best, same)
    np.testing.assert_array_equal(confidence, equal)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_that_cannot_be_used_is_named(bad, tmp_path):
    z = np.zeros((5, 3))
    z[3, 1] = bad
    for given in ((), [_temperature(classes=3)]):
        with pytest.raises(tepid.InputError, match="row 3"):
            tepid.report.write(tmp_path / "r.html", z, temperatures=given)
    assert not list(tmp_path.iterdir())


# --- the passes over the rows


class _CountedRows:
    """A function that yields batches, and how often it was called."""

    def __init__(self, z, y=None):
        self.z, self.y, self.passes = z, y, 0

    def source(self):
        return tepid.sources.open_source(self, labels=self.y)

    def __call__(self):
        self.passes += 1
        return iter(np.array_split(self.z, 3))


@pytest.mark.parametrize("scale", [0.3, 3], ids=["T = 1 is kept", "T is not 1"])
def test_a_report_with_labels_takes_at_most_five_passes(scale, fashion, page):
    z, y = scale * fashion[0].astype(np.float32), fashion[1]
    rows = _CountedRows(z, y)
    made = page(rows.source())
    assert rows.passes <= 5
    shown = {name: f"{t.value:.4f}" for name, t in _separate_fits(z, y).items()}
    for name, value in shown.items():
        assert re.search(rf"{name}.*{value}", made.said), name


def _separate_fits(z, y):
    accuracy = (z.argmax(axis=1) == y).mean()
    return {
        "temperature": tepid.temperature_scaling(z, y),
        "accuracy": tepid.match_accuracy(z, accuracy),
        "uts": tepid.uts(z),
        "calibrate": tepid.calibrate(z),
    }


def test_a_report_without_labels_takes_at_most_five_passes_and_a_given_temperature_two(
    fashion, page
):
    rows = _CountedRows(3 * fashion[0].astype(np.float32))
    page(rows.source())
    assert rows.passes <= 5
    rows.passes = 0
    page(rows.source(), temperatures=[_temperature(classes=10)])
    assert rows.passes == 2


# --- the stops of the slider


def test_every_stop_is_exact(page, network):
    z, y = network
    given = {"a": _temperature(1.2345), "b": _temperature(1.0)}
    data = page(z, labels=y, temperatures=given).data
    stops, marks = data["stops"], {mark["name"]: mark["stop"] for mark in data["marks"]}
    assert len(stops["t"]) == 5 * 8 + 1 + 1  # five octaves, and one temperature between
    assert stops["t"] == sorted(stops["t"])
    assert (stops["t"][0], stops["t"][-1]) == pytest.approx((0.25, 8))
    assert stops["t"][marks["a"]] == 1.2345
    assert stops["t"][marks["b"]] == 1
    for i, t in enumerate(stops["t"]):
        exact = tepid.summaries.Reliability.of_logits(z, y, temperature=t)
        assert stops["nll"][i] == pytest.approx(tepid.metrics.nll(exact), rel=1e-5)
        confidence = tepid.metrics.confidence(exact)
        assert stops["confidence"][i] == pytest.approx(confidence, abs=CONFIDENCE)
        count, sure, correct = (np.array(stops[name][i]) for name in ("count", "sure", "correct"))
        ece = np.abs(sure - correct).sum() / count.sum()
        assert ece == pytest.approx(tepid.metrics.ece(exact), abs=2e-5)
        assert np.abs(count - exact.count).sum() <= 4  # at an edge, in float32


@pytest.mark.parametrize(("t", "ends"), [(20.0, (0.25, 32)), (0.1, (0.0625, 8))])
def test_the_slider_reaches_every_temperature(page, network, t, ends):
    data = page(network[0], temperatures=[_temperature(t)]).data
    stops = data["stops"]["t"]
    assert stops[data["marks"][1]["stop"]] == t
    assert (stops[0], stops[-1]) == pytest.approx(ends)


def test_wilson_intervals_are_scipys():
    correct, count = np.array([0.0, 3.0, 50.0, 7.0, 0.0]), np.array([4.0, 9.0, 50.0, 70.0, 0.0])
    low, high = wilson_interval(correct, count)
    for i in range(4):
        exact = binomtest(int(correct[i]), int(count[i])).proportion_ci(method="wilson")
        assert (low[i], high[i]) == pytest.approx((exact.low, exact.high), abs=1e-12)
    assert np.isnan([low[4], high[4]]).all()


# --- the words


def test_with_labels_the_report_says_what_they_settle(page, fashion):
    z, y = fashion
    made = page(z, labels=y, title="Fashion")
    t = tepid.temperature_scaling(z, y)
    accuracy = (z.argmax(axis=1) == y).mean()
    for words in (
        f"Use T = {t.value:.4g}.",
        "It minimizes the log loss of the labels.",
        f"implies an accuracy of {100 * t.implied_accuracy:.2f} %",
        f"The accuracy by the labels of the 10,000 rows of this report is {100 * accuracy:.2f} %.",
        f"{100 * tepid.metrics.ece(tepid.summaries.Reliability.of_logits(z, y)):.2f} %",
        "scores are slightly too good",
        f"{tepid.uts(z).value:.4f}",
        f"{tepid.calibrate(z).value:.4f}",
        f"{tepid.match_accuracy(z, accuracy).value:.4f}",
    ):
        assert words in made.said.replace("\u00a0", " "), words
    assert [text for tag, text in made.heads if tag == "h1"] == ["Fashion"]


def test_without_labels_the_report_says_what_would_help(page, network):
    made = page(network[0])
    assert "Keep T = 1." in made.said
    t = tepid.calibrate(network[0])
    assert t.reason in made.said
    assert f"Next: {t.next_step}" in made.said
    assert "Reliability before and after" not in made.said
    assert made.data["accuracy"] is None
    assert made.data["stops"]["nll"] == [None] * len(made.data["stops"]["t"])


def test_where_the_main_temperature_changes_nothing_the_next_is_shown(page, network):
    made = page(network[0])
    uts = tepid.uts(network[0]).value
    assert f"Confidence at T = 1 and at T = {uts:.4g} (uts)." in made.said.replace("\u00a0", " ")
    moved = [_temperature(1.25, "accuracy"), _temperature(1.5)]
    said = page(network[0], temperatures=moved).said.replace("\u00a0", " ")
    assert "Confidence at T = 1 and at T = 1.25 (accuracy)." in said


def test_the_stored_verdict_reason_and_next_step_are_shown(page, network):
    z, y = network
    known = np.where(np.arange(len(y)) < 200, y, -1)
    t = tepid.calibrate(z, known)
    for verdict, words in (
        ("use", f"Use T = {t.value:.4g}."),
        ("check", f"Check T = {t.value:.4g} before you use it."),
        ("keep", "Keep T = 1."),
    ):
        given = dataclasses.replace(t, verdict=verdict)
        said = page(z, temperatures=[given]).said.replace("\u00a0", " ")
        low, high = t.interval
        for sentence in (
            words, t.reason, f"Next: {t.next_step}",
            f"T = {t.value:.4g}, 95 % interval {low:.4g} to {high:.4g},",
        ):  # fmt: skip
            assert sentence in said


def test_a_row_is_shown_with_its_label_and_both_confidences(page, network):
    z, y = network
    names = [f"kind {k}" for k in range(12)]
    given = [_temperature(1.7)]
    row, label, prediction, before, after = _cards(page(z, labels=y, temperatures=given))["Wrong"][
        0
    ]
    assert (
        f"row {row} label kind {label} predicted kind {prediction} T = 1 {before:.2f} % "
        f"T = 1.7 {after:.2f} %"
    ) in page(z, labels=y, names=names, temperatures=given).said.replace("\u00a0", " ")
    exact = softmax(z[row].astype(float) / 1.7)
    assert (label, prediction) == (y[row], exact.argmax())
    assert after == pytest.approx(100 * exact.max(), abs=6e-3)


def test_a_calibration_that_is_given_is_what_the_report_is_about(page, network):
    z, y = network
    given = [tepid.match_accuracy(z, 0.8), tepid.uts(z), tepid.uts(z)]
    made = page(z, labels=y, temperatures=given)
    assert [mark["name"] for mark in made.data["marks"]] == [
        "uncalibrated", "accuracy", "uts", "uts (2)",
    ]  # fmt: skip
    assert f"Check T = {given[0].value:.4g} before" in made.said.replace("\u00a0", " ")
    assert "slightly too good" not in made.said
    t = made.data["stops"]["t"]
    assert t[made.data["start"]] == pytest.approx(given[0].value, rel=1e-8)


def test_warnings_and_groups_are_listed(page, network):
    groups = {"night <b>": _temperature(1.75, samples=123)}
    given = _temperature(1.25, warnings=("Mind the <gap>.",), groups=groups)
    made = page(network[0], temperatures={"main": given})
    assert "Mind the <gap>." in made.said
    assert "night <b>" in made.said
    assert "1.7500" in made.said
    assert "gap" not in made.tags
    assert "Groups" not in page(network[0], temperatures=[_temperature()]).said


def test_a_temperature_out_of_reach_is_told_and_not_drawn(page, network):
    given = [_temperature(1e30, status="at-bound"), _temperature(2.0, "accuracy")]
    made = page(network[0], labels=network[1], temperatures=given)
    assert "Check T = 1e+30 before you use it." in made.said.replace("\u00a0", " ")
    assert "out of reach" in made.said
    assert [mark["name"] for mark in made.data["marks"]] == ["uncalibrated", "accuracy"]


def test_a_method_from_elsewhere_is_to_be_checked(page, network):
    assert "Check T = 1.5 before you use it." in page(
        network[0], temperatures=[_temperature(method="x<y")]
    ).said.replace("\u00a0", " ")


def test_labels_that_agree_with_every_prediction_still_give_a_report(page, network):
    z = network[0]
    made = page(z, labels=z.argmax(axis=1))
    assert "at-bound" in made.said
    assert made.data["accuracy"] == 1


@pytest.mark.parametrize(
    "logits",
    [np.zeros((4, 3)), np.ones((1, 2)), np.linspace(-3, 3, 50), np.eye(3)[:, :, None] @ [[5.0]]],
    ids=["constant", "one row", "binary", "no class axis"],
)
def test_degenerate_logits_give_a_report_or_a_sentence(page, logits):
    if logits.ndim == 3:
        with pytest.raises(tepid.InputError, match="class_axis"):
            page(logits)
        return
    made = page(logits)
    assert len(made.data["classes"]["names"]) == max(2, logits.shape[-1] if logits.ndim > 1 else 2)


# --- the class table and the division


def test_the_class_table_holds_what_the_library_says(page, network):
    z, y = network
    data = page(z, labels=y, names=[f"class {k}" for k in range(12)]).data
    columns = {c["title"].replace("\u00a0", " "): c["values"] for c in data["classes"]["columns"]}
    tails = tepid.summaries.Tails.of(z)
    assert columns["θ_k"] == pytest.approx(tails.thresholds(), rel=1e-5)
    assert columns["predicted"] == tails.predicted.tolist()
    assert columns["labeled"] == np.bincount(y, minlength=12).tolist()
    assert columns["confidence, T = 1"] == pytest.approx(tails.confidence / tails.predicted, 1e-5)
    best = z.argmax(axis=1)
    assert columns["precision"] == pytest.approx(
        [(y[best == k] == k).mean() for k in range(12)], 1e-5
    )
    assert data["classes"]["names"][11] == "class 11"
    for k in range(12):
        assert sum(map(sum, data["division"]["counts"][k])) == len(z)


def test_a_class_that_is_never_predicted_has_no_confidence(page):
    z = np.tile([[3.0, 1.0, 0.0]], (20, 1)) + np.random.default_rng(1).normal(size=(20, 3)) / 9
    columns = page(z, labels=np.zeros(20, int)).data["classes"]["columns"]
    assert columns[0]["values"] == [20, 0, 0]
    assert columns[1]["values"][1:] == [None, None]


# --- thresholds and expected performance


def _some_labels(y, count=25):
    """The labels of some random rows, -1 for the others."""
    known = np.full(len(y), -1)
    chosen = np.random.default_rng(0).permutation(len(y))[:count]
    known[chosen] = y[chosen]
    return known


@pytest.fixture(scope="module")
def checked(network):
    """A temperature from 25 labels, with an interval."""
    z, y = network
    return tepid.calibrate(z, labels=_some_labels(y))


def _position(edges, threshold):
    return min(int(np.searchsorted(edges, threshold - 1e-9)), len(edges) - 1)


def test_the_thresholds_are_those_of_the_temperature(page, network, checked):
    z, _ = network
    made = page(z, temperatures=[checked])
    said = made.said.replace("\u00a0", " ")
    data = made.data["acceptance"]
    buttons = {p["text"].replace("\u00a0", " "): p["at"] for p in data["promises"]}
    for wanted in (0.9, 0.95, 0.99):
        found = checked.threshold(z, precision=wanted)
        name = f"{100 * wanted:.0f} %"
        for text, accepted in ((name, found.accepted), (f"{name}, cautious", found.cautious)):
            if accepted.threshold is None:
                assert f"{text} nothing can be accepted" in said
                assert text not in buttons
                continue
            value = accepted.precision
            assert (
                f"{text} {accepted.threshold:.4f} {100 * accepted.share:.2f} % "
                f"{100 * value.value:.2f} % {100 * value.low:.1f}–{100 * value.high:.1f} %"
            ) in said
            assert buttons[text] == _position(data["edges"], accepted.threshold)
    assert found.assumption in said


@pytest.mark.parametrize("labeled", [True, False])
def test_the_sums_of_accepted_rows_are_exact_at_every_stop(page, network, checked, labeled):
    z, y = network
    data = page(z, labels=y if labeled else None, temperatures=[checked]).data
    found, edges = data["acceptance"], np.array(data["acceptance"]["edges"])
    assert (np.diff(edges) > 0).all()
    assert (edges[0], edges[-1]) == (0, pytest.approx(1, abs=1e-3))
    assert ("correct" in found) == labeled
    right = z.argmax(axis=1) == y
    for stop in range(0, len(data["stops"]["t"]), 7):
        confidence = softmax(z.astype(float) / data["stops"]["t"][stop], axis=1).max(axis=1)
        above = confidence[:, None] > edges
        for name, values in {"count": 1, "sure": confidence, "correct": right}.items():
            if name in found:
                sums = np.cumsum(found[name][stop][::-1])[::-1]
                exact = (above * np.reshape(values, (-1, 1))).sum(axis=0)
                np.testing.assert_allclose(sums, exact, atol=2)  # rows at an edge, in float32


def test_logits_alone_promise_nothing(page, network):
    z, y = network
    for made in (page(z), page(z, labels=y, temperatures=[tepid.uts(z)])):
        assert "needs more evidence than the logits" in made.said
        assert made.data["acceptance"]["promises"] == []
        assert made.data["acceptance"]["promise"] is False
        assert ("id", "read-expected") not in made.attributes
        assert ("id", "read-share") in made.attributes
        assert "wanted precision" not in made.said
        assert "which do not identify it" in made.said
    assert ("id", "read-realized") in made.attributes


def test_a_temperature_without_an_interval_has_no_cautious_threshold(page, network):
    z, _ = network
    made = page(z, temperatures=[_temperature(1.7, "accuracy")])
    assert "cautious" not in made.said
    assert len(made.data["acceptance"]["promises"]) == 3


def test_nothing_can_be_accepted_is_an_answer(page):
    z = np.random.default_rng(0).normal(size=(500, 12)) / 5
    made = page(z, temperatures=[_temperature(1.7, "accuracy")])
    assert made.said.count("nothing can be accepted") == 3
    assert made.data["acceptance"]["promises"] == []


def test_thresholds_of_a_temperature_out_of_reach_have_no_button(page, network):
    made = page(network[0], temperatures=[_temperature(1e-9, "accuracy"), _temperature(2.0)])
    assert "wanted precision" in made.said
    assert made.data["acceptance"]["promises"] == []


@pytest.mark.parametrize("labeled", [True, False])
def test_the_expected_performance_of_each_class_is_that_of_the_temperature(
    page, network, checked, labeled
):
    z, y = network
    made = page(z, labels=y if labeled else None, temperatures=[checked])
    columns = {c["title"]: c for c in made.data["classes"]["columns"]}
    found = checked.expected_performance(z)
    for name in ("precision", "recall", "f1"):
        column = columns["expected F1" if name == "f1" else f"expected {name}"]
        for k in range(12):
            exact = getattr(found.classes[str(k)], name)
            assert column["values"][k] == pytest.approx(exact.value, rel=1e-5)
            assert column["low"][k] == pytest.approx(exact.low, abs=1e-4)
            assert column["high"][k] == pytest.approx(exact.high, abs=1e-4)
    assert ("precision" in columns) == labeled
    said = made.said.replace("\u00a0", " ")
    accuracy = found.accuracy
    assert (
        f"{100 * accuracy.value:.2f} %, 95 % interval {100 * accuracy.low:.1f} to "
        f"{100 * accuracy.high:.1f} %"
    ) in said


# --- names and pictures


def test_names_come_from_a_file_too(page, network, tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("\ufeff" + "\n".join(f"Größe\u2028{k}" for k in range(11)) + "\n\n", "utf-8")
    names = page(network[0], names=path).data["classes"]["names"]
    assert names == [f"Größe {k}" for k in range(11)] + ["11"]


def _decoded(content):
    """The pixels of a PNG without filters, every checksum checked."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + size]
        (check,) = struct.unpack(">I", content[at + 8 + size : at + 12 + size])
        assert check == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + size
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    w, h, depth, color, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, rest) == (8, [0, 0, 0])
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(h, -1)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape((h, w, 3) if color == 2 else (h, w))


@pytest.fixture
def shown(page):
    """The bytes of the picture of a page with one row, or None and what is said instead."""

    def of(image):
        made = page([[2.0, 0.0]], images=image, temperatures=[_temperature(classes=2)])
        (content,) = map(_bytes, _images(made)) if _images(made) else (None,)
        return content, made

    return of


@pytest.mark.parametrize("shape", [(5, 7), (7, 5, 1), (4, 6, 3)])
def test_a_png_holds_the_pixels(shape, rng, shown):
    image = rng.integers(0, 256, shape).astype(np.uint8)
    content, _ = shown({0: image})
    np.testing.assert_array_equal(_decoded(content), image.reshape(_flat(shape)))


def _flat(shape):
    return shape[:2] if shape[2:] == (1,) else shape


def test_large_images_are_averaged_down(rng, shown):
    image = rng.integers(0, 256, (200, 97, 3)).astype(np.uint8)
    small = _decoded(shown({0: image})[0])
    assert small.shape == (67, 33, 3)
    np.testing.assert_array_equal(small[1, 2], np.rint(image[3:6, 6:9].mean(axis=(0, 1))))
    np.testing.assert_array_equal(small[66, 32], np.rint(image[198:, 96:].mean(axis=(0, 1))))
    np.testing.assert_array_equal(_decoded(shown({0: image[:96, :96]})[0]), image[:96, :96])


def _images(made):
    return [value for key, value in made.attributes if key == "src"]


def test_pictures_stand_beside_their_rows(page, network, tmp_path, rng):
    z, y = network[0][:300], network[1][:300]
    images = rng.integers(0, 256, (300, 4, 4)).astype(np.uint8)
    made = page(z, labels=y, images=images, temperatures=[_temperature()])
    assert len(_images(made)) == 2 * MOST_EXAMPLES
    rows = [int(value.split()[1]) for key, value in made.attributes if key == "alt"]
    for row, uri in zip(rows, _images(made), strict=True):
        content = np.frombuffer(_bytes(uri), np.uint8).tobytes()
        np.testing.assert_array_equal(_decoded(content), images[row])
    np.savez(tmp_path / "images.npz", images=images)
    again = page(z, labels=y, images=tmp_path / "images.npz", temperatures=[_temperature()])
    assert _images(again) == _images(made)


def _bytes(uri):
    return base64.b64decode(uri.partition("base64,")[2])


def test_where_only_some_rows_have_pictures_those_are_shown(page, network, tmp_path):
    z, y = network
    rows, images = np.array([5, 17, 40]), np.zeros((3, 2, 2, 3), np.uint8)
    np.savez(tmp_path / "some.npz", images=images, image_rows=rows)
    for some in (dict(zip(rows.tolist(), images, strict=True)), str(tmp_path / "some.npz")):
        made = page(z, labels=y, images=some, temperatures=[_temperature()])
        shown = {value for key, value in made.attributes if key == "alt"}
        assert shown == {"row 5", "row 17", "row 40"}


def _jpeg(number, size):
    """What begins and ends as a JPEG file does."""
    return b"\xff\xd8\xff" + bytes([number]) * size + b"\xff\xd9"


def _saved(kind):
    image = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 8, 3), np.uint8))
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def _in_folder(folder, content):
    folder.mkdir(exist_ok=True)
    (folder / "0.png").write_bytes(content)
    return folder


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp", "bmp"])
def test_a_picture_is_known_by_its_content_and_only_whole(kind, shown, tmp_path):
    content = _saved(kind)
    found, made = shown(_in_folder(tmp_path / "pictures", content))
    assert found == content
    assert _images(made)[0].startswith(f"data:image/{kind};base64,")
    for damaged in (b"", content[:-9], content[: len(content) // 2], content[4:], b"\0" * 99):
        assert shown(_in_folder(tmp_path / "pictures", damaged))[0] is None


@pytest.mark.slow
def test_a_png_is_whole_if_its_checksums_are(shown, tmp_path):
    content, _ = shown({0: np.zeros((5, 5), np.uint8)})
    assert shown(_in_folder(tmp_path / "pictures", content))[0] == content
    for place in range(len(content)):
        other = bytearray(content)
        other[place] ^= 1
        found, made = shown(_in_folder(tmp_path / "pictures", bytes(other)))
        assert found is None, place
        assert "0.png, damaged or no picture, and not shown" in made.said


def test_damaged_pictures_are_named_and_not_embedded(page, network, tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in range(30):
        # The name may be wrong about the kind.
        content = _saved("gif") if i % 2 else _saved("png")[:-20]
        (folder / f"{i:02d}.png").write_bytes(content)
    made = page(network[0][:30], images=folder, temperatures=[_temperature()])
    names = [value for key, value in made.attributes if key == "alt"]
    assert names
    assert all(int(name[:2]) % 2 for name in names)
    assert all(uri.startswith("data:image/gif;base64,") for uri in _images(made))
    assert re.search(r"\d[02468]\.png, damaged or no picture, and not shown", made.said)


def test_a_folder_of_pictures_is_embedded_in_the_order_of_names(page, network, tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in np.random.default_rng(3).permutation(30).tolist():
        (folder / f"{i:02d}.jpg").write_bytes(_jpeg(i, 70_000 if i == 3 else 10))
    (folder / "notes.txt").write_text("no picture")
    made = page(network[0][:30], images=folder, temperatures=[_temperature()])
    names = [value for key, value in made.attributes if key == "alt"]
    top = [softmax(network[0][:30].astype(float) / t, axis=1).max(axis=1) for t in (1, 1.5)]
    rows = np.argsort(top[1] - top[0], kind="stable")[:MOST_EXAMPLES]
    assert names == [f"{row:02d}.jpg" for row in rows if row != 3]
    for name, uri in zip(names, _images(made), strict=True):
        assert uri.startswith("data:image/jpeg;base64,")
        assert _bytes(uri) == _jpeg(int(name[:2]), 10)
    z = np.zeros((30, 12), np.float32)
    z[3, 0] = 1  # the only row whose confidence moves is the one whose picture is too large
    made = page(z, images=folder, temperatures=[_temperature()])
    assert "03.jpg, too large to be shown here" in made.said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"names": ["a"]}, "names must be one for each of the 12 classes, got 1"),
        ({"names": "absent.txt"}, "names must be a file with one class on each line"),
        ({"images": np.zeros((3, 2, 2), np.uint8)}, "images must be one for each of the 40 rows"),
        ({"images": np.zeros((40, 2, 2))}, "images must be uint8"),
        ({"images": np.zeros((40, 2, 2, 5), np.uint8)}, "images must have 1 or 3 colors, got 5"),
        ({"images": np.zeros((40, 0, 2), np.uint8)}, "images must have pixels"),
        ({"images": {40: np.zeros((2, 2), np.uint8)}}, "images must be of rows in 0..39"),
        ({"images": {-1: np.zeros((2, 2), np.uint8)}}, "images must have one row from 0 on"),
        ({"images": "."}, "images must be a folder with .png"),
        ({"images": "absent.npz"}, "images must exist"),
        ({"labels": [0, 1]}, "labels must have one entry for each of the 40 rows"),
        ({"temperatures": [_temperature(classes=3)]}, "must have the 3 classes of the calibration"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    network, tmp_path, monkeypatch, arguments, said
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tepid.InputError, match=re.escape(said)):
        tepid.report.write("r.html", network[0][:40], **arguments)
    assert not list(tmp_path.iterdir())


def test_what_does_not_fit_rows_of_unknown_number_is_refused_too(network, tmp_path):
    def batches():
        return iter([network[0][:40]])

    for name, value in (("names", ["a"]), ("images", np.zeros((3, 2, 2), np.uint8))):
        with pytest.raises(tepid.InputError, match=f"{name} must be one for each of the"):
            tepid.report.write(tmp_path / "r.html", batches, **{name: value})
    assert not list(tmp_path.iterdir())


def test_an_iterator_is_refused(network, tmp_path):
    with pytest.raises(tepid.InputError, match="readable more than once"):
        tepid.report.write(tmp_path / "r.html", iter([network[0]]))


# --- one file, safe and small


def test_whatever_is_hostile_is_only_text(page, network, tmp_path):
    z, y = network[0][:60], network[1][:60]
    folder = tmp_path / "pictures"
    folder.mkdir()
    stem = EVIL.replace("/", "∕")
    for i in range(60):
        (folder / f"{i:02d}{stem}.png").write_bytes(_saved("png"))
    logits = tmp_path / f"{stem}.npy"
    np.save(logits, z)
    t = _temperature(method=EVIL, warnings=(EVIL,), groups={EVIL: _temperature()})
    arguments = {"labels": y, "images": folder}
    plain = page(
        z, temperatures={"a": _temperature(method="b", warnings=("c",), groups={"d": t})},
        names=["e"] * 12, title="f", **arguments,
    )  # fmt: skip
    evil = {"temperatures": {EVIL: t}, "names": [EVIL] * 12}
    for made in (page(z, title=EVIL, **evil, **arguments), page(logits, **evil, **arguments)):
        assert made.tags == plain.tags
        assert not [key for key, _ in made.attributes if key.startswith("on")]
        assert made.data["classes"]["names"] == [" ".join(EVIL.split())] * 12
        assert made.data["marks"][1]["name"] == EVIL
        assert made.tags.count("script") == 2


def test_the_data_cannot_end_its_script(tmp_path, network):
    names = [EVIL] * 12
    tepid.report.write(tmp_path / "r.html", network[0], names=names, temperatures=[_temperature()])
    text = (tmp_path / "r.html").read_text("utf-8")
    (raw,) = re.findall(r'<script type="application/json" id="data">(.*)</script>\n', text)
    assert not set("<>&\u2028") & set(raw)
    data = json.loads(raw)
    assert data["classes"]["names"][0] == " ".join(EVIL.split())
    assert data["stops"]["nll"][0] is None  # NaN, as there are no labels
    assert all(float(f"{t:.9g}") == t for t in data["stops"]["t"])


def test_the_page_forbids_itself_everything_else(tmp_path, network):
    tepid.report.write(tmp_path / "r.html", network[0], temperatures=[_temperature()])
    text = (tmp_path / "r.html").read_text("utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy
    outside = re.findall(r"(?:src|href|action)=\"(?!data:|#)|url\((?!#)|@import|https?://", text)
    assert outside == ["http://"]  # the namespace of SVG, which is a name and not a place
    assert text.count("http://www.w3.org/2000/svg") == 1


def test_headings_are_in_order_and_tables_have_captions(tmp_path, fashion):
    z, y = fashion
    tepid.report.write(tmp_path / "r.html", z[:2000], labels=y[:2000])
    text = (tmp_path / "r.html").read_text("utf-8")
    levels = [int(level) for level in re.findall(r"<h([1-6])", text)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert text.count("<table") == text.count("<caption")
    assert '<html lang="en">' in text


def test_the_demo_data_give_a_small_report(tmp_path):
    d = tepid.demo.fashion()
    images = dict(zip(d["image_rows"].tolist(), d["images"], strict=True))
    tepid.report.write(
        tmp_path / "r.html", d["logits"], labels=d["labels"], names=d["names"], images=images
    )
    assert (tmp_path / "r.html").stat().st_size < 200_000


@pytest.mark.slow
def test_a_thousand_classes_stay_below_three_megabytes(tmp_path, rng):
    z = 4 * rng.normal(size=(3000, 1000)).astype(np.float32)
    y = z.argmax(axis=1)
    names = [f"a class with a long name, number {k}" for k in range(1000)]
    t = _temperature(classes=1000)
    tepid.report.write(tmp_path / "r.html", z, labels=y, names=names, temperatures=[t])
    assert (tmp_path / "r.html").stat().st_size < 1_000_000


def test_beyond_a_thousand_classes_the_busiest_have_a_picture(page, rng):
    z = rng.normal(size=(50, 1200)).astype(np.float32)
    z[:, 1150:] += 9
    division = page(z, temperatures=[_temperature(classes=1200)]).data["division"]
    assert len(division["classes"]) == len(division["counts"]) == 1000
    assert set(z.argmax(axis=1).tolist()) <= set(division["classes"])


def test_the_same_rows_give_the_same_bytes_however_they_come(tmp_path, network):
    z, y = network
    calls = {
        "array": lambda path: tepid.report.write(path, z, labels=y, title="t"),
        "again": lambda path: tepid.report.write(path, z, labels=y, title="t"),
        "batches": lambda path: tepid.report.write(
            path, lambda: iter(np.array_split(z, 7)), labels=y, title="t"
        ),
        "three threads": lambda path: tepid.report.write(
            path, z, labels=y, title="t", engine=tepid.Threads(3)
        ),
    }
    for name, call in calls.items():
        call(tmp_path / name)
    first = (tmp_path / "array").read_bytes()
    assert (tmp_path / "again").read_bytes() == first
    shown = [_Page((tmp_path / name).read_text("utf-8")) for name in calls]
    for other in shown[2:]:
        assert other.said == shown[0].said
        assert other.data["stops"]["t"] == pytest.approx(shown[0].data["stops"]["t"], rel=1e-7)
        assert other.data["classes"] == shown[0].data["classes"]


@pytest.mark.slow
def test_real_sets_give_readable_reports(page, shared):
    made = page(shared / "densenet40_cifar100.npz", labels=shared / "densenet40_cifar100.npz")
    assert "Use T = 1.446." in made.said.replace("\u00a0", " ")
    path = shared / "efficientnet_lite0_imagenet.npz"
    assert len(page(path, labels=path).data["classes"]["names"]) == 1000


# --- the command line


@pytest.fixture
def folder(network, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("both.npz", logits=network[0][:400], labels=network[1][:400])
    tepid.uts(network[0]).save("cal.json")
    return tmp_path


def test_the_command_writes_a_report(folder, tepid_here):
    (folder / "names.txt").write_text("\n".join("abcdefghijkl"))
    code, out, err = tepid_here(
        "report", "both.npz", "--labels", "both.npz", "-c", "cal.json", "--names", "names.txt",
        "--title", "A title", "-o", "out.html",
    )  # fmt: skip
    assert (code, out, err) == (0, "wrote out.html\n", "")
    made = _Page((folder / "out.html").read_text("utf-8"))
    assert made.heads[0] == ("h1", "A title")
    assert [mark["name"] for mark in made.data["marks"]] == ["uncalibrated", "cal.json"]
    assert made.data["classes"]["names"] == list("abcdefghijkl")
    assert made.data["labeled"]


def test_the_report_is_called_so_where_no_name_is_given(folder, tepid_here):
    code, out, _ = tepid_here("report", "both.npz", "--json")
    assert (code, json.loads(out)) == (0, {"report": "report.html"})
    made = _Page((folder / "report.html").read_text("utf-8"))
    assert made.heads[0] == ("h1", "Calibration of both.npz")
    assert not made.data["labeled"]


def test_fit_writes_a_report_too(folder, tepid_here):
    code, out, _ = tepid_here("fit", "both.npz", "--accuracy", "0.7", "--report", "out.html")
    assert code == 0
    assert "wrote out.html" in out
    made = _Page((folder / "out.html").read_text("utf-8"))
    assert [mark["name"] for mark in made.data["marks"]] == ["uncalibrated", "calibrate"]


def test_the_demo_ends_with_a_report(folder, tepid_here):
    code, out, _ = tepid_here("demo")
    assert code == 0
    assert out.splitlines()[-1].startswith("wrote tepid-demo.html")
    assert (folder / "tepid-demo.html").stat().st_size < 3_000_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "absent.npy"], "logits file must exist"),
        (["report", "both.npz", "-o", "out.txt"], "report must end in .html, got out.txt"),
        (["report", "both.npz", "-o", "no/out.html"], "output must be in a folder that exists"),
        (["report", "both.npz", "-c", "absent.json"], "No such file"),
        (["report", "both.npz", "-c", "both.npz"], "must be a temperature in .json, got .npz"),
        (["report", "both.npz", "-c", "three.json"], "must have the 3 classes of the calibration"),
        (["report", "both.npz", "--labels", "short.npy"], "labels must have one entry"),
        (["report", "both.npz", "--names", "short.txt"], "names must be one for each of the 12"),
        (["report", "both.npz", "--names", "both.npz"], "names must be text in UTF-8"),
        (["report", "both.npz", "--images", "both.npz"], "must have a member 'images'"),
        (["report", "names.html", "-o", "names.html"], "output must not be one of the inputs"),
        (["fit", "both.npz", "--report", "out.json"], "report must end in .html, got out.json"),
        (["fit", "both.npz", "--report", "no/out.html"], "output must be in a folder that exists"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_refusal_is_one_sentence_and_touches_no_file(folder, tepid_here, arguments, said):
    _temperature(classes=3).save("three.json")
    np.save("short.npy", [1, 2])
    (folder / "short.txt").write_text("one\ntwo\n")
    (folder / "names.html").write_text("mine")
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    code, out, err = tepid_here(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("tepid: ")
    assert err.count("\n") == 1
    assert said in err
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
