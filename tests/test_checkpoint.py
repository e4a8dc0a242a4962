"""A fit that was broken off goes on, and what it finds on the way cannot be wrong."""

import hashlib
import itertools

import numpy as np
import pytest

import tepid
from tepid.engines.checkpoint import Checkpointed
from tepid.sources.block import Block, Part
from tepid.sources.parts import from_parts

METHODS = {
    "logits": tepid.from_logits,
    "debiased": lambda s, **o: tepid.from_logits(s, debias=True, **o),
    "accuracy": lambda s, **o: tepid.from_accuracy(s, 0.6, **o),
    "odds": tepid.from_odds,
    "guarded": tepid.guarded,
    "models": lambda s, **o: tepid.from_models(s, s, **o),
    "labels": tepid.from_labels,
    "source": lambda s, **o: tepid.from_source(s, s, **o),
    "source, label shift": lambda s, **o: tepid.from_source(s, s, shift="label", **o),
}


class Broken(BaseException):
    """The process is killed here."""


class Shards:
    """Rows in shards, which count how often each is read and can break off at one reading."""

    def __init__(self, rows, labels, cuts=(0, 300, 300, 301, 1000)):
        ends = (*cuts, len(rows))
        self.pieces = [(rows[a:b], labels[a:b]) for a, b in itertools.pairwise(ends)]
        self.reads = []
        self.break_at = None

    def source(self):
        parts = tuple(self._part(i) for i in range(len(self.pieces)))
        return from_parts(parts, classes=5, columns=("labels",))

    def _part(self, i):
        def read(_):
            if len(self.reads) == self.break_at:
                raise Broken
            self.reads.append(i)
            z, y = self.pieces[i]
            yield Block(z, y, None, 0, f"shard {i}")

        def digest():
            return hashlib.sha256(b"".join(c.tobytes() for c in self.pieces[i])).hexdigest()

        return Part(f"shard {i}", read, len(self.pieces[i][0]), digest)


@pytest.fixture
def shards():
    rng = np.random.default_rng(4)
    z = 4 * rng.normal(size=(1500, 5))
    return Shards(z, (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1))


def _engine(folder, about="fit"):
    return Checkpointed(tepid.Threads(1), folder, about)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_comes_to_the_same_and_then_reads_nothing(shards, tmp_path, name):
    method = METHODS[name]
    plain = method(shards.source()).value
    assert method(shards.source(), engine=_engine(tmp_path)).value == pytest.approx(plain, rel=1e-9)
    first = method(shards.source(), engine=_engine(tmp_path)).value
    shards.reads.clear()
    engine = _engine(tmp_path)
    assert method(shards.source(), engine=engine).value == first
    assert engine.found == engine.asked > 0
    if name != "source, label shift":  # which counts the labels by themselves
        assert shards.reads == []


def test_broken_off_at_any_reading_it_goes_on_with_the_next_shard(shards, tmp_path):
    undisturbed = tepid.from_logits(shards.source(), engine=_engine(tmp_path / "other")).value
    readings = len(shards.reads)
    for moment in range(readings):
        shards.reads.clear()
        shards.break_at = moment
        with pytest.raises(Broken):
            tepid.from_logits(shards.source(), engine=_engine(tmp_path / str(moment)))
        shards.break_at = None
        again = tepid.from_logits(shards.source(), engine=_engine(tmp_path / str(moment)))
        assert again.value == undisturbed
        assert len(shards.reads) == readings


def test_a_shard_that_has_changed_is_read_again_and_no_other_in_the_first_pass(shards, tmp_path):
    tepid.from_logits(shards.source(), engine=_engine(tmp_path))
    z, y = shards.pieces[0]
    shards.pieces[0] = (z + np.linspace(0, 3, 5), y)
    expected = tepid.from_logits(shards.source()).value
    shards.reads.clear()
    changed = tepid.from_logits(shards.source(), engine=_engine(tmp_path)).value
    assert changed == pytest.approx(expected, rel=1e-9)
    assert shards.reads[:2] == [0, 0]  # once for the tails, then all for the curve


def test_other_options_find_nothing(shards, tmp_path):
    tepid.from_accuracy(shards.source(), 0.6, engine=_engine(tmp_path, "0.6"))
    engine = _engine(tmp_path, "0.7")
    t = tepid.from_accuracy(shards.source(), 0.7, engine=engine)
    assert engine.found == 0
    assert t.implied_accuracy == pytest.approx(0.7)


def test_other_labels_find_nothing(shards, tmp_path):
    tepid.from_labels(shards.source(), engine=_engine(tmp_path))
    for i, (z, y) in enumerate(shards.pieces):
        shards.pieces[i] = (z, (y + 1) % 5)
    engine = _engine(tmp_path)
    tepid.from_labels(shards.source(), engine=engine)
    assert engine.found == 1  # the empty shard


def test_weights_beside_the_shards_count_for_what_is_found(shards, tmp_path):
    weight = np.random.default_rng(0).uniform(size=1500)
    for u in (weight, weight[::-1].copy()):
        t = tepid.from_logits(shards.source(), sample_weight=u, engine=_engine(tmp_path))
        plain = tepid.from_logits(shards.source(), sample_weight=u)
        assert t.value == pytest.approx(plain.value, rel=1e-9)


def test_a_damaged_file_is_made_again(shards, tmp_path):
    before = tepid.from_logits(shards.source(), engine=_engine(tmp_path)).value
    for i, path in enumerate(sorted(tmp_path.iterdir())):
        whole = path.read_bytes()
        path.write_bytes((b"", whole[: len(whole) // 2], b"\0" * len(whole))[i % 3])
    engine = _engine(tmp_path)
    assert tepid.from_logits(shards.source(), engine=engine).value == before
    assert engine.found == 0


def test_rows_in_memory_cannot_be_resumed(tmp_path):
    with pytest.raises(
        tepid.InputError, match="checkpoint must go with files, got logits in memory"
    ):
        tepid.from_logits(np.eye(3), engine=_engine(tmp_path))
