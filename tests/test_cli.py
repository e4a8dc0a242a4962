"""The command line: every verb, a few in a process of their own, and refusals in one sentence."""

import csv
import importlib.metadata
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tepid
from tepid.lab.odds import from_odds
from tests.precision import CONFIDENCE

METHODS = (
    "vector", "matrix", "histogram", "isotonic", "bbq", "ensemble", "beta", "dirichlet",
)  # fmt: skip
SLOW = dict.fromkeys(("matrix", "dirichlet", "ensemble"), pytest.mark.slow)
KEYS = [
    "format", "tepid", "temperature", "method", "samples", "classes", "implied_accuracy", "status",
    "interval", "verdict", "reason", "next_step", "helps", "evidence", "tension", "sensitivity",
    "precision", "warnings",
]  # fmt: skip
MEASURES = {"accuracy", "confidence", "nll", "brier", "ece"}
EVERY_MEASURE = MEASURES | {
    "excess_nll", "brier_calibration", "brier_refinement", "ece_equal_mass", "ece_classwise", "mce",
    "rmsce_debiased", "smooth_ece", "ks_error", "aurc",
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(9)
    posterior = 2 * rng.normal(size=(360, 4))
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    return (2 * posterior).astype(np.float32), labels


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """The working folder, with the same rows in every form."""
    z, y = made
    monkeypatch.chdir(tmp_path)
    np.save("z.npy", z)
    np.save("y.npy", y)
    np.save("u.npy", 1 + y)
    np.save("some.npy", np.where(np.arange(len(y)) % 2, y, -1))
    np.savez("both.npz", logits=z, labels=y)
    np.save("p.npy", tepid.Temperature(1.0, "", samples=0, classes=4, implied_accuracy=0)(z))
    np.save("grid.npy", np.moveaxis(z.reshape(10, 36, 4), -1, 1))
    _write_csv("z.csv", ["logit_0", "logit_1", "logit_2", "logit_3", "labels"], z, y)
    _write_csv("named.csv", ["cat", "dog", "eel", "fox", "label"], z, y)
    _write_csv("split.csv", ["z1", "z2", "z3", "z4", "labels", "fold"], z, y, np.arange(len(y)) % 3)
    np.savetxt("plain.csv", z, delimiter=",")
    tepid.temperature_scaling(z, y).save("cal.json")
    tepid.Temperature(1.5, "uts", samples=9, classes=3, implied_accuracy=0.5).save("three.json")
    return tmp_path


def _write_csv(path, names, *columns):
    rows = np.column_stack(columns)
    np.savetxt(path, rows, delimiter=",", header=",".join(names), comments="")


def _spawn(*args, **environment):
    """Run `tepid` in a process of its own: (exit code, stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-m", "tepid", *map(str, args)],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"} | environment,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def _not_json(constant):
    raise AssertionError(f"{constant} is no JSON")


def _json(result):
    code, out, err = result
    assert (code, err) == (0, "")
    return json.loads(out, parse_constant=_not_json)


def _human(result):
    code, out, err = result
    assert code == 0
    assert all(line.startswith("note ") for line in err.splitlines())
    return out


def _contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def _assert_refused(result, said, folder, before):
    code, out, err = result
    assert code == 2
    assert out == ""
    assert err.startswith("tepid: ")
    assert err.count("\n") == 1
    assert said in err
    assert _contents(folder) == before


# --- fit


def test_fit_prints_the_temperature_and_the_verdict(made, tepid_here):
    out = _human(tepid_here("fit", "z.npy", "--accuracy", "0.8"))
    t = tepid.calibrate(made[0], accuracy=0.8)
    for words in (f"{t.value:.4f}", "calibrate", t.status, "360 × 4", f"verdict: {t.verdict}. "):
        assert words in out
    assert "evidence" in out  # a table of what each kind gives
    assert f"next step: {t.next_step.replace('LOGITS', 'z.npy')}" in out
    spoken = tepid_here("fit", "z.npy", "--method", "uts")
    out = _human(spoken)
    t = tepid.uts(made[0])
    for words in (f"{t.value:.4f}", "uts", "ok", f"{100 * t.implied_accuracy:.2f} %", "360 × 4"):
        assert words in out
    assert "verdict" not in out
    assert spoken[2].count("note ") == len(t.warnings) == 2


def test_fit_prints_what_it_saves(folder, made):
    printed = _json(_spawn("fit", "z.npy", "--accuracy", "0.8", "--json", "-o", "out.json"))
    saved = json.loads((folder / "out.json").read_text("utf-8"))
    assert printed == saved
    assert list(printed) == KEYS
    _same(printed, json.loads(json.dumps(tepid.calibrate(made[0], accuracy=0.8).as_dict())))
    assert json.loads(json.dumps(tepid.load("out.json").as_dict())) == printed


def _same(one, other):
    """Compare JSON values, numbers up to the precision of the kernels, which may differ there."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            _same(value, other[key])
    elif isinstance(one, list):
        for a, b in zip(one, other, strict=True):
            _same(a, b)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-6)
    else:
        assert one == other


