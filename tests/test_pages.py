"""Columns of lists in Parquet are read by their pages, and as pyarrow reads them."""

import threading
from itertools import cycle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tepid
from tepid.kernels.codes import FIELDS, INNER
from tepid.kernels.packed import look_up, regular
from tepid.kernels.paged import head
from tepid.kernels.snappy import expanded
from tepid.sources import lending, open_source, pages, parquet, unpaging
from tepid.sources.unpaging import Unusual

pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FORMS = {2: pa.float16(), 4: pa.float32(), 8: pa.float64()}
KINDS = {
    "list": pa.list_,
    "large list": pa.large_list,
    "nothing null": lambda inner: pa.list_(pa.field("element", inner, nullable=False)),
}


def _values(rows, classes, size=4, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, classes)).astype(f"f{size}")


def _write(path, z, kind="list", **how):
    form = FORMS[z.dtype.itemsize]
    made = pa.array(list(z), KINDS[kind](form)) if len(z) else pa.array([], KINDS[kind](form))
    beside = pa.array([str(i) for i in range(len(z))])
    pq.write_table(pa.table({"id": beside, "logits": made}), path, **how)
    return path


def _read(path, columns=("logits",), rows=50, *, paged=True, groups=None):
    """The batches of a file, by pages alone or by pyarrow alone."""
    with pa.OSFile(str(path)) as file:
        opened = pq.ParquetFile(file)
        numbers = list(range(opened.num_row_groups) if groups is None else groups)
        if paged:
            found = list(parquet._paged(opened, file, numbers, list(columns), "logits", rows))
        else:
            found = list(parquet.batches(opened, None, numbers, list(columns), rows))
        return found


def _matrix(batches):
    return np.concatenate(
        [np.array(batch.column("logits").flatten()).reshape(len(batch), -1) for batch in batches]
    )


@pytest.mark.parametrize("classes", [1, 2, 3, 7, 8, 9, 10, 17, 100, 333])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_give_the_numbers_for_any_length_of_lists(tmp_path, classes, version):
    z = _values(301, classes)
    how = {"row_group_size": 120, "data_page_size": 512, "data_page_version": version}
    path = _write(tmp_path / "z.parquet", z, use_dictionary=False, write_batch_size=7, **how)
    np.testing.assert_array_equal(_matrix(_read(path)), z)


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_pages_may_be_compressed_in_any_of_these_ways(tmp_path, codec, version, dictionary):
    z = np.round(_values(500, 10), 1)
    path = _write(
        tmp_path / "z.parquet", z, compression=codec, use_dictionary=dictionary,
        data_page_version=version, data_page_size=1000,
    )  # fmt: skip
    np.testing.assert_array_equal(_matrix(_read(path)), z)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("size", [2, 4, 8])
def test_pages_hold_numbers_of_any_size_in_any_kind_of_list(tmp_path, kind, size):
    z = _values(90, 5, size)
    found = _read(_write(tmp_path / "z.parquet", z, kind))
    np.testing.assert_array_equal(_matrix(found), z)
    assert _matrix(found).dtype == z.dtype


@pytest.mark.parametrize("size", [4, 8])
def test_pages_may_keep_the_bytes_of_numbers_apart(tmp_path, size):
    z = _values(200, 10, size)
    path = _write(
        tmp_path / "z.parquet", z, use_dictionary=False,
        use_byte_stream_split=["logits.list.element"], data_page_size=1000,
    )  # fmt: skip
    np.testing.assert_array_equal(_matrix(_read(path)), z)


def test_a_dictionary_that_grew_too_large_is_followed_by_plain_pages(tmp_path):
    z = _values(2000, 10)
    path = _write(tmp_path / "z.parquet", z, dictionary_pagesize_limit=4000, data_page_size=2000)
    encodings = pq.ParquetFile(path).metadata.row_group(0).column(1).encodings
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(encodings)
    np.testing.assert_array_equal(_matrix(_read(path)), z)


def test_many_columns_are_looked_at_once(tmp_path, monkeypatch):
    """pyarrow makes a schema anew whenever it is asked for it, of all columns."""
    z = _values(20, 300)
    path = tmp_path / "z.parquet"
    pq.write_table(pa.table({f"z{k}": column for k, column in enumerate(z.T)}), path)
    asked = []
    made = pq.ParquetFile.schema_arrow
    counted = property(lambda self: asked.append(1) or made.fget(self))
    monkeypatch.setattr(pq.ParquetFile, "schema_arrow", counted)
    np.testing.assert_array_equal(open_source(path).whole(), z)
    assert 0 < len(asked) < 10


