"""A weight of zero is the row removed, and a weight of two is the row twice.

Every public function that takes weights is in `CASES`, and a test fails where one is missing. What
a weight of two does not repeat is the count of rows: `samples`, the warnings about few rows, and
the intervals, which are those of as many independent rows as there are.
"""

import dataclasses
import functools
import importlib
import inspect
import math
import re
from typing import NamedTuple

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

import tepid
from tepid import metrics
from tepid.lab.odds import from_odds
from tepid.sources import open_source

# The estimators of scikit-learn warn of every temperature that has warnings.
pytestmark = pytest.mark.filterwarnings("ignore:T = :UserWarning")

N, K = 400, 4
# A label that no row of any weight may have.
GARBAGE = 99


class Rows(NamedTuple):
    """Logits with labels, two more models' logits and a group for each row."""

    z: np.ndarray
    y: np.ndarray
    one: np.ndarray
    two: np.ndarray
    site: np.ndarray

    def take(self, rows):
        return Rows(*(column[rows] for column in self))

    @property
    def p(self):
        return tepid.Temperature(1.0, "", samples=0, classes=K, implied_accuracy=0.5)(self.z)


def _made(seed, shift=0.0):
    rng = np.random.default_rng(seed)
    posterior = 5 * rng.normal(size=(N, K)) + shift * np.arange(K)
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    peers = (1.5 * posterior + rng.normal(size=posterior.shape) for _ in range(2))
    return Rows(
        1.5 * posterior, labels, *peers, np.array(["north", "south"])[rng.integers(0, 2, N)]
    )


ROWS, OLD = _made(1), _made(2, shift=0.4)
FEW = OLD.take(np.arange(40))
SITES = {"north": 0.85, "south": 0.92}


# --- every function with weights, as a function of rows and their weights


def _summarized(rows, u, *, labeled=False, **evidence):
    """Two sites, which share nothing but their sums."""

    def summed(given=None):
        parts = [
            tepid.summarize(
                part.z,
                part.y if labeled else None,
                given=given,
                sample_weight=None if u is None else u[half],
            )
            for half, part in ((half, rows.take(half)) for half in halves)
        ]
        return tepid.merged(parts)

    middle = len(rows.z) // 2
    halves = (slice(0, middle), slice(middle, None))
    first = summed()
    return tepid.from_summaries(
        first if labeled or "accuracy" in evidence else summed(first), **evidence
    )


def _curve(rows, u):
    theta = tepid.Tails.of(ROWS.z).thresholds()
    return tepid.Curve.of(rows.z, thresholds=theta, labels=rows.y, sample_weight=u)


def _calibrator(rows, u, *, few=None, source=None, labels=True, **options):
    estimators = pytest.importorskip("tepid.sklearn")
    fitted = estimators.TemperatureCalibrator(**options).fit(
        rows.z, rows.y if labels else None, u, few=few, source=source
    )
    return fitted.calibration_


def _score(rows, u):
    estimators = pytest.importorskip("tepid.sklearn")
    return estimators.TemperatureCalibrator(accuracy=0.9).fit(ROWS.z).score(rows.z, rows.y, u)


def _classifier(rows, u, *, fitted=True, **options):
    estimators = pytest.importorskip("tepid.sklearn")
    linear_model = pytest.importorskip("sklearn.linear_model")
    estimator = linear_model.LogisticRegression(tol=1e-10, max_iter=10_000)
    if fitted:
        estimator = estimator.fit(ROWS.one, ROWS.y)
    return (
        estimators.CalibratedClassifier(estimator, **options).fit(rows.one, rows.y, u).calibration_
    )


