"""Saved files: written atomically; a loaded object is valid, or the file is refused."""

import io
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tepid
from tepid import scaling
from tepid.online import Monitor, Rules
from tepid.store import atomic_write
from tests import strategies
from tests.made import drifted

RNG = np.random.default_rng(5)
LOGITS = (3 * RNG.normal(size=(600, 4))).astype(np.float32)
LABELS = RNG.integers(0, 4, 600)


def _monitor():
    monitor = Monitor.from_reference(
        LOGITS, 1.5, chunk=100, rules=Rules(reestimate=True, half_life=2.0, limits=(0.2, 0.9))
    )
    monitor.update(LOGITS[:250], time=1.0)
    return monitor


def _second_round():
    first = tepid.summarize(LOGITS)
    return tepid.summarize(LOGITS, given=first)


def _calibrated(summaries):
    with warnings.catch_warnings():  # damaged sums may be weak evidence
        warnings.simplefilter("ignore", tepid.CalibrationWarning)
        return tepid.uts(summaries), tepid.calibrate(summaries, accuracy=0.8)


# How each kind is made, loaded and used.
KINDS = {
    "Tails": (
        lambda: tepid.summaries.Tails.of(LOGITS),
        tepid.summaries.Tails.load,
        lambda t: t.thresholds(),
    ),
    "Curve": (
        lambda: tepid.summaries.Curve.of(LOGITS, labels=LABELS),
        tepid.summaries.Curve.load,
        lambda c: (c.lattice.nodes, 2 * c + c),
    ),
    "Reliability": (
        lambda: tepid.summaries.Reliability.of_logits(LOGITS, LABELS),
        tepid.summaries.Reliability.load,
        lambda r: r + r,
    ),
    "Summaries": (_second_round, tepid.Summaries.load, _calibrated),
    "labeled Summaries": (
        lambda: tepid.summarize(LOGITS, LABELS),
        tepid.Summaries.load,
        tepid.temperature_scaling,
    ),
    "Monitor": (
        _monitor,
        Monitor.load,
        lambda m: (m.update(LOGITS[:120], time=2.0), m.history, m.estimate(), m + m),
    ),
} | {
    method: (
        lambda method=method: getattr(scaling, method)(*drifted(300, 4)),
        scaling.load,
        lambda c: c(LOGITS),
    )
    for method in ("vector", "matrix", "ensemble", "histogram", "isotonic", "beta")
}
everything = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The bytes of a file of each kind."""
    folder = tmp_path_factory.mktemp("saved")
    for kind, (make, _, _) in KINDS.items():
        make().save(folder / kind)
    return {kind: (folder / kind).read_bytes() for kind in KINDS}


@everything
def test_a_saved_file_holds_json_and_plain_arrays_and_is_saved_again_the_same(
    kind, saved, tmp_path
):
    _, load, _ = KINDS[kind]
    (tmp_path / "a.npz").write_bytes(saved[kind])
    load(tmp_path / "a.npz").save(tmp_path / "b.npz")
    assert (tmp_path / "b.npz").read_bytes() == saved[kind]
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        header = json.loads(archive["header.json"])
        arrays = [archive[name] for name in archive.files if name != "header.json"]
    assert header["format"] == 2
    assert {array.dtype for array in arrays} <= {np.dtype(np.float64), np.dtype(np.int64)}


def _loads_valid_or_is_refused(kind, path):
    """Whether a file is loaded. What is loaded must be usable, or be refused in one sentence."""
    _, load, use = KINDS[kind]
    message = None
    try:
        loaded = load(path)
    except tepid.InputError as error:
        message = str(error)
    if message is not None:
        assert message.startswith(str(path))
        assert "\n" not in message
        return False
    loaded.save(path)
    load(path)
    try:
        with np.errstate(all="ignore"):
            use(loaded)
    except tepid.InputError:
        pass  # a valid object may still be too little for a temperature
    return True


@pytest.mark.slow
@everything
def test_a_damaged_byte_is_refused_or_changes_nothing_of_use(kind, saved, tmp_path):
    rng = np.random.default_rng(len(kind))
    path = tmp_path / "damaged.npz"
    for _ in range(200):
        data = bytearray(saved[kind])
        way = rng.integers(4)
        place = int(rng.integers(len(data)))
        if way == 0:
            data[place] ^= 1 << int(rng.integers(8))
        elif way == 1:
            del data[place:]
        elif way == 2:
            del data[place : place + int(rng.integers(1, 40))]
        else:
            data[place : place + 8] = rng.bytes(8)
        path.write_bytes(data)
        _loads_valid_or_is_refused(kind, path)


def _unpack(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members.pop("header.json"))
    return header, {name: np.load(io.BytesIO(member)) for name, member in members.items()}


def _pack(path, header, arrays):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for name, array in arrays.items():
            file = io.BytesIO()
            np.save(file, array)
            archive.writestr(name, file.getvalue())


STRANGE = [
    None, True, -1, 0, 1, 2, 3, 10**9, 10**30, 10**400, 0.5, -0.5, 1e300, "x", "", [], [1], {},
    {"a": 1}, ["a"], [None, None], [0.9, 0.1],
]  # fmt: skip
NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1.0, 1e-300, 1e300, -1e300, 2.0**60]


def _mutate_header(fields, rng):
    """Change, remove or add one field, at any depth."""
    name = sorted(fields)[rng.integers(len(fields))]
    if isinstance(fields[name], dict) and rng.random() < 0.8:
        _mutate_header(fields[name], rng)
    elif rng.random() < 0.1:
        del fields[name]
    else:
        fields[name if rng.random() < 0.95 else "strange"] = STRANGE[rng.integers(len(STRANGE))]


def _mutate_array(array, rng):
    """Change a number, the shape or the type of an array."""
    way = rng.integers(6)
    if way <= 2 and array.size:
        array = array.copy()
        with np.errstate(invalid="ignore"):
            value = np.array(NUMBERS[rng.integers(len(NUMBERS))]).astype(array.dtype)
        array.flat[rng.integers(array.size)] = value
        return array
    if way == 3:
        return array.reshape(-1)[: rng.integers(array.size + 1)]
    if way == 4:
        return array.astype([np.float32, np.int64, np.float64, bool, "U3"][rng.integers(5)])
    return [np.array(1.0), array[None], array.T, array * np.nan, np.zeros((0, 3))][rng.integers(5)]


@pytest.mark.slow
@everything
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_wrong_field_is_refused_or_the_loaded_object_is_valid(kind, saved, tmp_path):
    rng = np.random.default_rng(len(kind))
    path = tmp_path / "wrong.npz"
    refused = 0
    for _ in range(300):
        header, arrays = _unpack(saved[kind])
        if rng.random() < 0.5:
            _mutate_header(header, rng)
        else:
            name = sorted(arrays)[rng.integers(len(arrays))]
            if rng.random() < 0.1:
                del arrays[name]
            else:
                arrays[name] = _mutate_array(arrays[name], rng)
        _pack(path, header, arrays)
        refused += not _loads_valid_or_is_refused(kind, path)
    assert refused > 150


def _npy(shape, descr="<f8", data=b""):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00v\x00" + head.encode() + data


@everything
@pytest.mark.parametrize(
    "member",
    [
        _npy("(999999999999999,)"),
        _npy("(9999999999, 9999999999)"),
        _npy("(0, 999999999999999999999)"),
        _npy("(1,)", "|O", pickle.dumps([1])),
        _npy("(10**9,)"),
        b"",
        b"\x93NUMPY\x01\x00\xff\xff{",
    ],
)
def test_an_array_that_claims_more_than_its_bytes_is_refused(kind, member, saved, tmp_path):
    _, load, _ = KINDS[kind]
    header, arrays = _unpack(saved[kind])
    path = tmp_path / "vast.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for name in arrays:
            archive.writestr(name, member)
    with pytest.raises(tepid.InputError, match=r"vast\.npz is not a valid"):
        load(path)


def _archive(compression=zipfile.ZIP_STORED, **members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _array_file(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


OTHERS = {
    "empty": b"",
    "text": b"not an archive",
    "half a zip": b"PK\x03\x04" + b"\x00" * 40,
    "npy": _array_file(np.ones((3, 3))),
    "pickle": pickle.dumps([1]),
    "no header": _archive(**{"a.npy": _array_file(np.ones(3))}),
    "no JSON": _archive(**{"header.json": "{"}),
    "a list": _archive(**{"header.json": "[1]"}),
    "NaN": _archive(**{"header.json": '{"kind": NaN}'}),
    "deep": _archive(**{"header.json": "[" * 100_000}),
    "a long number": _archive(**{"header.json": '{"format": ' + "9" * 10_000 + "}"}),
    "no UTF-8": _archive(**{"header.json": b"\xff\xff"}),
    "no kind": _archive(**{"header.json": "{}"}),
    "an unknown kind": _archive(**{"header.json": '{"kind": "os.system", "format": 2}'}),
    "compressed": _archive(zipfile.ZIP_DEFLATED, **{"header.json": "{}" + " " * 10_000}),
}


@everything
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_other_files_are_refused(kind, other, name, tmp_path):
    _, load, _ = KINDS[kind]
    (tmp_path / name).write_bytes(OTHERS[other])
    with pytest.raises(tepid.InputError, match=r"x\.np[yz] must be a file of .* saved by tepid"):
        load(tmp_path / name)


@everything
def test_a_file_of_another_kind_is_refused(kind, saved, tmp_path):
    _, load, _ = KINDS[kind]
    for other, data in saved.items():
        (tmp_path / "other.npz").write_bytes(data)
        if KINDS[other][1] != load:
            with pytest.raises(tepid.InputError, match=r"must be a file of .*, got kind '\w+'"):
                load(tmp_path / "other.npz")


@everything
def test_a_newer_format_asks_for_an_update_and_a_missing_one_is_refused(kind, saved, tmp_path):
    _, load, _ = KINDS[kind]
    header, arrays = _unpack(saved[kind])
    _pack(tmp_path / "new.npz", header | {"format": 3}, arrays)
    with pytest.raises(tepid.InputError, match=r"has format 3, .* reads format 2; update tepid"):
        load(tmp_path / "new.npz")
    for number in (None, "2", True, 2.0):
        _pack(tmp_path / "new.npz", header | {"format": number}, arrays)
        with pytest.raises(tepid.InputError, match="format must be a whole number"):
            load(tmp_path / "new.npz")


RECREATE = {
    "Tails": r"tepid\.summaries\.Tails\.of\(logits\)\.save\(path\)",
    "Curve": r"tepid\.summaries\.Curve\.of\(logits\)\.save\(path\)",
    "Reliability": r"tepid\.summaries\.Reliability\.of\(probabilities, labels\)\.save\(path\)",
    "Summaries": r"tepid summarize logits -o file\.npz",
    "Monitor": r"Monitor\.from_reference\(",
    "vector": "tepid fit logits --labels labels --method METHOD -o file.npz",
}


@pytest.mark.parametrize("kind", RECREATE)
def test_a_file_of_an_older_version_is_refused_with_what_recreates_it(kind, saved, tmp_path):
    _, load, _ = KINDS[kind]
    olds = [
        {"format": np.array(1), "kind": np.array("Tails"), "classes": np.array(3)},
        {"header": np.array('{"format": 1, "kind": "Affine"}'), "bias": np.ones(3)},
    ]
    path = tmp_path / "old.npz"
    for old in olds:
        np.savez(path, **old)
        with pytest.raises(tepid.InputError, match=f"older version .* with {RECREATE[kind]}"):
            load(path)
    path.write_bytes(_archive(**{"tree.json": '{"format": 1, "value": {"kind": "os:system"}}'}))
    with pytest.raises(tepid.InputError, match=f"older version .* with {RECREATE[kind]}"):
        load(path)
    header, arrays = _unpack(saved[kind])
    _pack(path, header | {"format": 1}, arrays)
    with pytest.raises(tepid.InputError, match=f"older version .* with {RECREATE[kind]}"):
        load(path)


def test_loading_imports_nothing_that_a_file_names(saved, tmp_path):
    header, arrays = _unpack(saved["Summaries"])
    module = "tepid.lab.runs"
    path = tmp_path / "s.npz"
    for forged in (
        _archive(**{"tree.json": json.dumps({"format": 1, "value": {"kind": f"{module}:X"}})}),
        _archive(**{"header.json": json.dumps(header | {"kind": f"{module}:X"})}),
        _archive(**{"header.json": json.dumps(header | {"tails": {"kind": f"{module}:X"}})}),
    ):
        path.write_bytes(forged)
        before = set(sys.modules)
        with pytest.raises(tepid.InputError):
            tepid.Summaries.load(path)
        assert not {name for name in set(sys.modules) - before if name.startswith("tepid.lab")}
    assert arrays


@everything
def test_a_missing_file_raises_file_not_found(kind, tmp_path):
    with pytest.raises(FileNotFoundError):
        KINDS[kind][1](tmp_path / "none.npz")


@everything
def test_a_folder_is_no_saved_file(kind, tmp_path):
    with pytest.raises(tepid.InputError, match="must be a regular file, got a folder"):
        KINDS[kind][1](tmp_path)
    with pytest.raises(tepid.InputError, match="must be a regular file, got a folder"):
        tepid.load(tmp_path)


def test_an_infinite_loss_is_kept(tmp_path):
    found = tepid.summaries.Reliability.of([[1.0, 0.0]], [1])
    assert np.isinf(found.nll)
    found.save(tmp_path / "r.npz")
    assert np.isinf(tepid.summaries.Reliability.load(tmp_path / "r.npz").nll)


def test_summaries_of_no_rows_are_saved(tmp_path):
    for zero in (
        tepid.summaries.Tails.zero(3),
        tepid.summaries.Curve.zero(3),
        tepid.summaries.Reliability.zero(),
    ):
        zero.save(tmp_path / "zero.npz")
        assert type(zero).load(tmp_path / "zero.npz") == zero


# Atomic writes


@pytest.mark.parametrize("old", [None, b"old"])
def test_the_new_file_is_there_with_its_permissions_and_nothing_else(tmp_path, old):
    path = tmp_path / "file"
    if old is not None:
        path.write_bytes(old)
    with atomic_write(path) as file:
        file.write(b"new")
        assert (path.read_bytes() if path.exists() else None) == old
    assert path.read_bytes() == b"new"
    assert _names(tmp_path) == ["file"]
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode
    assert stat.S_ISREG(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_the_mode_of_a_replaced_file_is_kept(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    with atomic_write(path) as file:
        file.write(b"new")
        (temporary,) = set(tmp_path.iterdir()) - {path}
        assert not stat.S_IMODE(temporary.stat().st_mode) & ~mode  # never more open than the old
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("name", ["ä" * 120, "🌡" * 60, "x" * 255])
def test_a_long_name_can_be_written(tmp_path, name):
    with atomic_write(tmp_path / name) as file:
        file.write(b"new")
    assert _names(tmp_path) == [name]


def test_an_error_while_writing_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.writelines([b"half", "and no bytes"])
    assert path.read_bytes() == b"old"
    assert _names(tmp_path) == ["file"]


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert _names(target.parent) == ["file"]


@pytest.mark.parametrize("name", ["", "none/file"])
def test_a_folder_or_a_missing_folder_is_refused(tmp_path, name):
    with pytest.raises(tepid.InputError, match="output must be"), atomic_write(tmp_path / name):
        pass


def test_of_many_who_write_at_once_one_wins_and_nothing_is_left(tmp_path):
    path = tmp_path / "file"
    contents = [bytes([65 + i]) * 10_000 for i in range(8)]

    def write(content):
        for _ in range(20):
            with atomic_write(path) as file:
                file.write(content)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert path.read_bytes() in contents
    assert _names(tmp_path) == ["file"]


def test_a_killed_writer_leaves_the_old_file_and_a_hidden_temporary_one(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = (
        "import os, signal, sys; from tepid.store import atomic_write\n"
        "with atomic_write(sys.argv[1]) as file:\n"
        "    file.write(b'half' * 100_000); file.flush(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    (left,) = set(tmp_path.iterdir()) - {path}
    assert left.name.startswith(".file.")
    assert left.suffix == ".tmp"
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def _names(folder):
    return [path.name for path in folder.iterdir()]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_forked_while_a_thread_works_does_not_wait_for_a_lock():
    """On Python 3.11 functools.cached_property holds one lock for all objects of a class."""
    curve = tepid.summaries.Curve.of(LOGITS)
    monitor = Monitor.from_reference(LOGITS, 1.5, chunk=100)
    tepid.summaries.Curve.of(LOGITS[:10])
    stop = threading.Event()

    def work():
        while not stop.is_set():
            fresh = 1.0 * curve
            assert len(fresh.lattice.nodes)
            Monitor(monitor.reference).update(LOGITS[:5])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(30):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # ends the child if it hangs
                fresh = 1.0 * curve
                done = len(fresh.lattice.nodes) and len(monitor.thresholds)
                os._exit(0 if done else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tepid.errors.ProbabilityWarning")
@given(z=strategies.logits(), seed=st.integers(0, 99), scale=st.sampled_from([1e-3, 1.0, 1e6]))
def test_every_summary_that_can_be_made_can_be_loaded(tmp_path_factory, z, seed, scale):
    path = tmp_path_factory.mktemp("any") / "any.npz"
    rng = np.random.default_rng(seed)
    n, k = z.shape
    weight = rng.choice([0.0, 1e-3, 1.0, 7.5], n)
    labels = np.where(np.isneginf(z), -np.inf, rng.normal(size=z.shape)).argmax(axis=1)
    theta = tepid.summaries.Tails.of(z).thresholds()
    made = [
        tepid.summaries.Tails.of(z, sample_weight=weight),
        tepid.summaries.Curve.of(z, thresholds=theta, labels=labels, sample_weight=weight),
        tepid.summaries.Curve.of(
            z, lattice=tepid.summaries.Lattice.window(-12, 12, 1), thresholds=theta, bins=0
        ),
        tepid.summaries.Reliability.of_logits(z, labels, sample_weight=weight),
    ]
    for summary in made:
        (scale * summary).save(path)
        assert type(summary).load(path) == scale * summary
    if n and k > 1:
        first = tepid.summarize(z)
        for summaries in (
            first,
            tepid.summarize(z, labels, given=first),
            tepid.summarize(z, labels),
        ):
            summaries.save(path)
            loaded = tepid.Summaries.load(path)
            assert loaded.curve == summaries.curve
            assert loaded.labels == summaries.labels
