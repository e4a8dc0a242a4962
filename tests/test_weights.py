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
import warnings
from typing import NamedTuple

import numpy as np
import pytest
import typer
from hypothesis import given, settings
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
    """Logits, labels, two more models' logits, groups, labels of some rows, and a judge's."""

    z: np.ndarray
    y: np.ndarray
    one: np.ndarray
    two: np.ndarray
    site: np.ndarray
    known: np.ndarray
    judge: np.ndarray

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
    site = np.array(["north", "south"])[rng.integers(0, 2, N)]
    known = np.where(rng.random(N) < 0.3, labels, -1)
    return Rows(1.5 * posterior, labels, *peers, site, known, known)


ROWS, OLD = _made(1), _made(2, shift=0.4)
FEW = OLD.take(np.arange(40))
SITES = {"north": 0.85, "south": 0.92}


# --- every function with weights, as a function of rows and their weights


def _summarized(rows, u, *, fit=tepid.uts, rounds=2, labeled=False, **evidence):
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
        return parts[0] + parts[1]

    middle = len(rows.z) // 2
    halves = (slice(0, middle), slice(middle, None))
    first = summed()
    return fit(first if rounds == 1 else summed(first), **evidence)


def _evidence(rows, *kinds):
    """The arguments of `calibrate` for these kinds of evidence on the rows."""
    given = {
        "labels": rows.known,
        "accuracy": (0.9, 0.01),
        "models": [rows.one, rows.two],
        "reference": rows.two,
        "judge": rows.judge,
        "labeled": (FEW.z, FEW.y),
        "source": (OLD.z, OLD.y),
    }
    return {"reference" if kind == "judge" else kind: given[kind] for kind in kinds}


