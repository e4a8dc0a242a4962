"""Recipes: the rows of the paper's tables, whole and checked."""

import dataclasses
import json
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import tepid
from tepid.lab import recipe as recipes

ROOT = Path(__file__).parents[1]
NAMES = tepid.lab.names()
TEXT = resources.files("tepid.lab").joinpath("recipes", "lenet5-mnist.toml").read_text("utf-8")
# The paper's rows by their first columns: accuracy, T of TS, T of UTS.
ROWS = {
    "densenet40-cifar10": (92.61, 2.505, 1.899),
    "densenet40-cifar100": (71.73, 1.450, 1.493),
    "densenet100-cifar10": (95.06, 1.801, 2.489),
    "densenet100-cifar100": (76.21, 2.178, 1.694),
    "densenet100-svhn": (95.72, 1.407, 1.552),
    "resnet110-cifar10": (93.71, 2.960, 2.009),
    "resnet110-cifar100": (70.31, 1.801, 1.562),
    "resnet110-svhn": (96.06, 2.090, 1.758),
    "wideresnet32-cifar100": (75.41, 2.243, 1.651),
    "lenet5-mnist": (99.03, 1.645, 1.857),
    "vgg16-cifar10": (92.09, 3.229, 2.671),
    "resnet152-isic": (88.02, None, 1.712),
}


def test_there_is_a_recipe_for_every_row_of_the_paper():
    assert sorted(ROWS) == list(NAMES)
    for name, (accuracy, ts, uts) in ROWS.items():
        paper = tepid.lab.named(name).paper
        assert (paper.accuracy, paper.uts.temperature) == (accuracy, uts)
        assert (paper.ts and paper.ts.temperature) == ts


def test_the_recipes_have_the_figures_that_the_paper_prints(shared):
    tex = shared.parent / "paper" / "uts.tex"
    if not tex.is_file():
        pytest.skip("the paper is not beside this checkout")
    printed = []
    for row in re.findall(r"^(?:\w*Net\w*|VGG16) +&.*\\\\", tex.read_text("utf-8"), re.MULTILINE):
        plain = re.sub(r"\\textbf|\\%|[{}\\]", "", row)
        printed.append([float(cell.strip("% ")) for cell in plain.split("&")[2:]])
    known = {named.accuracy: named for named in (tepid.lab.named(name).paper for name in NAMES)}
    assert len(printed) == len(known) == 12
    for accuracy, *figures in printed:
        paper, unit = known[accuracy], 100 if accuracy == 88.02 else 1  # ISIC's is in fractions
        stages = [s for s in (paper.uncalibrated, paper.ts, paper.uts) if s]
        said = [v for s in stages for v in (s.nll, s.ece / unit, s.temperature)]
        del said[2]  # the T of the uncalibrated, which is not printed
        assert said == pytest.approx(figures)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_says_where_it_is_from_and_what_to_expect(name):
    recipe = tepid.lab.named(name)
    assert any(re.search(r"\((19|20)\d\d\)|the paper, appendix", text) for text in recipe.sources)
    assert abs(recipe.expected_accuracy - recipe.paper.accuracy) < 4
    assert 0 < recipe.expected_hours < 10
    assert list(recipe.milestones) == sorted(set(recipe.milestones))
    assert all(0 < milestone < 1 for milestone in recipe.milestones)
    assert recipe.paper.uts.nll < recipe.paper.uncalibrated.nll


