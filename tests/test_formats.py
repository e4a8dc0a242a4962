"""Files of earlier versions: each is loaded, or refused with the command that recreates it."""

import json

import pytest

import tepid
from tests import formats

NAMES = sorted(path.name for path in formats.FOLDER.glob("*-*"))
EXPECTED = json.loads((formats.FOLDER / "expected.json").read_text(encoding="utf-8"))
# Every kind of file has to be here.
KINDS = {
    "temperature", "tails", "curve", "reliability", "summaries", "monitor",
    "vector", "matrix", "ensemble", "histogram", "isotonic", "beta",
}  # fmt: skip
RECREATE = {
    "tails": "tepid.summaries.Tails.of(logits).save(path)",
    "curve": "tepid.summaries.Curve.of(logits).save(path)",
    "reliability": "tepid.summaries.Reliability.of(probabilities, labels).save(path)",
    "summaries": "tepid summarize logits -o file.npz",
    "monitor": "Monitor.from_reference(logits, temperature, chunk=...).save(path)",
}
CALIBRATOR = "tepid fit logits --labels labels --method METHOD -o file.npz"


def test_there_is_a_file_of_every_kind_in_the_format_that_is_written():
    assert EXPECTED.keys() == {n for n in NAMES if "-2." in n}
    assert {name.partition("-")[0] for name in EXPECTED} == KINDS


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_gives_the_numbers_that_it_gave_when_it_was_written(name):
    # A file holds float64; the tiers compute rows in float32.
    found = formats.numbers(name, formats.FOLDER / name)
    assert found == pytest.approx(EXPECTED[name], rel=1e-6)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_of_this_format_is_written_again_the_same(name, tmp_path):
    content = (formats.FOLDER / name).read_bytes()
    formats.load(name, formats.FOLDER / name).save(tmp_path / name)
    if name.endswith(".npz"):
        assert (tmp_path / name).read_bytes() == content
    else:  # it names the version that wrote it
        written = json.loads((tmp_path / name).read_bytes())
        assert written | {"tepid": None} == json.loads(content) | {"tepid": None}


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("-1.npz")])
def test_a_file_of_format_1_is_refused_with_the_command_that_recreates_it(name):
    path = formats.FOLDER / name
    recreate = RECREATE.get(name.partition("-")[0], CALIBRATOR)
    with pytest.raises(tepid.InputError) as refused:
        formats.load(name, path)
    assert str(refused.value) == (
        f"{path} was saved by an older version of tepid; recreate it with {recreate}"
    )
