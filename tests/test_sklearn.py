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
        TemperatureCalibrator(guarded=True),
        CalibratedClassifier(LogisticRegression()),
        CalibratedClassifier(LogisticRegression(), accuracy=0.9),
        CalibratedClassifier(LogisticRegression(), use_labels=True),
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
    calibrator = TemperatureCalibrator(deviations=0.7).fit(z)
    assert calibrator.calibration_ == tepid.uts(z, deviations=0.7)
    assert type(calibrator.temperature_) is float
    np.testing.assert_array_equal(calibrator.transform(z), calibrator.calibration_(z))


@quietly
def test_each_parameter_is_its_evidence(network):
    z, y = network
    weight = np.arange(len(z)) % 3
    cases = [
        ({"deviations": 0.5}, tepid.uts(z, deviations=0.5, sample_weight=weight)),
        ({"guarded": True}, tepid.guarded(z, sample_weight=weight)),
        ({"accuracy": (0.7, 0.8)}, tepid.match_accuracy(z, (0.7, 0.8), sample_weight=weight)),
        ({"use_labels": True}, tepid.temperature_scaling(z, y, sample_weight=weight)),
    ]
    for parameters, expected in cases:
        assert TemperatureCalibrator(**parameters).fit(z, y, weight).calibration_ == expected
    few, source = (z[:50], y[:50]), (z[:2000], y[:2000])
    calibrator = TemperatureCalibrator()
    assert calibrator.fit(z, few=few).calibration_ == tepid.from_few_labels(z, *few)
    assert calibrator.fit(z, source=source).calibration_ == tepid.from_source(z, *source)
    expected = tepid.from_few_labels(z, *few, sample_weight=weight)
    assert calibrator.fit(z, None, weight, few=few).calibration_ == expected
    expected = tepid.from_source(z, *source, sample_weight=weight)
    assert calibrator.fit(z, None, weight, source=source).calibration_ == expected


@quietly
def test_labels_are_not_looked_at_unless_that_is_asked_for(network):
    z, y = network
    free = TemperatureCalibrator().fit(z).temperature_
    assert TemperatureCalibrator().fit(z, y).temperature_ == free
    assert TemperatureCalibrator().fit(z, object()).temperature_ == free
    assert TemperatureCalibrator(use_labels=True).fit(z, y).temperature_ == pytest.approx(2, 0.05)
    with pytest.raises(tepid.InputError, match="y must be given: use_labels requires y"):
        TemperatureCalibrator(use_labels=True).fit(z)


@quietly
def test_labels_may_be_words(network):
    z, y = network[0][:, :4], network[0][:, :4].argmax(axis=1)
    y[::5] = (y[::5] + 1) % 4
    order = ["yellow", "blue", "red", "green"]
    named = TemperatureCalibrator(use_labels=True, classes=order).fit(z, _worded(y))
    assert named.temperature_ == tepid.temperature_scaling(z, y).value
    assert named.classes_.tolist() == order
    alphabetical = z[:, np.argsort(order)]
    found = TemperatureCalibrator(use_labels=True).fit(alphabetical, _worded(y))
    assert found.classes_.tolist() == sorted(order)
    close = apart(found.calibration_, named.calibration_)
    assert found.temperature_ == pytest.approx(named.temperature_, rel=close)
    # The loss is flat where it is least: a T that far off changes no digit of it.
    assert found.score(alphabetical, _worded(y)) == pytest.approx(
        -tepid.metrics.nll(y, named.transform(z))
    )


