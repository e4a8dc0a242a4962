"""The paper's tables, measured again: what is found, what agrees, and how it is written."""

import html.parser
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tepid
from tepid.lab import paper, sets, tables

ROW = paper.Published(
    "lenet5-mnist",
    "LeNet-5",
    "MNIST",
    1,
    (
        ("uncalibrated", "accuracy", 0.8),
        ("uncalibrated", "nll", 0.9),
        ("uncalibrated", "ece", 0.1),
        ("temperature", "temperature", 2.0),
    ),
)
SKIN = paper.Published(
    "resnet152-isic", "ResNet-152", "ISIC 2018", 2, (("uncalibrated", "accuracy", 0.88),)
)
BESIDE = (ROW, SKIN)


@pytest.fixture
def folder(tmp_path, network):
    """An archive of a network of the paper, one of another, a run, and what is none of these."""
    z, y = (column[:600] for column in network)
    np.savez(tmp_path / "lenet5_mnist.npz", logits=z, labels=y)
    np.savez(tmp_path / "some_net_&_co_pets.npz", logits=z, labels=y)
    np.savez(tmp_path / "unlabeled_mnist.npz", logits=z)
    _run(tmp_path / "skin", z, y, network="resnet20", data="isic")
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "run.json").write_text("{}")
    return tmp_path


def _run(place, z, y, **about):
    place.mkdir()
    np.save(place / "logits.npy", z)
    np.save(place / "labels.npy", y)
    (place / "run.json").write_text(json.dumps(about))


@pytest.fixture
def found(folder):
    return tables.table([folder], seeds=3, beside=BESIDE)


@given(
    st.floats(-5, 5), st.floats(0, 2), st.floats(-5, 5), st.sampled_from([0.0, 0.0005])
)  # fmt: skip
def test_a_cell_agrees_within_two_deviations_and_the_rounding(mean, sd, published, rounding):
    cell = paper.Cell(mean, sd, published, rounding)
    assert cell.agrees == (abs(mean - published) <= 2 * sd + rounding)


def test_a_cell_that_rounding_alone_parts_from_the_paper_s_agrees():
    assert paper.Cell(1.0, 0.0, 1.0004, 0.0005).agrees
    assert not paper.Cell(1.0, 0.0, 1.0004).agrees
    assert not paper.Cell(1.0, 0.1, 1.25, 0.0005).agrees


def test_a_cell_without_a_figure_to_compare_says_nothing():
    assert paper.Cell(1.0, 0.1).agrees is None
    assert paper.Cell(paper=1.0).agrees is None
    assert paper.Cell(1.0, math.nan, 1.0).agrees is True


def test_archives_with_labels_and_finished_runs_are_found(folder):
    found = {s.name: s for s in sets.find([folder])}
    assert list(found) == ["lenet5_mnist", "some_net_&_co_pets", "skin"]
    assert (found["lenet5_mnist"].network, found["lenet5_mnist"].data) == ("lenet5", "mnist")
    assert found["some_net_&_co_pets"].network == "some_net_&_co"
    assert (found["skin"].network, found["skin"].data) == ("resnet20", "isic")
    z, y = found["skin"].read()
    assert z.shape == (600, 12)
    assert y.dtype == np.int64
    assert [s.name for s in sets.find([folder / "skin", folder / "skin"])] == ["skin", "skin"]


def test_the_depth_of_a_run_is_part_of_its_network_s_name(tmp_path, network):
    z, y = (column[:50] for column in network)
    _run(tmp_path / "a", z, y, network="wide-resnet", data="cifar100", config={"depth": 32})
    _run(tmp_path / "b", z, y, network="lenet5", data="mnist", config={"depth": 0})
    _run(tmp_path / "c", z, y, network="vgg16", data="cifar10", config=None)
    assert [s.network for s in sets.find([tmp_path])] == ["wide-resnet-32", "lenet5", "vgg16"]
    assert paper.canonical_name("wide-resnet-32") == paper.canonical_name("WideResNet-32")