def _calibrated(rows, u, *kinds, z=None, **options):
    """`calibrate` on these kinds of evidence; tension and a wide interval are no matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tepid.CalibrationWarning)
        logits = rows.z if z is None else z
        return tepid.calibrate(logits, **_evidence(rows, *kinds), sample_weight=u, **options)


def _opened(rows, u, argument):
    """`calibrate` on rows whose labels and weights belong to a source that is open."""
    weighted = tepid.open_source(rows.z, labels=rows.known, sample_weight=u)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tepid.CalibrationWarning)
        if argument == "logits":
            return tepid.calibrate(weighted, **_evidence(rows, "models", "source"))
        return tepid.calibrate(OLD.z, **{argument: weighted})


def _curve(rows, u):
    theta = tepid.summaries.Tails.of(ROWS.z).thresholds()
    return tepid.summaries.Curve.of(rows.z, thresholds=theta, labels=rows.y, sample_weight=u)


def _calibrator(rows, u, *kinds):
    estimators = pytest.importorskip("tepid.sklearn")
    given = _evidence(rows, *kinds)
    estimator = estimators.TemperatureCalibrator(accuracy=given.pop("accuracy", None))
    return estimator.fit(rows.z, given.pop("labels", None), u, **given).calibration_


def _score(rows, u):
    estimators = pytest.importorskip("tepid.sklearn")
    return estimators.TemperatureCalibrator(accuracy=0.9).fit(ROWS.z).score(rows.z, rows.y, u)


def _classifier(rows, u, *, fitted=True, labels=False, **options):
    estimators = pytest.importorskip("tepid.sklearn")
    linear_model = pytest.importorskip("sklearn.linear_model")
    estimator = linear_model.LogisticRegression(tol=1e-10, max_iter=10_000)
    if fitted:
        estimator = estimator.fit(ROWS.one, ROWS.y)
    y = rows.known if labels else None if fitted else rows.y
    calibrated = estimators.CalibratedClassifier(estimator, **options)
    return calibrated.fit(rows.one, y, u, models=[rows.two]).calibration_


# The kinds of evidence that `calibrate` gets: none, each alone, and all.
CALIBRATED = (
    (), ("labels",), ("accuracy",), ("models",), ("reference",), ("judge",), ("labeled",),
    ("source",), ("labels", "labeled", "accuracy", "models", "reference", "source"),
)  # fmt: skip
METHODS = {
    "tepid.uts(sample_weight)": lambda r, u: tepid.uts(r.z, sample_weight=u),
    "tepid.uts(sample_weight) binary": lambda r, u: tepid.uts(
        r.z[:, 1] - r.z[:, 0], sample_weight=u
    ),
    "tepid.uts(sample_weight) deviations": lambda r, u: tepid.uts(
        r.z, deviations=0.5, sample_weight=u
    ),
    "tepid.uts(sample_weight) groups": lambda r, u: tepid.uts(r.z, sample_weight=u, groups=r.site),
    "tepid.lab.odds.from_odds(sample_weight)": lambda r, u: from_odds(
        open_source(r.z, sample_weight=u)
    ),
    "tepid.lab.odds.from_odds(sample_weight) groups": lambda r, u: from_odds(
        open_source(r.z, sample_weight=u, groups=r.site), prior=[0.2, 0.2, 0.2, 0.4]
    ),
    "tepid.match_accuracy(sample_weight)": lambda r, u: tepid.match_accuracy(
        r.z, (0.9, 0.01), sample_weight=u
    ),
    "tepid.match_accuracy(sample_weight) range": lambda r, u: tepid.match_accuracy(
        r.z, tepid.Range(0.85, 0.92), sample_weight=u
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
    **{
        " ".join(("tepid.calibrate(sample_weight)", *kinds)): functools.partial(
            lambda r, u, kinds: _calibrated(r, u, *kinds), kinds=kinds
        )
        for kinds in CALIBRATED
    },
    "tepid.calibrate(sample_weight) groups": lambda r, u: _calibrated(
        r, u, "labels", "models", groups=r.site
    ),
    "tepid.calibrate(sample_weight) mapping": lambda r, u: _calibrated(
        r, u, groups=r.site, accuracy=SITES
    ),
    "tepid.calibrate(sample_weight) keep": lambda r, u: _calibrated(r, u, z=r.z / 9),
    "tepid.calibrate(sample_weight) binary": lambda r, u: tepid.calibrate(
        r.z[:, 1] - r.z[:, 0], accuracy=0.9, sample_weight=u
    ),
    "tepid.summarize(sample_weight)": _summarized,
    "tepid.summarize(sample_weight) calibrate": functools.partial(
        _summarized, fit=tepid.calibrate, labeled=True, accuracy=(0.9, 0.05)
    ),
    "tepid.summarize(sample_weight) accuracy": functools.partial(
        _summarized, fit=tepid.match_accuracy, rounds=1, accuracy=0.9
    ),
    "tepid.summarize(sample_weight) labels": functools.partial(
        _summarized, fit=tepid.temperature_scaling, rounds=1, labeled=True
    ),
    "tepid.open_source(sample_weight)": lambda r, u: tepid.temperature_scaling(
        open_source(r.z, labels=r.y, sample_weight=u)
    ),
    **{
        f"tepid.open_source(sample_weight) {name}": functools.partial(_opened, argument=name)
        for name in ("logits", "labeled", "source")
    },
    **{
        " ".join(("tepid.sklearn.TemperatureCalibrator.fit(sample_weight)", *kinds)): (
            functools.partial(lambda r, u, kinds: _calibrator(r, u, *kinds), kinds=kinds)
        )
        for kinds in CALIBRATED
    },
    "tepid.sklearn.CalibratedClassifier.fit(sample_weight)": _classifier,
    "tepid.sklearn.CalibratedClassifier.fit(sample_weight) labels": functools.partial(
        _classifier, labels=True
    ),
    "tepid.sklearn.CalibratedClassifier.fit(sample_weight) untrained": functools.partial(
        _classifier, fitted=False, accuracy=0.8
    ),
}

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
    "tepid.summaries.Tails.of(sample_weight)": lambda r, u: tepid.summaries.Tails.of(
        r.z, sample_weight=u
    ),
    "tepid.summaries.Curve.of(sample_weight)": _curve,
    "tepid.summaries.Reliability.of(sample_weight)": lambda r, u: tepid.summaries.Reliability.of(
        r.p, r.y, sample_weight=u
    ),
    "tepid.summaries.Reliability.of_logits(sample_weight)": lambda r, u: (
        tepid.summaries.Reliability.of_logits(r.z, r.y, temperature=2.0, sample_weight=u)
    ),
}


def _scaled(name, rows, u, **options):
    scaling = pytest.importorskip("tepid.scaling")
    return getattr(scaling, name)(rows.z, rows.y, sample_weight=u, **options)


def _takes_seconds(name):
    kinds = name.partition(") ")[2].split()
    fitted = ("vector", "matrix", "dirichlet", "beta", "ensemble")
    many = any(f"scaling.{method}" in name for method in fitted)
    return many or "CalibratedClassifier" in name or ("TemperatureCalibrator" in name and kinds)


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
# Fits of many numbers take seconds, and the estimators of scikit-learn repeat `calibrate`.
FITS = [
    pytest.param(name, marks=pytest.mark.slow) if _takes_seconds(name) else name
    for name in METHODS | SCALINGS
]
EVERY = [*FITS, *SCORES, *SUMMARIES]


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
    assert (found.verdict, found.tension) == (expected.verdict, expected.tension)
    assert found.evidence.keys() == expected.evidence.keys()
    for name, part in expected.evidence.items():
        assert found.evidence[name].value == close(part.value)
        assert found.evidence[name].weight == pytest.approx(part.weight, abs=1e-6)
    if expected.verdict is not None:  # the posterior takes weights as frequencies
        assert found.interval == close(expected.interval)
        assert found.helps == (expected.helps and pytest.approx(expected.helps, abs=1e-6))
        for name, group in expected.groups.items():
            assert found.groups[name].value == close(group.value)
    elif repeated:
        for name, group in expected.groups.items():
            assert _alone(found.groups[name]) == pytest.approx(_alone(group), rel=1e-3)
    if repeated:
        return
    assert (found.samples, found.warnings) == (expected.samples, expected.warnings)
    assert (found.interval is None) == (expected.interval is None)
    if expected.interval is not None:
        assert found.interval == close(expected.interval)
    for name, group in expected.groups.items():
        _assert_same_temperature(found.groups[name], group, repeated=repeated)


def _alone(group):
    """What the group's own rows gave; how far that is shrunk depends on the number of rows."""
    said = re.search(r"These rows alone gave T = ([\d.]+)\. ", " ".join(group.warnings))
    return float(said[1]) if said else group.value


