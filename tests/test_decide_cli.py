"""`tepid decide`, `tepid sets` and `tepid performance`; and the benchmark of decisions."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tepid
from tests.scripts import benchmark

ROOT = Path(__file__).parents[1]
NAMES = ["ant", "bee", "cat", "dog"]


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(11)
    posterior = 2 * rng.normal(size=(600, 4))
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    return (2 * posterior).astype(np.float32), labels


@pytest.fixture(scope="module")
def calibrations(made):
    z, _ = made
    site = np.where(np.arange(600) % 2, "north", "south")
    return {
        "calibration": tepid.calibrate(z, accuracy=(0.8, 0.01)),
        "groups": tepid.calibrate(z, accuracy=(0.8, 0.01), groups=site),
        "alone": tepid.calibrate(z),
    }


@pytest.fixture(autouse=True)
def folder(made, calibrations, tmp_path, monkeypatch):
    z, y = made
    monkeypatch.chdir(tmp_path)
    np.save("z.npy", z)
    np.savez("labeled.npz", logits=z[:100], labels=y[:100])
    np.save("grid.npy", np.moveaxis(z.reshape(6, 100, 4), -1, 1))
    np.save("binary.npy", z[:, 1] - z[:, 0])
    head = "key,site,split," + ",".join(NAMES)
    with Path("z.csv").open("w") as file:
        print(head, file=file)
        for row, values in enumerate(z.tolist()):
            side = f"row-{row},{'north' if row % 2 else 'south'},{row % 3}"
            print(side, *(f"{v:.9g}" for v in values), sep=",", file=file)
    for name, temperature in calibrations.items():
        temperature.save(f"{name}.json")
    return tmp_path


def _json(result):
    code, out, _ = result
    assert code == 0, result
    return json.loads(out)


def _table(path):
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_decide_writes_a_row_for_each_row(made, tepid_here):
    z, _ = made
    t = tepid.load("calibration.json")
    found = t.threshold(z, precision=0.9)
    for more, cautious in (([], False), (["--cautious"], True)):
        command = ("decide", "z.npy", "-c", "calibration.json", "--precision", 0.9)
        code, out, err = tepid_here(*command, "-o", "d.csv", *more)
        assert (code, err) == (0, "")
        for word in ("cautious", "expected precision", "verdict", "assumption", "wrote 600 rows"):
            assert word in out
        assert f"{found.accepted.threshold:.4f}" in out
        rows = _table("d.csv")
        assert [row["id"] for row in rows] == [str(i) for i in range(600)]
        assert [int(row["prediction"]) for row in rows] == z.argmax(axis=1).tolist()
        confidence = [float(row["confidence"]) for row in rows]
        assert confidence == pytest.approx(t(z).max(axis=1), abs=1e-6)
        accepted = [row["accepted"] == "true" for row in rows]
        assert accepted == found(z, cautious=cautious).tolist()


def test_json_is_what_python_gives(made, tepid_here):
    z, _ = made
    t = tepid.load("calibration.json")
    common = ("z.npy", "-c", "calibration.json", "--json")
    cost = _json(tepid_here("decide", *common, "--cost", "10:1", "--per-class"))
    assert cost == t.threshold(z, cost=(10, 1), per_class=True).as_dict()
    sets = _json(tepid_here("sets", *common, "--coverage", 0.8, "--labeled", "labeled.npz"))
    with np.load("labeled.npz") as rows:
        labeled = (rows["logits"], rows["labels"])
    assert sets == t.prediction_sets(z, 0.8, labeled=labeled).as_dict()
    assert _json(tepid_here("performance", *common)) == t.expected_performance(z).as_dict()


def test_sets_are_lists_in_parquet_and_joined_in_csv(made, tepid_here):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    z, _ = made
    inside = tepid.load("calibration.json").prediction_sets(z, 0.9)(z)
    named = [[NAMES[k] for k in np.flatnonzero(row)] for row in inside]
    command = ("sets", "z.npy", "-c", "calibration.json", "--classes", ",".join(NAMES))
    for out in ("s.csv", "s.parquet"):
        shown = _json(tepid_here(*command, "-o", out, "--json"))
        assert (shown["output"], shown["written"]) == (out, 600)
    assert [row["set"] for row in _table("s.csv")] == ["|".join(each) for each in named]
    assert parquet.read_table("s.parquet").column("set").to_pylist() == named
    code, out, _ = tepid_here("sets", "z.npy", "-c", "calibration.json", "-o", "n.parquet",
                              "--labeled", "labeled.npz")  # fmt: skip
    assert code == 0
    assert "split conformal" in out
    assert "mean size" in out
    table = parquet.read_table("n.parquet")
    assert table.column_names == ["id", "set", "conformal"]
    assert table.column("set").to_pylist() == [np.flatnonzero(row).tolist() for row in inside]


def test_performance_prints_classes_and_the_confusion_matrix(tepid_here):
    code, out, err = tepid_here("performance", "z.csv", "-c", "calibration.json", "--columns",
                                ",".join(NAMES))  # fmt: skip
    assert (code, err) == (0, "")
    for word in ("accuracy", "log loss", "Brier", "recall", "cat", "confusion matrix"):
        assert word in out
    assert "AUC" not in out
    tepid.calibrate(np.load("binary.npy"), accuracy=0.8).save("two.json")
    assert "ROC AUC" in tepid_here("performance", "binary.npy", "-c", "two.json")[1]


def test_tables_give_ids_names_and_groups(made, tepid_here):
    z, _ = made
    command = ("z.csv", "-c", "groups.json", "--columns", ",".join(NAMES), "--groups", "site",
               "--ids", "key")  # fmt: skip
    code, _, err = tepid_here("decide", *command, "-o", "d.csv", "--coverage", 0.5)
    assert (code, err) == (0, "")
    rows = _table("d.csv")
    assert rows[7]["id"] == "row-7"
    assert [row["prediction"] for row in rows] == [NAMES[k] for k in z.argmax(axis=1)]
    t = tepid.load("groups.json")
    site = np.where(np.arange(600) % 2, "north", "south")
    confidence = t(z, groups=site).max(axis=1)
    assert [float(row["confidence"]) for row in rows] == pytest.approx(confidence, abs=1e-6)
    some = _json(tepid_here("decide", *command, "--where", "split=1", "--json"))
    assert some["rows"] == 200
    code, _, err = tepid_here("decide", *command[:5])
    assert code == 0
    assert "without --groups every row gets the T of all rows" in err


def test_reading_options_reach_the_rows(made, tepid_here):
    z, _ = made
    plain = _json(tepid_here("decide", "z.npy", "-c", "calibration.json", "--json"))
    np.save("p.npy", tepid.Temperature(1.0, "", samples=0, classes=4, implied_accuracy=0)(z))
    np.save("u.npy", np.ones(600))
    for more in (
        ("grid.npy", "--class-axis", 1),
        ("p.npy", "--probabilities"),
        ("z.npy", "--sample-weight", "u.npy", "--threads", 2),
    ):
        found = _json(tepid_here("decide", *more, "-c", "calibration.json", "--json"))
        assert found["accepted"]["share"] == pytest.approx(plain["accepted"]["share"], abs=0.005)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("decide", "z.npy", "-c", "alone.json"), "next step: Label 25 random rows (tepid ask z.n"),
        (("sets", "z.npy", "-c", "alone.json"), "logits alone do not identify; next step"),
        (("decide", "z.npy", "-c", "calibration.json", "--cost", "10"), "such as 10:1, got 10"),
        (("decide", "z.npy", "-c", "calibration.json", "--cost", "1:0"), "two numbers above zero"),
        (("decide", "z.npy", "-c", "calibration.json", "--precision", 2), "precision must be in"),
        (
            ("decide", "z.npy", "-c", "calibration.json", "--precision", 0.9, "--coverage", 0.9),
            "got precision and coverage",
        ),
        (("sets", "z.npy", "-c", "calibration.json", "--coverage", 1), "coverage must be in"),
        (("sets", "z.npy", "-c", "missing.json"), "missing.json"),
        (("decide", "binary.npy", "-c", "calibration.json"), "4 classes"),
        (("decide", "z.npy", "-c", "calibration.json", "--classes", "a,b"), "4 classes"),
        (("decide", "bad.npy", "-c", "calibration.json"), "row 599"),
    ],
)
def test_bad_input_is_one_sentence_and_touches_no_file(command, words, made, tepid_here):
    bad = made[0].copy()
    bad[-1, 0] = np.nan
    np.save("bad.npy", bad)
    Path("out.csv").write_text("kept")
    before = sorted(Path().iterdir())
    code, out, err = tepid_here(*command, "-o", "out.csv")
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert Path("out.csv").read_text() == "kept"
    assert sorted(Path().iterdir()) == before


def test_outputs_that_cannot_be_written_are_refused(tepid_here):
    for out, words in (
        ("d.npy", "must end in .csv or .parquet"),
        ("no/d.csv", "in a folder that exists"),
        ("z.csv", "must not be one of the inputs"),
    ):
        code, _, err = tepid_here("decide", "z.csv", "-c", "calibration.json", "-o", out)
        assert code == 2
        assert words in err
    code, _, err = tepid_here("decide", "z.npy", "-c", "calibration.json", "--cautious")
    assert code == 2
    assert "--cautious must go with -o" in err


# The benchmark ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_benchmark_measures_every_row_on_sets_of_ones_own(tmp_path):
    sets, rng = tmp_path / "sets", np.random.default_rng(3)
    sets.mkdir()
    for name, right in (("over", 3.0), ("under", 0.6)):
        posterior = 3 * rng.normal(size=(1500, 4))
        y = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
        np.savez(sets / f"{name}.npz", logits=(right * posterior).astype("f4"), labels=y)
    script = ROOT / "benchmarks" / "decisions.py"
    command = [sys.executable, script, sets, "--quick", "--workers", 1, "--results", tmp_path]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "decisions.json").read_text())
    targets = benchmark("decisions_tables").read_targets()
    for part in ("precision", "sets"):
        for wanted in ("0.90", "0.95"):
            assert found[part][wanted].keys() == targets[part][wanted].keys()
    assert found["performance"].keys() == targets["performance"].keys()
    # One temperature is right here, so that what was promised is kept.
    assert found["precision"]["0.90"]["TS on 20 % labels"]["error"] < 0.04
    assert found["sets"]["0.90"]["TS on 20 % labels"]["error"] < 0.03
    assert found["performance"]["TS on 20 % labels"]["error"] < 0.03
    assert found["performance"]["T = 1"]["error"] > 0.05


def test_the_committed_figures_are_those_of_the_39_sets():
    found = json.loads((ROOT / "benchmarks/results/decisions.json").read_text())
    tables = benchmark("decisions_tables")
    counted = [found[name] for name in ("sets_judged", "splits", "draws", "seeds")]
    assert counted == [39, 2, 2, 20]
    assert found["command"].startswith("python benchmarks/decisions.py")
    assert found["missed"] == tables.missed(found, tables.read_targets())
    outside = [each for each in found["missed"] if each["verdict"] == tables.OUTSIDE]
    # The page explains both.
    explained = {("TS on 20 % labels", "cover"), ("UTS", "size")}
    assert {(each["row"], each["figure"]) for each in outside} <= explained


def test_the_page_has_the_measured_figures():
    found = json.loads((ROOT / "benchmarks/results/decisions.json").read_text())
    tables, page = (
        (ROOT / "docs" / name).read_text(encoding="utf-8")
        for name in ("benchmarks.md", "decisions.md")
    )
    assert f"-->\n{benchmark('tables').decisions(found)}\n<!-- end -->" in tables
    page = " ".join(page.split())
    precision = found["precision"]["0.95"]
    alone, cautious = (precision[f"logits alone{end}"] for end in ("", ", cautious"))
    assert f"miss the target precision on {100 * alone['short']:.0f} % of the sets" in page
    assert f"accepts {100 * cautious['accepted']:.0f} % of the rows. So" in page
    for row in ("accuracy ±.02", "25 labels", "25 labels + accuracy ±.03"):
        assert precision[f"{row}, cautious"]["short"] <= 2 / 39  # "nearly every set"


def test_the_page_prints_what_the_threshold_is():
    page = (ROOT / "docs/decisions.md").read_text(encoding="utf-8")
    data = tepid.demo.fashion()
    asked = np.random.default_rng(0).permutation(len(data["labels"]))[:25]
    known = np.full(len(data["labels"]), -1)
    known[asked] = data["labels"][asked]
    found = tepid.calibrate(data["logits"], known).threshold(data["logits"], precision=0.95)
    assert f"```text\n{found}\n```" in page


# --- names of classes


def test_a_list_of_names_may_be_longer_than_the_name_of_a_file(tepid_here):
    names = ",".join(name * 40 for name in NAMES)
    for command in ("decide", "sets"):
        given = ("-c", "calibration.json", "--classes", names, "-o", f"{command}.csv")
        assert tepid_here(command, "z.npy", *given)[0] == 0
        assert NAMES[0] * 40 in Path(f"{command}.csv").read_text()
    given = ("--classes", names, "-o", "fit.json")
    assert tepid_here("fit", "z.npy", *given)[0] == 0
    assert tepid_here("ask", "z.npy", "--classes", names, "-o", "ask.csv")[0] == 0


def test_a_list_of_label_columns_may_be_longer_than_the_name_of_a_file(made, tepid_here):
    z, _ = made
    columns = {f"{kind}{'x' * 80}{k}": z[:, k] for k in range(4) for kind in ("z", "y")}
    table = {name: v if name[0] == "z" else v > 0 for name, v in columns.items()}
    with Path("many.csv").open("w") as file:
        print(*table, sep=",", file=file)
        for row in zip(*table.values(), strict=True):
            print(*(f"{value:.6g}" for value in row), sep=",", file=file)
    logits, labels = (",".join(name for name in table if name[0] == kind) for kind in "zy")
    Path("t.json").touch()
    given = ("--multilabel", "--columns", logits, "--labels", labels, "-o", "t.json")
    code, _, err = tepid_here("fit", "many.csv", *given)
    assert code == 0, err


@pytest.mark.parametrize("command", ["decide", "sets", "performance", "ask"])
@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ("a,b", "--classes must name the 4 classes of the logits, got 2 names"),
        ("a,b,c,d,e", "--classes must name the 4 classes of the logits, got 5 names"),
        ("a,b,a,d", "--classes must have different names, got 'a' twice"),
    ],
)
def test_wrong_names_of_classes_are_refused(command, names, sentence, made, tepid_here):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"logits": list(made[0])}), "z.parquet")
    given = ["--classes", names]
    given += [] if command == "ask" else ["-c", "calibration.json"]
    given += [] if command == "performance" else ["-o", "out.csv"]
    for data in (["z.npy"], ["z.parquet", "--columns", "logits"]):
        assert tepid_here(command, *data, *given) == (2, "", f"tepid: {sentence}\n")
    assert not Path("out.csv").exists()
    code, _, err = tepid_here("fit", "z.parquet", "--columns", "logits", "--classes", names)
    assert (code, err) == (2, f"tepid: {sentence.removeprefix('--')}\n")


@pytest.mark.parametrize("command", ["decide", "sets"])
def test_the_file_of_class_names_is_not_overwritten(command, tepid_here):
    Path("names.csv").write_text("\n".join(NAMES))
    given = ("-c", "calibration.json", "--classes", "names.csv", "-o", "names.csv")
    code, _, err = tepid_here(command, "z.npy", *given)
    assert (code, err) == (2, "tepid: output must not be one of the inputs, got names.csv\n")
    assert Path("names.csv").read_text().split() == NAMES


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_text_that_utf8_cannot_hold_is_refused(ending, made, tepid_here):
    z, _ = made
    ids = [str(row) for row in range(len(z))]
    ids[5] = "a\ud800"
    np.savez("odd.npz", logits=z, id=np.array(ids))
    sentence = r"id must be text that UTF-8 can hold, got 'a\ud800' at row 5"
    given = ("-c", "calibration.json", "--ids", "id", "-o", f"out.{ending}")
    for command in ("decide", "sets"):
        assert tepid_here(command, "odd.npz", *given) == (2, "", f"tepid: {sentence}\n")
    given = ("--ids", "id", "-n", "600", "-o", "out.csv")
    assert tepid_here("ask", "odd.npz", *given)[::2] == (2, f"tepid: {sentence}\n")
    names = ("-c", "calibration.json", "--classes", "a,b,c,\udcff", "-o", f"out.{ending}")
    for command, column in (("decide", "prediction"), ("sets", "set")):
        code, _, err = tepid_here(command, "z.npy", *names)
        assert (code, f"tepid: {column} must be text that UTF-8 can hold" in err) == (2, True)
    assert not Path(f"out.{ending}").exists()


def test_control_characters_do_not_reach_the_terminal(tepid_here):
    saved = json.loads(Path("calibration.json").read_text())
    Path("odd.json").write_text(json.dumps(saved | {"reason": "\x1b[31mred\x07\nforged"}))
    for line in (
        ("apply", "odd.json", "z.npy", "-o", "p.npy"),
        ("decide", "z.npy", "-c", "odd.json"),
    ):
        code, out, err = tepid_here(*line)
        assert code == 0
        assert r"\x1b[31mred\x07\nforged" in out + err
        assert not {"\x1b", "\x07"} & set(out + err)
