"""Boosted trees of XGBoost and LightGBM in `tepid.sklearn.CalibratedClassifier`."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import tepid
from tepid.sklearn import CalibratedClassifier, CalibrationWarning
from tests.needs import needed

pytestmark = pytest.mark.slow
quietly = pytest.mark.filterwarnings("ignore::tepid.sklearn.CalibrationWarning")

xgboost = needed("xgboost")
lightgbm = needed("lightgbm")


def _rows(k, n=2000):
    return make_classification(
        n, n_informative=6, n_redundant=8, n_classes=k, flip_y=0.05, random_state=0
    )


def _xgb(**options):
    return xgboost.XGBClassifier(**{"n_estimators": 5, "n_jobs": 1} | options)


def _lgb(**options):
    return lightgbm.LGBMClassifier(**{"n_estimators": 5, "n_jobs": 1, "verbose": -1} | options)


def _margins(model, X):
    """What the package itself calls the margins of a classifier."""
    if isinstance(model, xgboost.XGBModel):
        return model.predict(X, output_margin=True)
    return model.predict(X, raw_score=True)


def _booster(model):
    return model.get_booster() if isinstance(model, xgboost.XGBModel) else model.booster_


def _named(model):
    """What was chosen about a model, as the name of a test."""
    plain = (_xgb() if isinstance(model, xgboost.XGBModel) else _lgb()).get_params()
    return "-".join(f"{k}={v}" for k, v in model.get_params().items() if plain.get(k) != v)


@pytest.fixture(scope="module", params=[(make, k) for make in (_xgb, _lgb) for k in (2, 4)])
def trained(request):
    """A classifier that is too sure, and rows that it has not seen: (classifier, X, y)."""
    make, k = request.param
    X, y = _rows(k)
    return make(n_estimators=60).fit(X[:500], y[:500]), X[500:], y[500:]


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize(
    "model",
    [
        _xgb(),
        _xgb(booster="dart"),
        _xgb(booster="gblinear"),
        _xgb(num_parallel_tree=3, subsample=0.5),
        _xgb(base_score=0.3),
        _lgb(),
        _lgb(boosting_type="dart"),
        _lgb(boosting_type="rf", subsample=0.5, subsample_freq=1),
        _lgb(boosting_type="rf", subsample=0.5, subsample_freq=1, sigmoid=0.5),
        _lgb(sigmoid=2.5),
    ],
    ids=_named,
)
def test_at_one_the_softmax_of_the_margins_is_what_the_model_claims(model, k):
    X, y = _rows(k, 600)
    _check_claims(clone(model).fit(X, y), X)


def test_the_same_holds_for_objectives_of_two_classes_or_of_several():
    two, four = _rows(2, 600), _rows(4, 600)
    for model in (_xgb(objective="reg:logistic"), _lgb(objective="cross_entropy")):
        _check_claims(model.fit(*two), two[0])
    _check_claims(_xgb(objective="multi:softmax").fit(*four), four[0])


def _check_claims(model, X):
    for each in (model, _booster(model)):
        fitted = CalibratedClassifier(each).fit(X)
        assert fitted.temperature_ == 1
        np.testing.assert_allclose(fitted.predict_proba(X), model.predict_proba(X), atol=1e-6)
        np.testing.assert_array_equal(fitted.predict(X), model.predict(X))


@quietly
def test_it_is_the_method_on_the_margins(trained):
    model, X, y = trained
    z = _margins(model, X)
    part = np.where(np.arange(len(y)) < 60, y, -1)
    other = LogisticRegression(max_iter=500).fit(X[:500], y[:500])
    peer = other.decision_function(X)
    few, old = slice(0, 40), slice(100, 900)
    cases = [
        ({}, {}),
        ({"y": part}, {"labels": part}),
        ({"labeled": (X[few], y[few])}, {"labeled": (z[few], y[few])}),
        ({"source": (X[old], y[old])}, {"source": (z[old], y[old])}),
        ({"models": [other]}, {"models": [peer]}),
        ({"reference": other}, {"reference": peer}),
        ({"y": part, "sample_weight": 1 + y}, {"labels": part, "sample_weight": 1 + y}),
    ]
    for arguments, same in cases:
        for accuracy in (None, (0.8, 0.02)):
            for each in (model, _booster(model)):
                fitted = CalibratedClassifier(each, accuracy=accuracy).fit(X, **arguments)
                expected = tepid.calibrate(z, accuracy=accuracy, **same)
                assert fitted.temperature_ == pytest.approx(expected.value, rel=1e-9)
                assert fitted.calibration_.evidence.keys() == expected.evidence.keys()
                assert fitted.n_features_in_ == X.shape[1]


@quietly
def test_trees_may_be_the_other_model(trained):
    model, X, y = trained
    z = _margins(model, X)
    estimator = LogisticRegression(max_iter=500).fit(X[:500], y[:500])
    for each in (model, _booster(model)):
        for arguments, same in (
            ({"models": [each]}, {"models": [z]}),
            ({"reference": each}, {"reference": z}),
        ):
            fitted = CalibratedClassifier(estimator).fit(X, **arguments)
            expected = tepid.calibrate(estimator.decision_function(X), **same)
            assert fitted.temperature_ == pytest.approx(expected.value, rel=1e-6)
    with pytest.raises(tepid.InputError, match="models must be a list of models, got Booster"):
        CalibratedClassifier(estimator).fit(X, models=_booster(model))


def test_labels_calibrate_them(trained):
    model, X, y = trained
    fitted = CalibratedClassifier(model).fit(X[:700], y[:700])
    before, after = (
        tepid.metrics.ece(y[700:], each.predict_proba(X[700:])) for each in (model, fitted)
    )
    assert fitted.temperature_ > 1.2
    assert after < 0.8 * before


@quietly
def test_rows_on_which_a_float_is_one_are_kept_apart():
    X, y = _rows(2, 600)
    steep = {"learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0}
    model = _xgb(n_estimators=40, **steep).fit(X, y)
    sure = model.predict_proba(X)[:, 1] == 1
    assert sure.sum() > 100
    p = CalibratedClassifier(model, accuracy=0.8).fit(X).predict_proba(X)[sure]
    z = model.predict(X, output_margin=True)[sure]
    assert len(np.unique(p[:, 1])) == len(np.unique(z)) > 100


@quietly
def test_a_booster_stops_where_its_classifier_does():
    X, y = _rows(2)
    one = _xgb(n_estimators=200, early_stopping_rounds=3)
    one.fit(X[:500], y[:500], eval_set=[(X[500:900], y[500:900])], verbose=False)
    data = lightgbm.Dataset(X[:500], y[:500], free_raw_data=False)
    two = lightgbm.train(
        {"objective": "binary", "verbose": -1},
        data,
        200,
        [data.create_valid(X[500:900], y[500:900])],
        callbacks=[lightgbm.early_stopping(3, verbose=False)],
        keep_training_booster=True,
    )
    assert one.get_booster().num_boosted_rounds() > one.best_iteration + 1
    assert two.num_trees() > two.best_iteration
    for model, z in (
        (one.get_booster(), one.predict(X, output_margin=True)),
        (two, two.predict(X, raw_score=True, num_iteration=two.best_iteration)),
    ):
        found = CalibratedClassifier(model, accuracy=0.8).fit(X).calibration_
        assert found == tepid.calibrate(z, accuracy=0.8)


@quietly
def test_rows_may_be_sparse_or_tables(trained):
    sparse = needed("scipy.sparse")
    pandas = needed("pandas")
    model, X, y = trained
    names = [f"column {i}" for i in range(X.shape[1])]
    table = pandas.DataFrame(X, columns=names)
    expected = CalibratedClassifier(model).fit(X, y)
    for each in (model, _booster(model)):
        for rows in (sparse.csr_matrix(X), table):
            found = CalibratedClassifier(each).fit(rows, y)
            assert found.temperature_ == pytest.approx(expected.temperature_, rel=1e-6)
            p = found.predict_proba(rows)
            np.testing.assert_allclose(p, expected.predict_proba(X), atol=1e-6)
    named = clone(model).fit(table, y)
    for each in (named, _booster(named)):
        fitted = CalibratedClassifier(each).fit(table, y)
        # LightGBM has underscores in the place of spaces.
        assert [name.replace("_", " ") for name in fitted.feature_names_in_] == names
    for rows in (X, sparse.csr_matrix(X)):  # without names, by position
        np.testing.assert_allclose(fitted.predict_proba(rows), fitted.predict_proba(table))
    with pytest.raises(tepid.InputError, match=r"in their order, got 'column 19' where 'column.0'"):
        fitted.predict_proba(table[names[::-1]])
    with pytest.raises(tepid.InputError, match=r"X must have the 20 columns .* got 3"):
        fitted.predict_proba(table[names[:3]])
    with pytest.raises(tepid.InputError, match=r"X must have the 20 columns .* got 3"):
        fitted.predict_proba(X[:, :3])


@quietly
def test_categories_of_tables_stay_categories():
    pandas = needed("pandas")
    rng = np.random.default_rng(0)
    kinds = pandas.Series(rng.choice(["a", "b", "c"], 900)).astype("category")
    table = pandas.DataFrame({"kind": kinds, "size": rng.normal(size=900)})
    y = ((kinds == "b") ^ (rng.random(900) < 0.2)).astype(int)
    for model in (_xgb(enable_categorical=True).fit(table, y), _lgb().fit(table, y)):
        for each in (model, _booster(model)):
            fitted = CalibratedClassifier(each).fit(table)
            assert fitted.temperature_ == 1
            np.testing.assert_allclose(
                fitted.predict_proba(table), model.predict_proba(table), atol=1e-6
            )


@quietly
def test_classes_of_lightgbm_may_be_words():
    X, y = _rows(4)
    words = np.array(["yellow", "blue", "red", "green"])[y]
    model = _lgb().fit(X[:900], words[:900])
    fitted = CalibratedClassifier(model).fit(X[900:], words[900:])
    assert fitted.classes_.tolist() == ["blue", "green", "red", "yellow"]
    assert fitted.predict(X).tolist() == model.predict(X).tolist()
    positions = np.searchsorted(fitted.classes_, words[900:])
    expected = tepid.calibrate(model.predict(X[900:], raw_score=True), positions)
    assert fitted.calibration_ == expected


@quietly
def test_they_go_through_pipelines_searches_clones_and_pickles(trained):
    model, X, y = trained
    piped = make_pipeline(StandardScaler(), "passthrough", clone(model)).fit(X[:500], y[:500])
    nested = Pipeline([("outer", StandardScaler()), ("inner", piped)])  # each is fitted already
    nested.steps[0][1].fit(X)
    search = GridSearchCV(clone(model), {"n_estimators": [5, 20]}, cv=2).fit(X[:500], y[:500])
    scaled = StandardScaler().fit(X[:500])
    twice = scaled.transform(nested.steps[0][1].transform(X))
    for each, z in (
        (piped, _margins(piped[-1], scaled.transform(X))),
        (FrozenEstimator(piped), _margins(piped[-1], scaled.transform(X))),
        (nested, _margins(piped[-1], twice)),
        (search, _margins(search.best_estimator_, X)),
        (FrozenEstimator(model), _margins(model, X)),
        (FrozenEstimator(_booster(model)), _margins(model, X)),
        (copy.deepcopy(_booster(model)), _margins(model, X)),
    ):
        fitted = CalibratedClassifier(each, accuracy=0.8).fit(X)
        expected = tepid.calibrate(z, accuracy=0.8)
        assert fitted.temperature_ == pytest.approx(expected.value, rel=1e-6)
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    for frozen in (FrozenEstimator(model), _booster(model)):
        found = GridSearchCV(
            CalibratedClassifier(frozen),
            {"accuracy": [(0.999999, 1e-6), None]},
            scoring="neg_log_loss",
            cv=2,
        ).fit(X, y)
        assert found.best_params_ == {"accuracy": None}


def test_one_that_is_not_fitted_is_trained_first(trained):
    model, X, y = trained
    with pytest.warns(CalibrationWarning, match="trained on the rows that T was fitted to"):
        fitted = CalibratedClassifier(clone(model), accuracy=0.8).fit(X, y)
    expected = clone(model).fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X), expected.predict(X))
    with pytest.raises(tepid.InputError, match="estimator must be fitted, got"):
        CalibratedClassifier(clone(model)).fit(X)


def _raw(objective, **options):
    """A booster of each package, trained for something."""
    X, y = _rows(2, 300)
    if ":" in objective:
        return xgboost.train({"objective": objective, **options}, xgboost.DMatrix(X, y), 2)
    groups = [100, 100, 100] if "rank" in objective else None
    return lightgbm.train(
        {"objective": objective, "verbose": -1, **options},
        lightgbm.Dataset(X, y, group=groups),
        2,
    )


def _squares(scores, data):
    return scores - data.get_label(), np.ones_like(scores)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: _raw("reg:squarederror"), "got Booster with reg:squarederror"),
        (lambda: _raw("binary:hinge"), "got Booster with binary:hinge"),
        (lambda: _raw("rank:pairwise"), "got Booster with rank:pairwise"),
        (lambda: _raw("regression"), "got Booster with regression"),
        (lambda: _raw("lambdarank"), "got Booster with lambdarank"),
        (lambda: _raw("multiclassova", num_class=2), "got Booster with multiclassova"),
        (lambda: _raw("cross_entropy_lambda"), "got Booster with cross_entropy_lambda"),
        (
            lambda: lightgbm.train(
                {"objective": _squares, "verbose": -1}, lightgbm.Dataset(*_rows(2, 300)), 2
            ),
            "got Booster with custom",
        ),
        (lambda: _xgb(objective="binary:hinge").fit(*_rows(2, 300)), "got XGBClassifier with bina"),
        (lambda: _lgb(objective="multiclassova").fit(*_rows(4, 300)), "got LGBMClassifier with mu"),
        (
            lambda: make_pipeline(_lgb(objective="multiclassova")).fit(*_rows(4, 300)),
            "got LGBMClassifier with multiclassova",
        ),
    ],
)
def test_margins_that_are_no_logits_are_refused(make, sentence):
    model, X = make(), _rows(2, 300)[0]
    with pytest.raises(tepid.InputError, match=rf"estimator must be trained for .* {sentence}"):
        CalibratedClassifier(model, accuracy=0.8).fit(X)
    plain = LogisticRegression(max_iter=500).fit(*_rows(2, 300))
    with pytest.raises(tepid.InputError, match=rf"model 1 must be trained for .* {sentence}"):
        CalibratedClassifier(plain).fit(X, models=[model])


def test_several_labels_per_row_and_regressors_are_refused():
    X, y = _rows(2, 300)
    both = _xgb().fit(X, np.stack([y, 1 - y, y], axis=1))
    with pytest.raises(tepid.InputError, match="one label per row, got XGBClassifier of 3 labels"):
        CalibratedClassifier(both).fit(X)
    for model in (xgboost.XGBRegressor(), lightgbm.LGBMRegressor(verbose=-1)):
        with pytest.raises(tepid.InputError, match=r"two classes or more, got .*Regressor"):
            CalibratedClassifier(model.fit(X, y)).fit(X)


def test_a_booster_that_outputs_margins_is_taken_by_its_margins():
    X, y = _rows(2, 600)
    raw = _raw("binary:logitraw")
    found = CalibratedClassifier(raw).fit(X, y).calibration_
    assert found == tepid.calibrate(raw.predict(xgboost.DMatrix(X)), y)


@pytest.mark.slow
def test_neither_package_is_imported_for_others():
    code = (
        "import sys\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "from tepid.sklearn import CalibratedClassifier\n"
        "fitted = LogisticRegression().fit([[0], [1]] * 9, [0, 1] * 9)\n"
        "CalibratedClassifier(fitted, accuracy=0.8).fit([[0], [1]] * 9)\n"
        "print('xgboost' in sys.modules, 'lightgbm' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "False"], done.stderr
