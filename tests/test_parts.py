"""A source of several parts is the rows of all of them."""

import itertools

import numpy as np
import pytest

import tepid
from tepid.sources.block import Block, Carried, Part
from tepid.sources.parts import from_parts, mapped


def _part(name, logits, labels=None, groups=None):
    def read(rows):
        for start in range(0, len(logits), rows):
            stop = start + rows
            yield Block(
                logits[start:stop],
                None if labels is None else labels[start:stop],
                None,
                start,
                name,
                None if groups is None else groups[start:stop],
            )

    return Part(name, read, len(logits))


def _parts(logits, labels=None, groups=None, cuts=(0, 0, 1, 700)):
    ends = [*cuts, len(logits)]
    columns = (labels, groups)
    return tuple(
        _part(f"part-{i}", logits[a:b], *(c if c is None else c[a:b] for c in columns))
        for i, (a, b) in enumerate(itertools.pairwise(ends))
    )


@pytest.fixture
def rows():
    rng = np.random.default_rng(5)
    logits = 3 * rng.normal(size=(2000, 7))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, labels, np.where(np.arange(2000) < 900, "here", "there")


def test_parts_give_the_temperature_of_their_rows_together(rows):
    logits, _, _ = rows
    source = from_parts(_parts(logits))
    assert source.rows == 2000
    together = tepid.from_logits(logits, debias=True).value
    assert tepid.from_logits(source, debias=True).value == pytest.approx(together, rel=1e-9)


def test_columns_come_with_the_blocks_and_as_a_whole(rows):
    logits, labels, groups = rows
    source = from_parts(_parts(logits, labels, groups), columns=("labels", "groups"))
    assert isinstance(source.labels, Carried)
    np.testing.assert_array_equal(np.asarray(source.labels), labels)
    apart = tepid.from_labels(source)
    whole = tepid.from_labels(logits, labels, groups=groups)
    assert apart.value == pytest.approx(whole.value, rel=1e-9)
    assert apart.groups["there"].value == pytest.approx(whole.groups["there"].value, rel=1e-9)


def test_a_bad_row_is_named_with_its_part_and_its_place_there(rows):
    logits, _, _ = rows
    logits[703, 2] = np.nan
    with pytest.raises(tepid.InputError, match=r"^part-3 must .* got nan .*row 3$"):
        tepid.from_logits(from_parts(_parts(logits)))


def test_a_bad_label_is_named_with_its_part(rows):
    logits, labels, _ = rows
    labels[1500] = 7
    source = from_parts(_parts(logits, labels), columns=("labels",))
    with pytest.raises(tepid.InputError, match=r"labels of part-3 .* row 800$"):
        tepid.from_labels(source)


def test_a_part_of_another_width_is_named(rows):
    logits, _, _ = rows
    parts = (*_parts(logits), _part("narrow", logits[:5, :3]))
    with pytest.raises(tepid.InputError, match="narrow must have 7 classes in every block, got 3"):
        tepid.from_logits(from_parts(parts))


def test_parts_without_a_row_are_refused():
    parts = (_part("none", np.zeros((0, 3))), _part("also none", np.zeros((0, 3))))
    with pytest.raises(tepid.InputError, match="at least one row"):
        tepid.from_logits(from_parts(parts))


def test_a_mapped_part_has_every_block_changed(rows):
    logits, _, _ = rows

    def doubled(block):
        return block._replace(logits=2 * block.logits)

    parts = tuple(mapped(part, doubled) for part in _parts(logits))
    assert tepid.from_accuracy(from_parts(parts), 0.6).value == pytest.approx(
        2 * tepid.from_accuracy(logits, 0.6).value, rel=1e-6
    )