def _with_garbage(rows, absent):
    return rows._replace(
        y=np.where(absent, GARBAGE, rows.y), known=np.where(absent, GARBAGE, rows.known)
    )


# --- the properties


@pytest.mark.parametrize("name", EVERY)
def test_a_weight_of_zero_is_the_row_removed(name):
    absent = np.random.default_rng(3).random(N) < 0.3
    absent[-50:] = True  # a block may have no row that counts
    found = CASES[name](_with_garbage(ROWS, absent), np.where(absent, 0.0, 1.0))
    _assert_same(found, CASES[name](ROWS.take(~absent), None), repeated=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_a_weight_of_zero_is_the_row_removed_among_any_weights(name):
    rng = np.random.default_rng(4)
    absent, u = rng.random(N) < 0.3, rng.uniform(0.2, 3.0, N)
    found = CASES[name](_with_garbage(ROWS, absent), np.where(absent, 0.0, u))
    _assert_same(found, CASES[name](ROWS.take(~absent), u[~absent]), repeated=False)


@pytest.mark.parametrize("name", EVERY)
def test_a_whole_weight_is_the_row_that_often(name):
    u = np.random.default_rng(5).integers(0, 4, N)
    found = CASES[name](_with_garbage(ROWS, u == 0), u)
    expected = CASES[name](ROWS.take(np.repeat(np.arange(N), u)), None)
    _assert_same(found, expected, repeated=True)


@pytest.mark.parametrize("name", FITS)
def test_weights_that_are_all_zero_are_refused(name):
    refusal = r"_weight must not be zero for every row, got only|for at least one row, got none"
    with pytest.raises(tepid.InputError, match=refusal):
        (METHODS | SCALINGS)[name](ROWS, np.zeros(N))


@pytest.mark.parametrize("name", SCORES)
def test_there_is_no_score_of_weights_that_are_all_zero(name):
    assert math.isnan(SCORES[name](ROWS, np.zeros(N)))


@pytest.mark.parametrize("name", FITS)
def test_a_bad_weight_is_named_with_its_row(name):
    u = np.ones(N)
    u[7] = -1
    u[3] = 0
    with pytest.raises(tepid.InputError, match=r"_weight must be zero or in .*, got -1.0 at row 7"):
        (METHODS | SCALINGS)[name](ROWS, u)


@pytest.mark.parametrize("name", FITS)
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
    f"tepid.calibrate(sample_weight) {' '.join(CALIBRATED[-1])}",
    "tepid.open_source(sample_weight) source",
    "tepid.metrics.nll(sample_weight)",
    "tepid.metrics.ece_equal_mass(sample_weight)",
    "tepid.metrics.smooth_ece(sample_weight)",
    "tepid.summaries.Curve.of(sample_weight)",
]


