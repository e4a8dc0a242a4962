"""scikit-learn: its own estimator checks, its own temperature scaling, and our estimators."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import tepid
from tepid.sklearn import CalibratedClassifier, CalibrationWarning, TemperatureCalibrator
from tepid.temperature import warn_unreliable
from tests import strategies
from tests.precision import apart

quietly = pytest.mark.filterwarnings("ignore::tepid.sklearn.CalibrationWarning")


def _rows(k, n=4000, seed=0):
    return make_classification(
        n, n_informative=6, n_redundant=8, n_classes=k, flip_y=0.05, random_state=seed
    )


@pytest.fixture(scope="module", params=[2, 4])
def trained(request):
    """An overconfident classifier and rows that it has not seen: (classifier, X, y)."""
    X, y = _rows(request.param)
    return GaussianNB().fit(X[:1000], y[:1000]), X[1000:], y[1000:]


def _worded(y):
    return np.array(["yellow", "blue", "red", "green"])[y]


class _WithoutNames:
    """A classifier of which nothing but probabilities is known."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-np.asarray(X)[:, 0]))
        return np.stack([1 - p, p], axis=1)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


# --- scikit-learn's own checks, none of which is expected to fail


@pytest.mark.slow
@quietly
@parametrize_with_checks(
    [
        TemperatureCalibrator(),
        TemperatureCalibrator(accuracy=0.8),
        TemperatureCalibrator(accuracy=tepid.Counted(8, 10)),
        CalibratedClassifier(LogisticRegression()),
        CalibratedClassifier(LogisticRegression(), accuracy=0.9),
    ]
)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


def test_the_calibrator_is_a_transformer_and_the_classifier_a_classifier():
    assert not is_classifier(TemperatureCalibrator())
    assert is_classifier(CalibratedClassifier(GaussianNB()))


# --- the calibrator of logits


@quietly
@given(z=strategies.logits())
def test_fitting_is_the_method_and_nothing_else(z):
    if not len(z):
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            TemperatureCalibrator().fit(z)
        return
    calibrator = TemperatureCalibrator(accuracy=0.7).fit(z)
    assert calibrator.calibration_ == tepid.calibrate(z, accuracy=0.7)
    assert type(calibrator.temperature_) is float
    np.testing.assert_array_equal(calibrator.transform(z), calibrator.calibration_(z))


def _some(y, count=60, unknown=-1):
    """The first labels, and `unknown` in the place of the others."""
    known = y.astype(object)
    known[count:] = unknown
    return known


def _rival(z, seed=3):
    return z + 4 * np.random.default_rng(seed).normal(size=z.shape).astype(z.dtype)


def _evidence(z, y):
    """Arguments of `fit` of a calibrator of logits; `tepid.calibrate` takes the same."""
    labeled, source = (z[:50], y[:50]), (z[:2000], y[:2000])
    return [
        {},
        {"labeled": labeled},
        {"source": source},
        {"models": [_rival(z)]},
        {"models": [_rival(z), z]},
        {"reference": _rival(z)},
        {"reference": _some(y, 900).astype(int)},
        {"labeled": labeled, "models": [_rival(z)], "reference": y, "source": source},
    ]


@pytest.mark.slow
@quietly
@pytest.mark.parametrize("number", range(8))
def test_each_argument_is_its_evidence(network, number):
    z, y = network
    arguments = _evidence(z, y)[number]
    weight = np.arange(len(z)) % 3
    for accuracy in (None, 0.7):
        calibrator = TemperatureCalibrator(accuracy=accuracy)
        expected = tepid.calibrate(z, accuracy=accuracy, **arguments)
        assert calibrator.fit(z, **arguments).calibration_ == expected
    expected = tepid.calibrate(z, y, sample_weight=weight, **arguments)
    found = TemperatureCalibrator().fit(z, y, weight, **arguments).calibration_
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    assert found.evidence.keys() == expected.evidence.keys()


@quietly
def test_a_row_of_weight_zero_may_have_any_label_and_answer(network):
    z, y = network
    weight = np.arange(len(z)) % 3
    odd = np.where(weight > 0, y, 77)
    arguments = {"models": [_rival(z)], "reference": odd}
    found = TemperatureCalibrator().fit(z, odd, weight, **arguments).calibration_
    kept = weight > 0
    expected = TemperatureCalibrator().fit(
        z[kept], y[kept], weight[kept], models=[_rival(z)[kept]], reference=y[kept]
    )
    assert found == expected.calibration_