def _uts(z, y):  # noqa: ARG001  # one signature
    return tepid.uts(z)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "fit"),
    [
        (["z.npy"], lambda z, y: tepid.calibrate(z)),
        (["z.npy", "--labels", "y.npy"], tepid.calibrate),
        (["z.npy", "--labels", "y.npy", "--method", "temperature"], tepid.temperature_scaling),
        (
            ["z.npy", "--accuracy", "0.7..0.8", "--method", "accuracy"],
            lambda z, y: tepid.match_accuracy(z, tepid.Range(0.7, 0.8)),
        ),
        (
            ["z.npy", "--sample-weight", "u.npy", "--method", "uts"],
            lambda z, y: tepid.uts(z, sample_weight=1 + y),
        ),
        (
            ["z.npy", "--labels", "y.npy", "--sample-weight", "u.npy"],
            lambda z, y: tepid.calibrate(z, y, sample_weight=1 + y),
        ),
        (
            ["z.npy", "--accuracy", "0.7", "--sample-weight", "u.npy"],
            lambda z, y: tepid.calibrate(z, accuracy=0.7, sample_weight=1 + y),
        ),
        (["p.npy", "--probabilities", "--method", "uts"], _uts),
        (["grid.npy", "--class-axis", "1", "--method", "uts"], _uts),
        (["grid.npy", "--class-axis", "-2", "--method", "uts"], _uts),
        (["z.npy", "--threads", "1", "--method", "uts"], _uts),
        (["both.npz", "--method", "uts"], _uts),
        (["both.npz#logits", "--labels", "both.npz#labels"], tepid.calibrate),
        (["both.npz", "--labels", "both.npz"], tepid.calibrate),
        (["both.npz", "--labels", "labels"], tepid.calibrate),
        (["z.csv", "--labels", "labels"], tepid.calibrate),
        (["z.csv", "--labels", "z.csv#labels"], tepid.calibrate),
        (["z.csv", "--labels", "y.npy"], tepid.calibrate),
        (["plain.csv", "--method", "uts"], _uts),
        (["plain.csv", "--no-header", "--method", "uts"], _uts),
        (
            ["plain.csv", "--columns", "0,2", "--method", "uts"],
            lambda z, y: tepid.uts(z[:, [0, 2]]),
        ),
        (["z.csv", "--method", "uts"], _uts),
        (["z.csv", "--header", "--method", "uts"], _uts),
        (["z.csv", "--columns", "logit_*", "--method", "uts"], _uts),
        (["z.csv", "--columns", "l*", "--labels", "labels"], tepid.calibrate),
        (["named.csv", "--columns", "cat,dog,eel,fox", "--method", "uts"], _uts),
        (
            ["named.csv", "--columns", "cat, dog, eel, fox", "--labels", "label"],
            tepid.calibrate,
        ),
        (
            ["split.csv", "--where", "fold=1", "--labels", "labels"],
            lambda z, y: tepid.calibrate(z[1::3], y[1::3]),
        ),
        (
            ["split.csv", "--where", "fold=1", "--where", "labels=2", "--method", "uts"],
            lambda z, y: tepid.uts(z[1::3][y[1::3] == 2]),
        ),
        (
            ["split.csv", "--sample-weight", "fold", "--accuracy", "0.7", "--columns", "z*"],
            lambda z, y: tepid.calibrate(z, accuracy=0.7, sample_weight=np.arange(len(y)) % 3),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_option_of_fit_does_what_the_library_does(made, tepid_here, options, fit):
    printed = _json(tepid_here("fit", *options, "--json"))
    t = fit(*made)
    assert list(printed) == KEYS
    # Probabilities are turned back into logits, which rounds them anew.
    close = printed["precision"] + t.precision
    assert printed["temperature"] == pytest.approx(t.value, rel=close)
    assert [printed[key] for key in ("method", "status", "samples", "classes")] == [
        t.method, t.status, t.samples, t.classes,
    ]  # fmt: skip
    close += 2 * CONFIDENCE  # confidence changes by less than log T does
    assert printed["implied_accuracy"] == pytest.approx(t.implied_accuracy, abs=close)


NOTE = "note The values of p.npy look like probabilities but were read as logits. "


@pytest.mark.parametrize(
    "line",
    [
        "fit p.npy",
        "fit p.npy --accuracy 0.7",
        "fit p.npy --labels y.npy --method vector",
        "score p.npy y.npy --draws 0",
        "compare p.npy y.npy --splits 1",
        "report p.npy -o out.html",
        "summarize p.npy -o out.npz",
    ],
)
def test_probabilities_that_are_read_as_logits_are_noted_once(line, tepid_here):
    code, out, err = tepid_here(*line.split(), "--json")
    assert code == 0
    assert json.loads(out)
    assert err.startswith(NOTE)
    assert "--probabilities" in err
    assert err.count("like probabilities") == 1
    code, _, err = tepid_here(*line.split(), "--json", "--probabilities")
    assert (code, err) == (0, "")


def test_a_header_of_numbers_is_asked_for(made, tepid_here):
    z = made[0]
    _write_csv("numbered.csv", ["0", "1", "2", "3"], z)
    code, out, err = tepid_here("fit", "numbered.csv")
    assert (code, out) == (2, "")
    assert "pass --header or --no-header" in err
    for option, rows in (("--header", z), ("--no-header", np.vstack([[0, 1, 2, 3], z]))):
        printed = _json(tepid_here("fit", "numbered.csv", option, "--method", "uts", "--json"))
        assert printed["samples"] == len(rows)
        assert printed["temperature"] == pytest.approx(tepid.uts(rows).value, rel=1e-6)


def test_a_column_called_label_has_no_meaning(made, tepid_here):
    z, y = made[0].astype(np.float64), made[1]  # a CSV file is read as float64
    _write_csv("guess.csv", ["z0", "z1", "z2", "z3", "label", "weight", "group"], z, y, y, y)
    for options, t in (((), tepid.calibrate(z)), (("--method", "uts"), tepid.uts(z))):
        printed = _json(tepid_here("fit", "guess.csv", *options, "--json"))
        assert printed == json.loads(json.dumps(t.as_dict()))
    code, _, err = tepid_here("score", "guess.csv")
    assert code == 2
    assert "labels must name a column of guess.csv" in err


def test_a_temperature_at_the_bound_is_said_saved_and_applied(tepid_here):
    np.save("sure.npy", np.load("z.npy").argmax(axis=1))
    line = "fit z.npy --labels sure.npy --method temperature --json -o bound.json"
    printed = _json(tepid_here(*line.split()))
    assert printed["status"] == "at-bound"
    assert printed["temperature"] > 0
    _human(tepid_here("apply", "bound.json", "z.npy", "-o", "out.npy"))
    assert np.isfinite(np.load("out.npy")).all()


def test_fit_replaces_an_older_calibration(folder, tepid_here):
    _human(tepid_here("fit", "z.npy", "-o", "cal.json"))
    assert tepid.load("cal.json").method == "calibrate"
    assert not list(folder.glob(".*"))


# --- apply


def test_apply_writes_the_probabilities_of_the_library(made, tepid_here):
    out = _human(tepid_here("apply", "cal.json", "z.npy", "-o", "out.npy"))
    assert out == "wrote 360 rows of probabilities to out.npy\n"
    written = np.load("out.npy")
    np.testing.assert_array_equal(written, tepid.load("cal.json")(made[0]))
    assert written.dtype == np.float32


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv"])
@pytest.mark.parametrize(
    "options",
    [
        ["z.npy"],
        ["both.npz"],
        ["both.npz#logits"],
        ["z.csv"],
        ["named.csv", "--columns", "cat,dog,eel,fox"],
        ["p.npy", "--probabilities"],
    ],
)
def test_apply_reads_and_writes_every_format(folder, made, tepid_here, options, suffix):
    said = _json(tepid_here("apply", "cal.json", *options, "-o", f"out.{suffix}", "--json"))
    assert said == {"output": f"out.{suffix}", "samples": 360, "classes": 4}
    expected = tepid.load("cal.json")(made[0])
    written = tepid.sources.open_source(f"out.{suffix}", probabilities=True).whole().logits
    np.testing.assert_allclose(np.exp(written), expected, rtol=1e-5, atol=1e-7)
    assert not list(folder.glob(".*"))


def test_apply_keeps_the_shape_of_the_logits(tepid_here):
    _human(tepid_here("apply", "cal.json", "grid.npy", "--class-axis", "1", "-o", "out.npy"))
    expected = tepid.load("cal.json")(np.load("grid.npy"), class_axis=1)
    np.testing.assert_allclose(np.load("out.npy"), expected, rtol=1e-6)


# --- score


def test_score_measures_before_and_after(made, tepid_here):
    printed = _json(tepid_here("score", "z.npy", "y.npy", "-c", "cal.json", "--json"))
    assert set(printed) == {"samples", "before", "after", "draws", "intervals", "change"}
    assert (printed["samples"], printed["draws"]) == (360, 200)
    t = tepid.load("cal.json")
    for name, temperature in (("before", 1.0), ("after", t.value)):
        r = tepid.summaries.Reliability.of_logits(*made, temperature=temperature)
        assert set(printed[name]) == set(printed["intervals"][name]) == EVERY_MEASURE
        for measure in MEASURES:
            exact = getattr(tepid.metrics, measure)(r)
            assert printed[name][measure] == pytest.approx(exact, rel=1e-5)
    p = t(made[0])
    for measure in EVERY_MEASURE - {"excess_nll"}:
        exact = getattr(tepid.metrics, measure)(made[1], p)
        assert printed["after"][measure] == pytest.approx(exact, rel=1e-9)
    found = tepid.metrics.bootstrap(tepid.metrics.brier, made[1], p, draws=200)
    assert printed["intervals"]["after"]["brier"] == pytest.approx([found.low, found.high])
    assert printed["change"]["nll"]["high"] < 0
    assert printed["after"]["excess_nll"] < 1e-6 < printed["before"]["excess_nll"]
    assert printed["after"]["nll"] < printed["before"]["nll"]
    assert printed["after"]["accuracy"] == printed["before"]["accuracy"]


@pytest.mark.parametrize(
    "options",
    [
        ["both.npz"],
        ["both.npz#logits"],
        ["both.npz", "labels"],
        ["both.npz", "y.npy"],
        ["z.csv"],
        ["z.csv", "labels"],
        ["z.csv", "both.npz#labels"],
        ["plain.csv", "y.npy"],
        ["named.csv", "label", "--columns", "cat,dog,eel,fox"],
        ["p.npy", "y.npy", "--probabilities"],
        ["grid.npy", "y.npy", "--class-axis", "1"],
        ["z.npy", "y.npy", "--threads", "2"],
    ],
    ids=" ".join,
)
def test_score_finds_the_labels_wherever_they_are(made, tepid_here, options):
    printed = _json(tepid_here("score", *options, "--json", "--draws", "0"))
    exact = tepid.metrics.nll(tepid.summaries.Reliability.of_logits(*made))
    assert set(printed) == {"samples", "before"}
    assert set(printed["before"]) == EVERY_MEASURE
    assert printed["before"]["nll"] == pytest.approx(exact, rel=1e-5)


def test_score_draws_a_table_and_a_diagram(tepid_here):
    out = _human(tepid_here("score", "both.npz", "-c", "cal.json", "--draws", "20"))
    for words in (
        "accuracy",
        "mean confidence",
        "NLL",
        "Brier",
        "ECE",
        "before",
        "after",
        "█",
        "◆",
    ):
        assert words in out


@pytest.mark.slow
def test_too_many_rows_are_scored_by_sums_alone(tepid_here):
    rows, classes = 1 << 17, 1 << 9
    form = {"dtype": np.float16, "mode": "w+"}
    np.lib.format.open_memmap("many.npy", shape=(rows + 1, classes), **form)  # zeros in a hole
    np.save("labels.npy", np.arange(rows + 1) % 2)
    t = tepid.Temperature(2.0, "made", samples=9, classes=classes, implied_accuracy=0.5)
    t.save("many.json")
    code, out, err = tepid_here("score", "many.npy", "labels.npy", "-c", "many.json", "--json")
    assert code == 0
    assert "too many rows to keep in memory, so the measures have no intervals" in err
    printed = json.loads(out)
    assert set(printed) == {"samples", "before", "after"}
    assert printed["samples"] == rows + 1
    assert set(printed["after"]) == MEASURES
    assert printed["after"]["nll"] == pytest.approx(np.log(classes), rel=1e-6)


@pytest.mark.slow
def test_an_infinite_measure_is_null_in_json(tepid_here):
    np.save("p.npy", [[1.0, 0.0], [0.5, 0.5]])
    np.save("y.npy", [1, 0])
    printed = _json(tepid_here("score", "p.npy", "y.npy", "--probabilities", "--json"))
    assert printed["before"]["nll"] is None
    assert printed["before"]["accuracy"] == 0.5


# --- calibrators of more than one number


@pytest.mark.slow
@pytest.mark.parametrize("method", [pytest.param(m, marks=SLOW.get(m, ())) for m in METHODS])
def test_fit_apply_and_score_take_every_method(method, made, tepid_here):
    z, y = made
    line = ("fit", "z.npy", "--labels", "y.npy", "--method", method, "-o", "m.npz", "--json")
    code, out, err = tepid_here(*line)
    assert (code, err) == (0, "")
    printed = json.loads(out)
    expected = getattr(tepid.scaling, method)(z, y)
    p = expected(z)
    assert printed["method"] == method
    assert printed["keeps_argmax"] == expected.keeps_argmax
    assert printed["accuracy_before"] == (z.argmax(axis=1) == y).mean()
    assert printed["accuracy_after"] == pytest.approx(tepid.metrics.accuracy(y, p))
    assert printed["warnings"] == list(expected.warnings)
    code, _, _ = tepid_here("apply", "m.npz", "z.npy", "-o", "out.npy")
    assert code == 0
    np.testing.assert_array_equal(np.load("out.npy"), p)
    code, out, _ = tepid_here("score", "both.npz", "-c", "m.npz", "--json", "--draws", "0")
    assert json.loads(out)["after"]["brier"] == pytest.approx(tepid.metrics.brier(y, p))


def test_fit_says_what_a_method_does_to_the_accuracy(tepid_here):
    line = ("fit", "z.npy", "--labels", "y.npy", "--method", "isotonic", "-o", "m.npz")
    _, out, _ = tepid_here(*line)
    for words in ("accuracy before", "accuracy after", "keeps the argmax", "wrote m.npz"):
        assert words in out


# --- compare


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "latex", "json", "table"])
def test_compare_prints_in_every_form(form, tepid_here):
    line = ("compare", "both.npz", "--splits", "2", "--methods", "uncalibrated,temperature,vector")
    code, out, _ = tepid_here(*line, "--format", form)
    result = json.loads(tepid_here(*line, "--json")[1])
    assert code == 0
    assert all(name in out for name in result["methods"])
    nll = result["methods"]["temperature"]["nll"]
    best = min(m["nll"]["mean"] for m in result["methods"].values())
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(out)))
        row = next(r for r in rows if (r["method"], r["measure"]) == ("temperature", "nll"))
        assert (float(row["mean"]), float(row["sd"])) == (nll["mean"], nll["sd"])
        assert [float(r["mean"]) for r in rows if r["standing"] == "best" and r["measure"] == "nll"]
    elif form == "latex":
        assert out.startswith("\\begin{tabular}{lrrrr}\n\\toprule\n")
        assert f"{{\\boldmath${best:.4f} \\pm" in out
        assert "vector &  &" in out  # which has no temperature
    elif form == "table":
        assert f"{best:.4f} ±" in out.split(" *")[0]