METHODS = {
    "tepid.uts(sample_weight)": lambda r, u: tepid.uts(r.z, sample_weight=u),
    "tepid.uts(sample_weight) binary": lambda r, u: tepid.uts(
        r.z[:, 1] - r.z[:, 0], sample_weight=u
    ),
    "tepid.uts(sample_weight) deviations": lambda r, u: tepid.uts(
        r.z, deviations=0.5, sample_weight=u
    ),
    "tepid.uts(sample_weight) groups": lambda r, u: tepid.uts(
        r.z, sample_weight=u, groups=r.site
    ),
    "tepid.guarded(sample_weight)": lambda r, u: tepid.guarded(r.z, sample_weight=u),
    "tepid.guarded(sample_weight) groups": lambda r, u: tepid.guarded(
        r.z, sample_weight=u, groups=r.site
    ),
    "tepid.guarded(sample_weight) abstains": lambda r, u: tepid.guarded(r.z / 9, sample_weight=u),
    "tepid.lab.odds.from_odds(sample_weight)": lambda r, u: from_odds(r.z, sample_weight=u),
    "tepid.lab.odds.from_odds(sample_weight) groups": lambda r, u: from_odds(
        r.z, prior=[0.2, 0.2, 0.2, 0.4], sample_weight=u, groups=r.site
    ),
    "tepid.match_accuracy(sample_weight)": lambda r, u: tepid.match_accuracy(
        r.z, 0.9, standard_error=0.01, sample_weight=u
    ),
    "tepid.match_accuracy(sample_weight) range": lambda r, u: tepid.match_accuracy(
        r.z, (0.85, 0.92), sample_weight=u
    ),
    "tepid.match_accuracy(sample_weight) groups": lambda r, u: tepid.match_accuracy(
        r.z, 0.9, sample_weight=u, groups=r.site
    ),
    "tepid.match_accuracy(sample_weight) mapping": lambda r, u: tepid.match_accuracy(
        r.z, SITES, sample_weight=u, groups=r.site
    ),
    "tepid.temperature_scaling(sample_weight)": lambda r, u: tepid.temperature_scaling(
        r.z, r.y, sample_weight=u
    ),
    "tepid.temperature_scaling(sample_weight) groups": lambda r, u: tepid.temperature_scaling(
        r.z, r.y, sample_weight=u, groups=r.site
    ),
    "tepid.temperature_scaling(sample_weight) threads": lambda r, u: tepid.temperature_scaling(
        r.z, r.y, sample_weight=u, engine=tepid.Threads(2)
    ),
    "tepid.from_models(sample_weight) votes": lambda r, u: tepid.from_models(
        r.z, r.one, sample_weight=u
    ),
    "tepid.from_models(sample_weight) majority": lambda r, u: tepid.from_models(
        r.z, r.one, r.two, sample_weight=u
    ),
    "tepid.from_models(sample_weight) groups": lambda r, u: tepid.from_models(
        r.z, r.one, r.two, sample_weight=u, groups=r.site
    ),
    "tepid.from_source(sample_weight)": lambda r, u: tepid.from_source(
        r.z, OLD.z, OLD.y, sample_weight=u
    ),
    "tepid.from_source(sample_weight) groups": lambda r, u: tepid.from_source(
        r.z, OLD.z, OLD.y, sample_weight=u, groups=r.site
    ),
    "tepid.from_source(source_weight)": lambda r, u: tepid.from_source(
        OLD.z, r.z, r.y, source_weight=u
    ),
    "tepid.from_source(source_weight) weak": lambda r, u: tepid.from_source(
        OLD.z, r.z, (r.y + (r.y == 2)) % (GARBAGE + 1), source_weight=u
    ),
    "tepid.from_few_labels(sample_weight)": lambda r, u: tepid.from_few_labels(
        r.z, FEW.z, FEW.y, sample_weight=u
    ),
    "tepid.from_few_labels(sample_weight) groups": lambda r, u: tepid.from_few_labels(
        r.z, FEW.z, FEW.y, sample_weight=u, groups=r.site, labeled_groups=FEW.site
    ),
    "tepid.from_few_labels(labeled_weight)": lambda r, u: tepid.from_few_labels(
        OLD.z, r.z, r.y, labeled_weight=u
    ),
    "tepid.from_few_labels(labeled_weight) groups": lambda r, u: tepid.from_few_labels(
        OLD.z, r.z, r.y, labeled_weight=u, groups=OLD.site, labeled_groups=r.site
    ),
    "tepid.summarize(sample_weight)": _summarized,
    "tepid.summarize(sample_weight) guarded": functools.partial(_summarized, budget=0.03),
    "tepid.summarize(sample_weight) accuracy": functools.partial(_summarized, accuracy=0.9),
    "tepid.summarize(sample_weight) labels": functools.partial(_summarized, labeled=True),
    "tepid.sources.open_source(sample_weight)": lambda r, u: tepid.temperature_scaling(
        open_source(r.z, labels=r.y, sample_weight=u)
    ),
    "tepid.sources.open_source(sample_weight) models": lambda r, u: tepid.from_models(
        open_source(r.z, sample_weight=u), r.one, r.two
    ),
    "tepid.sources.open_source(sample_weight) source": lambda r, u: tepid.from_source(
        OLD.z, open_source(r.z, labels=r.y, sample_weight=u)
    ),
    "tepid.sources.open_source(sample_weight) target": lambda r, u: tepid.from_source(
        open_source(r.z, sample_weight=u), OLD.z, OLD.y
    ),
    "tepid.sklearn.TemperatureCalibrator.fit(sample_weight)": _calibrator,
    **{
        f"tepid.sklearn.TemperatureCalibrator.fit(sample_weight) {name}": functools.partial(
            _calibrator, **options
        )
        for name, options in {
            "accuracy": {"accuracy": 0.9},
            "guarded": {"guarded": True},
            "labels": {"use_labels": True},
            "few": {"few": (FEW.z, FEW.y), "labels": False},
            "source": {"source": (OLD.z, OLD.y), "labels": False},
        }.items()
    },
    "tepid.sklearn.CalibratedClassifier.fit(sample_weight)": _classifier,
    "tepid.sklearn.CalibratedClassifier.fit(sample_weight) labels": functools.partial(
        _classifier, use_labels=True
    ),
    "tepid.sklearn.CalibratedClassifier.fit(sample_weight) untrained": functools.partial(
        _classifier, fitted=False, accuracy=0.8
    ),
}  # fmt: skip