@quietly
@pytest.mark.parametrize("unknown", [-1, None, np.nan, -1.0])
def test_labels_may_be_unknown(network, unknown):
    z, y = network
    expected = tepid.calibrate(z, _some(y).astype(int))
    found = TemperatureCalibrator().fit(z, _some(y, unknown=unknown))
    assert found.calibration_ == expected
    assert found.classes_.tolist() == list(range(12))
    listed = TemperatureCalibrator().fit(z, _some(y, unknown=unknown).tolist())
    assert listed.calibration_ == expected
    with pytest.raises(tepid.InputError, match="known for at least one row, got none"):
        TemperatureCalibrator().fit(z, [unknown] * len(z))


@quietly
def test_unknown_labels_may_come_from_tables(network):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    polars = pytest.importorskip("polars", reason="polars is not installed")
    z, y = network
    expected = tepid.calibrate(z, _some(y).astype(int))
    known = _some(y, unknown=None).tolist()
    for labels in (
        pandas.Series(known, dtype="Int64"),
        pandas.Series(known, dtype=float),
        pandas.Series(known).astype("category"),
        polars.Series(known),
    ):
        assert TemperatureCalibrator().fit(z, labels).calibration_ == expected


@quietly
def test_minus_one_is_a_class_where_it_is_one(rng):
    z = 3 * rng.normal(size=(2000, 1))
    y = np.where(z[:, 0] + rng.logistic(size=2000) > 0, 1, -1)
    expected = tepid.calibrate(z, (y > 0).astype(int))
    assert TemperatureCalibrator(classes=[-1, 1]).fit(z, y).calibration_ == expected
    with pytest.raises(tepid.InputError, match=r"such as classes=\[-1, 1\]; without them -1 is"):
        TemperatureCalibrator().fit(z, y)
    part = np.where(np.arange(2000) < 100, y, np.nan)
    expected = tepid.calibrate(z, np.where(np.arange(2000) < 100, y > 0, -1))
    assert TemperatureCalibrator(classes=[-1, 1]).fit(z, part).calibration_ == expected
    judged = TemperatureCalibrator(classes=[-1, 1]).fit(z, reference=part).calibration_
    classes = np.where(np.arange(2000) < 100, y > 0, -1)
    assert judged == tepid.calibrate(z, reference=classes)


@quietly
def test_labels_may_be_words(network):
    z, y = network[0][:, :4], network[0][:, :4].argmax(axis=1)
    y[::5] = (y[::5] + 1) % 4
    order = ["yellow", "blue", "red", "green"]
    named = TemperatureCalibrator(classes=order).fit(z, _worded(y))
    assert named.calibration_ == tepid.calibrate(z, y)
    assert named.classes_.tolist() == order
    alphabetical = z[:, np.argsort(order)]
    found = TemperatureCalibrator().fit(alphabetical, _worded(y))
    assert found.classes_.tolist() == sorted(order)
    close = apart(found.calibration_, named.calibration_)
    assert found.temperature_ == pytest.approx(named.temperature_, rel=close)
    # The loss is flat where it is least: a T that far off changes no digit of it.
    assert found.score(alphabetical, _worded(y)) == pytest.approx(
        -tepid.metrics.nll(y, named.transform(z))
    )
    some = [*_worded(y[:80]), *[None] * (len(y) - 80)]
    unknown = TemperatureCalibrator(classes=order).fit(z, some, reference=_worded(y))
    positions = np.where(np.arange(len(y)) < 80, y, -1)
    assert unknown.calibration_ == tepid.calibrate(z, positions, reference=y)
    half = [*_worded(y[:80]), *[float("nan")] * (len(y) - 80)]
    assert TemperatureCalibrator(classes=order).fit(z, half).calibration_ == tepid.calibrate(
        z, positions
    )


@quietly
def test_absent_labels_do_not_shift_the_columns():
    z = np.eye(3)[[0, 1, 1, 2]] + 0.5 * np.eye(3)[[1, 1, 2, 2]]
    for labels in ([1, 3, 3, 1], ["a", "b", "b", "a"], [1, None, 3, -1]):
        with pytest.raises(tepid.InputError, match=r"y has all 3 classes, got 2 in y"):
            TemperatureCalibrator().fit(z, labels)
    for labels in ([1, 2, 3, 2], [1.0, 2.0, 3.0, 2.0]):
        fitted = TemperatureCalibrator().fit(z, labels)
        assert fitted.classes_.tolist() == [1, 2, 3]
        assert fitted.calibration_ == tepid.calibrate(z, [0, 1, 2, 1])
    fitted = TemperatureCalibrator(classes=[1, 2, 3]).fit(z, [1, 2, 1, 2])
    assert fitted.calibration_ == tepid.calibrate(z, [0, 1, 0, 1])