@pytest.mark.slow
def test_compare_says_what_it_left_out(tepid_here):
    code, out, err = tepid_here("compare", "both.npz", "--splits", "1", "--methods", "all")
    assert code == 0
    assert "calibrate+models was left out: it needs another model." in err
    for name in METHODS:
        assert name in out


def test_compare_reports_mean_and_sd_of_every_method(made, tepid_here):
    printed = _json(
        tepid_here("compare", "both.npz", "--splits", "3", "--fraction", "0.4", "--json")
    )
    assert list(printed["methods"]) == [
        "uncalibrated", "uts", "temperature", "accuracy", "calibrate", "calibrate+labels",
        "calibrate+accuracy", "calibrate+all",
    ]  # fmt: skip
    for measured in printed["methods"].values():
        assert {"temperature", "nll", "ece", "accuracy"} <= set(measured)
        assert all(set(value) == {"mean", "sd"} for value in measured.values())
    assert printed["methods"]["uncalibrated"]["temperature"] == {"mean": 1.0, "sd": 0.0}
    mine = tepid.compare(*made, splits=3, fraction=0.4)["methods"]
    for name in ("uts", "temperature", "accuracy", "calibrate+all"):
        for measure in ("temperature", "nll", "ece"):
            assert printed["methods"][name][measure] == pytest.approx(mine[name][measure], rel=1e-6)


