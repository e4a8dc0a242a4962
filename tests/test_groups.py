"""One temperature per group: what each group gets, and what merges."""

import csv
import json
import math
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tepid
from tepid.engines import Threads
from tepid.shapes import rows_per_batch
from tests.precision import apart

SITES = ("clinic", "field", "tiny")


def _sites(scales=(1.0, 3.0, 2.0), sizes=(4000, 3000, 60), seed=11):
    """Logits whose right temperature differs by site: (logits, labels, site of each row)."""
    rng = np.random.default_rng(seed)
    posterior = 4 * rng.normal(size=(sum(sizes), 6))
    labels = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
    sites = np.repeat(SITES[: len(sizes)], sizes)
    order = rng.permutation(len(sites))
    z = posterior * np.repeat(scales, sizes)[:, None]
    return z[order], labels[order], sites[order]


Z, Y, G = _sites()
PEER, THIRD = (
    Z + 0.4 * np.abs(Z).mean(axis=1, keepdims=True) * np.random.default_rng(i).normal(size=Z.shape)
    for i in (1, 2)
)
OLD = 2 * 4 * np.random.default_rng(3).normal(size=(2000, 6))
OLD_Y = (OLD / 2 + np.random.default_rng(4).gumbel(size=OLD.shape)).argmax(axis=1)

KNOWN = np.where(np.arange(len(Y)) % 5 == 0, Y, -1)
FEW = np.arange(0, len(Z), 20)


def _calibrated(z, **options):
    """`calibrate` without its warnings on weak evidence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tepid.CalibrationWarning)
        return tepid.calibrate(z, **options)


def _labeled(z, **o):
    """Labeled rows from elsewhere, with their own groups."""
    few = tepid.open_source(Z[FEW], labels=Y[FEW], groups=G[FEW] if "groups" in o else None)
    return _calibrated(z, labeled=few, **o)


METHODS = {
    "temperature": lambda z, rows, **o: tepid.temperature_scaling(z, Y[rows], **o),
    "uts": lambda z, rows, **o: tepid.uts(z, **o),  # one signature
    "accuracy": lambda z, rows, **o: tepid.match_accuracy(z, 0.8, **o),
    "calibrate+labels": lambda z, rows, **o: _calibrated(z, labels=KNOWN[rows], **o),
    "calibrate+labeled": lambda z, rows, **o: _labeled(z, **o),
    "calibrate+models": lambda z, rows, **o: _calibrated(z, models=[PEER[rows], THIRD[rows]], **o),
    "calibrate+reference": lambda z, rows, **o: _calibrated(z, reference=PEER[rows], **o),
    "calibrate+judge": lambda z, rows, **o: _calibrated(z, reference=KNOWN[rows], **o),
    "calibrate+source": lambda z, rows, **o: _calibrated(z, source=(OLD, OLD_Y), **o),
    "calibrate+all": lambda z, rows, **o: _calibrated(
        z, labels=KNOWN[rows], models=[PEER[rows]], reference=THIRD[rows], source=(OLD, OLD_Y), **o
    ),
}
EXACT = [name for name in METHODS if "calibrate" not in name]
ALL = np.arange(len(Z))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_each_group_a_temperature_and_leaves_that_of_all_alone(name):
    fit = METHODS[name]
    plain, t = fit(Z, ALL), fit(Z, ALL, groups=G)
    assert (t.value, t.interval, t.warnings) == (plain.value, plain.interval, plain.warnings)
    assert sorted(t.groups) == sorted(SITES)
    for site, part in t.groups.items():
        assert part.status in ("ok", "weak")
        rows = site == G
        assert part.samples == rows.sum()
        confidence = part(Z[rows]).max(axis=1).mean()
        assert part.implied_accuracy == pytest.approx(confidence, rel=1e-5)


@pytest.mark.parametrize("name", [*EXACT, "calibrate+labels"])
def test_a_large_group_that_differs_keeps_what_its_rows_alone_give(name):
    fit = METHODS[name]
    t = fit(Z, ALL, groups=G)
    for site in ("clinic", "field"):
        rows = np.flatnonzero(site == G)
        alone = fit(Z[rows], rows).value
        assert abs(math.log(t.groups[site].value / alone)) < 0.05 * abs(math.log(t.value / alone))


def test_a_small_group_lies_between_its_own_and_the_pooled_temperature():
    t = tepid.temperature_scaling(Z, Y, groups=G)
    rows = G == "tiny"
    alone = tepid.temperature_scaling(Z[rows], Y[rows])
    low, high = sorted((alone.value, t.value))
    assert low < t.groups["tiny"].value < high
    assert f"These rows alone gave T = {alone.value:.4g}" in t.groups["tiny"].warnings[0]
    assert t.groups["tiny"].samples == 60


def test_the_moments_say_how_far_groups_differ():
    """DerSimonian and Laird's variance and the shrinkage, by the book."""
    t = tepid.temperature_scaling(Z, Y, groups=G)
    alone = {s: tepid.temperature_scaling(Z[s == G], Y[s == G]) for s in SITES}
    x = np.array([math.log(alone[s].value) for s in SITES])
    s = np.array([math.log(alone[s].interval[1] / alone[s].value) / 1.96 for s in SITES])
    w = 1 / s**2
    q = (w * (x - (w * x).sum() / w.sum()) ** 2).sum()
    tau2 = max(0, (q - 2) / (w.sum() - (w**2).sum() / w.sum()))
    kept = tau2 / (tau2 + s**2)
    expected = kept * x + (1 - kept) * math.log(t.value)
    found = [math.log(t.groups[site].value) for site in SITES]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_groups_that_differ_by_chance_all_but_share_one_temperature():
    shrunk, alone = [], []
    for seed in range(12):
        z, y, g = _sites(scales=(2.0, 2.0, 2.0), sizes=(300, 250, 200), seed=seed)
        t = tepid.temperature_scaling(z, y, groups=g)
        for site in SITES:
            own = tepid.temperature_scaling(z[g == site], y[g == site]).value
            alone.append(math.log(own / t.value) ** 2)
            shrunk.append(math.log(t.groups[site].value / t.value) ** 2)
    assert np.mean(shrunk) < 0.4 * np.mean(alone)
    assert np.median(shrunk) < 0.05 * np.median(alone)