@quietly
def test_a_reference_of_one_number_per_row_is_a_logit_or_a_label(rng):
    z = 3 * rng.normal(size=2000)
    answer = z + rng.normal(size=2000)
    labels = (answer > 0).astype(int)
    for reference, expected in (
        (answer, tepid.calibrate(z, reference=answer)),
        (answer[:, None], tepid.calibrate(z, reference=answer)),
        (labels, tepid.calibrate(z, reference=labels)),
        (labels.astype(float), tepid.calibrate(z, reference=labels)),
    ):
        found = TemperatureCalibrator().fit(z[:, None], reference=reference).calibration_
        assert found.value == pytest.approx(expected.value, rel=1e-9)


@quietly
def test_one_column_is_the_binary_logit_of_class_one(rng):
    z = 3 * rng.normal(size=(2000, 1))
    calibrator = TemperatureCalibrator().fit(z)
    p = calibrator.predict_proba(z)
    assert calibrator.classes_.tolist() == [0, 1]
    assert calibrator.n_features_in_ == 1
    np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-z[:, 0] / calibrator.temperature_)))
    assert calibrator.get_feature_names_out().tolist() == ["probability_0", "probability_1"]


def test_a_masked_class_is_legal_and_other_infinities_are_refused_by_row(network):
    z = network[0].copy()
    z[:, 3] = -np.inf
    p = TemperatureCalibrator().fit(z).predict_proba(z)
    assert not p[:, 3].any()
    for wrong, got in ((np.nan, "nan"), (np.inf, "inf")):
        bad = network[0].copy()
        bad[17, 2] = wrong
        with pytest.raises(tepid.InputError, match=f"got {got} for class 2 at row 17"):
            TemperatureCalibrator().fit(bad)


@pytest.mark.parametrize(
    ("parameters", "arguments", "sentence"),
    [
        ({"accuracy": 1.2}, {}, r"accuracy must be in \[0, 1\], got 1.2"),
        ({"classes": ["a", "b"]}, {}, "classes must name the 3 classes of the logits, got 2 names"),
        ({"classes": ["a", "b", "a"]}, {}, "classes must have different names, got 'a' twice"),
        ({}, {"y": [0, 1, 2]}, "y must have one entry for each of the 4 rows, got 3"),
        ({}, {"y": np.zeros((4, 2))}, "y must be one column of labels, got"),
        ({}, {"y": [0, 1, "a", 2]}, "y must be labels of one kind, got text and numbers"),
        ({}, {"y": [0, [1], 1, 2]}, "labels must be text or numbers, got lists"),
        ({"classes": [0, 1, 2]}, {"y": [0, 1, 7, 2]}, "of the classes 0, 1, 2, got 7 at row 2"),
        ({}, {"y": [-1, None, np.nan, -1]}, "must be known for at least one row, got none"),
        (
            {},
            {"labeled": (np.eye(3), ["a", "b", "c"])},
            "labels of labeled must be one of the classes 0, 1, 2, got 'a'",
        ),
        ({}, {"labeled": np.eye(3)}, "labeled must be a pair of rows and labels, got ndarray"),
        ({}, {"labeled": (np.eye(3), [0, 1])}, "labels of labeled must have one entry for each"),
        ({}, {"source": (np.eye(2), [0, 1])}, "X has 2 features, but TemperatureCalibrator"),
        ({}, {"models": np.eye(4, 3)}, "models must be a list of models, got ndarray"),
        ({}, {"models": [np.eye(3)]}, "model 1 must have one entry for each of the 4 rows, got 3"),
        ({}, {"models": [np.eye(4)]}, "model 1 must have the 3 classes of logits, got 4"),
        ({}, {"reference": [0, 1, 2]}, "reference must have one entry for each of the 4 rows"),
        ({}, {"reference": [0, 1, 2, 3]}, "reference must be one of the classes 0, 1, 2, got 3"),
        ({}, {"reference": np.eye(4)}, "reference must have the 3 classes of logits, got 4"),
        ({}, {"sample_weight": [1, 1, -1, 1]}, "sample_weight must be zero or in"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_sentence(parameters, arguments, sentence):
    z = np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 3], [1, 1, 0]])
    with pytest.raises(ValueError, match=sentence):
        TemperatureCalibrator(**parameters).fit(z, **arguments)