@pytest.mark.parametrize("name", CORE)
@settings(max_examples=20)
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
    "compare": lambda u: tepid.compare(
        ROWS.z, ROWS.y, source=(open_source(OLD.z, sample_weight=u), OLD.y)
    ),
    "monitor": lambda u: tepid.online.Monitor.from_reference(
        open_source(ROWS.z, sample_weight=u), 1.5, chunk=50
    ),
    "weights of another model": lambda u: tepid.calibrate(
        ROWS.z, models=[open_source(ROWS.one, sample_weight=u)]
    ),
    "weights of a reference": lambda u: tepid.calibrate(
        ROWS.z, reference=open_source(ROWS.one, sample_weight=u)
    ),
    "weights of summaries": lambda u: tepid.calibrate(
        tepid.summarize(ROWS.z, given=tepid.summarize(ROWS.z)), sample_weight=u
    ),
    "bootstrap": lambda u: metrics.bootstrap(
        functools.partial(metrics.nll, sample_weight=u), ROWS.y, ROWS.p
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_weight_that_cannot_be_honored_is_refused(name):
    with pytest.raises(tepid.InputError, match=r"^[^.]*sample_weight[^.]*$"):
        REFUSED[name](np.ones(N))


# --- the report


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
    "uts": ["--method", "uts"],
    "temperature": ["--method", "temperature", "--labels", "y.npy"],
    "matched": ["--method", "accuracy", "--accuracy", "0.9±0.01"],
    "labels": ["--labels", "known.npy"],
    "accuracy": ["--accuracy", "0.9±0.01"],
    "groups": ["--groups", "site.npy", "--labels", "known.npy"],
    "models": ["--models", "one.npy", "--models", "two.npy"],
    "reference": ["--reference", "two.npy"],
    "labeled": ["--labeled", "few.npz"],
    "source": ["--source", "old.npz"],
}
OPTIONS["all"] = [
    *OPTIONS["labels"], *OPTIONS["accuracy"], *OPTIONS["models"], *OPTIONS["reference"],
    *OPTIONS["labeled"], *OPTIONS["source"],
]  # fmt: skip


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [[], ["--accuracy", "0.9"], ["--method", "uts"], ["--method", "temperature"]]
)
@pytest.mark.usefixtures("folder")
def test_the_command_line_counts_weights_in_summaries(options, tepid_here):
    def fit(rows, u):
        weight = _written(rows, u)
        sums = ("summarize", "z.npy", "--labels", "known.npy", *weight, "-o")
        runs = [
            (*sums, "1.npz"),
            (*sums, "2.npz", "--given", "1.npz"),
            ("fit", "--summary", "2.npz", *options, "-o", "t.json"),
        ]
        for run in runs:
            code, _, said = tepid_here(*run)
            assert code == 0, said
        return tepid.load("t.json")

    u = np.random.default_rng(9).integers(0, 4, N)
    found = fit(_with_garbage(ROWS, u == 0), u)
    _assert_same(found, fit(ROWS.take(u > 0), u[u > 0]), repeated=False)
    _assert_same(found, fit(ROWS.take(np.repeat(np.arange(N), u)), None), repeated=True)


# --- nothing is missing here

MODULES = [name for name in dir(tepid) if name not in (*tepid.__all__, "__version__")]


def _with_weights():
    """Every public function with a parameter for weights, as `module.function(parameter)`."""
    found = set()
    for name in ["tepid", *(f"tepid.{part}" for part in MODULES)]:
        try:
            module = importlib.import_module(name)
        except tepid.InputError:  # it needs an extra
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
    # The last three are tested in test_decide_cli.py.
    assert names == {"fit", "summarize", "decide", "performance", "sets"}
