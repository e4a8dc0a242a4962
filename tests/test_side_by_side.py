"""Files that have to be decoded are read several at a time, and nobody can tell from the result."""

import dataclasses
import itertools
import threading
import weakref

import numpy as np
import pytest

import tepid
from tepid.errors import InputError
from tepid.sources import open_source
from tepid.sources.block import Block, Part
from tepid.sources.parts import finer, from_parts

RNG = np.random.default_rng(0)
LENGTHS = (40_000, 1, 0, 25_000, 60_001)
ROWS = RNG.normal(0, 3, (sum(LENGTHS), 4)).astype(np.float32)
ENDS = np.cumsum((0, *LENGTHS))
PARTS = [ROWS[a:b] for a, b in itertools.pairwise(ENDS)]


@pytest.fixture(autouse=True)
def _small_files_count_as_large(monkeypatch):
    monkeypatch.setattr("tepid.engines.threads._LOGITS_PER_PART", 1)


def _part(number, rows, before=lambda: None):
    def read(at_most):
        for start in range(0, len(rows), at_most):
            before()
            yield Block(rows[start : start + at_most], None, None, start, f"part {number}")

    return Part(f"part {number}", read, len(rows))


def _source(parts=PARTS, before=lambda: None, **said):
    made = tuple(_part(number, rows, before) for number, rows in enumerate(parts))
    return dataclasses.replace(from_parts(made, classes=4), decoded=True, **said)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_any_number_of_threads_gives_the_same_temperature(threads):
    expected = tepid.from_logits(ROWS)
    found = tepid.from_logits(_source(), engine=tepid.Threads(threads))
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    assert found.samples == len(ROWS)


def test_a_column_for_all_rows_is_cut_where_the_parts_end():
    labels = RNG.integers(4, size=len(ROWS))
    expected = tepid.from_labels(ROWS, labels)
    found = tepid.from_labels(_source(labels=labels), None, engine=tepid.Threads(3))
    assert found.value == pytest.approx(expected.value, rel=1e-9)


def test_rows_have_their_numbers_where_nobody_has_counted_the_parts(tmp_path):
    parts = [ROWS[:333], ROWS[333:666], ROWS[666:999]]
    for number, rows in enumerate(parts):
        np.savetxt(tmp_path / f"{number}.csv", rows, delimiter=",")
    expected = tepid.from_logits(ROWS[:999], debias=True).value
    for threads in (1, 2):
        found = tepid.from_logits(tmp_path, debias=True, engine=tepid.Threads(threads))
        assert found.value == pytest.approx(expected, rel=1e-6)


def test_only_few_sums_are_held_at_once():
    alive = weakref.WeakSet()
    most = []

    class Count:
        def __init__(self):
            alive.add(self)
            most.append(len(alive))

        def __add__(self, other):
            return Count()

    many = _source([ROWS[:200]] * 500)
    tepid.Threads(2).total(lambda _: Count(), many, "counting")
    assert max(most) < 50


def test_two_parts_are_read_at_the_same_time():
    both = threading.Barrier(2)
    halves = np.array_split(ROWS[:100_000], 2)
    source = _source(halves, before=lambda: both.wait(timeout=20))  # one alone would wait in vain
    assert tepid.from_logits(source, engine=tepid.Threads(2)).samples == 100_000


def test_small_parts_are_read_one_after_the_other(monkeypatch):
    monkeypatch.undo()
    readers = set()
    source = _source(before=lambda: readers.add(threading.current_thread()))
    tepid.from_logits(source, engine=tepid.Threads(2))
    assert len(readers) == 1


def test_the_first_bad_row_is_named_however_soon_a_later_one_is_found():
    parts = [rows.copy() for rows in PARTS]
    parts[0][-1, 2] = np.nan
    parts[1][0, 0] = np.nan
    for _ in range(5):
        with pytest.raises(InputError, match=r"^part 0 .* row 39999"):
            tepid.from_logits(_source(parts), engine=tepid.Threads(4))


def test_nothing_more_is_read_once_a_part_was_refused():
    bad = ROWS[:10].copy()
    bad[0, 0] = np.inf
    read = []
    many = [bad, *[ROWS[:2000]] * 400]
    with pytest.raises(InputError, match=r"^part 0 "):
        tepid.from_logits(_source(many, before=lambda: read.append(1)), engine=tepid.Threads(2))
    for thread in threading.enumerate():
        if thread.name.startswith("tepid-part"):
            thread.join(timeout=20)
    assert len(read) < 100