@quietly
def test_a_search_finds_the_accuracy_of_the_highest_likelihood(network):
    z, y = network
    score = TemperatureCalibrator(accuracy=0.7).fit(z[:2000]).score(z[2000:], y[2000:])
    p = tepid.calibrate(z[:2000], accuracy=0.7)(z[2000:])
    assert score == pytest.approx(-tepid.metrics.nll(y[2000:], p))
    fixed = {a: TemperatureCalibrator(accuracy=a).fit(z[:2000]) for a in (0.5, 0.65, 0.95)}
    scores = {a: each.score(z[2000:], y[2000:]) for a, each in fixed.items()}
    assert max(scores, key=scores.get) == 0.65
    # In a search y is evidence, which outweighs an accuracy.
    search = GridSearchCV(TemperatureCalibrator(), {"accuracy": [None, 0.65]}, cv=2).fit(z, y)
    assert search.best_estimator_.temperature_ == pytest.approx(2, rel=0.05)


@quietly
def test_probabilities_come_in_the_container_that_is_asked_for(network):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    z = network[0][:, :3]
    calibrator = TemperatureCalibrator(classes=["a", "b", "c"]).set_output(transform="polars")
    table = calibrator.fit(z).transform(z)
    assert isinstance(table, polars.DataFrame)
    assert table.columns == ["probability_a", "probability_b", "probability_c"]


@quietly
def test_tables_keep_their_names_and_others_are_refused(network):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas.DataFrame(network[0][:, :3], columns=["a", "b", "c"])
    calibrator = TemperatureCalibrator(accuracy=0.7).set_output(transform="pandas").fit(table)
    assert calibrator.feature_names_in_.tolist() == ["a", "b", "c"]
    out = calibrator.transform(table)
    assert out.columns.tolist() == ["probability_0", "probability_1", "probability_2"]
    expected = tepid.calibrate(table.to_numpy(), accuracy=0.7)
    np.testing.assert_allclose(out, expected(table.to_numpy()))
    with pytest.raises(ValueError, match="feature names should match"):
        calibrator.transform(table[["b", "a", "c"]])


# --- the calibrated classifier


def _scikit_learn(estimator, X, y):
    scaled = CalibratedClassifierCV(FrozenEstimator(estimator), method="temperature").fit(X, y)
    return scaled, float(scaled.calibrated_classifiers_[0].calibrators[0].beta_)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), GaussianNB(), LinearSVC(), RandomForestClassifier(30)]
)
def test_with_labels_it_agrees_with_scikit_learn(estimator, k):
    X, y = _rows(k, n=2000)
    estimator = clone(estimator).set_params(**_seeded(estimator)).fit(X[:800], y[:800])
    ours = CalibratedClassifier(estimator).fit(X[800:], y[800:])
    theirs, beta = _scikit_learn(estimator, X[800:], y[800:])
    # Their binary decision z is the pair (-z, z), ours is (0, z), as in logistic regression.
    halves = 2 if k == 2 and ours.response_ == "decision_function" else 1
    found = 1 / (halves * beta)
    low, high = ours.calibration_.interval
    # The logits themselves count as some labels.
    assert abs(np.log(ours.temperature_ / found)) < 0.2 * np.log(high / low)
    exact = tepid.Temperature(found, "labels", samples=1200, classes=k, implied_accuracy=0.5)
    if ours.response_ == "decision_function":
        z = estimator.decision_function(X[800:])
    else:
        z = np.log(estimator.predict_proba(X[800:]) + 1e-12)
    np.testing.assert_allclose(exact(z), theirs.predict_proba(X[800:]), rtol=1e-3, atol=1e-6)


def _seeded(estimator):
    return {"random_state": 0} if "random_state" in estimator.get_params() else {}


def test_logistic_regression_is_at_one_on_its_own_rows():
    X, y = _rows(2)
    trained = LogisticRegression(C=1e6, max_iter=1000).fit(X, y)
    fitted = CalibratedClassifier(trained).fit(X, y)
    assert fitted.temperature_ == pytest.approx(1, abs=0.05)


@quietly
@pytest.mark.parametrize("parameters", [{}, {"accuracy": 0.7}])
def test_predictions_and_their_order_stay_as_they_were(trained, parameters):
    estimator, X, y = trained
    fitted = CalibratedClassifier(estimator, **parameters).fit(X)
    p = fitted.predict_proba(X)
    np.testing.assert_array_equal(fitted.predict(X), estimator.predict(X))
    np.testing.assert_array_equal(fitted.classes_[p.argmax(axis=1)], estimator.predict(X))
    assert fitted.score(X, y) == estimator.score(X, y)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    if len(fitted.classes_) == 2:
        before = roc_auc_score(y, estimator.predict_proba(X)[:, 1])
        assert roc_auc_score(y, p[:, 1]) == pytest.approx(before, abs=1e-6)


