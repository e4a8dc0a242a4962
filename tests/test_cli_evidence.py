"""`tepid fit` with every kind of evidence, and the loop of `tepid ask`."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import tepid
from tests.test_calibrate import fit, network, some

pytestmark = pytest.mark.usefixtures("folder")

Z, Y = network(rows=600, classes=4, strength=4.0)
Z = np.round(16 * Z) / 16  # text holds these exactly
OTHER, STRONG = (
    np.round(16 * (Z + i * np.random.default_rng(i).normal(size=Z.shape))) / 16 for i in (2, 1)
)
OLD, OLD_Y = network(seed=4, rows=500, classes=4, strength=4.0)
KNOWN = some(Y, 60)
NAMES = ("ant", "bee", "cat", "dog")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("z.npy", Z)
    np.save("known.npy", KNOWN)
    np.save("other.npy", OTHER)
    np.save("strong.npy", STRONG)
    np.savez("old.npz", logits=OLD, labels=OLD_Y)
    np.savez("few.npz", logits=OLD[:40], labels=OLD_Y[:40])
    ids = [f"row-{i}" for i in range(len(Z))]
    _write_table("z.csv", Z, id=ids)
    return tmp_path


def _write_table(path, logits, names=("z0", "z1", "z2", "z3"), **beside):
    with Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*beside, *names])
        columns = zip(*beside.values(), strict=True) if beside else [()] * len(logits)
        writer.writerows([*own, *row] for own, row in zip(columns, logits.tolist(), strict=True))
    return path


def _read_table(path):
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def _write_labels(path, rows):
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def run(tepid_here):
    """What a command printed; it must succeed."""

    def ran(line, *more):
        code, out, err = tepid_here(*line.split(), *more)
        assert code == 0, err
        return out

    return ran


@pytest.fixture
def refused(tepid_here):
    """The one sentence with which a command fails, which leaves every file alone."""

    def failed(line):
        before = {path: path.read_bytes() for path in Path().iterdir()}
        code, out, err = tepid_here(*line.split())
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert {path: path.read_bytes() for path in Path().iterdir()} == before
        return err

    return failed


def _printed(run, line):
    return json.loads(run(line, "--json"))


def _as_json(t):
    return json.loads(json.dumps(t.as_dict()))


# --- evidence


EVIDENCE = {
    "--labels known.npy": {"labels": KNOWN},
    "--labeled few.npz": {"labeled": (OLD[:40], OLD_Y[:40])},
    "--accuracy 0.8": {"accuracy": 0.8},
    "--models other.npy": {"models": [OTHER]},
    "--models other.npy --models strong.npy": {"models": [OTHER, STRONG]},
    "--reference strong.npy": {"reference": STRONG},
    "--reference known.npy": {"reference": KNOWN},
    "--source old.npz": {"source": (OLD, OLD_Y)},
}
EVIDENCE["all"] = {
    "labels": KNOWN,
    "labeled": (OLD[:40], OLD_Y[:40]),
    "accuracy": 0.8,
    "models": [OTHER],
    "reference": STRONG,
    "source": (OLD, OLD_Y),
}
ALL = (
    "--labels known.npy --labeled few.npz --accuracy 0.8 --models other.npy "
    "--reference strong.npy --source old.npz"
)


@pytest.mark.slow
@pytest.mark.parametrize("options", EVIDENCE)
def test_each_kind_of_evidence_and_all_together_count_as_in_the_library(options, run):
    printed = _printed(run, f"fit z.npy {ALL if options == 'all' else options} -o t.json")
    expected = fit(Z, **EVIDENCE[options])
    assert printed == _as_json(expected)
    assert tepid.load("t.json") == expected
    assert set(printed) >= {"verdict", "reason", "next_step", "evidence", "tension", "helps"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "accuracy"),
    [
        ("0.8", 0.8),
        ("80%", 0.8),
        (".8", 0.8),
        ("0.8±0.01", (0.8, 0.01)),
        ("0.8+-0.01", (0.8, 0.01)),
        ("0.8+/-0.01", (0.8, 0.01)),
        ("80±1%", (0.8, 0.01)),
        ("160/200", tepid.Counted(160, 200)),
        ("0.75..0.85", tepid.Range(0.75, 0.85)),
        ("75..85%", tepid.Range(0.75, 0.85)),
    ],
)
def test_an_accuracy_takes_every_form(text, accuracy, run):
    printed = _printed(run, f"fit z.npy --accuracy {text}")
    t = fit(Z, accuracy=accuracy)
    assert printed["temperature"] == pytest.approx(t.value, rel=1e-12)
    assert printed["interval"] == pytest.approx(t.interval, rel=1e-12)
    exact = _printed(run, f"fit z.npy --accuracy {text} --method accuracy")
    matched = tepid.match_accuracy(Z, accuracy)
    assert exact["temperature"] == pytest.approx(matched.value, rel=1e-12)
    assert exact["verdict"] is None


def test_logits_alone_of_low_confidence_write_one(run):
    np.save("flat.npy", 0.1 * Z)
    out = run("fit flat.npy -o t.json")
    assert "verdict: keep. " in out
    assert "next step: Label 25 random rows (tepid ask flat.npy -n 25 -o to_label.csv)" in out
    t = tepid.load("t.json")
    assert (t.value, t.verdict, t.status, t.helps) == (1.0, "keep", "not-identified", None)
    run("apply t.json flat.npy -o p.npy")
    np.testing.assert_allclose(np.load("p.npy"), t(0.1 * Z))


def test_tension_is_noted_and_saved(tepid_here):
    line = "fit z.npy --labels known.npy --accuracy 0.999±0.0001 --json -o t.json"
    code, out, err = tepid_here(*line.split())
    assert (code, err) == (0, "")
    assert json.loads(out)["tension"]
    t = tepid.load("t.json")
    code, out, err = tepid_here(*line.replace("--json ", "").split())
    for sentence in t.warnings:
        assert sentence in err
    assert f"next step: Check the {t.tension[0]}" in out


def test_evidence_in_other_files_is_read_like_the_logits(run):
    one = tepid.Temperature(1.0, "", samples=0, classes=4, implied_accuracy=0.5)
    np.save("p.npy", one(Z))
    np.savez("few_p.npz", logits=one(OLD[:40]), labels=OLD_Y[:40])
    _write_table("named.csv", Z, NAMES, fold=np.arange(600) % 3)
    swapped = OLD[:40][:, [3, 0, 1, 2]]
    _write_table("few.csv", swapped, ("dog", "ant", "bee", "cat"), labels=OLD_Y[:40])
    few = (OLD[:40], OLD_Y[:40])
    columns = "--columns ant,bee,cat,dog"
    for line, t in {
        "p.npy --probabilities --labeled few_p.npz": fit(Z, labeled=few),
        "p.npy --probabilities --models p.npy --accuracy 0.8": fit(Z, models=[Z], accuracy=0.8),
        f"named.csv {columns} --labeled few.csv": fit(Z, labeled=few),
        f"named.csv {columns} --header --source few.npz": fit(Z, source=few),
        f"named.csv {columns} --where fold=1 --labeled few.csv": fit(Z[1::3], labeled=few),
    }.items():
        printed = _printed(run, f"fit {line}")
        assert printed["temperature"] == pytest.approx(t.value, rel=1e-4), line
        assert printed["samples"] == t.samples


def test_models_and_a_judge_are_matched_by_id(run):
    order = np.random.default_rng(0).permutation(600)
    _write_table("other.csv", OTHER[order], id=[f"row-{i}" for i in order])
    _write_labels("judge.csv", [{"id": f"row-{i}", "label": str(Y[i])} for i in order[:200]])
    printed = _printed(
        run, "fit z.csv --ids id --models other.csv --reference judge.csv --labels judge.csv"
    )
    judged = np.full(600, -1)
    judged[order[:200]] = Y[order[:200]]
    t = fit(Z, judged, models=[OTHER], reference=judged)
    assert printed["temperature"] == pytest.approx(t.value, rel=1e-6)
    _write_table("less.csv", OTHER[1:], id=[f"row-{i}" for i in range(1, 600)])
    part = _printed(run, "fit z.csv --ids id --reference less.csv")
    holes = OTHER.copy()
    holes[0] = np.nan
    assert part["temperature"] == pytest.approx(fit(Z, reference=holes).value, rel=1e-6)


# --- asking for labels


def _answer(path, count=None, names=None):
    """Fill in the labels of a table as a person would; the others stay empty."""
    rows = _read_table(path)
    for row in rows[:count]:
        label = Y[int(row["id"].rpartition("-")[2])]
        row["label"] = str(label) if names is None else names[label]
    _write_labels(path, rows)
    return rows


def _labels_of(rows):
    known = np.full(600, -1)
    for row in rows:
        if row["label"]:
            place = int(row["id"].rpartition("-")[2])
            known[place] = Y[place]
    return known


def test_labels_that_were_asked_for_are_used(run):
    out = run("ask z.npy -n 40 -o to_label.csv")
    assert "wrote 40 of 600 rows to to_label.csv" in out
    assert "tepid fit z.npy --labels to_label.csv" in out
    rows = _read_table("to_label.csv")
    assert list(rows[0]) == ["id", "prediction", "label"]
    assert len({row["id"] for row in rows}) == 40
    for row in rows:
        assert row["prediction"] == str(Z[int(row["id"])].argmax())
        assert row["label"] == ""
    rows = _answer("to_label.csv")
    printed = _printed(run, "fit z.npy --labels to_label.csv")
    t = fit(Z, _labels_of(rows))
    assert printed == _as_json(t)
    assert set(printed["evidence"]) == {"logits", "labels"}


def test_empty_cells_are_left_out(run, refused):
    run("ask z.npy -n 40 -o to_label.csv")
    assert "labels" in refused("fit z.npy --labels to_label.csv")
    rows = _answer("to_label.csv", 15)
    t = fit(Z, _labels_of(rows))
    assert _printed(run, "fit z.npy --labels to_label.csv") == _as_json(t)


def test_the_rows_to_label_are_a_random_sample(run):
    chosen = []
    for seed in (0, 0, 1):
        run(f"ask z.npy -n 200 --seed {seed} -o {len(chosen)}.csv")
        chosen.append([int(row["id"]) for row in _read_table(f"{len(chosen)}.csv")])
    assert chosen[0] == chosen[1] != chosen[2]
    confidence = Z.max(axis=1) - np.sort(Z, axis=1)[:, -2]
    error = confidence.std() / np.sqrt(200)
    assert abs(confidence[chosen[0]].mean() - confidence.mean()) < 4 * error
    assert _printed(run, "ask z.npy -n 9999 -o all.csv")["rows"] == 600


def test_more_rows_are_added_to_an_earlier_file(run, refused):
    run("ask z.npy -n 20 -o one.csv")
    _answer("one.csv")
    printed = _printed(run, "ask z.npy -n 30 --labels one.csv -o two.csv")
    assert (printed["rows"], printed["new"], printed["of"]) == (50, 30, 600)
    rows = _read_table("two.csv")
    assert rows[:20] == _read_table("one.csv")
    assert {row["label"] for row in rows[20:]} == {""}
    assert len({row["id"] for row in rows}) == 50
    assert "output must not exist, since it may hold labels" in refused("ask z.npy -o two.csv")


def test_ids_classes_and_texts_are_written_and_read_back(run):
    Path("texts.txt").write_text("".join(f"text, of {i}\n" for i in range(600)))
    Path("names.txt").write_text("\n".join(NAMES))
    line = "ask z.csv --ids id --texts texts.txt --classes names.txt -n 50 -o to_label.csv"
    out = run(line)
    assert "tepid fit z.csv --ids id --classes names.txt --labels to_label.csv" in out
    rows = _answer("to_label.csv", names=NAMES)
    for row in rows:
        place = int(row["id"].removeprefix("row-"))
        assert row["text"] == f"text, of {place}"
        assert row["prediction"] == NAMES[Z[place].argmax()]
    t = fit(Z, _labels_of(rows))
    for classes in ("names.txt", ",".join(NAMES)):
        printed = _printed(run, f"fit z.csv --ids id --labels to_label.csv --classes {classes}")
        assert printed == _as_json(t)


def test_names_of_columns_are_names_of_classes(run):
    _write_table("named.csv", Z, NAMES)
    run("ask named.csv --columns ant,bee,cat,dog -n 50 -o to_label.csv")
    rows = _answer("to_label.csv", names=NAMES)
    assert {row["prediction"] for row in rows} <= set(NAMES)
    printed = _printed(run, "fit named.csv --columns ant,bee,cat,dog --labels to_label.csv")
    assert printed["temperature"] == pytest.approx(fit(Z, _labels_of(rows)).value, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"label": "9"}, r"line 4"),
        ({"label": "wolf"}, r"line 4"),
        ({"label": "1.5"}, r"line 4"),
        ({"id": "9999"}, "9999"),
        ({"id": ""}, "line 4"),
    ],
)
def test_a_wrong_answer_is_refused_by_its_line(change, sentence, run, refused):
    run("ask z.npy -n 10 -o to_label.csv")
    rows = _answer("to_label.csv")
    rows[2] |= change
    _write_labels("to_label.csv", rows)
    error = refused("fit z.npy --labels to_label.csv")
    assert sentence in error
    assert "to_label.csv" in error


def test_an_id_that_is_there_twice_is_refused(run, refused):
    run("ask z.npy -n 10 -o to_label.csv")
    rows = _answer("to_label.csv")
    _write_labels("to_label.csv", [*rows, rows[0]])
    assert rows[0]["id"] in refused("fit z.npy --labels to_label.csv")


@pytest.mark.parametrize("key", ["007", "٣", "-0", "9" * 20, "9" * 5000])
def test_an_id_that_is_no_row_number_is_refused_by_ask_as_by_fit(key, refused):
    Path("known.csv").write_text(f"id,label\n7,1\n{key},2\n", encoding="utf-8")
    for line in ("ask z.npy -n 3 --labels known.csv -o more.csv", "fit z.npy --labels known.csv"):
        assert "must have the ids of rows of z.npy, got" in refused(line)
    assert not Path("more.csv").exists()


def test_labels_by_id_go_with_calibrate_alone(run, refused):
    run("ask z.npy -n 10 -o to_label.csv")
    _answer("to_label.csv")
    error = refused("fit z.npy --labels to_label.csv --method temperature")
    assert "must have a label for every row, got labels by id; leave out --method" in error


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("ask z.npy -o out.txt", "output must end in .csv, got out.txt"),
        ("ask z.csv --ids id -o z.csv", "output must not be one of the inputs, got z.csv"),
        ("ask no.npy -o out.csv", "logits file must exist, got no.npy"),
        ("ask z.npy --texts short.txt -o out.csv", "must have a line for each of the 600 rows"),
        ("ask z.npy --classes a,b -o out.csv", "--classes must name the 4 classes of the logits"),
        ("ask z.csv --ids nosuch -o out.csv", "nosuch"),
        ("ask z.npy --labels none.csv -o out.csv", "none.csv"),
        ("ask z.npy --labels z.csv -o out.csv", "label"),
    ],
)
def test_asking_for_what_is_not_there_is_refused(line, sentence, refused):
    Path("short.txt").write_text("one\n")
    assert sentence in refused(line)


@pytest.mark.parametrize(
    "text",
    [
        "id;label\n3;1\n5;\n",
        "id , label\n3, 1\n5,\n",
        "id,label\n3.0,1\n5.0,\n",
        "\ufeffid,label\r\n3,1\r\n5,\r\n",
    ],
)
def test_an_earlier_file_may_be_written_by_another_program(text, run):
    Path("earlier.csv").write_text(text, encoding="utf-8", newline="")
    run("ask z.npy -n 4 --labels earlier.csv -o more.csv")
    rows = _read_table("more.csv")
    assert [row["id"] for row in rows[:2]] == ["3", "5"]
    assert [row["label"] for row in rows[:2]] == ["1", ""]
    assert len({row["id"] for row in rows}) == 6
    assert all(row["prediction"] == str(Z[int(row["id"])].argmax()) for row in rows)
    shown = run("fit z.npy --labels more.csv")
    assert "--labels more.csv -o more-2.csv" in shown  # a command that is not refused


def test_an_id_that_no_row_has_is_refused_before_more_are_asked(refused):
    Path("earlier.csv").write_text("id,label\n9999,1\n")
    assert "'9999'" in refused("ask z.npy -n 4 --labels earlier.csv -o more.csv")


def test_text_files_that_are_none_are_refused(refused):
    for line in ("ask z.npy -o a.csv --texts z.npy", "ask z.npy -o a.csv --classes z.npy"):
        assert "must be text in UTF-8" in refused(line)


def test_the_next_command_repeats_how_the_rows_are_read(run):
    _write_table("named.csv", Z, names=NAMES, id=[f"r{i}" for i in range(len(Z))])
    printed = run("ask named.csv --columns ant,bee,cat,dog --ids id -n 3 -o a.csv")
    assert "tepid fit named.csv --ids id --columns ant,bee,cat,dog --labels a.csv" in printed