def test_compare_takes_a_seed_and_one_split(tepid_here):
    runs = [
        _json(tepid_here("compare", *files, "--splits", "1", "--seed", seed, "--json"))
        for files, seed in ((["both.npz"], 0), (["z.npy", "y.npy"], 0), (["z.csv"], 1))
    ]
    found = [run["methods"]["temperature"]["temperature"] for run in runs]
    assert found[0]["mean"] == pytest.approx(found[1]["mean"], rel=1e-9)
    assert found[0]["mean"] != pytest.approx(found[2]["mean"], rel=1e-6)
    assert found[0]["sd"] is None


def test_compare_draws_a_table(tepid_here):
    out = _human(tepid_here("compare", "both.npz", "--splits", "2", "--threads", "1"))
    for words in ("uncalibrated", "uts", "temperature", "accuracy", "±", "NLL", "ECE"):
        assert words in out


def test_compare_is_an_answer_for_a_network_that_is_always_wrong(tepid_here):
    np.save("wrong.npy", np.load("z.npy").argmin(axis=1))
    printed = _json(tepid_here("compare", "z.npy", "wrong.npy", "--splits", "2", "--json"))
    assert printed["methods"]["temperature"]["accuracy"]["mean"] == 0


# --- demo, version, help


def test_the_demo_shows_the_loop_of_asking_for_labels(tepid_here):
    out = _human(tepid_here("demo"))
    for words in (
        "Fashion-MNIST", "tepid fit logits.npy", "tepid ask logits.npy -n 25 -o to_label.csv",
        "--labels to_label.csv", "verdict: check", "verdict: use", "logits alone", "with labels",
        "before", "ECE", "█", "◆",
    ):  # fmt: skip
        assert words in out


def test_the_demo_speaks_json_too(tepid_here):
    printed = _json(tepid_here("demo", "--json"))
    assert list(printed["calibrations"]) == ["logits alone", "with labels"]
    for calibration in printed["calibrations"].values():
        assert list(calibration) == KEYS
    for name in ("before", *printed["calibrations"]):
        assert set(printed[name]) == MEASURES
        assert printed[name]["nll"] <= printed["before"]["nll"]


def test_the_version_is_told():
    told = f"tepid {importlib.metadata.version('tepid')}\n"
    assert _spawn("--version") == (0, told, "")


