"""The measures: hand-computed cases, conventions, and scikit-learn's word."""

import math

import numpy as np
import pytest
from sklearn.metrics import log_loss

import tepid
from tepid import metrics


def test_a_hand_computed_case():
    p = [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]]
    y = [0, 1, 1]
    assert metrics.accuracy(y, p) == pytest.approx(2 / 3)
    assert metrics.confidence(y, p) == pytest.approx((0.9 + 0.6 + 0.7) / 3)
    assert metrics.nll(y, p) == pytest.approx(-(math.log(0.9) + math.log(0.4) + math.log(0.7)) / 3)
    assert metrics.brier(y, p) == pytest.approx((0.02 + 0.72 + 0.18) / 3)
    assert metrics.ece(y, p, bins=10) == pytest.approx((0.1 + 0.6 + 0.3) / 3)
    # Two bins: all three fall into (0.5, 1], and only the means count there.
    assert metrics.ece(y, p, bins=2) == pytest.approx(abs(2.2 - 2) / 3)


@pytest.mark.parametrize(("p", "b"), [(0.5, 0), (0.5000001, 1), (1.0, 1), (0.25, 0)])
def test_a_bin_holds_its_right_edge(p, b):
    reliability = tepid.summaries.Reliability.of(
        [[p, 1 - p, 0.0]] if p < 1 else [[1.0, 0.0, 0.0]], [0], bins=2
    )
    top = max(p, 1 - p)
    expected = b if p >= 0.5 else 1
    assert reliability.count.argmax() == expected
    assert reliability.confidence.sum() == pytest.approx(top)


def test_a_confidence_on_any_edge_belongs_to_the_bin_below():
    edges = np.arange(8, 16) / 15
    p = np.stack([edges, 1 - edges], axis=1)
    assert (
        tepid.summaries.Reliability.of(p, np.zeros(8, int)).count.tolist() == [0.0] * 7 + [1.0] * 8
    )
    above = np.nextafter(edges[:-1], 1)
    p = np.stack([above, 1 - above], axis=1)
    assert (
        tepid.summaries.Reliability.of(p, np.zeros(7, int)).count.tolist() == [0.0] * 8 + [1.0] * 7
    )


def test_ece_has_fifteen_bins_by_default():
    y, p = [0, 1], [[0.94, 0.06], [0.92, 0.08]]
    assert metrics.ece(y, p) == metrics.ece(y, p, bins=15)
    assert metrics.ece(y, p) == pytest.approx((0.06 + 0.92) / 2)
    assert metrics.ece(y, p, bins=10) == pytest.approx(abs(1 - 1.86) / 2)


def test_the_first_of_tied_classes_is_the_prediction():
    assert metrics.accuracy([0, 1], [[0.5, 0.5], [0.5, 0.5]]) == 0.5
    assert metrics.accuracy([0], [[0.4, 0.4, 0.2]]) == 1


def test_binary_probabilities_are_those_of_class_one():
    assert metrics.nll([1, 0], [0.8, 0.3]) == pytest.approx(-(math.log(0.8) + math.log(0.7)) / 2)
    assert metrics.accuracy([1, 0], [[0.8], [0.3]]) == 1


def test_nll_agrees_with_scikit_learn(fashion):
    z, y = fashion
    t = tepid.temperature_scaling(z.astype(np.float64), y)
    assert metrics.nll(y, t(z.astype(np.float64))) == pytest.approx(
        log_loss(y, t(z.astype(np.float64))), rel=1e-9
    )


def test_logits_and_their_probabilities_score_the_same(network):
    z, y = network
    p = tepid.Temperature(1.7, "", samples=0, classes=12, implied_accuracy=0)(z.astype(np.float64))
    for name in ("accuracy", "confidence", "nll", "brier", "ece"):
        measure = getattr(metrics, name)
        of_logits = measure(tepid.summaries.Reliability.of_logits(z, y, temperature=1.7))
        assert measure(y, p) == pytest.approx(of_logits, rel=1e-9)


def test_nll_of_logits_is_right_where_the_probability_underflows():
    reliability = tepid.summaries.Reliability.of_logits([[0.0, 2000.0]], [0])
    assert metrics.nll(reliability) == pytest.approx(2000)
    assert metrics.brier(reliability) == pytest.approx(2)


def test_an_impossible_label_has_infinite_nll_unless_it_weighs_nothing():
    p = [[1.0, 0.0], [0.5, 0.5]]
    assert metrics.nll([1, 0], p) == math.inf
    assert metrics.nll([1, 0], p, sample_weight=[0, 1]) == pytest.approx(math.log(2))
    assert metrics.nll(tepid.summaries.Reliability.of_logits([[0.0, -np.inf]], [1])) == math.inf


def test_no_rows_have_no_measure():
    for name in ("accuracy", "confidence", "nll", "brier", "ece"):
        assert math.isnan(getattr(metrics, name)(tepid.summaries.Reliability.zero()))


def test_weights_weigh():
    y, p, w = [0, 1], [[0.9, 0.1], [0.8, 0.2]], [3, 1]
    assert metrics.accuracy(y, p, sample_weight=w) == 0.75
    assert metrics.confidence(y, p, sample_weight=w) == pytest.approx((2.7 + 0.8) / 4)
    assert metrics.ece(y, p, bins=1, sample_weight=w) == pytest.approx(abs(3 - 3.5) / 4)
    assert metrics.brier(y, p, sample_weight=w) == pytest.approx((3 * 0.02 + 1.28) / 4)
    assert metrics.nll(y, p, sample_weight=w) == pytest.approx(
        -(3 * math.log(0.9) + math.log(0.2)) / 4
    )
