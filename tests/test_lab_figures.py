"""The paper's figures: who is drawn into M_k, reliability, and galleries before and after."""

import json
import sys

import numpy as np
import pytest

import tepid
from tepid.lab import figures, sets

pytest.importorskip("matplotlib", reason="figures need matplotlib")


@pytest.fixture
def one(tmp_path, network):
    z, y = (column[:500] for column in network)
    np.savez(tmp_path / "small_pets.npz", logits=z, labels=y)
    return sets.find([tmp_path])[0]


@pytest.fixture
def images(rng):
    return rng.integers(0, 256, (500, 6, 6, 3), dtype=np.uint8)


def test_the_discriminant_is_that_of_the_classes_it_was_made_from():
    seen = figures.make_plane(rows=60_000, seed=3)
    p = seen.softmax(np.array([[0.0, 1.6], [0.0, 0.0]]))
    # At a center and at the middle, by Bayes' rule for round classes of one size.
    squares = np.array([[0, 7.72, 7.72], [2.56, 2.6, 2.6]])
    expected = np.exp(-squares / (2 * 0.64))
    assert p == pytest.approx(expected / expected.sum(axis=1, keepdims=True), abs=0.01)


@pytest.mark.slow
def test_a_picture_of_the_plane_shows_every_point_once_for_each_class():
    seen = figures.make_plane(rows=200)
    figure = figures.draw_plane(seen)
    z = seen.logits(seen.points)
    theta = tepid.summaries.Tails.of(z).thresholds()
    share = seen.softmax(seen.points)
    for k, ax in enumerate(figure.axes):
        rest, predicted, drawn = (len(line.get_xdata()) for line in ax.get_lines()[:3])
        assert predicted == (z.argmax(axis=1) == k).sum()
        assert predicted + drawn == (share[:, k] >= theta[k]).sum()
        assert rest + predicted + drawn == 200
        assert f"{theta[k]:.3f}" in ax.get_title()
    assert len(figure.axes) == 3


def test_the_division_counts_every_row_and_marks_the_threshold(network):
    z = network[0][:500]
    names = [f"k{k}" for k in range(12)]
    figure = figures.draw_members(z, names)
    theta = tepid.summaries.Tails.of(z).thresholds()
    softmax = np.exp(z.astype(float)) / np.exp(z.astype(float)).sum(axis=1, keepdims=True)
    drawn = ((softmax >= theta) & (z.argmax(axis=1)[:, None] != np.arange(12))).sum(axis=0)
    shown = [int(ax.get_title()[1:]) for ax in figure.axes]
    assert drawn[shown].tolist() == sorted(drawn.tolist(), reverse=True)[:3]
    for k, ax in zip(shown, figure.axes, strict=True):
        heights = [sum(patch.get_height() for patch in bars) for bars in ax.containers]
        assert sum(heights) == 500
        assert heights[1] == drawn[k]
        edge = ax.get_lines()[0].get_xdata()[0]
        assert 1 / (1 + np.exp(-edge)) == pytest.approx(theta[k], rel=1e-6)