@pytest.mark.slow
def test_shrinking_is_nearer_to_the_truth_than_each_group_alone_or_one_for_all():
    """Over draws of eight sites of forty labels each, whose temperatures differ."""
    errors = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        truth = np.exp(0.3 * rng.normal(size=8))
        posterior = 4 * rng.normal(size=(320, 5))
        y = (posterior + rng.gumbel(size=posterior.shape)).argmax(axis=1)
        g = np.repeat(np.arange(8), 40)
        z = posterior * truth[g][:, None]
        t = tepid.temperature_scaling(z, y, groups=g)
        for i in range(8):
            alone = tepid.temperature_scaling(z[g == i], y[g == i]).value
            found = (t.groups[str(i)].value, alone, t.value)
            errors.append([math.log(v / truth[i]) ** 2 for v in found])
    shrunk, alone, pooled = np.mean(errors, axis=0)
    assert shrunk < alone
    assert shrunk < pooled


def test_a_group_without_a_temperature_of_its_own_gets_that_of_all():
    right = np.flatnonzero(Z.argmax(axis=1) == Y)[:10]  # all right: T would fall for ever
    g = np.where(np.isin(ALL, right), "sure", "rest")
    t = tepid.temperature_scaling(Z, Y, groups=g)
    assert t.groups["sure"].value == t.value
    assert "These rows alone gave no temperature (at-bound)" in t.groups["sure"].warnings[0]
    assert t.groups["sure"].samples == 10


def test_groups_none_of_which_has_a_temperature_of_its_own_get_that_of_all():
    z = Z[:300]
    g = np.where(np.arange(300) % 3, "right", "wrong")
    t = tepid.temperature_scaling(z, np.where(g == "right", z.argmax(1), z.argmin(1)), groups=g)
    assert t.status == "ok"
    for name in ("right", "wrong"):
        assert t.groups[name].value == t.value
        assert "alone gave no temperature (at-bound)" in t.groups[name].warnings[0]


def test_a_group_without_labels_gets_that_of_all():
    few = np.flatnonzero(G != "field")[:400]
    named = tepid.open_source(Z[few], labels=Y[few], groups=G[few])
    t = _calibrated(Z, labeled=named, groups=G)
    assert t.groups["field"].value == t.value
    assert "the T of all rows is used" in t.groups["field"].warnings[0]
    assert t.groups["clinic"].value < t.value
    plain = _calibrated(Z, labeled=(Z[few], Y[few]), groups=G)  # whose groups are not known
    assert {part.value for part in plain.groups.values()} == {plain.value}
    strange = tepid.open_source(Z[:2], labels=Y[:2], groups=["x", "clinic"])
    with pytest.raises(tepid.InputError, match=r"of labeled must be among groups, got \['x'\]"):
        tepid.calibrate(Z, labeled=strange, groups=G)