def test_a_dictionary_may_have_one_number(tmp_path):
    z = np.full((70, 3), 2.5, np.float32)
    np.testing.assert_array_equal(_matrix(_read(_write(tmp_path / "z.parquet", z))), z)


def test_columns_beside_the_lists_stay_beside_them(tmp_path):
    path = _write(tmp_path / "z.parquet", _values(301, 4), row_group_size=70)
    found = _read(path, ("logits", "id"), rows=37)
    assert [batch.num_rows for batch in found] == [37] * 8 + [5]
    assert [str(name) for b in found for name in b.column("id")] == [str(i) for i in range(301)]
    assert found[0].schema.names == ["logits", "id"]


def test_some_row_groups_alone_are_read(tmp_path):
    z = _values(300, 4)
    path = _write(tmp_path / "z.parquet", z, row_group_size=100)
    np.testing.assert_array_equal(_matrix(_read(path, groups=[1, 2])), z[100:])


def _odd(path, rows, **how):
    table = pa.table({"id": ["a"] * len(rows), "logits": pa.array(rows, pa.list_(pa.float32()))})
    pq.write_table(table, path, **how)
    return path


@pytest.mark.parametrize(
    "odd",
    [
        [[1.0, 2.0], [1.0], [1.0, 2.0, 3.0]],
        [[1.0, 2.0], None, [1.0, 2.0]],
        [[1.0, None], [1.0, 2.0]],
        [[], []],
        [[1.0, 2.0], [], [1.0, 2.0]],
        [],
    ],
)
def test_lists_that_are_not_alike_are_left_to_pyarrow(tmp_path, odd):
    path = _odd(tmp_path / "z.parquet", odd)
    with pytest.raises(Unusual):
        _read(path)
    with pa.OSFile(str(path)) as file:
        found = list(parquet.batches(pq.ParquetFile(file), file, [0][: len(odd)], ["logits"], 50))
    assert [row.as_py() for batch in found for row in batch.column("logits")] == odd


def test_what_pages_cannot_give_follows_what_they_gave(tmp_path):
    """Rows before the odd ones come by pages, the others by pyarrow, none twice and none never."""
    usual = [[float(i), 1.0, 2.0] for i in range(250)]
    path = _odd(tmp_path / "z.parquet", [*usual, [1.0, None, 3.0]], row_group_size=60)
    with pa.OSFile(str(path)) as file:
        found = list(parquet.batches(pq.ParquetFile(file), file, [0, 1, 2, 3, 4], ["logits"], 32))
    rows = [row.as_py() for batch in found for row in batch.column("logits")]
    assert rows == [*usual, [1.0, None, 3.0]]
    kinds = [pa.types.is_fixed_size_list(batch.column("logits").type) for batch in found]
    assert kinds[0]
    assert not kinds[-1]


def test_a_codec_that_is_not_known_is_left_to_pyarrow(tmp_path):
    path = _write(tmp_path / "z.parquet", _values(50, 3), compression="lz4")
    with pytest.raises(Unusual):
        _read(path)
    np.testing.assert_array_equal(open_source(path).whole(), _values(50, 3))


def test_damaged_pages_are_refused_as_pyarrow_refuses_them(tmp_path):
    path = _write(tmp_path / "z.parquet", _values(4000, 10), use_dictionary=False)
    whole = bytearray(path.read_bytes())
    at = pq.ParquetFile(path).metadata.row_group(0).column(1).data_page_offset
    whole[at : at + 40] = bytes(40)
    path.write_bytes(whole)
    with pytest.raises(tepid.InputError, match=r"^z.parquet must be a whole .parquet file, got"):
        open_source(path).whole()


@settings(max_examples=100, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
    dictionary=st.booleans(),
    version=st.sampled_from(["1.0", "2.0"]),
    codec=st.sampled_from(["none", "snappy"]),
)
def test_changed_bytes_never_do_more_than_change_numbers(
    tmp_path_factory, changes, dictionary, version, codec
):
    """Whatever bytes of a page become, numbers of one shape or a refusal come of it."""
    z = _values(60, 5)
    path = _write(
        tmp_path_factory.mktemp("changed") / "z.parquet", z, use_dictionary=dictionary,
        data_page_size=300, data_page_version=version, compression=codec,
    )  # fmt: skip
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    begin = column.dictionary_page_offset or column.data_page_offset
    whole = bytearray(path.read_bytes())
    for place, byte in changes:
        whole[begin + place % column.total_compressed_size] = byte
    path.write_bytes(whole)
    try:
        found = _matrix(_read(path))
    except Unusual:
        return
    assert found.shape == z.shape