def test_a_known_accuracy_calibrates_it_without_labels(trained):
    estimator, X, y = trained
    fitted = CalibratedClassifier(estimator, accuracy=estimator.score(X, y)).fit(X)
    before, after = (
        tepid.metrics.ece(y, p) for p in (estimator.predict_proba(X), fitted.predict_proba(X))
    )
    assert fitted.temperature_ > 1.5
    assert after < before / 3


@pytest.mark.slow
@quietly
def test_it_is_the_method_on_the_logits_of_the_classifier(trained):
    estimator, X, y = trained
    z = np.log(estimator.predict_proba(X) + 1e-12)
    weight = np.arange(len(X)) % 4
    other = LogisticRegression(max_iter=500).fit(X[:500], y[:500])
    peer = _decisions(other, X)
    part = np.where(np.arange(len(y)) < 60, y, -1)
    labeled, source = slice(0, 40), slice(100, 900)
    cases = [
        ({}, {}),
        ({"y": y}, {"labels": y}),
        ({"y": part}, {"labels": part}),
        ({"y": np.where(part < 0, np.nan, part)}, {"labels": part}),
        ({"labeled": (X[labeled], y[labeled])}, {"labeled": (z[labeled], y[labeled])}),
        ({"source": (X[source], y[source])}, {"source": (z[source], y[source])}),
        ({"models": [other]}, {"models": [peer]}),
        ({"models": [peer, other]}, {"models": [peer, peer]}),
        ({"reference": other}, {"reference": peer}),
        ({"reference": peer}, {"reference": peer}),
        ({"reference": part}, {"reference": part}),
        (
            {"y": part, "models": [other], "reference": y, "sample_weight": 1 + weight},
            {"labels": part, "models": [peer], "reference": y, "sample_weight": 1 + weight},
        ),
    ]
    for arguments, same in cases:
        for accuracy in (None, 0.6):
            fitted = CalibratedClassifier(estimator, accuracy=accuracy).fit(X, **arguments)
            expected = tepid.calibrate(z, accuracy=accuracy, **same)
            assert fitted.calibration_.value == pytest.approx(expected.value, rel=1e-9)
            assert fitted.calibration_.evidence.keys() == expected.evidence.keys()
            assert (fitted.response_, fitted.n_features_in_) == ("predict_proba", X.shape[1])


def _decisions(estimator, X):
    """The logits (n, k) of a logistic regression."""
    z = estimator.decision_function(X)
    return np.stack([0 * z, z], axis=1) if z.ndim == 1 else z


@quietly
def test_other_classifiers_may_have_their_classes_in_any_order(trained):
    estimator, X, y = trained

    class Backwards(_WithoutNames):
        def __init__(self, inner):
            self.inner, self.classes_ = inner, inner.classes_[::-1]

        def predict_proba(self, X):
            return self.inner.predict_proba(X)[:, ::-1]

        def predict(self, X):
            return self.inner.predict(X)

    other = GaussianNB().fit(X[:300, :], y[:300])
    for kind in ("models", "reference"):
        one, two = (
            CalibratedClassifier(estimator).fit(X, **{kind: [m] if kind == "models" else m})
            for m in (other, Backwards(other))
        )
        assert one.temperature_ == pytest.approx(two.temperature_, rel=1e-9)
        assert one.calibration_.evidence.keys() == {"logits", kind}


@quietly
def test_a_reference_without_probabilities_names_classes_alone(trained):
    estimator, X, y = trained
    machine = LinearSVC(random_state=0).fit(X[:800], y[:800])
    one = CalibratedClassifier(estimator).fit(X, reference=machine)
    two = CalibratedClassifier(estimator).fit(X, reference=machine.predict(X))
    assert one.calibration_ == two.calibration_


def test_minus_one_is_a_class_of_a_classifier_that_was_trained_on_it(trained):
    _, X, y = trained
    signs = np.where(y > 0, 1, -1)
    estimator = GaussianNB().fit(X[:1000], signs[:1000])
    one = CalibratedClassifier(estimator).fit(X, signs)
    two = CalibratedClassifier(GaussianNB().fit(X[:1000], y[:1000] > 0)).fit(X, y > 0)
    assert one.calibration_ == two.calibration_
    some = [*signs[:200], *[None] * (len(y) - 200)]
    few = CalibratedClassifier(estimator).fit(X, some).calibration_
    assert few.evidence["labels"].weight < one.calibration_.evidence["labels"].weight