def test_what_is_wrong_with_a_set_is_said_with_its_name(tmp_path, network):
    z, y = network[0][:60].copy(), network[1][:60]
    z[7, 3] = np.nan
    np.savez(tmp_path / "odd_pets.npz", logits=z, labels=y)
    with pytest.raises(tepid.InputError, match=r"^odd_pets: logits must .* class 3 at row 7$"):
        tables.table([tmp_path], seeds=2)
    np.savez(tmp_path / "odd_pets.npz", logits=network[0][:60], labels=y[1:])
    with pytest.raises(tepid.InputError, match=r"^odd_pets: labels must have .* got 59$"):
        tables.table([tmp_path], seeds=2)
    np.savez(tmp_path / "odd_pets.npz", logits=network[0][:60], labels=y + 1)
    with pytest.raises(tepid.InputError, match=r"^odd_pets: labels .*must be in 0\.\.11, got 12"):
        tables.table([tmp_path], seeds=2)
    for start in (b"PK", b"PK\x03\x04 and no more", b""):
        (tmp_path / "odd_pets.npz").write_bytes(start)
        with pytest.raises(tepid.InputError, match=r"odd_pets\.npz must be a whole \.npz archive"):
            tables.table([tmp_path], seeds=2)


def test_folders_without_a_set_are_refused_by_name(tmp_path):
    with pytest.raises(tepid.InputError, match=f"folder must hold .* got neither in {tmp_path}"):
        sets.find([tmp_path])
    with pytest.raises(tepid.InputError, match="folder must be a folder, got nowhere"):
        sets.find(["nowhere"])
    with pytest.raises(tepid.InputError, match=r"run must be a folder with run\.json, got"):
        sets.open_run(tmp_path)
    (tmp_path / "run.json").write_text("[1]")
    with pytest.raises(tepid.InputError, match=r"run\.json must be a JSON object, got"):
        sets.open_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(tepid.InputError, match=r"run\.json must be JSON, got"):
        sets.open_run(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(tepid.InputError, match=r"run must have logits\.npy, which .* last, got"):
        sets.open_run(tmp_path)


@pytest.mark.parametrize(
    ("network", "data", "recipe", "beside"),
    [
        ("lenet5", "mnist", "", "lenet5-mnist"),
        ("lenet5", "fashion-mnist", "lenet5-mnist", None),  # the recipe with other data
        ("DenseNet-BC-100", "CIFAR-10", "", "densenet100-cifar10"),
        ("densenet121", "cifar10", "", None),  # two rows of that family
        ("resnet20", "cifar10", "", "resnet110-cifar10"),
        ("cnn", "ham10000", "", "resnet152-isic"),  # the only row of that data
        ("cnn", "cifar10", "", None),
        ("lenet5", "pets", "", None),
    ],
)
def test_a_set_stands_beside_the_row_that_is_most_like_it(network, data, recipe, beside):
    every = [
        paper.Published(name, *named, 1, ())
        for name, *named in (
            ("lenet5-mnist", "LeNet-5", "MNIST"),
            ("densenet40-cifar10", "DenseNet-40", "CIFAR-10"),
            ("densenet100-cifar10", "DenseNet-BC-100", "CIFAR-10"),
            ("resnet110-cifar10", "ResNet-110", "CIFAR-10"),
            ("resnet152-isic", "ResNet-152", "ISIC 2018"),
        )
    ]
    found = paper.find_published(sets.LogitSet("x", network, data, "", "", recipe), every)
    assert (found and found.recipe) == beside


def test_a_row_is_what_the_protocol_measures(found, network):
    z, y = (column[:600] for column in network)
    temperatures, errors = [], []
    for number in range(3):
        order = np.random.default_rng([0, number]).permutation(600)
        inside, outside = np.sort(order[:120]), np.sort(order[120:])
        t = tepid.uts(z[inside])
        temperatures.append(t.value)
        errors.append(tepid.metrics.ece(y[outside], t(z[outside])))
    row = found.rows[0]
    t, ece = row.cells["uts", "temperature"], row.cells["uts", "ece"]
    assert (t.mean, t.sd) == pytest.approx((np.mean(temperatures), np.std(temperatures, ddof=1)))
    assert ece.mean == pytest.approx(np.mean(errors), rel=1e-5)
    assert (row.samples, row.classes) == (600, 12)
    assert row.cells["temperature", "temperature"].paper == 2.0
    assert math.isnan(row.cells["uts", "temperature"].paper)


def test_the_notes_say_why_figures_differ(found):
    lenet, other, skin = found.rows
    assert lenet.same_network
    assert not lenet.same_training
    assert other.published is None
    assert not skin.same_network
    said = found.notes
    assert len(said) == 2
    assert said[0].startswith("LeNet-5 on MNIST, lenet5_mnist: ")
    assert "of 4 cells agree; another training: accuracy" in said[0]
    assert said[1].startswith("ResNet-152 on ISIC 2018, skin: another network, resnet20, not to be")


def test_before_calibration_the_same_figures_are_the_same_network(folder):
    measured = tables.table([folder], seeds=3, beside=BESIDE).rows[0]
    same = [
        (method, m, cell.mean)
        for (method, m), cell in measured.cells.items()
        if method == "uncalibrated"
    ]
    twin = paper.Published(
        "lenet5-mnist", "LeNet-5", "MNIST", 1,
        (("uncalibrated", "accuracy", measured.accuracy.mean), *same),
    )  # fmt: skip
    again = tables.table([folder], seeds=3, beside=[twin, SKIN])
    assert again.rows[0].same_training
    assert "3 of 3 cells agree; before calibration it is the paper's network" in again.notes[0]


def test_rows_without_logits_are_named_with_their_command(folder):
    far = paper.Published("vgg16-cifar10", "VGG-16", "CIFAR-10", 1, ())
    result = tables.table([folder / "skin"], seeds=2, beside=[far, SKIN])
    assert result.notes[-1] == (
        "No logits at hand of VGG-16 on CIFAR-10 (tepid lab train vgg16-cifar10)."
    )
    assert result.as_json()["missing"] == ["vgg16-cifar10"]


def test_skin_lesions_stand_in_percent_and_in_the_paper_s_unit(found):
    first, second, third = found.sheets
    assert [line.source for line in first.lines] == [
        "paper, one split", "lenet5_mnist", "paper, one split", "skin",
    ]  # fmt: skip
    assert [line.source for line in second.lines] == ["paper, one split", "skin"]
    assert [line.source for line in third.lines] == ["some_net_&_co_pets"]
    place = second.head.index("Uncalibrated ECE")
    percent, fraction = (
        float(sheet.lines[-1].cells[place].text.split(" ± ")[0]) for sheet in (first, second)
    )
    assert percent == pytest.approx(100 * fraction, abs=0.01)
    assert first.lines[0].cells[0].text == "80.00"
    assert first.lines[0].cells[first.head.index("Uncalibrated ECE %")].text == "10.000"


def test_only_cells_of_the_same_network_are_marked(found):
    first = found.sheets[0]
    assert {cell.agrees for cell in first.lines[1].cells} > {None}
    assert {cell.agrees for cell in first.lines[3].cells} == {None}


def test_markdown_is_never_cut(folder, tepid_here, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    code, out, _ = tepid_here("lab", "table", folder, "--seeds", "2")
    assert code == 0
    lines = [line for line in out.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {16}
    assert all("…" not in line for line in lines)
    assert any("some_net_&_co_pets" in line and line.count("±") == 12 for line in lines)


def test_latex_has_as_many_cells_in_every_line_and_escapes_names(found):
    text = tables.latex(found.sheets, found.notes)
    body = [
        line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line
    ]
    assert {line.replace(r"\&", "").count("&") for line in body} == {14}
    assert r"some\_net\_\&\_co\_pets" in text
    assert "±" not in text.replace("Mean ± standard", "")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 3


class _Rows(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.widths, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.widths.append(0)
        elif tag in ("td", "th"):
            self.widths[-1] += int(dict(attrs).get("colspan", 1))

    def handle_endtag(self, tag):
        while self.open.pop() != tag:
            pass


def test_html_is_one_page_with_equal_rows_and_escaped_names(found):
    text = tables.html(found.sheets, found.notes)
    parser = _Rows()
    parser.feed(text)
    assert set(parser.widths) == {15}
    assert not parser.open
    assert "some_net_&amp;_co_pets" in text
    assert "src=" not in text
    assert 'class="differs"' in text or 'class="agrees"' in text


def test_the_command_writes_any_form_to_a_file(folder, tepid_here, tmp_path):
    for form, start in {"markdown": "Table 1", "latex": "% Table 1", "html": "<!doctype"}.items():
        out = tmp_path / f"table.{form}"
        arguments = ("--seeds", "2", "--format", form, "-o", out)
        assert tepid_here("lab", "table", folder, *arguments)[0] == 0
        assert out.read_text().startswith(start)
    code, said, _ = tepid_here("lab", "table", folder, "--seeds", "2", "--json")
    read = json.loads(said)
    assert code == 0
    assert [row["set"] for row in read["rows"]] == ["lenet5_mnist", "some_net_&_co_pets", "skin"]
    assert read["rows"][1]["methods"]["uts"]["nll"]["paper"] is None
    assert (read["seeds"], read["fraction"]) == (2, 0.2)


def test_what_cannot_be_tabled_is_refused(folder, tepid_here):
    for arguments, sentence in {
        ("--format", "word"): "--format must be one of markdown, latex, html, got word",
        ("--seeds", "1"): "seeds must be at least 2, for a spread, got 1",
    }.items():
        code, out, err = tepid_here("lab", "table", folder, *arguments)
        assert (code, out) == (2, "")
        assert err == f"tepid: {sentence}\n"


def test_the_paper_s_rows_come_from_the_recipes():
    every = paper.published()
    lenet = next(row for row in every if row.recipe == "lenet5-mnist")
    assert (lenet.model, lenet.dataset, lenet.table) == ("LeNet-5", "MNIST", 1)
    assert lenet.get("uncalibrated", "accuracy") == pytest.approx((0.9903, 5e-5))
    assert lenet.get("temperature", "ece") == pytest.approx((0.00674, 5e-6))
    assert lenet.get("uts", "temperature") == pytest.approx((1.857, 5e-4))
    assert math.isnan(lenet.get("accuracy", "nll")[0])
    assert [row.recipe for row in every if row.table == 2] == ["resnet152-isic"]
    assert [f"{row.model} on {row.dataset}" for row in every[:3]] == [
        "DenseNet-40 on CIFAR-10", "DenseNet-40 on CIFAR-100", "DenseNet-BC-100 on CIFAR-10",
    ]  # fmt: skip
    assert len(every) == 12


def test_the_recipes_hold_what_the_paper_prints(shared):
    text = (shared.parent / "paper" / "uts.tex").read_text()
    first, second = re.findall(r"\\midrule\n(.*?)\\bottomrule", text, re.DOTALL)
    printed = {}
    for line in [*first.strip().split("\n"), *second.strip().split("\n")]:
        model, data, *cells = (re.sub(r"\\textbf|[{}%\\]", "", c).strip() for c in line.split("&"))
        printed[paper.canonical_name(model), paper.canonical_name(data)] = [
            float(cell) for cell in cells
        ]
    every = paper.published()
    assert len(printed) == len(every)
    for row in every:
        numbers = printed[paper.canonical_name(row.model), paper.canonical_name(row.dataset)]
        percent = 100 if row.table == 1 else 1
        held = [100 * row.get("uncalibrated", "accuracy")[0]]
        for method, names in paper.METHODS.items():
            held += [row.get(method, m)[0] * (percent if m == "ece" else 1) for m in names]
        assert [value for value in held if not math.isnan(value)] == pytest.approx(numbers)


def test_the_paper_s_row_is_reproduced_cell_by_cell(shared, tmp_path):
    (tmp_path / "densenet40_cifar100.npz").symlink_to(shared / "densenet40_cifar100.npz")
    found = tables.table([tmp_path], seeds=20)
    assert found.rows[0].same_training
    assert found.rows[0].agreeing == (9, 9)