def test_help_imports_nothing_heavy():
    program = (
        "import sys, runpy\n"
        "sys.argv = ['tepid', '--help']\n"
        "try:\n"
        "    runpy.run_module('tepid', run_name='__main__')\n"
        "finally:\n"
        "    heavy = {'numpy', 'numba', 'scipy', 'sklearn', 'torch'} & set(sys.modules)\n"
        "    sys.stderr.write(' '.join(sorted(heavy)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_help_takes_less_than_half_a_second_of_processor():
    resource = pytest.importorskip("resource")

    def seconds():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _human(_spawn("--help"))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds(), seconds()) < 0.5


# --- refusals


def test_refusals_reach_a_shell(folder, tepid_here):
    before = _contents(folder)
    refused = {
        ("fit", "no.npy"): "logits file must exist, got no.npy",
        ("fit", "z.npy", "--accuracy", "93"): "accuracy must be in [0, 1], got 93",
        (
            "apply",
            "three.json",
            "z.npy",
            "-o",
            "out.npy",
        ): "the 3 classes of the calibration, got 4",
    }
    for args, said in refused.items():
        _assert_refused(tepid_here(*args), said, folder, before)
    result = _spawn("fit", "z.npy", "-o", "out.json", TEPID_THREADS="abc")
    said = "TEPID_THREADS must be a whole number in 1 to 256, got 'abc'"
    _assert_refused(result, said, folder, before)


UNREADABLE = (
    "-0.1", "nan", "high", "0.9..", ".1...2...3", "0.9±x", "0.9±", "9/", "1e", "90%..95",
)  # fmt: skip
REFUSED = {
    "fit no.npy": "logits file must exist, got no.npy",
    "fit no.npz#x": "logits file must exist, got no.npz",
    "fit z.txt": "logits file must end in one of .npy, .npz, .csv, .parquet",
    "fit cal.json": "logits file must end in one of .npy, .npz, .csv, .parquet",
    "fit s3::z.npy": "logits file must be a path or one URL, got the chain s3::z.npy",
    "fit both.npz#x": "both.npz must have a member 'x', got logits, labels",
    "fit grid.npy": "class_axis must say where the classes are, got shape (10, 4, 36)",
    "fit z.npy --class-axis 5": "class_axis must be an axis of logits, got 5",
    "fit z.npy --labels no.npy": "labels file must exist, got no.npy",
    "fit z.npy --labels u.npy": "labels of z.npy must be in 0..3, got 4 at row",
    "fit z.npy --labels labels": "labels must name a member of z.npy, which has no members",
    "fit both.npz --labels y": "labels must name a member of both.npz, which has logits, labels",
    "fit z.csv --labels y": "labels must name a column of z.csv, which has 'logit_0', 'logit_1'",
    "fit named.csv": "columns (--columns) must name the logits of named.csv, since it has no",
    "fit two.csv": "columns (--columns) must name the logits of two.csv, since they could be",
    "fit named.csv --columns cat,cow": "columns must be among 'cat', 'dog', 'eel', 'fox', 'label'",
    "fit named.csv --columns cat,cat": "columns must name each column of logits once",
    "fit z.csv --columns logit_0,labels --labels labels": "columns must not name labels, weights",
    "fit z.npy --columns 0,1": "columns must go with a table, got z.npy",
    "fit z.npy --where fold=1": "where must go with a table, got z.npy",
    "fit split.csv --where fold": "--where must be column=value, got fold",
    "fit split.csv --where =1": "--where must be column=value, got =1",
    "fit split.csv --where site=1": "where must name a column of split.csv, which has 'z1', 'z2'",
    "fit split.csv --where fold=1 --where fold=2": "--where must name each column once",
    "fit split.csv --where fold=9": "split.csv where fold=9 must have at least one row, got none",
    "fit z.npy --header": "header must go with a CSV file, got z.npy",
    "fit counted.csv": "counted.csv begins with 0,1,2…, which may be a header or data",
    "fit plain.csv --header": "columns (--columns) must name the logits of plain.csv",
    "fit z.csv --no-header": "z.csv must hold numbers, got 'logit_0' at row 0",
    "fit z.npy --labels z.npy": "labels must",
    "fit z.npy --accuracy 93": "accuracy must be in [0, 1], got 93",
    **{f"fit z.npy --accuracy {text}": f"186/200 or 0.91..0.95, got {text}" for text in UNREADABLE},
    "fit z.npy --accuracy 0.9..0.8": "accuracy must be a range from low to high, got",
    "fit z.npy --accuracy 200/186": "correct must be in 0 to 186 of at least one, got 200",
    "fit z.npy --accuracy 0.9±1": "standard error of accuracy must be in [0, 1), got 1",
    "fit z.npy --accuracy 0.9..93": "accuracy must be in [0, 1], got 93",
    "fit z.npy --threads 0": "threads must be a whole number in 1 to 256, got 0",
    "fit z.npy --sample-weight no.npy": "sample_weight file must exist, got no.npy",
    "fit z.npy --sample-weight z.npy": "sample_weight must",
    "fit z.npy --probabilities": "probabilities of z.npy must be in [0, 1], got",
    "fit z.npy -o no/out.json": "output must be in a folder that exists, got no/out.json",
    "fit z.npy -o .": "output must be a file, got the folder .",
    "fit z.npy -o z.npy": "output must not be one of the inputs, got z.npy",
    "fit z.npy -o ./z.npy": "output must not be one of the inputs, got z.npy",
    "fit both.npz#logits -o both.npz": "output must not be one of the inputs, got both.npz",
    "fit z.npy --labels y.npy -o y.npy": "output must not be one of the inputs, got y.npy",
    "fit z.npy --labels both.npz#labels -o both.npz": "output must not be one of the inputs",
    "fit z.npy --sample-weight u.npy -o u.npy": "output must not be one of the inputs, got u.npy",
    "apply cal.json z.npy -o z.npy": "output must not be one of the inputs, got z.npy",
    "apply cal.json z.npy -o cal.json": "output must not be one of the inputs, got cal.json",
    "apply cal.json both.npz#logits -o both.npz": "output must not be one of the inputs",
    "apply cal.json z.npy --groups u.npy -o u.npy": "output must not be one of the inputs",
    "apply cal.json *.npy -o z.npy": "output must not be one of the inputs, got z.npy",
    "apply cal.json . -o z.npy": "output must not be one of the inputs, got z.npy",
    "apply cal.json z.npy -o no/out.npy": "output must be in a folder that exists",
    "apply cal.json z.npy -o out.txt": "output must end in .npy, .npz, .csv or .parquet, got out",
    "apply no.json z.npy -o out.npy": "no.json",
    "apply . z.npy -o out.npy": "got a folder",
    "apply z.npy z.npy -o out.npy": "z.npy must be a calibration saved by tepid, got no JSON",
    "apply three.json z.npy -o out.npy": "must have the 3 classes of the calibration, got 4",
    "apply three.json z.npy -o p.npy": "must have the 3 classes of the calibration, got 4",
    "score z.npy y.npy -c three.json": "must have the 3 classes of the calibration, got 4",
    "score z.npy y.npy -c no.json": "no.json",
    "score z.npy u.npy": "labels of z.npy must be in 0..3, got 4 at row",
    "score grid.npy y.npy": "class_axis must say where the classes are",
    "compare both.npz --format pdf": "--format must be one of table, csv, latex, json, got pdf",
    "compare both.npz --methods uts,magic": "or all, got 'magic'",
    "compare both.npz --methods calibrate+models": "methods must come with another model for",
    "score both.npz --draws -1": "--draws must not be below zero, got -1",
    "fit z.npy --labels y.npy --method magic": "--method must be one of uts, temperature, accura",
    "fit z.npy --method vector": "--method vector must go with --labels, got it alone",
    "fit z.npy --method temperature": "--method temperature must go with --labels, got it alone",
    "fit z.npy --method accuracy": "--method accuracy must go with --accuracy, got it alone",
    "fit z.npy --method uts --labels y.npy": "--method uts must go without --labels, got both",
    "fit z.npy --method uts --models z.npy": "--method uts must go without --models, got both",
    "fit z.npy --method accuracy --accuracy 0.9 --labels y.npy": "must go without --labels",
    "fit z.npy --method temperature --labels some.npy": "labels of z.npy must be known",
    "fit z.npy --labels y.npy --method vector --engine dask": "--engine must be threads",
    "fit z.npy --labeled z.npy": "labels must name a member of z.npy, which has no members",
    "fit z.npy --source plain.csv": "labels must name a column of plain.csv",
    "fit z.npy --models no.npy": "file must exist, got no.npy",
    "fit z.npy --reference y.csv": "y.csv must exist, got no such file",
    "fit z.npy --ids y.npy --models z.npy": "ids must be different in every row, got",
    "fit z.npy -o z.npz --method uts": "output must end in .json, got z.npz",
    "fit z.npy --labels y.npy --method vector -o m.json": "output must end in .npz, got m.json",
    "fit z.npy --labels y.npy --method vector --groups y.npy": "--groups must go with",
    "compare both.npz --splits 0": "splits must be at least 1, got 0",
    "compare both.npz --fraction 0": "fraction must leave rows on both sides, got 0",
    "compare both.npz --fraction 1": "fraction must leave rows on both sides, got 1",
    "compare both.npz --fraction nan": "fraction must",
    "compare both.npz --fraction inf": "fraction must",
    "compare both.npz --seed -1": "seed must",
    "compare both.npz no.npy": "labels file must exist, got no.npy",
}