def test_groups_of_logits_alone_take_the_answer_of_all_rows():
    for scale in (0.1, 30.0):  # T = 1 is kept, and is not
        t = tepid.calibrate(scale * Z, groups=G)
        assert {part.value for part in t.groups.values()} == {t.value}
        assert {part.verdict for part in t.groups.values()} == {t.verdict}


def test_each_group_has_its_own_accuracy():
    known = {s: float((Z[s == G].argmax(axis=1) == Y[s == G]).mean()) for s in SITES}
    t = tepid.match_accuracy(Z, known, groups=G)
    mean = sum((s == G).mean() * a for s, a in known.items())
    assert t.value == pytest.approx(tepid.match_accuracy(Z, mean).value, rel=1e-9)
    for site, scale in zip(("clinic", "field"), (1.0, 3.0), strict=True):
        assert t.groups[site].value == pytest.approx(scale, rel=0.1)
    said = r"accuracy must have one entry for each group, got a mismatch at \['tiny'\]"
    with pytest.raises(tepid.InputError, match=said):
        tepid.match_accuracy(Z, {k: v for k, v in known.items() if k != "tiny"}, groups=G)
    with pytest.raises(tepid.InputError, match="accuracy must have one entry for each group"):
        tepid.match_accuracy(Z, known)


def test_groups_of_no_weight_are_not_there():
    t = tepid.temperature_scaling(Z, Y, groups=G, sample_weight=(G != "tiny").astype(float))
    assert sorted(t.groups) == ["clinic", "field"]


# --- applying


@pytest.mark.parametrize("shape", [(7060, 6), (6, 10, 706)])
def test_rows_get_the_temperature_of_their_group(shape):
    t = tepid.temperature_scaling(Z, Y, groups=G)
    axis = None if len(shape) == 2 else 0
    z = Z if axis is None else np.moveaxis(Z.reshape(10, 706, 6), -1, 0)
    g = np.where(np.arange(7060) % 100 == 0, "elsewhere", G)
    p = t(z, groups=g if axis is None else g.reshape(10, 706), class_axis=axis)
    flat = p if axis is None else np.moveaxis(p, 0, -1).reshape(-1, 6)
    for site in SITES:
        rows = g == site
        np.testing.assert_array_equal(flat[rows], t.groups[site](Z[rows]))
    strangers = g == "elsewhere"
    np.testing.assert_array_equal(flat[strangers], t(Z[strangers]))


def test_groups_survive_the_file(tmp_path):
    t = tepid.temperature_scaling(Z, Y, groups=G)
    t.save(tmp_path / "c.json")
    assert tepid.load(tmp_path / "c.json") == t
    text = (tmp_path / "c.json").read_text()
    (tmp_path / "d.json").write_text(text.replace('"clinic": {', '"clinic": {"x": 1, "method": 3,'))
    broken = text.replace('"groups": {', '"groups": [').rpartition("}")[0]
    (tmp_path / "e.json").write_text(broken)
    with pytest.raises(tepid.InputError):
        tepid.load(tmp_path / "e.json")
    (tmp_path / "f.json").write_text(
        text.replace(f'"temperature": {t.groups["field"].value}', '"temperature": -1')
    )
    said = r"f.json, group 'field', must have a temperature that is a number above zero, .*got -1"
    with pytest.raises(tepid.InputError, match=said):
        tepid.load(tmp_path / "f.json")


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ([1.5] * 7060, "groups must be names or whole numbers, got 1.5 at row 0"),
        ([None] * 7060, "groups must be names or whole numbers, got None at row 0"),
        (["a"] * 7059, "groups must have one entry for each of the 7060 rows, got 7059"),
        (np.zeros(7060, "datetime64[s]"), "groups must be names or whole numbers, got datetime64"),
        ("nowhere.npy", "groups file must exist, got nowhere.npy"),
    ],
)
def test_groups_that_cannot_be_used_are_refused(groups, said):
    with pytest.raises(tepid.InputError) as refused:
        tepid.uts(Z, groups=groups)
    assert said in str(refused.value)