def test_evidence_that_does_not_fit_the_classifier_is_refused(trained):
    estimator, X, y = trained
    other = GaussianNB().fit(X, y + 5)
    cases = [
        ({"models": [GaussianNB()]}, "model 1 must be fitted, got GaussianNB"),
        (
            {"models": [other]},
            "model 1 must have the classes of the estimator, got GaussianNB of 5",
        ),
        ({"models": estimator}, "models must be a list of models, got GaussianNB"),
        ({"models": [estimator.predict_proba(X)[1:]]}, "model 1 must have one entry for each of"),
        ({"reference": other}, "reference must have the classes of the estimator"),
        ({"reference": y[1:]}, "reference must have one entry for each of the 3000 rows, got 2999"),
        ({"reference": y + 5}, "reference must be one of the classes 0, 1"),
        ({"y": y[1:]}, "y must have one entry for each of the 3000 rows, got 2999"),
        ({"labeled": X}, "labeled must be a pair of rows and labels, got ndarray"),
        ({"source": (X, y[1:])}, "labels of source must have one entry for each of the 3000 rows"),
    ]
    for arguments, sentence in cases:
        with pytest.raises(tepid.InputError, match=sentence):
            CalibratedClassifier(estimator).fit(X, **arguments)


@quietly
def test_classes_may_be_words():
    X, y = _rows(4)
    numbered = GaussianNB().fit(X[:1000], y[:1000])
    worded = GaussianNB().fit(X[:1000], _worded(y[:1000]))
    one = CalibratedClassifier(numbered).fit(X[1000:], y[1000:])
    two = CalibratedClassifier(worded).fit(X[1000:], _worded(y[1000:]))
    close = apart(one.calibration_, two.calibration_)
    assert two.temperature_ == pytest.approx(one.temperature_, rel=close)
    assert two.classes_.tolist() == ["blue", "green", "red", "yellow"]
    assert set(two.predict(X)) <= set(two.classes_)
    pair = (X[1000:1060], _worded(y[1000:1060]))
    labeled = CalibratedClassifier(worded).fit(X, labeled=pair)
    assert labeled.calibration_.evidence.keys() == {"logits", "labels"}
    with pytest.raises(tepid.InputError, match=r"y must be one of the classes blue, .* got 'pink'"):
        CalibratedClassifier(worded).fit(X[:2], ["red", "pink"])


@quietly
def test_anything_with_probabilities_and_classes_will_do(rng):
    X = 4 * rng.normal(size=(1500, 1))
    fitted = CalibratedClassifier(_WithoutNames(), accuracy=0.7).fit(X)
    expected = tepid.calibrate(X, accuracy=0.7)
    assert fitted.temperature_ == pytest.approx(expected.value, rel=1e-4)
    assert not hasattr(fitted, "n_features_in_")
    assert fitted.predict(X[:2]).dtype.kind == "U"


@quietly
def test_decisions_are_taken_where_they_are_the_logits_of_the_probabilities():
    X, y = _rows(3, n=600)
    logistic = LogisticRegression(max_iter=500).fit(X, y)
    assert CalibratedClassifier(logistic).fit(X).response_ == "decision_function"
    boosted = AdaBoostClassifier(n_estimators=5).fit(X, y)  # divides its decisions by k - 1
    fitted = CalibratedClassifier(boosted, accuracy=0.6).fit(X)
    assert fitted.response_ == "predict_proba"
    wide = 1e3 * X  # probabilities are 0 and 1 here, decisions still differ
    saturated = CalibratedClassifier(logistic, accuracy=0.6).fit(wide)
    assert saturated.calibration_ == tepid.calibrate(logistic.decision_function(wide), accuracy=0.6)


def test_decisions_of_one_class_against_one_are_refused():
    sentences = {
        4: "one column for each of 4 classes, got 6, one for each pair",
        3: "must be highest for the predicted class, got another class on",
    }
    for k, sentence in sentences.items():
        X, y = _rows(k, n=300)
        votes = SVC(decision_function_shape="ovo").fit(X, y)
        with pytest.raises(tepid.InputError, match=sentence):
            CalibratedClassifier(votes, accuracy=0.8).fit(X)
        CalibratedClassifier(votes.set_params(decision_function_shape="ovr"), accuracy=0.8).fit(X)