@pytest.mark.parametrize(("line", "said"), REFUSED.items(), ids=REFUSED.keys())
def test_bad_input_is_one_sentence_and_leaves_every_file_alone(line, said, folder, tepid_here):
    _write_csv("two.csv", ["a0", "a1", "b0", "b1"], *np.ones((4, 5)))
    (folder / "counted.csv").write_text("0,1,2\n3.5,1,0\n0,4,1\n")
    before = _contents(folder)
    _assert_refused(tepid_here(*line.split()), said, folder, before)


@pytest.mark.parametrize(
    "line",
    [
        "score z.npy",
        "compare z.npy",
        "score plain.csv",
        "compare named.csv --columns cat,dog,eel,fox",
        "score one.npz",
    ],
)
def test_labels_that_are_missing_are_missed_and_not_read_from_the_logits(
    line, folder, tepid_here, made
):
    np.savez("one.npz", scores=made[0])
    before = _contents(folder)
    result = tepid_here(*line.split())
    _assert_refused(result, "labels must name a ", folder, before)
    assert "got 'labels'" in result[2]


@pytest.mark.parametrize(
    ("bad", "got"),
    [
        (np.nan, "got nan for class 2 at row 200"),
        (np.inf, "got inf for class 2 at row 200"),
    ],
)
def test_a_bad_row_of_a_file_is_named_and_nothing_is_written(bad, got, folder, made, tepid_here):
    z = made[0].copy()
    z[200, 2] = bad
    np.save("bad.npy", z)
    before = _contents(folder)
    said = f"bad.npy must be finite, or -inf for a masked class, {got}"
    for line in (
        "fit bad.npy -o out.json",
        "fit bad.npy --labels y.npy -o cal.json",
        "fit bad.npy --accuracy 0.8 -o cal.json",
        "apply cal.json bad.npy -o p.npy",
        "apply cal.json bad.npy -o out.csv",
        "score bad.npy y.npy",
    ):
        _assert_refused(tepid_here(*line.split()), said, folder, before)


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_an_output_that_is_a_link_to_the_input_is_refused(link, folder, tepid_here):
    getattr(folder / "link.npy", link)(folder / "z.npy")
    getattr(folder / "link.npz", link)(folder / "both.npz")
    before = _contents(folder)
    for line in (
        "fit z.npy -o link.npy",
        "fit link.npy -o z.npy",
        "fit both.npz#logits -o link.npz",
        "apply cal.json z.npy -o link.npy",
        "apply cal.json link.npz#logits -o both.npz",
    ):
        said = f"output must not be one of the inputs, got {line.rpartition(' ')[2]}"
        _assert_refused(tepid_here(*line.split()), said, folder, before)
    assert (folder / "link.npy").samefile("z.npy")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_an_output_that_is_no_ordinary_file_is_refused_and_not_replaced(folder, tepid_here):
    """A device such as /dev/null must survive being named as an output."""
    os.mkfifo("pipe.npy")
    before = _contents(folder)
    for line in ("fit z.npy -o pipe.npy", "apply cal.json z.npy -o pipe.npy"):
        result = tepid_here(*line.split())
        assert (folder / "pipe.npy").is_fifo()
        _assert_refused(result, "output must be a file, got pipe.npy", folder, before)