MEASURES = {
    name: getattr(metrics, name)
    for name in metrics.__all__
    if "sample_weight" in inspect.signature(getattr(metrics, name)).parameters
}


def _measure(name, rows, u):
    return MEASURES[name](rows.y, rows.z if name == "excess_nll" else rows.p, sample_weight=u)


SCORES = {
    **{
        f"tepid.metrics.{name}(sample_weight)": functools.partial(_measure, name)
        for name in MEASURES
    },
    "tepid.sklearn.TemperatureCalibrator.score(sample_weight)": _score,
}

SUMMARIES = {
    "tepid.Tails.of(sample_weight)": lambda r, u: tepid.Tails.of(r.z, sample_weight=u),
    "tepid.Curve.of(sample_weight)": _curve,
    "tepid.Reliability.of(sample_weight)": lambda r, u: tepid.Reliability.of(
        r.p, r.y, sample_weight=u
    ),
    "tepid.Reliability.of_logits(sample_weight)": lambda r, u: tepid.Reliability.of_logits(
        r.z, r.y, temperature=2.0, sample_weight=u
    ),
}


def _scaled(name, rows, u, **options):
    scaling = pytest.importorskip("tepid.scaling")
    return getattr(scaling, name)(rows.z, rows.y, sample_weight=u, **options)