@pytest.mark.parametrize(
    ("number", "value"), [(1, 9), (3, -1), (2, -1), (INNER + 5, -1), (INNER + 1, -3)]
)
def test_a_head_with_other_fields_is_unusual(number, value):
    fields = np.full(FIELDS, -1)
    fields[[1, 2, 3]] = 3, 9, 9
    fields[[INNER + 1, INNER + 4, INNER + 5, INNER + 6]] = 3, 0, 1, 1
    assert unpaging.head(fields) == unpaging.Head(3, 9, 9, 3, 0, (1, 1), packed=True)
    fields[number] = value
    with pytest.raises(Unusual):
        unpaging.head(fields)


def test_pages_that_are_larger_than_any_before_are_read_too(tmp_path, monkeypatch):
    """A page for which there is no room comes by itself, and makes room for the next."""
    monkeypatch.setattr(pages, "_PAGE", 1000)
    decoded = []
    real = unpaging.numbers
    monkeypatch.setattr(unpaging, "numbers", lambda *args: decoded.append(1) or real(*args))
    z = _values(6000, 10)
    path = _write(tmp_path / "z.parquet", z, use_dictionary=False, data_page_size=40_000)
    np.testing.assert_array_equal(_matrix(_read(path, rows=700)), z)
    assert len(decoded) == 1