BROKEN = [
    ("temperature", 0), ("temperature", -1.5), ("temperature", "2"), ("temperature", None),
    ("temperature", True), ("temperature", float("nan")), ("temperature", float("inf")),
    ("temperature", 10**400), ("temperature", [2.0]),
    ("method", 3), ("method", None),
    ("samples", -1), ("samples", 1.5), ("samples", "9"), ("samples", True),
    ("classes", 1), ("classes", "4"), ("classes", 4.0),
    ("implied_accuracy", 1.5), ("implied_accuracy", -0.1), ("implied_accuracy", float("nan")),
    ("implied_accuracy", "high"),
    ("status", "fine"), ("status", None), ("status", ["ok"]),
    ("interval", [1.0]), ("interval", [1.0, -2.0]), ("interval", 2.0), ("interval", "wide"),
    ("sensitivity", [1.0, 2.0, 3.0]), ("sensitivity", [None, 1.0]), ("sensitivity", {}),
    ("precision", 0), ("precision", "fine"),
    ("verdict", "maybe"), ("reason", None), ("next_step", 3), ("helps", 1.5), ("evidence", []),
    ("evidence", {"labels": 1.2}), ("tension", "labels"),
    ("warnings", "careful"), ("warnings", [1]), ("warnings", None),
    ("format", 3), ("format", 0), ("format", "1"), ("format", None), ("format", True),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), BROKEN, ids=lambda value: f"{value!s:.20}")
def test_a_wrong_field_of_a_calibration_is_named(field, value, folder, tepid_here):
    stored = json.loads((folder / "cal.json").read_text("utf-8"))
    (folder / "cal.json").write_text(json.dumps(stored | {field: value}), "utf-8")
    before = _contents(folder)
    result = tepid_here("apply", "cal.json", "z.npy", "-o", "out.npy")
    _assert_refused(result, "cal.json must have ", folder, before)
    assert f" {field} " in result[2]


@pytest.mark.parametrize("field", [key for key in KEYS if key != "tepid"])
def test_a_missing_field_of_a_calibration_is_named(field, folder, tepid_here):
    stored = json.loads((folder / "cal.json").read_text("utf-8"))
    del stored[field]
    (folder / "cal.json").write_text(json.dumps(stored), "utf-8")
    before = _contents(folder)
    result = tepid_here("score", "both.npz", "-c", "cal.json")
    _assert_refused(result, "cal.json must have ", folder, before)
    assert f" {field} " in result[2]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"T = 1.5\n"])
def test_a_file_that_is_no_calibration_is_refused(content, folder, tepid_here):
    (folder / "cal.json").write_bytes(content)
    before = _contents(folder)
    result = tepid_here("apply", "cal.json", "z.npy", "-o", "out.npy")
    _assert_refused(result, "cal.json must ", folder, before)


def test_a_damaged_file_is_one_sentence_too(folder, tepid_here):
    (folder / "z.npy").write_bytes((folder / "z.npy").read_bytes()[:-1])
    (folder / "z.csv").write_bytes(b"z0,z1\n1,2\ncaf\xe9,2\n")
    (folder / "both.npz").write_bytes((folder / "both.npz").read_bytes()[:-90])
    before = _contents(folder)
    for name in ("z.npy", "z.csv", "both.npz"):
        result = tepid_here("fit", name, "-o", "out.json")
        _assert_refused(result, f"tepid: {name} ", folder, before)


@pytest.mark.slow
def test_streams_that_are_closed_or_plain_do_no_harm(folder):
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "tepid", "fit", "z.npy"]
    done = subprocess.run(command, cwd=folder, env=ascii_only, capture_output=True, check=False)
    assert done.returncode == 0
    shell = " ".join(command)
    for closed in (">&-", "2>&-"):
        done = subprocess.run(f"{shell} {closed}", cwd=folder, shell=True, check=False)
        assert done.returncode == 0


def test_the_later_method_of_the_authors_is_in_the_laboratory(folder, made, tepid_here):
    z, y = made
    np.save(folder / "q.npy", [0.4, 0.3, 0.2, 0.1])
    expected = {
        "z.npy": from_odds(z),
        "z.npy --prior q.npy": from_odds(z, prior=[0.4, 0.3, 0.2, 0.1]),
        "z.npy --sample-weight u.npy": from_odds(tepid.sources.open_source(z, sample_weight=1 + y)),
        "split.csv --where fold=1 --columns z*": from_odds(z[1::3]),
    }
    for options, t in expected.items():
        printed = _json(tepid_here("lab", "odds", *options.split(), "-o", "out.json", "--json"))
        assert printed["method"] == "odds"
        assert printed["samples"] == t.samples
        assert printed["temperature"] == pytest.approx(t.value, rel=1e-6), options
        assert tepid.load("out.json").value == printed["temperature"]
    before = _contents(folder)
    for options, said in {
        "z.npy --prior no.npy": "prior file must exist, got no.npy",
        "z.npy --prior y.npy": "prior must be 4 frequencies above zero that sum to one",
        "z.npy -o out.npz": "output must end in .json, got out.npz",
        "z.npy --prior q.npy -o q.npy": "output must not be one of the inputs, got q.npy",
    }.items():
        _assert_refused(tepid_here("lab", "odds", *options.split()), said, folder, before)


# --- hostile names

# As markup, the first is a closing tag without an opening one, the second vanishes, the third is
# an emoji and the fourth changes the color.
HOSTILE = ("shard[/x]", "[scaling]", "a:cat:b", "[red]b")
LONG = "l" * 200  # longer than the lines of a pipe


@pytest.fixture
def hostile(folder):
    """The files of the working folder under a hostile name: `name(".npy")` is a path to one."""

    def prepare(stem):
        def name(ending):
            path = Path(f"{stem}{ending}")
            path.parent.mkdir(exist_ok=True)
            return str(path)

        for ending, given in {
            ".npy": "z.npy", ".y.npy": "y.npy", ".npz": "both.npz", ".csv": "z.csv",
            ".json": "cal.json",
        }.items():  # fmt: skip
            shutil.copy(folder / given, name(ending))
        return name

    return prepare