SCALINGS = {
    **{
        f"tepid.scaling.{name}(sample_weight)": functools.partial(_scaled, name)
        for name in (
            "vector", "matrix", "dirichlet", "histogram", "isotonic", "bbq", "ensemble", "beta",
        )
    },
    "tepid.scaling.vector(sample_weight) free": functools.partial(
        _scaled, "vector", regularization=0.0
    ),
    "tepid.scaling.matrix(sample_weight) held": functools.partial(
        _scaled, "matrix", regularization=(1.0, 0.1)
    ),
    "tepid.scaling.histogram(sample_weight) mass": functools.partial(
        _scaled, "histogram", spacing="mass"
    ),
}  # fmt: skip

CASES = METHODS | SCORES | SUMMARIES | SCALINGS


# --- what is the same


def _assert_same(found, expected, *, repeated):
    """The same result; of repeated rows but for what counts them."""
    if isinstance(expected, tepid.Temperature):
        _assert_same_temperature(found, expected, repeated=repeated)
    elif isinstance(expected, (float, int)):
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
    elif hasattr(expected, "keeps_argmax"):
        _assert_same_calibrator(found, expected, repeated=repeated)
    else:
        _assert_same_summary(found, expected, repeated=repeated)


def _assert_same_summary(found, expected, *, repeated):
    counted = {"rows", "weight_square", "square"} if repeated else {"rows"}
    for field in dataclasses.fields(expected):
        if field.name not in counted:
            one, other = (getattr(summary, field.name) for summary in (found, expected))
            scale = np.max(np.abs(other), initial=0.0)
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * scale)


def _assert_same_calibrator(found, expected, *, repeated):
    # A descent ends where the mean loss changes by less than 1e-9; the others are exact.
    close = 1e-9 if expected.method in ("histogram", "isotonic", "bbq") else 1e-4
    np.testing.assert_allclose(found(OLD.z), expected(OLD.z), rtol=0, atol=close)
    assert found.keeps_argmax == expected.keeps_argmax
    if not repeated:
        assert (found.samples, found.warnings) == (expected.samples, expected.warnings)


def _assert_same_temperature(found, expected, *, repeated):
    close = functools.partial(pytest.approx, rel=2 * expected.precision)
    assert (found.method, found.status) == (expected.method, expected.status)
    assert found.value == close(expected.value)
    assert found.implied_accuracy == close(expected.implied_accuracy)
    assert found.precision == pytest.approx(expected.precision)
    assert found.groups.keys() == expected.groups.keys()
    if expected.sensitivity is not None:
        assert found.sensitivity == close(expected.sensitivity)
    if repeated:
        for name, group in expected.groups.items():
            assert _alone(found.groups[name]) == pytest.approx(_alone(group), rel=1e-3)
        return
    assert (found.samples, found.warnings) == (expected.samples, expected.warnings)
    assert (found.interval is None) == (expected.interval is None)
    if expected.interval is not None:
        assert found.interval == close(expected.interval)
    for name, group in expected.groups.items():
        _assert_same_temperature(found.groups[name], group, repeated=repeated)


def _alone(group):
    """What the group's own rows gave; how far that is shrunk depends on the number of rows."""
    said = re.search(r"These rows alone gave T = ([\d.]+);", " ".join(group.warnings))
    return float(said[1]) if said else group.value


def _with_garbage(rows, absent):
    return rows._replace(y=np.where(absent, GARBAGE, rows.y))


# --- the properties


