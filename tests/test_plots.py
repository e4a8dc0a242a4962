"""Pictures: what is drawn is what the summaries hold, and nothing else is touched."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tepid
from tepid import plots
from tepid.plots import style

P = np.array([[0.95, 0.05], [0.9, 0.1], [0.65, 0.35], [0.35, 0.65], [0.55, 0.45]])
Y = np.array([0, 0, 0, 0, 1])


@pytest.fixture
def made():
    """Five bins, of which the two lowest are empty: .55 in the third, 2 × .65, .9 and .95."""
    return tepid.summaries.Reliability.of(P, Y, bins=5)


@pytest.fixture
def curve(network):
    z, y = network
    return tepid.summaries.Curve.of(
        z, labels=y, thresholds=tepid.summaries.Tails.of(z).thresholds()
    )


@pytest.fixture
def figures():
    pytest.importorskip("matplotlib", reason="drawing needs matplotlib, an extra")
    from matplotlib.figure import Figure  # noqa: PLC0415  # an extra

    return Figure


def _bars(container):
    return [(b.get_x(), b.get_y(), b.get_width(), b.get_height()) for b in container]


def _labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# --- tables


def test_the_table_holds_the_means_of_every_bin_that_has_rows(made):
    table = plots.bins(made)
    assert [(b.low, b.high) for b in table] == [(0.4, 0.6), (0.6, 0.8), (0.8, 1.0)]
    assert [b.rows for b in table] == [1, 2, 2]
    assert [b.share for b in table] == [0.2, 0.4, 0.4]
    assert [b.confidence for b in table] == pytest.approx([0.55, 0.65, 0.925])
    assert [b.accuracy for b in table] == [0, 0.5, 1]


@given(st.integers(1, 300), st.data())
def test_the_interval_is_wilsons(n, data):
    stats = pytest.importorskip("scipy.stats")
    right = data.draw(st.integers(0, n))
    y = np.r_[np.zeros(right, int), np.ones(n - right, int)]
    (b,) = plots.bins(tepid.summaries.Reliability.of(np.tile([0.8, 0.2], (n, 1)), y))
    exact = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
    assert b.interval == pytest.approx((exact.low, exact.high), abs=1e-12)
    assert 0 <= b.interval[0] <= b.accuracy <= b.interval[1] <= 1


def test_a_weight_of_two_counts_as_two_rows():
    twice = plots.bins(tepid.summaries.Reliability.of(P, Y, sample_weight=np.full(5, 2.0)))
    assert twice == plots.bins(tepid.summaries.Reliability.of(np.r_[P, P], np.r_[Y, Y]))


def test_no_rows_give_an_empty_table():
    assert plots.bins(tepid.summaries.Reliability.zero()) == ()
    assert plots.covered(tepid.summaries.Reliability.zero()) == ()


def test_the_weighted_gaps_of_the_table_are_the_calibration_error(fashion):
    r = tepid.summaries.Reliability.of_logits(*fashion)
    gap = sum(b.share * abs(b.confidence - b.accuracy) for b in plots.bins(r))
    assert gap == pytest.approx(tepid.metrics.ece(r), rel=1e-12)


def test_a_labeled_curve_has_the_table_of_its_reliability(network, curve):
    for temperature in (1.0, 2.0):
        r = tepid.summaries.Reliability.of_logits(*network, temperature=temperature)
        table = plots.bins(curve, temperature=temperature)
        for b, exact in zip(table, plots.bins(r), strict=True):
            assert (b.low, b.rows) == (exact.low, exact.rows)
            assert b.confidence == pytest.approx(exact.confidence, rel=1e-5)
            assert b.accuracy == pytest.approx(exact.accuracy)
    assert plots.bins(curve) == plots.bins(curve, temperature=1.0)


def test_a_curve_without_labels_knows_no_accuracy(network):
    table = plots.bins(tepid.summaries.Curve.of(network[0]))
    assert all(math.isnan(b.accuracy) and math.isnan(b.interval[0]) for b in table)
    assert sum(b.rows for b in table) == len(network[0])


def test_coverage_answers_the_surest_rows_first(made):
    first, second, last = plots.covered(made)
    assert (first.threshold, second.threshold, last.threshold) == (0.8, 0.6, 0.4)
    assert [c.coverage for c in (first, second, last)] == pytest.approx([0.4, 0.8, 1.0])
    assert [c.risk for c in (first, second, last)] == pytest.approx([0, 1 / 4, 2 / 5])
    assert [c.claimed for c in (first, second)] == pytest.approx([0.075, 0.2125])
    assert last.claimed == pytest.approx(1 - tepid.metrics.confidence(made))


# --- what the pictures hold


@pytest.mark.usefixtures("figures")
def test_a_diagram_draws_the_table_and_leaves_empty_bins_blank(made):
    ax = plots.reliability(made)
    table = plots.bins(made)
    accuracy, over, under = (_bars(c) for c in ax.containers[:3])
    assert [bar[3] for bar in accuracy] == [b.accuracy for b in table]
    assert [bar[0] for bar in accuracy] == [0.4, 0.6, 0.8]
    assert [bar[2] for bar in accuracy] == pytest.approx([0.2] * 3)
    # .55 against 0 and .65 against .5 are too high, .925 against 1 is too low.
    assert np.array(over) == pytest.approx(np.array([[0.4, 0, 0.2, 0.55], [0.6, 0.5, 0.2, 0.15]]))
    assert np.array(under) == pytest.approx(np.array([[0.8, 0.925, 0.2, 0.075]]))
    assert _labels(ax) == [
        "calibrated", "accuracy", "overconfident", "underconfident", "95 % interval",
    ]  # fmt: skip


@pytest.mark.usefixtures("figures")
def test_a_diagram_draws_dots_at_the_mean_confidence_with_their_intervals(made):
    ax = plots.reliability(made)
    table = plots.bins(made)
    dots, _, (bars,) = ax.containers[3]
    assert dots.get_xdata().tolist() == [b.confidence for b in table]
    assert dots.get_ydata().tolist() == [b.accuracy for b in table]
    drawn = [(low, high) for (_, low), (_, high) in bars.get_segments()]
    assert np.array(drawn) == pytest.approx(np.array([b.interval for b in table]))
    assert f"ECE {100 * tepid.metrics.ece(made):.2f} %" in [t.get_text() for t in ax.texts]


@pytest.mark.usefixtures("figures")
def test_a_diagram_has_the_diagonal_and_the_rows_above(made):
    ax = plots.reliability(made)
    (diagonal,) = [line for line in ax.lines if line.get_label() == "calibrated"]
    assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    (above,) = ax.child_axes
    assert [bar[3] for bar in _bars(above.containers[0])] == [0.2, 0.4, 0.4]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("confidence", "accuracy")
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 1), (0, 1))


@pytest.mark.usefixtures("figures")
def test_a_calibrated_side_is_not_in_the_legend():
    ax = plots.reliability(tepid.summaries.Reliability.of([[0.8, 0.2]], [1]))
    assert "underconfident" not in _labels(ax)
    assert "overconfident" in _labels(ax)


@pytest.mark.usefixtures("figures")
def test_the_histogram_draws_shares_and_marks_mean_and_accuracy(made):
    ax = plots.confidence(made)
    assert [bar[3] for bar in _bars(ax.containers[0])] == [0.2, 0.4, 0.4]
    assert _labels(ax) == ["mean confidence 74.00 %", "accuracy 60.00 %"]
    assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx([0.74, 0.6])


@pytest.mark.usefixtures("figures")
def test_the_histogram_of_an_unlabeled_curve_softens_with_the_temperature(network):
    curve = tepid.summaries.Curve.of(network[0])
    means = []
    for temperature in (1.0, 4.0):
        ax = plots.confidence(curve, temperature=temperature)
        assert len(ax.lines) == 1
        means.append(ax.lines[0].get_xdata()[0])
        exact = tepid.summaries.optimum.confidence_at(curve, temperature)
        assert means[-1] == pytest.approx(exact, rel=1e-5)
    assert means[1] < means[0]


@pytest.mark.usefixtures("figures")
def test_the_coverage_curve_draws_its_table(made):
    ax = plots.coverage(made)
    risk, claimed = (line.get_xydata().tolist() for line in ax.lines)
    assert risk == [[c.coverage, c.risk] for c in plots.covered(made)]
    assert claimed == [[c.coverage, c.claimed] for c in plots.covered(made)]
    assert _labels(ax) == ["risk", "risk as claimed"]


@pytest.mark.usefixtures("figures")
def test_the_loss_is_least_where_the_temperature_was_found(network, curve):
    fitted = tepid.temperature_scaling(*network)
    ax = plots.loss(curve, {"by labels": fitted})
    uts, labels, mark = ax.lines
    assert [line.get_label() for line in ax.lines] == [
        "thresholds", "labels", f"by labels: T = {fitted.value:.3f}",
    ]  # fmt: skip
    temperatures, losses = labels.get_xydata().T
    assert temperatures[losses.argmin()] == pytest.approx(fitted.value, rel=0.05)
    assert mark.get_xdata() == [fitted.value, fitted.value]
    assert uts.get_xydata().shape == labels.get_xydata().shape
    (band,) = ax.patches
    reach = band.get_path().get_extents(band.get_patch_transform())
    assert (reach.x0, reach.x1) == pytest.approx(fitted.interval)


@pytest.mark.usefixtures("figures")
def test_the_loss_of_labels_is_their_nll_at_every_temperature(network, curve):
    temperatures, losses = plots.loss(curve).lines[1].get_xydata().T
    for i in (60, 80, 101):
        r = tepid.summaries.Reliability.of_logits(*network, temperature=temperatures[i])
        assert losses[i] == pytest.approx(tepid.metrics.nll(r), rel=1e-3)


@pytest.mark.usefixtures("figures")
def test_a_mark_outside_the_window_is_inside_the_picture(network):
    z, y = network
    curve = tepid.summaries.Curve.of(z, labels=y, lattice=tepid.summaries.Lattice.window(-1, 1))
    far = tepid.Temperature(9.0, "made", samples=1, classes=12, implied_accuracy=0.5)
    ax = plots.loss(curve, {"far": far})
    assert ax.get_xlim() == (0.5, 9.0)


@pytest.mark.usefixtures("figures")
def test_arrows_run_from_confidence_before_to_confidence_after(network):
    z, y = network
    parts = {"even": slice(0, None, 2), "odd": slice(1, None, 2)}
    before, after = (
        {
            n: tepid.summaries.Reliability.of_logits(z[p], y[p], temperature=t)
            for n, p in parts.items()
        }
        for t in (1.0, 2.0)
    )
    ax = plots.arrows(before, after)
    arrows = [text for text in ax.texts if not text.get_text()]
    for arrow, name in zip(arrows, parts, strict=True):
        start = tepid.metrics.confidence(before[name]), tepid.metrics.accuracy(before[name])
        end = tepid.metrics.confidence(after[name]), tepid.metrics.accuracy(after[name])
        assert (arrow.get_position(), arrow.xy) == (start, end)
        assert start[1] == end[1]
    assert {text.get_text() for text in ax.texts} == {"", *parts}
    assert _labels(ax) == ["calibrated", "before", "after"]


@pytest.mark.usefixtures("figures")
def test_one_pair_of_summaries_is_one_arrow_and_a_set_without_rows_is_none(made):
    assert len([t for t in plots.arrows(made, made).texts if hasattr(t, "arrow_patch")]) == 2
    empty = tepid.summaries.Reliability.zero(5)
    ax = plots.arrows({"a": made, "b": empty}, {"a": made, "b": empty})
    assert [t.get_text() for t in ax.texts] == ["", "a"]


@pytest.mark.usefixtures("figures")
def test_every_class_has_a_bar_but_those_without_a_number():
    ax = plots.classes([0.1, math.nan, 0.3], ["cat", "dog", "eel"], label="error")
    bars = ax.containers[0]
    assert [(b.get_y() + b.get_height() / 2, b.get_width()) for b in bars] == [(0, 0.1), (2, 0.3)]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["cat", "dog", "eel"]
    assert ax.get_ylim() == (2.5, -0.5)
    assert ax.get_xlabel() == "error"


@pytest.mark.usefixtures("figures")
def test_tails_are_drawn_as_their_thresholds(network):
    tails = tepid.summaries.Tails.of(network[0])
    ax = plots.classes(tails)
    assert [b.get_width() for b in ax.containers[0]] == tails.thresholds().tolist()
    assert ax.get_xlabel() == "threshold of UTS"


@pytest.mark.slow
@pytest.mark.usefixtures("figures")
def test_a_thousand_classes_are_not_all_named():
    ax = plots.classes(np.arange(1000))
    assert len(ax.containers[0]) == 1000
    assert len(ax.get_yticks()) == 40


# --- manners

DRAWN = {
    "reliability": lambda r, c, ax: plots.reliability(r, ax),
    "confidence": lambda r, c, ax: plots.confidence(r, ax=ax),
    "coverage": lambda r, c, ax: plots.coverage(r, ax),
    "loss": lambda r, c, ax: plots.loss(c, ax=ax),
    "arrows": lambda r, c, ax: plots.arrows(r, r, ax),
    "classes": lambda r, c, ax: plots.classes([1.0, 2.0], ax=ax),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_drawn_on_the_axes_that_are_given_or_on_new_ones(
    name, made, curve, figures, tmp_path
):
    draw = DRAWN[name]
    figure = figures()
    mine, other = figure.subplots(1, 2)
    assert draw(made, curve, mine) is mine
    assert not other.has_data()
    new = draw(made, curve, None)
    assert new.figure is not draw(made, curve, None).figure
    new.figure.savefig(tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.slow
@pytest.mark.usefixtures("figures")
def test_drawing_changes_no_setting_and_leaves_pyplot_alone():
    code = (
        "import sys, matplotlib, numpy as np, tepid\n"
        "def settings():  # the backend is found, and pyplot imported, by looking at it\n"
        "    return {k: v for k in matplotlib.rcParams if k != 'backend'\n"
        "            for v in [matplotlib.rcParams[k]]}\n"
        "before = settings()\n"
        "r = tepid.summaries.Reliability.of([[.8, .2], [.6, .4]], [0, 1])\n"
        "c = tepid.summaries.Curve.of([[2., 0.], [0., 1.]], labels=[0, 0])\n"
        "p = tepid.plots\n"
        "for ax in (p.reliability(r), p.confidence(r), p.coverage(r), p.loss(c), p.arrows(r, r),\n"
        "           p.classes([1., 2.])):\n"
        "    ax.figure.canvas.draw()\n"
        "assert settings() == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_tepid_or_its_plots_does_not_import_matplotlib():
    code = (
        "import sys, tepid; assert 'tepid.plots' not in sys.modules\n"
        "tepid.plots.bins; assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_the_tables_work_and_the_pictures_say_what_is_missing(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert len(plots.bins(made)) == 3
    with pytest.raises(ImportError, match=r"got none; pip install 'tepid\[plots\]' brings it"):
        plots.reliability(made)


def test_the_two_gaps_are_told_apart_in_grayscale():
    def lightness(color):
        r, g, b = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    assert lightness(style.ORANGE) - lightness(style.BLUE) > 0.2
    assert lightness(style.SKY) - lightness(style.BLUE) > 0.2


@pytest.mark.parametrize("draw", [plots.reliability, plots.confidence, plots.coverage])
def test_a_summary_of_no_rows_is_refused(draw):
    with pytest.raises(tepid.InputError, match=r"^data must have at least one row to be drawn"):
        draw(tepid.summaries.Reliability.zero())


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda r, c: plots.bins(r, temperature=2.0), "temperature must be left out for a Reli"),
        (
            lambda r, c: plots.bins(c, temperature=1.5),
            "temperature must be a node of the curve, of which 1.4142 is the nearest, got 1.5",
        ),
        (
            lambda r, c: plots.bins(tepid.summaries.Curve.of([[1.0, 0.0]], bins=0)),
            "curve must have bins to be drawn, got 0",
        ),
        (
            lambda r, c: plots.loss(tepid.summaries.Curve.of([[1.0, 0.0]])),
            "curve must have pairs to have a loss, got none",
        ),
        (
            lambda r, c: plots.loss(
                tepid.summaries.Curve.of(
                    [[1.0, 0.0]], labels=[0], lattice=tepid.summaries.Lattice.point(1.0)
                )
            ),
            "curve must have at least two temperatures to be drawn, got 1",
        ),
        (
            lambda r, c: plots.arrows({"a": r, "b": r}, {"a": r}),
            "before and after must have the same names, got b in one alone",
        ),
        (lambda r, c: plots.arrows({}, {}), "before and after must have at least one row"),
        (
            lambda r, c: plots.classes([[1.0]]),
            r"values must be one number for each class, got shape \(1, 1\)",
        ),
        (
            lambda r, c: plots.classes([1.0, 2.0], ["one"]),
            "names must have one for each of 2 values, got 1",
        ),
    ],
)
def test_what_cannot_be_drawn_is_said(draw, said, made, curve):
    with pytest.raises(tepid.InputError, match=f"^{said}"):
        draw(made, curve)


def test_a_monitor_is_drawn_chunk_by_chunk_with_its_alerts():
    rng = np.random.default_rng(0)
    monitor = tepid.online.Monitor.from_reference(3 * rng.normal(size=(2000, 5)), 1.5, chunk=200)
    monitor.update(3 * rng.normal(size=(600, 5)))
    monitor.update(9 * rng.normal(size=(400, 5)))
    rows = monitor.history
    ax = tepid.plots.history(rows)
    drawn = {line.get_label(): line for line in ax.get_lines()}
    np.testing.assert_allclose(
        drawn["implied accuracy"].get_ydata(), [row["implied_accuracy"] for row in rows]
    )
    alerts = [row["chunk"] for row in rows if row["alert"]]
    assert set(alerts) >= {3, 4}
    assert list(drawn["alert"].get_xdata()) == alerts
    quiet = tepid.plots.history([row for row in rows if not row["alert"]])
    assert "alert" not in {line.get_label() for line in quiet.get_lines()}
    with pytest.raises(tepid.InputError, match="rows must hold at least one closed chunk"):
        tepid.plots.history([])
    with pytest.raises(tepid.InputError, match="rows must come from a monitor with a threshold"):
        tepid.plots.history(rows, accepted=True)


def test_the_accepted_share_of_a_monitor_is_drawn_with_its_own_limits():
    rng = np.random.default_rng(0)
    rules = tepid.online.Rules(threshold=0.9, limits=(0.0, 1.0))
    monitor = tepid.online.Monitor.from_reference(
        3 * rng.normal(size=(2000, 5)), 1.5, chunk=200, rules=rules
    )
    monitor.update(3 * rng.normal(size=(400, 5)))
    monitor.update(9 * rng.normal(size=(200, 5)))
    rows = monitor.history
    drawn = {
        line.get_label(): line for line in tepid.plots.history(rows, accepted=True).get_lines()
    }
    shares = [row["accepted_share"] for row in rows]
    np.testing.assert_allclose(drawn["accepted share"].get_ydata(), shares)
    assert list(drawn["alert"].get_xdata()) == [2]
    assert rows[2]["alert"]
    inside = {line.get_label() for line in tepid.plots.history(rows).get_lines()}
    assert "alert" not in inside