def _ran(result, *names):
    """What a command printed, in which each name stands as it is."""
    code, out, err = result
    assert code == 0, err
    for name in names:
        assert name in out
    return err


@pytest.mark.slow
@pytest.mark.parametrize("stem", [*HOSTILE, LONG])
def test_names_of_files_are_printed_as_they_are(stem, hostile, tepid_here):
    name = hostile(stem)
    z, y, cal, html = name(".npy"), name(".y.npy"), name(".json"), name(".html")
    sums, out, model = name(".sums.npz"), name(".out.npy"), name(".model.npz")
    for line, *printed in (
        (("fit", z, "--labels", y, "-o", cal, "--report", html), cal, html),
        (("fit", z, "--labels", y, "--method", "vector", "-o", model), model),
        (("fit", z, "--models", z, "--reference", y, "-o", cal), cal),
        (("ask", z, "-o", name(".ask.csv")), name(".ask.csv"), f"tepid fit {z} "),
        (("apply", cal, z, "-o", out), out),
        (("apply", cal, z, "-o", name("")), name("")),
        (("score", z, y, "-c", cal, "--draws", "0"),),
        (("compare", z, y, "--splits", "1"),),
        (("report", z, "--labels", y, "-c", cal, "-o", html), html),
        (("summarize", z, "-o", sums), sums),
        (("merge", sums, "-o", sums), sums),
        (("lab", "odds", z, "-o", cal), cal),
    ):
        _ran(tepid_here(*line), *printed)


@pytest.mark.parametrize("stem", HOSTILE)
def test_names_of_files_are_noted_and_refused_as_they_are(stem, hostile, tepid_here):
    name = hostile(stem)
    shutil.copy("p.npy", name(".p.npy"))
    base = Path(name(".p.npy")).name
    err = _ran(tepid_here("fit", name(".p.npy")))
    assert f"note The values of {base} look like probabilities" in err
    code, out, err = tepid_here("fit", name(".csv"), "--labels", "nosuch")
    assert (code, out) == (2, "")
    assert f"labels must name a column of {Path(name('.csv')).name}, which has" in err
    bad = np.load(name(".npy"))
    bad[7, 1] = np.nan
    np.save(name(".npy"), bad)
    for line in (
        ("fit", name(".npy")),
        ("apply", "cal.json", name(".npy"), "-o", "out.npy"),
        ("score", name(".npy"), "y.npy"),
        ("report", name(".npy"), "-o", "out.html"),
        ("summarize", name(".npy"), "-o", "out.npz"),
        ("lab", "odds", name(".npy")),
    ):
        code, out, err = tepid_here(*line)
        assert (code, out) == (2, "")
        assert f"{Path(name('.npy')).name} must be finite" in err


@pytest.mark.parametrize("stem", HOSTILE)
def test_names_of_groups_and_columns_are_printed_as_they_are(stem, made, tepid_here):
    groups = np.where(made[1] > 1, stem, "other")
    np.save("groups.npy", groups)
    _ran(tepid_here("fit", "z.npy", "--labels", "y.npy", "--groups", "groups.npy"), stem)
    code, _, err = tepid_here("fit", "z.csv", "--columns", stem)
    assert code == 2
    assert stem in err


@pytest.mark.slow
@pytest.mark.parametrize("stem", HOSTILE)
def test_the_laboratory_prints_names_as_they_are(stem, hostile, tepid_here):
    name = hostile(stem)
    runs = Path(name(".runs"))
    runs.mkdir()
    shutil.copy("both.npz", runs / "lenet5_mnist.npz")
    table = ("lab", "table", runs, "--seeds", "2")
    _ran(tepid_here(*table, "-o", name(".md")), name(".md"))
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    _ran(tepid_here("lab", "figures", runs, "-o", name(".figures")), f"{name('.figures')}{os.sep}")


@pytest.mark.parametrize("stem", HOSTILE)
def test_names_of_models_and_tensors_are_printed_as_they_are(stem, hostile, tepid_here):
    onnx = pytest.importorskip("onnx", reason="models need onnx")
    name = hostile(stem)
    kind = onnx.TensorProto.FLOAT
    x, z = (onnx.helper.make_tensor_value_info(n, kind, ["n", 4]) for n in ("x", stem))
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], [stem])], "g", [x], [z])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), name(".onnx"))
    line = ("onnx", name(".onnx"), "-c", name(".json"), "-o", name(".out.onnx"))
    _ran(tepid_here(*line), f"wrote {name('.out.onnx')}", f"its output {stem!r} gave logits")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "tepid: the command needs more memory than there is"),
        (RecursionError(), "tepid: folders and values must not be nested this deep"),
    ],
)
def test_too_little_memory_and_too_deep_a_nesting_are_one_sentence(
    error, sentence, tepid_here, monkeypatch
):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(tepid, "calibrate", fail)
    code, out, err = tepid_here("fit", "z.npy")
    assert (code, out) == (2, "")
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_a_number_of_threads_that_is_none_is_refused(tepid_here, monkeypatch):
    line = ("apply", "cal.json", "z.npy", "-o", "new.npy")
    for threads in ("-5", "0"):
        code, _, err = tepid_here(*line, "--threads", threads)
        assert code == 2
        assert f"threads must be a whole number in 1 to 256, got {threads}" in err
    monkeypatch.setenv("TEPID_THREADS", "abc")
    code, _, err = tepid_here(*line)
    assert code == 2
    assert "TEPID_THREADS must be a whole number in 1 to 256, got 'abc'" in err
    assert not Path("new.npy").exists()


def test_a_table_of_the_lab_does_not_replace_what_it_reads(tepid_here):
    Path("runs/one").mkdir(parents=True)
    np.savez("runs/lenet5_mnist.npz", logits=np.load("z.npy"), labels=np.load("y.npy"))
    Path("runs/one/run.json").write_text("{}")
    for path in ("runs/lenet5_mnist.npz", "runs/one/run.json"):
        before = Path(path).read_bytes()
        code, _, err = tepid_here("lab", "table", "runs", "--seeds", "2", "-o", path)
        assert (code, err) == (2, f"tepid: output must not be one of the inputs, got {path}\n")
        assert Path(path).read_bytes() == before