@pytest.mark.parametrize("name", CASES)
def test_a_weight_of_zero_is_the_row_removed(name):
    absent = np.random.default_rng(3).random(N) < 0.3
    absent[-50:] = True  # a block may have no row that counts
    found = CASES[name](_with_garbage(ROWS, absent), np.where(absent, 0.0, 1.0))
    _assert_same(found, CASES[name](ROWS.take(~absent), None), repeated=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_weight_of_zero_is_the_row_removed_among_any_weights(name):
    rng = np.random.default_rng(4)
    absent, u = rng.random(N) < 0.3, rng.uniform(0.2, 3.0, N)
    found = CASES[name](_with_garbage(ROWS, absent), np.where(absent, 0.0, u))
    _assert_same(found, CASES[name](ROWS.take(~absent), u[~absent]), repeated=False)


@pytest.mark.parametrize("name", CASES)
def test_a_whole_weight_is_the_row_that_often(name):
    u = np.random.default_rng(5).integers(0, 4, N)
    found = CASES[name](_with_garbage(ROWS, u == 0), u)
    expected = CASES[name](ROWS.take(np.repeat(np.arange(N), u)), None)
    _assert_same(found, expected, repeated=True)


@pytest.mark.parametrize("name", METHODS | SCALINGS)
def test_weights_that_are_all_zero_are_refused(name):
    with pytest.raises(tepid.InputError, match=r"_weight must not be zero for every row, got only"):
        (METHODS | SCALINGS)[name](ROWS, np.zeros(N))


@pytest.mark.parametrize("name", SCORES)
def test_there_is_no_score_of_weights_that_are_all_zero(name):
    assert math.isnan(SCORES[name](ROWS, np.zeros(N)))


@pytest.mark.parametrize("name", METHODS | SCALINGS)
def test_a_bad_weight_is_named_with_its_row(name):
    u = np.ones(N)
    u[7] = -1
    u[3] = 0
    with pytest.raises(tepid.InputError, match=r"_weight must be zero or in .*, got -1.0 at row 7"):
        (METHODS | SCALINGS)[name](ROWS, u)


@pytest.mark.parametrize("name", METHODS | SCALINGS)
def test_logits_of_weight_zero_may_be_missing(name):
    absent = np.random.default_rng(3).random(N) < 0.3
    missing = ROWS._replace(z=np.where(absent[:, None], np.nan, ROWS.z))
    u = np.where(absent, 0.0, 1.0)
    case = (METHODS | SCALINGS)[name]
    _assert_same(case(missing, u), case(ROWS, u), repeated=False)


WEIGHTS = st.lists(st.integers(0, 3), min_size=60, max_size=60).map(np.array)
CORE = [
    "tepid.uts(sample_weight)",
    "tepid.match_accuracy(sample_weight) mapping",
    "tepid.temperature_scaling(sample_weight)",
    "tepid.from_models(sample_weight) majority",
    "tepid.from_source(sample_weight)",
    "tepid.from_source(source_weight)",
    "tepid.metrics.nll(sample_weight)",
    "tepid.metrics.ece_equal_mass(sample_weight)",
    "tepid.metrics.smooth_ece(sample_weight)",
    "tepid.Curve.of(sample_weight)",
]


@pytest.mark.parametrize("name", CORE)
@given(u=WEIGHTS, seed=st.integers(0, 99))
def test_any_whole_weights_are_rows_that_often(name, u, seed):
    chosen = np.random.default_rng(seed).integers(0, N, 60)
    u[:8] += 1  # some row of every kind is there
    rows = ROWS.take(chosen)
    found = _or_refusal(CASES[name], _with_garbage(rows, u == 0), u)
    expected = _or_refusal(CASES[name], rows.take(np.repeat(np.arange(60), u)), None)
    if isinstance(expected, str):
        assert found == expected
    else:
        _assert_same(found, expected, repeated=True)


def _or_refusal(case, rows, u):
    try:
        return case(rows, u)
    except tepid.InputError as error:
        return str(error)


# --- what cannot honor a weight


REFUSED = {
    "debias": lambda u: tepid.uts(ROWS.z, debias=True, sample_weight=u),
    "debias of a source": lambda u: tepid.uts(open_source(ROWS.z, sample_weight=u), debias=True),
    "debias of scikit-learn": lambda u: _calibrator(ROWS, u, debias=True),
    "compare": lambda u: tepid.compare.compare(
        ROWS.z, ROWS.y, source=(open_source(OLD.z, sample_weight=u), OLD.y)
    ),
    "monitor": lambda u: tepid.online.Monitor.from_reference(
        open_source(ROWS.z, sample_weight=u), 1.5, chunk=50
    ),
    "weights of another model": lambda u: tepid.from_models(
        ROWS.z, open_source(ROWS.one, sample_weight=u)
    ),
    "bootstrap": lambda u: metrics.bootstrap(
        functools.partial(metrics.nll, sample_weight=u), ROWS.y, ROWS.p
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_weight_that_cannot_be_honored_is_refused(name):
    with pytest.raises(tepid.InputError, match=r"^[^.]*sample_weight[^.]*$"):
        REFUSED[name](np.ones(N))


# --- what reads an opened source


def _advice(rows, u):
    return tepid.advise(
        open_source(rows.z, sample_weight=u),
        accuracy=0.9,
        others=(rows.one, rows.two),
        source=(OLD.z, OLD.y),
        few=(FEW.z, FEW.y),
        labels=rows.y,
    )


def test_advice_counts_the_weights_of_its_source():
    u = np.random.default_rng(6).integers(0, 4, N)
    found = _advice(_with_garbage(ROWS, u == 0), u)
    removed = _advice(ROWS.take(u > 0), u[u > 0])
    twice = _advice(ROWS.take(np.repeat(np.arange(N), u)), None)
    for expected, repeated in ((removed, False), (twice, True)):
        assert found.use == expected.use
        assert found.confidence == pytest.approx(expected.confidence, rel=1e-6)
        assert found.margin == pytest.approx(expected.margin, rel=1e-6)
        for name, answer in expected.answers.items():
            _assert_same(found.answers[name], answer, repeated=repeated)
    assert found.samples == removed.samples


def test_a_report_shows_no_row_of_weight_zero(tmp_path):
    absent = np.arange(N) >= N - 100
    pages = []
    for rows, u in ((_with_garbage(ROWS, absent), ~absent), (ROWS.take(~absent), None)):
        source = open_source(rows.z, labels=rows.y, sample_weight=u)
        tepid.report.write(tmp_path / "report.html", source, title="rows")
        pages.append((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert pages[0] == pages[1]
    assert "300 rows" in pages[0]


# --- the command line

OPTIONS = {
    "logits": [],
    "guarded": ["--guarded"],
    "accuracy": ["--accuracy", "0.9±0.01"],
    "labels": ["--labels", "y.npy"],
    "groups": ["--groups", "site.npy"],
    "models": ["--also", "one.npy", "--also", "two.npy"],
    "few": ["--few", "few.npz"],
    "source": ["--source", "old.npz"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, rows in (("old", OLD), ("few", FEW)):
        np.savez(f"{name}.npz", logits=rows.z, labels=rows.y)


def _written(rows, u):
    for name, column in rows._asdict().items():
        np.save(f"{name}.npy", column)
    if u is None:
        return []
    np.save("u.npy", u)
    return ["--sample-weight", "u.npy"]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.usefixtures("folder")
def test_the_command_line_counts_weights_as_the_library_does(name, tepid_here):
    def fit(rows, u):
        weight = _written(rows, u)
        code, _, said = tepid_here("fit", "z.npy", *OPTIONS[name], *weight, "-o", "t.json")
        assert code == 0, said
        return tepid.load("t.json")

    u = np.random.default_rng(7).integers(0, 4, N)
    found = fit(_with_garbage(ROWS, u == 0), u)
    _assert_same(found, fit(ROWS.take(u > 0), u[u > 0]), repeated=False)
    _assert_same(found, fit(ROWS.take(np.repeat(np.arange(N), u)), None), repeated=True)


@pytest.mark.parametrize("method", ["vector", "histogram"])
@pytest.mark.usefixtures("folder")
def test_the_command_line_counts_weights_in_other_methods(method, tepid_here):
    scaling = pytest.importorskip("tepid.scaling")

    def fit(rows, u):
        weight = _written(rows, u)
        options = ("--labels", "y.npy", "--method", method, *weight, "-o", "c.npz")
        code, _, said = tepid_here("fit", "z.npy", *options)
        assert code == 0, said
        return scaling.load("c.npz")

    u = np.random.default_rng(8).integers(0, 4, N)
    found = fit(_with_garbage(ROWS, u == 0), u)
    _assert_same(found, fit(ROWS.take(u > 0), u[u > 0]), repeated=False)
    _assert_same(found, fit(ROWS.take(np.repeat(np.arange(N), u)), None), repeated=True)


@pytest.mark.parametrize("options", [[], ["--accuracy", "0.9"], ["--labels", "y.npy"]])
@pytest.mark.usefixtures("folder")
def test_the_command_line_counts_weights_in_summaries(options, tepid_here):
    labels = options if "--labels" in options else []

    def fit(rows, u):
        weight = _written(rows, u)
        sums = ("summarize", "z.npy", *labels, *weight, "-o")
        runs = [(*sums, "1.npz")]
        if not options:
            runs.append((*sums, "2.npz", "--given", "1.npz"))
        told = [] if labels else options
        runs.append(("fit", "--summary", f"{len(runs)}.npz", *told, "-o", "t.json"))
        for run in runs:
            code, _, said = tepid_here(*run)
            assert code == 0, said
        return tepid.load("t.json")

    u = np.random.default_rng(9).integers(0, 4, N)
    found = fit(_with_garbage(ROWS, u == 0), u)
    _assert_same(found, fit(ROWS.take(u > 0), u[u > 0]), repeated=False)
    _assert_same(found, fit(ROWS.take(np.repeat(np.arange(N), u)), None), repeated=True)


@pytest.mark.usefixtures("folder")
def test_the_command_line_refuses_weights_that_debias_cannot_honor(tepid_here):
    code, _, said = tepid_here("fit", "z.npy", "--debias", *_written(ROWS, np.ones(N)))
    assert code
    assert "sample_weight must be left out with debias, got one" in said


# --- nothing is missing here

# The public modules that need an extra, and so are not in `tepid.__all__`.
OPTIONAL = ("sklearn", "torch", "plots", "onnx")


def _with_weights():
    """Every public function with a parameter for weights, as `module.function(parameter)`."""
    found = set()
    modules = [name for name in tepid.__all__ if inspect.ismodule(getattr(tepid, name))]
    for name in ["tepid", *(f"tepid.{part}" for part in (*modules, *OPTIONAL))]:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        own = [called for called, value in vars(module).items() if _is_of(value, name)]
        for called in getattr(module, "__all__", own):
            if _is_of(getattr(module, called), "tepid"):
                found |= {f"{name}.{part}" for part in _parameters(called, getattr(module, called))}
    return found


def _is_of(value, module):
    return callable(value) and str(value.__module__).startswith(module)


def _parameters(called, value):
    if isinstance(value, type):
        own = {n: f for n, f in vars(value).items() if not n.startswith(("_", "set_"))}
        parts = {f"{called}.{n}": getattr(value, n) for n, f in own.items()}
    else:
        parts = {called: value}
    for name, part in parts.items():
        if callable(part) and not isinstance(part, type):
            for parameter in inspect.signature(part).parameters:
                if parameter.endswith("_weight"):
                    yield f"{name}({parameter})"


def test_every_public_function_with_weights_is_tested_here():
    tested = {name.split(" ")[0] for name in CASES}
    assert _with_weights() <= tested


def test_every_command_with_weights_is_tested_here():
    from tepid.cli.app import app  # noqa: PLC0415  # rich and typer, only here

    commands = typer.main.get_command(app).commands
    names = {
        name
        for name, command in commands.items()
        if any("weight" in parameter.name for parameter in command.params)
    }
    assert names == {"fit", "summarize"}