def test_absent_labels_do_not_shift_the_columns():
    z = np.eye(3)[[0, 1, 1, 2]] + 0.5 * np.eye(3)[[1, 1, 2, 2]]
    with pytest.raises(tepid.InputError, match="classes must be given unless y has all 3 classes"):
        TemperatureCalibrator(use_labels=True).fit(z, [1, 2, 2, 1])
    fitted = TemperatureCalibrator(use_labels=True, classes=[1, 2, 3]).fit(z, [1, 2, 1, 2])
    assert fitted.temperature_ == tepid.temperature_scaling(z, [0, 1, 0, 1]).value


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
    with pytest.warns(CalibrationWarning):
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
        ({"accuracy": 0.9, "guarded": True}, {}, "of one kind, got accuracy and guarded"),
        ({"accuracy": 0.9, "debias": True}, {}, "debias must go with logits alone, got them with"),
        ({"guarded": True, "deviations": 2}, {}, "deviations and debias must go with logits alone"),
        ({"accuracy": 1.2}, {}, r"accuracy must be in \[0, 1\], got 1.2"),
        ({"deviations": -1}, {}, "deviations must be a number in 0 to 1e"),
        ({"classes": ["a", "b"]}, {}, "classes must name each of the 3 columns, got shape"),
        ({"classes": ["a", "b", "a"]}, {}, "classes must be 3 different names, got one twice"),
        ({"use_labels": True}, {"y": [0, 1, 2]}, "y must have one entry for each of the 4 rows"),
        ({"use_labels": True}, {"y": np.zeros((4, 2))}, "y must be one column of labels, got"),
        ({"use_labels": True}, {"y": [0, 1, None, 2]}, "y must be labels of one kind, got several"),
        (
            {"use_labels": True, "classes": [0, 1, 2]},
            {"y": [0, 1, -1, 2]},
            "y must be one of the classes 0, 1, 2, got -1 at row 2",
        ),
        ({}, {"few": (np.eye(3), ["a", "b", "c"])}, "few must be one of the classes 0, 1, 2, got"),
        ({}, {"few": np.eye(3)}, "few must be a pair of rows and labels, got ndarray"),
        ({}, {"source": (np.eye(2), [0, 1])}, "X has 2 features, but TemperatureCalibrator"),
        ({}, {"sample_weight": [1, 1, -1, 1]}, "sample_weight must be zero or in"),
        (
            {"debias": True},
            {"sample_weight": np.ones(4)},
            "sample_weight must be left out with debias",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_sentence(parameters, arguments, sentence):
    z = np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 3], [1, 1, 0]])
    with pytest.raises(ValueError, match=sentence):
        TemperatureCalibrator(**parameters).fit(z, **arguments)


@quietly
def test_the_score_finds_the_deviations_of_the_highest_likelihood(network):
    z, y = network
    search = GridSearchCV(TemperatureCalibrator(), {"deviations": [0.25, 1.0, 4.0]}, cv=2)
    search.fit(z, y)
    halves = [z[:2000], z[2000:]], [y[:2000], y[2000:]]
    expected = []
    for d in (0.25, 1.0, 4.0):
        temperatures = [tepid.uts(part, deviations=d) for part in halves[0]]
        likelihood = [
            -tepid.metrics.nll(labels, t(part))
            for t, part, labels in zip(temperatures, halves[0][::-1], halves[1][::-1], strict=True)
        ]
        expected.append(np.mean(likelihood))
    # Folds are stratified, so that they are about these halves.
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=0.05)
    assert search.best_params_["deviations"] == [0.25, 1.0, 4.0][int(np.argmax(expected))]


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
    calibrator = TemperatureCalibrator().set_output(transform="pandas").fit(table)
    assert calibrator.feature_names_in_.tolist() == ["a", "b", "c"]
    out = calibrator.transform(table)
    assert out.columns.tolist() == ["probability_0", "probability_1", "probability_2"]
    np.testing.assert_allclose(out, tepid.uts(table.to_numpy())(table.to_numpy()))
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
    ours = CalibratedClassifier(estimator, use_labels=True).fit(X[800:], y[800:])
    theirs, beta = _scikit_learn(estimator, X[800:], y[800:])
    # Their binary decision z is the pair (-z, z), ours is (0, z), as in logistic regression.
    halves = 2 if k == 2 and ours.response_ == "decision_function" else 1
    assert ours.temperature_ == pytest.approx(1 / (halves * beta), rel=1e-4)
    np.testing.assert_allclose(
        ours.predict_proba(X[800:]), theirs.predict_proba(X[800:]), rtol=1e-3, atol=1e-6
    )


def _seeded(estimator):
    return {"random_state": 0} if "random_state" in estimator.get_params() else {}


def test_logistic_regression_is_at_one_on_its_own_rows():
    X, y = _rows(2)
    trained = LogisticRegression(C=1e6, max_iter=1000).fit(X, y)
    fitted = CalibratedClassifier(trained, use_labels=True).fit(X, y)
    assert fitted.temperature_ == pytest.approx(1, abs=0.02)


@quietly
@pytest.mark.parametrize("parameters", [{}, {"guarded": True}, {"accuracy": 0.7}, {"debias": True}])
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


@quietly
def test_it_is_the_method_on_the_logits_of_the_classifier(trained):
    estimator, X, y = trained
    z = np.log(estimator.predict_proba(X) + 1e-12)
    weight = np.arange(len(X)) % 4
    cases = [
        ({}, {"sample_weight": weight}, tepid.uts(z, sample_weight=weight)),
        ({"guarded": True}, {}, tepid.guarded(z)),
        ({}, {"few": (X[:40], y[:40])}, tepid.from_few_labels(z, z[:40], y[:40])),
        ({}, {"source": (X[:400], y[:400])}, tepid.from_source(z, z[:400], y[:400])),
    ]
    for parameters, arguments, expected in cases:
        fitted = CalibratedClassifier(estimator, **parameters).fit(X, **arguments)
        assert fitted.calibration_ == expected
        assert (fitted.response_, fitted.n_features_in_) == ("predict_proba", X.shape[1])