def test_progress_counts_the_rows_of_all_threads_together():
    told = []
    engine = tepid.Threads(3, lambda stage, done, rows: told.append((stage, done, rows)))
    tepid.from_logits(_source(), engine=engine)
    first = [done for stage, done, _ in told if stage == told[0][0]]
    assert first == sorted(first)
    assert first[-1] == len(ROWS)
    assert {rows for _, _, rows in told} == {len(ROWS)}


def test_parts_without_any_row_are_refused():
    with pytest.raises(InputError, match="at least one row"):
        tepid.from_logits(_source([ROWS[:0]] * 3), engine=tepid.Threads(2))


# --- one file of Parquet in pieces


@pytest.fixture
def parquet(tmp_path, monkeypatch):
    """A file of row groups of 7000 rows with labels, sites and a column of logits; its labels."""
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    monkeypatch.setattr("tepid.sources.shards._LOGITS_PER_PIECE", 4 * 20_000)
    labels = np.random.default_rng(1).integers(4, size=len(ROWS))
    logits = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.reshape(-1)), 4)
    sites = np.arange(len(ROWS)) % 3
    table = pa.table({"logits": logits, "label": labels, "site": sites})
    pq.write_table(table, tmp_path / "z.parquet", row_group_size=7000)
    return tmp_path / "z.parquet", labels


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_file_of_many_row_groups_is_read_by_several_threads(parquet, threads):
    path, labels = parquet
    engine = tepid.Threads(threads)
    plain, known = tepid.from_logits(ROWS), tepid.from_labels(ROWS, labels)
    assert tepid.from_logits(path, engine=engine).value == pytest.approx(plain.value, rel=1e-9)
    assert tepid.from_labels(path, engine=engine).value == pytest.approx(known.value, rel=1e-9)
    assert tepid.from_labels(path, labels, engine=engine).value == pytest.approx(
        known.value, rel=1e-9
    )
    some = tepid.from_logits(open_source(path, filter="site == 1"), engine=engine)
    assert some.value == pytest.approx(tepid.from_logits(ROWS[1::3]).value, rel=1e-9)


def test_pieces_are_runs_of_row_groups_that_make_up_the_file(parquet):
    source = open_source(parquet[0])
    (whole,) = source.parts
    assert [piece.rows for piece in whole.pieces] == [21_000] * 5 + [20_002]
    blocks = [block for piece in whole.pieces for block in piece.read(5000)]
    np.testing.assert_array_equal(np.concatenate([b.logits for b in blocks]), ROWS)
    np.testing.assert_array_equal(np.concatenate([b.labels for b in blocks]), parquet[1])
    assert [b.row(0) for b in blocks] == np.cumsum([0, *(len(b.logits) for b in blocks)])[
        :-1
    ].tolist()
    assert len(finer(source).parts) == 6


def test_labels_in_another_file_keep_a_file_in_one_piece(parquet, tmp_path):
    np.save(tmp_path / "y.npy", parquet[1])
    source = open_source([parquet[0]], labels=[tmp_path / "y.npy"])
    assert finer(source).parts == source.parts
    found = tepid.from_labels([parquet[0]], [tmp_path / "y.npy"], engine=tepid.Threads(3))
    assert found.value == pytest.approx(tepid.from_labels(ROWS, parquet[1]).value, rel=1e-9)


def test_a_bad_row_of_a_piece_is_named_by_its_place_in_the_file(parquet):
    import pyarrow as pa  # noqa: PLC0415  # the fixture has looked for it
    import pyarrow.parquet as pq  # noqa: PLC0415

    bad = ROWS.copy()
    bad[90_123, 1] = np.nan
    logits = pa.FixedSizeListArray.from_arrays(pa.array(bad.reshape(-1)), 4)
    pq.write_table(pa.table({"logits": logits}), parquet[0], row_group_size=7000)
    with pytest.raises(InputError, match=r"^z.parquet .* row 90123"):
        tepid.from_logits(parquet[0], engine=tepid.Threads(3))


def test_an_interrupt_does_not_wait_for_what_is_being_read():
    begun, go_on, ended = (threading.Event() for _ in range(3))

    def interrupted():
        begun.wait(20)
        raise KeyboardInterrupt

    def slow():
        begun.set()
        go_on.wait(20)
        ended.set()

    parts = (_part(0, ROWS[:20_000], interrupted), _part(1, ROWS[:20_000], slow))
    source = dataclasses.replace(from_parts(parts, classes=4), decoded=True)
    with pytest.raises(KeyboardInterrupt):
        tepid.from_logits(source, engine=tepid.Threads(2))
    assert begun.is_set()
    assert not ended.is_set()
    go_on.set()