@quietly
def test_a_class_that_no_tree_votes_for_is_not_impossible():
    X, y = _rows(2, n=600)
    forest = RandomForestClassifier(5, random_state=0).fit(X[:300], y[:300])
    assert (forest.predict_proba(X) == 0).any()
    p = CalibratedClassifier(forest, accuracy=0.8).fit(X).predict_proba(X)
    assert (p > 0).all()


@quietly
def test_an_estimator_that_is_fitted_is_used_as_it_is(trained):
    estimator, X, y = trained
    before = pickle.dumps(estimator)
    assert CalibratedClassifier(estimator).fit(X, y).estimator_ is estimator
    assert pickle.dumps(estimator) == before
    frozen = CalibratedClassifier(FrozenEstimator(estimator)).fit(X)
    plain = CalibratedClassifier(estimator).fit(X)
    assert frozen.temperature_ == plain.temperature_
    again = clone(frozen).fit(X)
    np.testing.assert_array_equal(again.predict_proba(X), plain.predict_proba(X))


def test_an_estimator_that_is_not_fitted_is_trained_first_and_that_is_said(trained):
    _, X, y = trained
    untrained = GaussianNB()
    with pytest.warns(CalibrationWarning, match="trained on the rows that T was fitted to"):
        CalibratedClassifier(untrained, accuracy=0.8).fit(X, y)
    assert not hasattr(untrained, "classes_")
    with pytest.warns(CalibrationWarning, match="trained on the rows that T was fitted to"):
        fitted = CalibratedClassifier(untrained, accuracy=0.8).fit(X, y, np.arange(len(X)) % 2)
    assert not hasattr(untrained, "classes_")
    every_second = GaussianNB().fit(X[1::2], y[1::2])
    np.testing.assert_allclose(fitted.estimator_.theta_, every_second.theta_)
    alone = CalibratedClassifier(fitted.estimator_, accuracy=0.8).fit(
        X, None, np.arange(len(X)) % 2
    )
    assert fitted.calibration_ == alone.calibration_  # the labels are no evidence
    some = np.where(np.arange(len(y)) == 7, np.nan, y)
    with pytest.raises(tepid.InputError, match="y must be known in every row where GaussianNB is"):
        CalibratedClassifier(untrained).fit(X, some)
    with pytest.raises(tepid.InputError, match="estimator must be fitted, got GaussianNB"):
        CalibratedClassifier(untrained).fit(X)
    with pytest.raises(tepid.InputError, match="sample_weight must be left out, got one and Pipe"):
        CalibratedClassifier(make_pipeline(untrained)).fit(X, y, np.ones(len(X)))


@quietly
def test_it_goes_through_pipelines_searches_and_pickles(trained):
    estimator, X, y = trained
    scaled = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    right = scaled.score(X, y)
    wrapped = CalibratedClassifier(FrozenEstimator(scaled), accuracy=right).fit(X)
    assert wrapped.predict_proba(X).max(axis=1).mean() == pytest.approx(right, abs=0.02)
    search = GridSearchCV(
        CalibratedClassifier(FrozenEstimator(estimator)),
        {"accuracy": [(0.999999, 1e-6), None]},
        scoring="neg_log_loss",
        cv=2,
    ).fit(X, y)
    assert search.best_params_ == {"accuracy": None}
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))
    assert again.calibration_ == search.best_estimator_.calibration_
    last = make_pipeline(StandardScaler(), CalibratedClassifier(GaussianNB(), accuracy=0.8))
    assert last.fit(X, y)[-1].calibration_.evidence.keys() == {"logits", "accuracy"}


def test_names_of_features_are_those_of_the_classifier_and_others_are_refused(trained):
    estimator, X, y = trained
    named = GaussianNB().fit(X, y)
    named.feature_names_in_ = np.array([f"column {i}" for i in range(X.shape[1])], object)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        fitted = CalibratedClassifier(named, accuracy=0.8).fit(X)
    np.testing.assert_array_equal(fitted.feature_names_in_, named.feature_names_in_)
    fitted = CalibratedClassifier(estimator, accuracy=0.8).fit(X)
    assert not hasattr(fitted, "feature_names_in_")
    with pytest.raises(ValueError, match="X has 3 features, but GaussianNB is expecting 20"):
        fitted.predict_proba(X[:, :3])


@pytest.mark.parametrize(
    ("estimator", "sentence"),
    [
        (GaussianNB, "estimator must be a classifier, got the class GaussianNB"),
        (LinearRegression().fit(np.eye(3), [0, 1, 2]), "two classes or more, got LinearRegression"),
        (DummyClassifier().fit(np.eye(3), [1, 1, 1]), "got DummyClassifier with one class"),
        (object(), "two classes or more, got object with classes_ of None"),
    ],
)
def test_what_is_no_classifier_is_refused(estimator, sentence):
    with pytest.raises(tepid.InputError, match=sentence):
        CalibratedClassifier(estimator).fit(np.eye(3))