def test_the_lesions_are_trained_as_the_paper_says():
    recipe = tepid.lab.named("resnet152-isic")
    assert (recipe.optimizer, recipe.rate, recipe.batch, recipe.epochs) == ("adam", 1e-4, 32, 100)
    rates = [recipe.learning_rate(epoch, 100) for epoch in range(100)]
    assert rates == pytest.approx([1e-4 * 0.95 ** (epoch // 10) for epoch in range(100)])


def test_the_rate_warms_up_and_falls_at_the_milestones():
    recipe = tepid.lab.named("resnet110-cifar10")
    steps = 64_000
    at = [recipe.learning_rate(s, steps) for s in (0, 399, 400, 31_999, 32_000, 48_000, 63_999)]
    assert at == pytest.approx([0.01, 0.01, 0.1, 0.1, 0.01, 0.001, 0.001])


def test_one_cycle_rises_to_the_rate_and_falls_to_nothing():
    recipe = tepid.lab.named("lenet5-mnist").with_settings(["schedule=one-cycle", "rate=0.5"])
    rates = [recipe.learning_rate(step, 1000) for step in range(1000)]
    assert max(rates) == pytest.approx(0.5, rel=0.01)
    assert rates.index(max(rates)) in (299, 300)
    assert 0 < rates[-1] < 0.001
    assert min(rates) > 0


@pytest.mark.parametrize(
    ("added", "sentence"),
    [
        ("learning_rate = 3\n", "recipe x must use the keys .*, got learning_rate"),
        ("batch = 3\n", "recipe x must be TOML, got"),
        ("sise = 3\n", "recipe x must use the keys .*, got sise"),
        ('depth = "deep"\n', "recipe x: depth must be of type int, got 'deep'"),
        ("depth = 1.5\n", "recipe x: depth must be of type int, got 1.5"),
        ("depth = true\n", "recipe x: depth must be of type int, got True"),
        ('augment = "flip"\n', "recipe x: augment must be a list, got 'flip'"),
    ],
)
def test_a_wrong_recipe_is_refused_by_the_key_that_is_wrong(added, sentence):
    with pytest.raises(tepid.InputError, match=sentence):
        recipes.parse_recipe("x", added + TEXT)


def test_a_missing_key_and_a_wrong_table_are_named():
    with pytest.raises(tepid.InputError, match=r"recipe x must be a recipe, got .*'rate'"):
        recipes.parse_recipe("x", TEXT.replace("rate = 0.05\n", ""))
    with pytest.raises(tepid.InputError, match="recipe x: paper must be of type Paper, got 3"):
        recipes.parse_recipe("x", "paper = 3\n" + TEXT.partition("[paper]")[0])


@pytest.mark.parametrize("name", NAMES)
def test_the_lists_and_figures_of_a_recipe_have_the_right_types(name):
    recipe = tepid.lab.named(name)
    assert all(type(step) is str for step in (*recipe.augment, *recipe.sources))
    assert all(type(milestone) is float for milestone in recipe.milestones)
    paper = recipe.paper
    stages = [stage for stage in (paper.uncalibrated, paper.uts, paper.ts) if stage]
    numbers = [paper.accuracy, *(value for stage in stages for value in vars(stage).values())]
    assert all(type(number) is float for number in numbers)


def test_settings_take_the_place_of_what_a_recipe_says():
    recipe = tepid.lab.named("lenet5-mnist")
    changed = recipe.with_settings(
        ["epochs = 3", "data=fashion-mnist", "augment=['flip']", "rate=1", "amp=true"]
    )
    expected = {
        "epochs": 3,
        "data": "fashion-mnist",
        "augment": ("flip",),
        "rate": 1.0,
        "amp": True,
    }
    assert {key: getattr(changed, key) for key in expected} == expected
    assert dataclasses.replace(changed, **{k: getattr(recipe, k) for k in expected}) == recipe


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("epochs", "--set must be key=value, got epochs"),
        ("epoch=3", "--set must use the keys .*, got epoch"),
        ("name=x", "--set must use the keys .*, got name"),
        ("epochs=many", "--set: epochs must be of type int, got 'many'"),
        ("epochs=0", "--set: epochs must be at least 1, got 0"),
        ("batch=1", "--set: batch must be at least 2, got 1"),
        ("schedule=cosine", "--set: schedule must be steps or one-cycle, got cosine"),
        ("normalize=none", "--set: normalize must be channels, imagenet or unit, got none"),
        ("optimizer=lion", "--set: optimizer must be sgd or adam, got lion"),
    ],
)
def test_a_wrong_setting_is_refused(setting, sentence):
    with pytest.raises(tepid.InputError, match=sentence):
        tepid.lab.named("lenet5-mnist").with_settings([setting])


def test_a_recipe_that_is_not_there_is_refused():
    with pytest.raises(
        tepid.InputError, match=r"recipe must be one of .*vgg16-cifar10.*, got \.\."
    ):
        tepid.lab.named("../../secret")


def test_the_command_lists_them_with_and_without_a_screen(tepid_here):
    code, out, _ = tepid_here("lab", "recipes")
    assert code == 0
    assert all(name in out for name in NAMES)
    listed = json.loads(tepid_here("lab", "recipes", "--json")[1])
    assert [recipe["name"] for recipe in listed] == list(NAMES)
    assert listed[0]["paper"]["uts"]["temperature"] == 2.489


def test_listing_recipes_needs_no_pytorch():
    code = "import sys; sys.modules['torch'] = None; import tepid; print(len(tepid.lab.names()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "12"


def test_the_page_has_the_row_of_every_recipe():
    page = (ROOT / "docs" / "the-laboratory.md").read_text("utf-8")
    for recipe in map(tepid.lab.named, NAMES):
        accuracies = f"{recipe.paper.accuracy:.2f} | {recipe.expected_accuracy:.2f}"
        row = f"`{recipe.name}` | {recipe.title} | {recipe.epochs} | {accuracies}"
        assert f"| {row} | {recipe.expected_hours:g} |\n" in page