def test_two_classes_are_two_pictures():
    figure = figures.draw_members(np.array([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), ["a", "b"])
    assert len(figure.axes) == 2


def test_galleries_show_rows_by_lot_with_both_confidences(network, images):
    z, y = (column[:500] for column in network)
    right, wrong = figures.choose_rows(z, y, 2.0)
    before, after = (np.exp(z / t).max(axis=1) / np.exp(z / t).sum(axis=1) for t in (1.0, 2.0))
    mistakes = np.flatnonzero(z.argmax(axis=1) != y)
    assert wrong.picks[0].row == max(mistakes, key=lambda row: int(row) * 2654435769 % 2**32)
    assert all(z[pick.row].argmax() == y[pick.row] for pick in right.picks)
    assert wrong.before == pytest.approx(before[mistakes].mean(), rel=1e-5)
    assert wrong.after == pytest.approx(after[mistakes].mean(), rel=1e-5)
    assert right.after == pytest.approx(np.delete(after, mistakes).mean(), rel=1e-5)
    figure = figures.draw_gallery(2, (right, wrong), images, [f"kind {k}" for k in range(12)])
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    row = wrong.picks[0].row
    assert titles[3] == (
        f"label kind {y[row]}\npredicted kind {z[row].argmax()}\n"
        f"confidence {before[row]:.2f}\ncalibrated {after[row]:.2f}"
    )
    assert (figure.axes[3].images[0].get_array() == images[row]).all()
    assert f"wrong: mean confidence {wrong.before:.2f} before" in figure.get_suptitle()
    long = figures.draw_gallery(
        3, (right, wrong), images[..., 0], ["a name of many words " * 2] * 12
    )
    assert len(long.axes) == 16
    lines = long.axes[0].get_title(loc="left").splitlines()
    assert len(lines) == 6
    assert max(map(len, lines)) <= 30


def test_a_gallery_without_mistakes_has_no_row_for_them(images):
    both = figures.choose_rows(9 * np.eye(4), np.arange(4), 1.5)
    figure = figures.draw_gallery(2, both, images, list("abcd"))
    assert len(figure.axes) == 3
    nobody = figures.GalleryRows([], np.nan, np.nan)
    with pytest.raises(tepid.InputError, match="gallery must hold at least one row, got none"):
        figures.draw_gallery(2, (nobody, nobody), images, list("abcd"))


def test_the_figures_of_a_set_show_what_was_not_calibrated_on(one, images):
    drawn = dict(figures.of_set(one, images))
    assert list(drawn) == ["division", "reliability", "gallery-2", "gallery-3"]
    z, y = one.read()
    order = np.random.default_rng([0, 0]).permutation(500)
    inside, outside = np.sort(order[:100]), np.sort(order[100:])
    t = tepid.uts(z[inside])
    labels = [ax.get_xlabel() for ax in drawn["reliability"].axes if ax.get_xlabel()]
    assert labels[:2] == [
        "confidence; uncalibrated, T = 1.000", f"confidence; UTS, T = {t.value:.3f}",
    ]  # fmt: skip
    ece = 100 * tepid.metrics.ece(y[outside], t(z[outside]))
    said = [text.get_text() for ax in drawn["reliability"].axes for text in ax.texts]
    assert f"ECE {ece:.2f} %" in said
    mistakes = outside[z[outside].argmax(axis=1) != y[outside]]
    shown = drawn["gallery-2"].axes[3].images[0].get_array()
    assert (images[mistakes] == shown).all(axis=(1, 2, 3)).sum() == 1


@pytest.mark.slow
@pytest.mark.usefixtures("one")
def test_the_command_writes_every_figure(tmp_path, images, tepid_here):
    np.savez(tmp_path / "pictures.npz", images=images)
    (tmp_path / "names.txt").write_text("\n".join(f"kind {k}" for k in range(12)))
    out = tmp_path / "out"
    options = ("--images", tmp_path / "pictures.npz", "--names", tmp_path / "names.txt")
    code, said, _ = tepid_here("lab", "figures", tmp_path, "-o", out, *options, "--json")
    assert code == 0
    written = [path.rsplit("/", 1)[1] for path in json.loads(said)]
    assert written == [
        "division-plane.png", "small_pets-division.png", "small_pets-reliability.png",
        "small_pets-gallery-2.png", "small_pets-gallery-3.png",
    ]  # fmt: skip
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in written)


@pytest.mark.slow
@pytest.mark.usefixtures("one")
@pytest.mark.parametrize(("form", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_figures_are_written_in_the_format_that_was_asked_for(form, start, tmp_path, tepid_here):
    out = tmp_path / "out"
    code, said, _ = tepid_here("lab", "figures", tmp_path, "-o", out, "--format", form)
    assert code == 0
    assert said.splitlines()[1] == f"wrote {out / f'small_pets-division.{form}'}"
    written = sorted(out.iterdir())
    assert len(written) == 3
    assert all(path.read_bytes().startswith(start) for path in written)


def test_what_cannot_be_drawn_is_refused(one, tmp_path, images):
    with pytest.raises(tepid.InputError, match="form must be one of png, svg, pdf, got gif"):
        figures.write([tmp_path], tmp_path, form="gif")
    with pytest.raises(tepid.InputError, match="images must be of one set, got 2 sets"):
        figures.write([tmp_path, tmp_path], tmp_path, images=images)
    with pytest.raises(tepid.InputError, match="one for each of the 500 rows, got 499"):
        dict(figures.of_set(one, images[1:]))
    with pytest.raises(tepid.InputError, match="names must be one for each of 12 classes, got 2"):
        dict(figures.of_set(one, names=["a", "b"]))


@pytest.mark.usefixtures("one")
def test_without_matplotlib_a_sentence_says_what_to_install(tmp_path, tepid_here, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = tepid_here("lab", "figures", tmp_path, "-o", tmp_path / "out")
    assert code == 2
    assert err == (
        "tepid: tepid.plots must have matplotlib, got none; pip install 'tepid[plots]' brings it\n"
    )