def test_odd_answers_of_a_classifier_are_refused():
    class Odd(_WithoutNames):
        def __init__(self, p):
            self.p = np.array(p)

        def predict_proba(self, X):
            return self.p[: len(X)]

    class Silent:
        classes_ = np.array([0, 1])

    for wrong, sentence in (
        ([[0.5, 0.6], [0.5, 0.5]], "predict_proba must sum to one over the classes, got a sum of"),
        ([[0.5, 0.5], [np.nan, 0.5]], "predict_proba must be in .* got nan for class 0 at row 1"),
        ([[0.2, 0.3, 0.5]] * 2, "predict_proba must have one column for each of 2 classes, got 3"),
    ):
        with pytest.raises(tepid.InputError, match=sentence):
            CalibratedClassifier(Odd(wrong), accuracy=0.8).fit(np.eye(2))
    with pytest.raises(tepid.InputError, match="decision_function or predict_proba, got Silent"):
        CalibratedClassifier(Silent()).fit(np.eye(2))


def test_nothing_is_predicted_before_fitting():
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(CalibratedClassifier(GaussianNB()), method)(np.eye(2))


# --- warnings


def test_a_doubtful_temperature_warns_once_where_fit_was_called(network):
    z, y = network
    calibrator = TemperatureCalibrator(accuracy=(0.99, 0.001))
    with pytest.warns(CalibrationWarning, match=r"T = .* \(calibrate, ok\): T = ") as said:
        fitted = calibrator.fit(z, y)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert all(sentence in str(said[0].message) for sentence in fitted.calibration_.warnings)
    assert fitted.calibration_.tension
    with pytest.warns(CalibrationWarning, match=r"calibrate, weak\): The interval of T is wide"):
        TemperatureCalibrator().fit(z, [y[0], *[-1] * (len(y) - 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator.fit(z, y)


def test_a_status_is_said_even_without_a_sentence():
    bare = {"samples": 5, "classes": 3, "implied_accuracy": 0.5}
    with pytest.warns(CalibrationWarning, match=r"T = 2 \(uts, at-bound\)"):
        warn_unreliable(tepid.Temperature(2.0, "uts", status="at-bound", **bare))
    warn_unreliable(tepid.Temperature(2.0, "uts", **bare))


def test_nothing_is_said_where_nothing_is_doubtful(network, trained):
    estimator, X, _ = trained
    TemperatureCalibrator(accuracy=0.8).fit(network[0])
    TemperatureCalibrator().fit(*network)
    assert TemperatureCalibrator().fit(network[0]).calibration_.verdict == "keep"
    CalibratedClassifier(estimator, accuracy=0.8).fit(X)


def test_decisions_without_probabilities_have_no_scale_of_their_own(trained):
    _, X, y = trained
    machine = LinearSVC().fit(X, y)
    with pytest.warns(CalibrationWarning, match="has no predict_proba. Its decision values"):
        CalibratedClassifier(machine).fit(X)
    CalibratedClassifier(machine, accuracy=0.8).fit(X)
    CalibratedClassifier(machine).fit(X, y)


# --- the optional dependency


def _python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_tepid_reaches_it_by_name_and_only_then_imports_scikit_learn():
    done = _python(
        "import sys, tepid\n"
        "tepid.uts\n"
        "assert 'sklearn' not in sys.modules\n"
        "print(tepid.sklearn.TemperatureCalibrator.__name__, 'sklearn.base' in sys.modules)"
    )
    assert done.stdout.split() == ["TemperatureCalibrator", "True"], done.stderr


def test_without_scikit_learn_a_sentence_says_how_to_get_it():
    done = _python(
        "import sys\n"
        "sys.modules['sklearn'] = None\n"
        "from tepid import *\n"
        "import tepid\n"
        "print(uts.__name__)\n"
        "tepid.sklearn"
    )
    assert done.stdout.strip() == "uts"
    assert done.stderr.strip().splitlines()[-1] == (
        "ImportError: tepid.sklearn needs scikit-learn: pip install 'tepid[sklearn]'"
    )


def test_an_error_that_names_a_row_survives_the_way_between_processes():
    with pytest.raises(tepid.InputError) as caught:
        TemperatureCalibrator().fit([[1.0, np.nan]])
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.row) == (type(caught.value), str(caught.value), 0)
