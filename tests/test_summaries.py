"""Sites that share sums and no rows get the temperature of all rows together."""

import itertools

import numpy as np
import pytest

import tepid


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(8)
    z = 5 * rng.normal(size=(4000, 6))
    return z, (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def sites(rows):
    ends = (0, 1, 700, 4000)
    return [tuple(column[a:b] for column in rows) for a, b in itertools.pairwise(ends)]


def _two_rounds(sites):
    tails = tepid.merged([tepid.summarize(z) for z, _ in sites])
    return tepid.merged([tepid.summarize(z, given=tails) for z, _ in sites])


def test_two_rounds_give_uts_within_the_stated_bound(rows, sites):
    t = tepid.from_summaries(_two_rounds(sites))
    whole = tepid.uts(rows[0])
    assert t.method == whole.method == "uts"
    assert t.precision == 1e-5
    assert t.value == pytest.approx(whole.value, rel=t.precision)
    assert t.samples == 4000
    assert t.sensitivity == pytest.approx(whole.sensitivity, rel=6e-3)


def test_the_order_of_the_sites_does_not_matter(sites):
    forth, back = (tepid.from_summaries(_two_rounds(some)) for some in (sites, sites[::-1]))
    assert forth.value == pytest.approx(back.value, rel=1e-9)


def test_two_rounds_give_what_guarded_gives(rows, sites):
    sure = [(3 * z, y) for z, y in sites]
    t = tepid.from_summaries(_two_rounds(sure), budget=0.02)
    whole = tepid.guarded(3 * rows[0], budget=0.02)
    assert t.status == whole.status
    assert t.value == pytest.approx(whole.value, rel=1e-5)


def test_labels_need_one_round(rows, sites):
    t = tepid.from_summaries(tepid.merged([tepid.summarize(*site) for site in sites]))
    whole = tepid.temperature_scaling(*rows)
    assert t.method == "temperature"
    assert t.value == pytest.approx(whole.value, rel=t.precision)


@pytest.mark.parametrize("accuracy", [0.6, (0.55, 0.65)])
def test_an_accuracy_needs_one_round(rows, sites, accuracy):
    first = tepid.merged([tepid.summarize(z) for z, _ in sites])
    t = tepid.from_summaries(first, accuracy=accuracy)
    whole = tepid.match_accuracy(rows[0], accuracy)
    assert t.value == pytest.approx(whole.value, rel=t.precision)
    assert t.implied_accuracy == pytest.approx(0.6, rel=1e-5)


def test_summaries_come_back_from_a_file_as_they_were(sites, tmp_path):
    first = tepid.summarize(*sites[2])
    first.save(tmp_path / "site.npz")
    again = tepid.Summaries.load(tmp_path / "site.npz")
    assert again.tails == first.tails
    assert again.curve == first.curve
    assert again.prints == first.prints


def test_the_file_does_not_grow_with_the_rows(tmp_path):
    z = np.random.default_rng(0).normal(size=(50_000, 3))
    tepid.summarize(z[:10]).save(tmp_path / "few")
    tepid.summarize(z).save(tmp_path / "many")
    few, many = (path.stat().st_size for path in (tmp_path / "few", tmp_path / "many"))
    assert abs(few - many) < 100  # the digits of the counts


def test_the_same_rows_are_not_added_twice(sites):
    one = tepid.summarize(sites[2][0])
    with pytest.raises(tepid.InputError, match="same rows twice"):
        one + tepid.summarize(sites[1][0]) + tepid.summarize(sites[2][0])


def test_one_round_is_not_enough_for_uts(sites):
    with pytest.raises(tepid.InputError, match="second round for UTS, got the first"):
        tepid.from_summaries(tepid.summarize(sites[1][0]))


def test_rounds_are_not_mixed(sites):
    first = tepid.summarize(sites[1][0])
    with pytest.raises(tepid.InputError, match="one round"):
        first + tepid.summarize(sites[2][0], given=first)


def test_a_site_that_left_after_the_first_round_is_noticed(sites):
    tails = tepid.merged([tepid.summarize(z) for z, _ in sites])
    only = tepid.summarize(sites[2][0], given=tails)
    with pytest.raises(tepid.InputError, match="same rows in both rounds"):
        tepid.from_summaries(only)


def test_labels_and_a_second_round_do_not_go_together(sites):
    first = tepid.summarize(sites[1][0])
    with pytest.raises(tepid.InputError, match="labels must go without given"):
        tepid.summarize(*sites[1], given=first)


def test_temperatures_beyond_the_range_are_at_bound(sites):
    t = tepid.from_summaries(tepid.summarize(sites[2][0] * 1e4, sites[2][1]))
    assert t.status == "at-bound"


def test_other_classes_are_counted(sites):
    few = tepid.summarize(sites[1][0][:, :4])
    with pytest.raises(tepid.InputError, match="same classes, got 6 and 4"):
        tepid.summarize(sites[1][0]) + few
    with pytest.raises(tepid.InputError, match=r"given must be of the 6 classes .* got 4"):
        tepid.summarize(sites[1][0], given=few)