def test_a_bad_row_of_a_group_is_named_by_its_place_in_the_whole():
    broken = Z.copy()
    broken[4321, 2] = np.nan
    with pytest.raises(tepid.InputError, match=r"got nan for class 2 at row 4321$"):
        tepid.uts(broken, groups=G)
    y = Y.copy()
    y[5000] = 6
    with pytest.raises(tepid.InputError, match=r"labels must be in 0..5, got 6 at row 5000$"):
        tepid.temperature_scaling(lambda: np.array_split(Z, 9), y, groups=G)


def test_an_iterator_cannot_have_groups():
    with pytest.raises(tepid.InputError, match="readable more than once to have groups"):
        tepid.temperature_scaling(iter([Z]), Y, groups=G)


# --- merging


class Workers(Threads):
    """Every worker sums its own rows and sends the sum, which is added in any order."""

    def total(self, of, source, stage):  # noqa: ARG002  # the seam of an engine
        batches = list(source.batches(rows_per_batch(source.classes or 64) // 500))
        sums = []
        for worker in range(5):
            mine = [of(batch) for batch in batches[worker::5]]
            if mine:
                sums.append(pickle.dumps(_added(mine)))
        return _added([pickle.loads(part) for part in reversed(sums)])


def _added(parts):
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("groups", [None, G])
def test_every_method_merges_over_five_workers(name, groups):
    fit = METHODS[name]
    options = {} if groups is None else {"groups": groups}
    one, five = fit(Z, ALL, **options), fit(Z, ALL, engine=Workers(), **options)
    assert five.value == pytest.approx(one.value, rel=1e-9)
    assert five.implied_accuracy == pytest.approx(one.implied_accuracy, rel=1e-7)
    for site in one.groups:
        assert five.groups[site].value == pytest.approx(one.groups[site].value, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=6)
@given(data=st.data())
def test_row_order_class_order_and_row_constants_change_nothing(name, data):
    classes = np.array(data.draw(st.permutations(range(6))))
    rows = np.random.default_rng(data.draw(st.integers(0, 9))).permutation(len(Z))[:2500]
    constants = np.random.default_rng(7).normal(size=(2500, 1))
    fit = METHODS[name]
    whole = fit(Z[np.sort(rows)], np.sort(rows))
    same = whole.value
    assert fit(Z[rows], rows).value == pytest.approx(same, rel=1e-8)
    moved = fit(Z[np.sort(rows)] + constants, np.sort(rows))
    assert moved.value == pytest.approx(same, rel=apart(whole, moved))
    if name in ("uts", "accuracy"):  # the labels would have to follow
        mixed = fit(Z[np.sort(rows)][:, classes], np.sort(rows))
        assert mixed.value == pytest.approx(same, rel=apart(whole, mixed))


@pytest.mark.parametrize("scale", [0.01, 50.0])
def test_labels_accuracy_and_peers_follow_the_scale_of_the_logits(scale):
    for fit in (
        lambda z: tepid.temperature_scaling(z, Y, groups=G),
        lambda z: tepid.match_accuracy(z, 0.8, groups=G),
    ):
        one, other = fit(Z), fit(scale * Z)
        assert other.value == pytest.approx(scale * one.value, rel=apart(one, other))
        for site in SITES:
            parts = one.groups[site], other.groups[site]
            assert parts[1].value == pytest.approx(scale * parts[0].value, rel=apart(*parts))


# --- the command line


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A table and an archive of the same rows, with a column of sites whose names are hostile."""
    monkeypatch.chdir(tmp_path)
    z, y, g = Z[:900], Y[:900], np.where(G[:900] == "tiny", "[red]tiny, far", G[:900])
    with Path("l.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"logit_{k}" for k in range(6)), "site", "labels"])
        writer.writerows([*row, site, label] for row, site, label in zip(z, g, y, strict=True))
    np.savez("l.npz", logits=z, labels=y, site=g)
    np.save("sites.npy", g)
    return z, y, g


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "labels", "groups"),
    [
        ("l.csv", "labels", "site"),
        ("l.csv", "l.csv#labels", "l.csv#site"),
        ("l.npz", "labels", "site"),
        ("l.npz", "l.npz#labels", "sites.npy"),
    ],
)
def test_fit_apply_and_score_take_a_column_of_groups(file, labels, groups, tables, tepid_here):
    z, y, g = tables
    made = ("fit", file, "--labels", labels, "--groups", groups, "--method", "temperature", "-o",
            "c.json")  # fmt: skip
    code, out, _ = tepid_here(*made)
    assert code == 0
    assert "[red]tiny, far" in out
    t = tepid.temperature_scaling(z, y, groups=g)
    assert tepid.load("c.json").value == pytest.approx(t.value, rel=1e-9)
    expected = {name: part.value for name, part in t.groups.items()}
    found = {name: part.value for name, part in tepid.load("c.json").groups.items()}
    assert found == pytest.approx(expected, rel=1e-6)
    code, _, err = tepid_here("apply", "c.json", file, "--groups", groups, "-o", "p.npy")
    assert (code, err) == (0, "")
    np.testing.assert_allclose(np.load("p.npy"), t(z, groups=g), rtol=1e-5, atol=1e-12)
    scored = ("score", file, labels, "-c", "c.json", "--groups", groups, "--json", "--draws", "0")
    code, out, _ = tepid_here(*scored)
    nll = tepid.metrics.nll(y, t(z, groups=g))
    assert json.loads(out)["after"]["nll"] == pytest.approx(nll, rel=1e-5)


def test_rows_of_strange_groups_are_counted_aloud(tables, tepid_here):
    z, y, g = tables
    tepid.temperature_scaling(z, y, groups=g).save("c.json")
    np.save("other.npy", np.where(np.arange(900) < 7, "elsewhere", g))
    run = ("apply", "c.json", "l.npz", "-o", "p.npy")
    _, _, err = tepid_here(*run, "--groups", "other.npy")
    assert "7 rows are of groups that were not fitted and get the T of all rows." in err
    _, _, err = tepid_here(*run)
    assert "without --groups every row gets the T of all rows" in err
    tepid.temperature_scaling(z, y).save("c.json")
    code, _, err = tepid_here(*run, "--groups", "site")
    assert (code, err) == (
        2,
        "tepid: --groups must go with a calibration that has groups, got one without\n",
    )


def test_labeled_rows_find_their_groups_in_their_own_file(tables, tepid_here):
    z, y, g = tables
    np.savez("few.npz", logits=z[:90], labels=y[:90], site=g[:90])
    line = ("fit", "l.npz", "--labeled", "few.npz", "--json", "--groups")
    code, out, err = tepid_here(*line, "site")
    assert code == 0, err
    few = tepid.open_source(z[:90], labels=y[:90], groups=g[:90])
    t = _calibrated(z, labeled=few, groups=g)
    found = {name: part["temperature"] for name, part in json.loads(out)["groups"].items()}
    assert found == pytest.approx({n: p.value for n, p in t.groups.items()}, rel=1e-9)
    code, out, err = tepid_here(*line, "sites.npy")  # names no column of the labeled rows
    assert code == 0, err
    pooled = {part["temperature"] for part in json.loads(out)["groups"].values()}
    assert pooled == {json.loads(out)["temperature"]}
    code, _, err = tepid_here("fit", "l.npz", "--groups", "nosuch")
    assert code == 2
    assert "groups must name a member of l.npz, which has logits, labels, site" in err


def test_one_group_has_one_name_however_it_is_stored():
    column = tepid.validation.group_column
    forms = ([1.0, 2.0], np.array([1, 2]), np.array([1.0, 2.0], object), ["1", " 2 "])
    assert all(column(form).tolist() == ["1", "2"] for form in forms)
    assert column(np.array([1e20, 2e20])).tolist() == ["1" + 20 * "0", "2" + 20 * "0"]


def test_groups_of_another_shape_than_the_rows_are_refused():
    t = tepid.temperature_scaling(Z, Y, groups=G)
    grid = np.moveaxis(Z.reshape(10, 706, 6), -1, 1)
    with pytest.raises(tepid.InputError, match=r"groups must have the shape \(10, 706\), got \(70"):
        t(grid, groups=G.reshape(706, 10), class_axis=1)
    np.testing.assert_array_equal(t(Z.tolist(), groups=G), t(Z, groups=G))


@pytest.mark.parametrize("name", ["groups", "ids", "clusters"])
def test_a_mask_is_refused_as_for_logits(name):
    masked = np.ma.masked_array(np.arange(len(Z)) % 7, mask=np.arange(len(Z)) % 2)
    said = f"{name} must be a plain array, with a name for each row, got a mask"
    with pytest.raises(tepid.InputError, match=said):
        tepid.calibrate(Z, Y, **{name: masked})


def test_groups_of_bytes_are_utf_8():
    with pytest.raises(tepid.InputError, match="groups must be UTF-8 text, got"):
        tepid.uts(Z, groups=np.array([b"\xff"] * len(Z)))