@pytest.mark.parametrize("codec", ["none", "snappy"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_plain_pages_are_all_decoded_by_the_kernel(tmp_path, monkeypatch, codec, version):
    monkeypatch.delattr(unpaging, "numbers")
    z = _values(5000, 10)
    path = _write(
        tmp_path / "z.parquet", z, use_dictionary=False, compression=codec,
        data_page_version=version, data_page_size=7000, row_group_size=1900,
    )  # fmt: skip
    for rows in (1, 100, 333, 5000):
        np.testing.assert_array_equal(_matrix(_read(path, rows=rows)), z)


def test_numbers_before_a_page_that_is_not_regular_are_as_they_were(tmp_path):
    """Its levels were put over them for a moment."""
    rows = [list(map(float, range(i, i + 5))) for i in range(400)]
    odd = [*rows, rows[0][:4], rows[0][:4]]
    path = tmp_path / "z.parquet"
    table = pa.table({"logits": pa.array(odd, pa.list_(pa.float32()))})
    pq.write_table(table, path, use_dictionary=False, data_page_size=500, write_batch_size=20)
    column = pages.Chunk(4, 400 * 5 + 8, 5, 3, "SNAPPY", np.dtype("<f4"))
    with path.open("rb") as file:
        reading = pages._Reading(file.fileno(), [column])
        out = np.zeros(2008, np.float32)
        with pytest.raises(Unusual):
            reading.fill(out)
    done = reading._done
    assert 1800 < done < 2000
    np.testing.assert_array_equal(out[:done], np.ravel(rows)[:done])


# -- The parts that pages are made of.


def _varint(value):
    out = []
    while value > 127:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def _encoded(levels, width, cuts):
    """Levels in runs and packs, cut wherever `cuts` says; an implementation for the test alone."""
    out, at = b"", 0
    while at < len(levels):
        same = next((i for i, v in enumerate(levels[at:]) if v != levels[at]), len(levels) - at)
        if same > 1 and next(cuts):
            out += _varint(2 * same) + int(levels[at]).to_bytes((width + 7) // 8, "little")
            at += same
            continue
        octets = 1 + next(cuts)
        some = [*levels[at : at + 8 * octets], *[0] * (8 * octets)][: 8 * octets]
        bits = sum(int(v) << (width * i) for i, v in enumerate(some))
        out += _varint(2 * octets + 1) + bits.to_bytes(width * octets, "little")
        at += 8 * octets
    return out


def _cuts(seed):
    generator = np.random.default_rng(seed)
    while True:
        yield int(generator.integers(2))


def _bytes(data):
    return np.frombuffer(data, np.uint8)


@given(
    width=st.integers(1, 20), count=st.integers(1, 300), seed=st.integers(0, 99),
    spread=st.integers(1, 4),
)  # fmt: skip
def test_numbers_come_out_of_their_packs_as_they_went_in(width, count, seed, spread):
    high = min(2**width, 2 ** (spread * 5))
    values = np.repeat(np.random.default_rng(seed).integers(high, size=count), spread)[:count]
    out = np.empty(count, np.uint32)
    data = _bytes(_encoded(values, width, _cuts(seed)))
    known = np.arange(values.max() + 1, dtype=np.uint32)[::-1].copy()
    assert look_up(data, width, known, out)
    np.testing.assert_array_equal(out, known[values])
    assert not look_up(data[:-1], width, known, out)
    assert not look_up(data, width, known[:-1], out)


@given(
    length=st.integers(1, 40), count=st.integers(1, 300), seed=st.integers(0, 99),
    highest=st.integers(1, 3), phase=st.integers(0, 39), wrong=st.integers(0, 10**6),
)  # fmt: skip
def test_levels_are_regular_unless_one_of_them_is_not(length, count, seed, highest, phase, wrong):
    phase %= length
    begins = ((np.arange(count) + phase) % length != 0).astype(int)
    present = np.full(count, highest)
    width = highest.bit_length()

    def judged(begins, present):
        first = _bytes(_encoded(begins, 1, _cuts(seed)))
        second = _bytes(_encoded(present, width, _cuts(seed + 1)))
        return regular(first, second, highest, count, length, phase)

    assert judged(begins, present)
    moved = begins.copy()
    moved[wrong % count] ^= 1
    assert not judged(moved, present)
    missing = present.copy()
    missing[wrong % count] -= 1
    assert not judged(begins, missing)


@given(
    length=st.integers(1, 60), count=st.integers(1000, 6000), phase=st.integers(0, 59),
    cuts=st.lists(st.booleans(), max_size=5), wrong=st.integers(0, 10**6),
)  # fmt: skip
def test_levels_that_repeat_are_regular_up_to_the_one_that_is_not(
    length, count, phase, cuts, wrong
):
    """Bytes that come again are only compared with those before them."""
    phase %= length
    begins = ((np.arange(count) + phase) % length != 0).astype(int)
    present = _bytes(_encoded(np.ones(count, int), 1, cycle([True])))

    def judged(begins):
        data = _bytes(_encoded(begins, 1, cycle([*cuts, True])))
        return regular(data, present, 1, count, length, phase)

    assert judged(begins)
    begins[wrong % count] ^= 1
    assert not judged(begins)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x00", b"\x01", b"\x03", b"\xff" * 12, b"\x10"])
def test_bytes_that_are_no_packs_are_refused(data):
    assert not look_up(_bytes(data), 1, np.zeros(2, np.uint8), np.empty(9, np.uint8))
    assert not regular(_bytes(data), _bytes(b"\x12\x01"), 1, 9, 3, 0)
    assert not regular(_bytes(b"\x03\xff\x01"), _bytes(data), 1, 9, 3, 0)


def test_a_head_is_read_to_its_end_with_all_kinds_of_fields():
    inner = bytes([0x15, 0x06, 0x18, 2, 65, 66, 0x11, 0x12, 0x13, 7, 0x17, *range(8), 0x25, 4, 0])
    deeper = bytes([0x1C, 0x15, 2, 0])
    ends = bytes([0x05, 0x0E, 0x0D, 0x05, 0x28, 0x0D, 0x00, 99])
    data = bytes([0x15, 0x80, 0x01, 0x1C]) + inner[:-1] + deeper + b"\0" + ends
    fields = np.zeros(FIELDS, np.int64)
    assert head(_bytes(data), fields) == len(data) - 1
    outer = {1: 64, 7: -7}
    within = {INNER + 1: 3, INNER + 3: 1, INNER + 4: 0, INNER + 8: 2}
    assert {i: v for i, v in enumerate(fields) if v != -1} == outer | within


@pytest.mark.parametrize(
    "data", [b"", b"\x15", b"\x15\x02", b"\x19\x00\x00", b"\x1c\x1c\x1c\x1c\x00\x00\x00\x00\x00"]
)
def test_what_is_no_head_or_not_all_of_it_has_no_end(data):
    assert head(_bytes(data), np.zeros(FIELDS, np.int64)) == -1


@given(
    pieces=st.lists(
        st.tuples(st.binary(min_size=1, max_size=90), st.integers(1, 9)), min_size=1, max_size=60
    )
)
def test_what_snappy_made_fewer_is_made_whole_again(pieces):
    """Repeats of any distance and length, as pyarrow's own Snappy writes them."""
    data = b"".join(piece * times for piece, times in pieces)
    data += data[: len(data) // 2]
    fewer = pa.Codec("snappy").compress(data, asbytes=True)
    out = np.zeros(len(data) + 16, np.uint8)
    assert expanded(_bytes(fewer), out[: len(data)])
    assert out[: len(data)].tobytes() == data
    assert not out[len(data) :].any()
    assert not expanded(_bytes(fewer), out[: len(data) - 1])
    assert not expanded(_bytes(fewer[:-1]), out[: len(data)])


def _snappy(size, *elements):
    return _bytes(_varint(size) + b"".join(elements))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_literal_may_have_its_length_behind_its_tag(size):
    long = bytes(range(200))
    tag = bytes([(59 + size) << 2]) + (199).to_bytes(size, "little")
    out = np.zeros(200, np.uint8)
    assert expanded(_snappy(200, tag, long), out)
    assert out.tobytes() == long


@pytest.mark.parametrize("back", range(1, 40))
@pytest.mark.parametrize("room", [0, 7, 40])
def test_a_copy_may_repeat_what_it_has_just_written(back, room):
    first, rest = bytes(range(50)), bytes(range(100, 100 + room))
    near = bytes([(60 - 1) << 2 | 2]) + back.to_bytes(2, "little")
    far = bytes([(60 - 1) << 2 | 3]) + back.to_bytes(4, "little")
    literals = [bytes([49 << 2]) + first, bytes([(room - 1) << 2]) + rest if room else b""]
    wanted = bytearray(first)
    for _ in range(60):
        wanted.append(wanted[-back])
    for copy in (near, far):
        out = np.zeros(110 + room, np.uint8)
        assert expanded(_snappy(110 + room, literals[0], copy, literals[1]), out)
        assert out.tobytes() == bytes(wanted) + rest


@pytest.mark.parametrize(
    "elements",
    [
        [b"\x00"],  # a literal whose bytes are missing
        [b"\xf0"],  # one whose length is
        [b"\xfc\xff\xff\xff\xff"],  # one that is longer than anything
        [b"\x00a", b"\x01\x02"],  # a copy from before the beginning
        [b"\x00a", b"\x01\x00"],  # a copy from where it goes
        [b"\x00a", b"\x0e\x01"],  # a copy whose distance is cut off
        [b"\x00a", b"\xfe\x01\x00"],  # a copy beyond the end
        [b"\x00a"],  # too little
        [],
    ],
)
def test_what_is_not_of_snappy_is_refused(elements):
    out = np.zeros(9, np.uint8)
    assert not expanded(_snappy(9, *elements), out)


def test_memory_is_lent_again_only_when_nobody_looks_at_it(monkeypatch):
    monkeypatch.setattr(lending, "_HELD", threading.local())
    first = lending.lent(1000)
    looking = np.frombuffer(first, np.uint8)[10:20]
    second = lending.lent(1000)
    assert second is not first
    del looking
    assert lending.lent(1000) is first
    assert len(lending.lent(5000)) >= 5000


def test_much_memory_is_not_kept():
    large = lending.lent((1 << 23) + 1)
    assert lending.lent((1 << 23) + 1) is not large
    for size in range(1000, 9000, 100):
        lending.lent(size)
    assert len(lending._HELD.held) <= 6


def test_blocks_that_are_kept_are_not_written_over(tmp_path):
    z = _values(3000, 10)
    path = _write(tmp_path / "z.parquet", z, data_page_size=3000)
    kept = [block.logits for block in open_source(path).blocks(200)]
    np.testing.assert_array_equal(np.concatenate(kept), z)


def test_a_fit_is_the_same_by_pages_and_by_pyarrow(tmp_path, monkeypatch):
    z = 3 * _values(5000, 10)
    path = _write(tmp_path / "z.parquet", z, row_group_size=700)
    paged = tepid.from_logits(path).value

    def unusual(*_):
        raise Unusual

    monkeypatch.setattr(pages, "chunks", unusual)
    assert paged == tepid.from_logits(path).value == tepid.from_logits(z).value