@quietly
def test_classes_may_be_words():
    X, y = _rows(4)
    numbered = GaussianNB().fit(X[:1000], y[:1000])
    worded = GaussianNB().fit(X[:1000], _worded(y[:1000]))
    one = CalibratedClassifier(numbered, use_labels=True).fit(X[1000:], y[1000:])
    two = CalibratedClassifier(worded, use_labels=True).fit(X[1000:], _worded(y[1000:]))
    close = apart(one.calibration_, two.calibration_)
    assert two.temperature_ == pytest.approx(one.temperature_, rel=close)
    assert two.classes_.tolist() == ["blue", "green", "red", "yellow"]
    assert set(two.predict(X)) <= set(two.classes_)
    few = CalibratedClassifier(worded).fit(X, few=(X[1000:1060], _worded(y[1000:1060])))
    assert few.calibration_.samples == 60
    with pytest.raises(tepid.InputError, match=r"y must be one of the classes blue, .* got 'pink'"):
        CalibratedClassifier(worded, use_labels=True).fit(X[:2], ["red", "pink"])


@quietly
def test_anything_with_probabilities_and_classes_will_do(rng):
    X = 4 * rng.normal(size=(1500, 1))
    fitted = CalibratedClassifier(_WithoutNames()).fit(X)
    assert fitted.temperature_ == pytest.approx(tepid.uts(X).value, rel=1e-4)
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
    assert saturated.predict_proba(wide).max(axis=1).mean() == pytest.approx(0.6, rel=1e-5)


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
    with pytest.warns(CalibrationWarning, match="trained on the rows its temperature was found on"):
        CalibratedClassifier(untrained, accuracy=0.8).fit(X, y)
    assert not hasattr(untrained, "classes_")
    with pytest.warns(CalibrationWarning, match="trained on the rows its temperature was found on"):
        fitted = CalibratedClassifier(untrained, accuracy=0.8).fit(X, y, np.arange(len(X)) % 2)
    assert not hasattr(untrained, "classes_")
    every_second = GaussianNB().fit(X[1::2], y[1::2])
    np.testing.assert_allclose(fitted.estimator_.theta_, every_second.theta_)
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
    # Confidence changes by less than log T does.
    close = wrapped.calibration_.precision
    assert wrapped.predict_proba(X).max(axis=1).mean() == pytest.approx(right, abs=close)
    search = GridSearchCV(
        CalibratedClassifier(FrozenEstimator(estimator)),
        {"accuracy": [0.999, estimator.score(X, y), 0.999999]},
        scoring="neg_log_loss",
        cv=2,
    ).fit(X, y)
    assert search.best_params_ == {"accuracy": estimator.score(X, y)}
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))
    assert again.calibration_ == search.best_estimator_.calibration_
    last = make_pipeline(StandardScaler(), CalibratedClassifier(GaussianNB(), accuracy=0.8))
    assert last.fit(X, y)[-1].calibration_.method == "accuracy"


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
    with pytest.warns(CalibrationWarning, match=r"T = .* \(uts, ok\): The mean confidence") as said:
        fitted = TemperatureCalibrator().fit(network[0])
    assert len(said) == 1
    assert said[0].filename == __file__
    assert all(sentence in str(said[0].message) for sentence in fitted.calibration_.warnings)
    with pytest.warns(CalibrationWarning, match=r"not-identified\): Every row's logits are equal"):
        TemperatureCalibrator(accuracy=0.9).fit(np.zeros((5, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        TemperatureCalibrator().fit(network[0])


def test_a_status_is_said_even_without_a_sentence():
    bare = {"samples": 5, "classes": 3, "implied_accuracy": 0.5}
    with pytest.warns(CalibrationWarning, match=r"T = 2 \(uts, at-bound\)"):
        warn_unreliable(tepid.Temperature(2.0, "uts", status="at-bound", **bare))
    warn_unreliable(tepid.Temperature(2.0, "uts", **bare))


def test_nothing_is_said_where_nothing_is_doubtful(network, trained):
    estimator, X, _ = trained
    TemperatureCalibrator(accuracy=0.8).fit(network[0])
    TemperatureCalibrator(use_labels=True).fit(*network)
    CalibratedClassifier(estimator, accuracy=0.8).fit(X)


def test_decisions_without_probabilities_have_no_scale_of_their_own(trained):
    _, X, y = trained
    machine = LinearSVC().fit(X, y)
    for parameters in ({}, {"guarded": True}):
        with pytest.warns(CalibrationWarning, match="has no predict_proba, so that T = 1"):
            CalibratedClassifier(machine, **parameters).fit(X)
    CalibratedClassifier(machine, accuracy=0.8).fit(X)


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
