"""One harness per reader and loader: how to run it, and what the format's own library reads.

`run` must return or raise `tepid.InputError`. `library` reads the same file without tepid; where it
raises there is nothing to compare with. An execution with `deep` also fits or uses what was read.
"""

import csv
import functools
import gzip
import io
import re
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tepid
from fuzz import containers
from fuzz.containers import Container
from fuzz.mutation import mutate_bytes, mutate_json, mutate_lines, mutate_text

Z = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)


@dataclass(frozen=True)
class Harness:
    """How to run one format. `count` is the number of executions in a long campaign."""

    suffix: str
    run: Callable[[Path, bool], Any]
    library: Callable[[Path, Any], Any] | None = None
    container: Container | None = None
    mutate: Callable[[Any, bytes, bytes], bytes] = mutate_bytes
    count: int = 100_000


def mutant(harness: Harness, rng: Any, corpus: dict[str, bytes]) -> bytes:
    """A damaged file, mostly of a sound one; parts of it may come from another."""
    sound = [name for name in corpus if name.startswith("seed")]
    content = corpus[rng.choice(sound if rng.random() < 0.9 else list(corpus))]
    other = corpus[rng.choice(list(corpus))]
    if harness.container is not None and rng.random() < 0.75:
        try:
            return containers.mutate_members(rng, content, other, harness.container)
        except Exception:  # a file of the corpus that cannot be taken apart
            return mutate_bytes(rng, content, other)
    return harness.mutate(rng, content, other)


def put(content: bytes, path: Path) -> None:
    """Write a file; what ends in .zarr is a folder, kept as an archive.

    The file is a new one: HDF5 takes a file of the same inode that was not closed for the old one.
    """
    if path.suffix != ".zarr":
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        return
    import shutil

    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for name, data in containers.split_zip(content).items():
        target = path / name.lstrip("/").replace("..", "_")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


# Logits -------------------------------------------------------------------------------------------


@dataclass
class Rows:
    """What tepid read: the values, and the columns they came from where it is a table."""

    logits: Any
    columns: tuple[str, ...] = ()


def read_logits(path: Path, deep: bool) -> Rows:
    """All rows of a file, and with `deep` a fit to them."""
    source = tepid.open_source(path)
    part: Any = source.parts[0]
    columns = part.columns.logits if hasattr(part, "columns") else ()
    found = [np.array(batch.logits) for batch in source.batches(8)]
    if deep and path.suffix in (".parquet", ".arrow", ".feather", ".csv"):
        chosen = tepid.open_source(path, labels="y", where={"y": 1})
        for _ in chosen.batches(8, allow_empty=True):
            pass
    if deep:
        tepid.calibrate(path, accuracy=0.8, engine=tepid.Threads(1))
    return Rows(np.concatenate(found), columns)


def numpy_array(path: Path, _: Rows) -> Any:
    return np.load(path, allow_pickle=False)


def _member(archive: Any, names: Any) -> Any:
    names = list(names)
    return archive["logits" if "logits" in names else names[0]]


def numpy_member(path: Path, _: Rows) -> Any:
    with np.load(path, allow_pickle=False) as archive:
        return _member(archive, archive.files)


def csv_columns(path: Path, rows: Rows) -> Any:
    """The same columns by Python's csv module and `float`."""
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    # csv.Sniffer is no oracle: the delimiter is the first of these in the first line.
    lines = io.StringIO(text, newline="")
    first = next(line for line in lines if line.strip("\r\n "))
    delimiter = next((sign for sign in ",;\t" if sign in first), ",")
    table = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    table = [row for row in table if any(cell.strip() for cell in row) or len(row) > 1]
    names = [cell.strip() for cell in table[0]]
    if all(name.isdecimal() for name in rows.columns) and not set(rows.columns) <= set(names):
        places, body = [int(name) for name in rows.columns], table
    else:
        places, body = [names.index(name) for name in rows.columns], table[1:]
    return np.array([[float(row[place]) for place in places] for row in body])


def _arrow_matrix(table: Any, columns: tuple[str, ...]) -> Any:
    if len(columns) == 1:
        values = table.column(columns[0]).to_pylist()
        return np.array(values, np.float64)
    return np.column_stack([np.array(table.column(name).to_pylist(), float) for name in columns])


def parquet_columns(path: Path, rows: Rows) -> Any:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        table = file.read(columns=list(rows.columns))
    table.validate(full=True)
    return _arrow_matrix(table, rows.columns)


def ipc_columns(path: Path, rows: Rows) -> Any:
    import pyarrow as pa

    content = pa.py_buffer(path.read_bytes())
    try:
        table = pa.ipc.open_file(content).read_all()
    except pa.ArrowInvalid:
        table = pa.ipc.open_stream(content).read_all()
    table.validate(full=True)
    return _arrow_matrix(table, rows.columns)


def hdf5_member(path: Path, _: Rows) -> Any:
    import h5py

    with h5py.File(path) as file:
        names = [name for name in file if isinstance(file[name], h5py.Dataset)]
        return _member(file, names)[...]


def zarr_member(path: Path, _: Rows) -> Any:
    import zarr

    store = zarr.open(str(path), mode="r")
    return store[...] if hasattr(store, "shape") else _member(store, store.array_keys())[...]


def safetensors_member(path: Path, _: Rows) -> Any:
    import safetensors.numpy

    tensors = safetensors.numpy.load(path.read_bytes())
    return np.asarray(_member(tensors, tensors))


def torch_member(path: Path, _: Rows) -> Any:
    import torch

    content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, dict):
        content = _member(content, [name for name, t in content.items() if hasattr(t, "detach")])
    return content.detach().double().numpy()


# Saved files --------------------------------------------------------------------------------------


def load_and_save(load: Callable[[Path], Any], use: Callable[[Any], Any]) -> Callable[..., Any]:
    """Load a file; save and load it again, which must give the same bytes; with `deep`, use it."""

    def run(path: Path, deep: bool) -> None:
        value = load(path)
        again = path.with_name(f"again{path.suffix}")
        value.save(again)
        first = again.read_bytes()
        load(again).save(again)
        if again.read_bytes() != first:
            raise AssertionError("saved twice, a file has other bytes")
        if deep:
            use(value)

    return run


def use_temperature(t: Any) -> None:
    str(t)
    if t.classes < 100 and not t.groups:
        t(np.zeros((2, t.classes)))


def use_summaries(summaries: Any) -> None:
    tepid.uts(summaries)
    tepid.calibrate(summaries, accuracy=0.8)


def load_monitor(path: Path) -> Any:
    from tepid.online import Monitor

    return Monitor.load(path)


def use_monitor(monitor: Any) -> None:
    if monitor.reference.classes < 100:
        monitor.update(np.zeros((5, monitor.reference.classes)))
    str(monitor.history)
    monitor.estimate()


def load_calibrator(path: Path) -> Any:
    from tepid import scaling

    return scaling.load(path)


def use_calibrator(calibrator: Any) -> None:
    if calibrator.classes < 100:
        calibrator(np.zeros((2, calibrator.classes)))


# Others -------------------------------------------------------------------------------------------


def find_head(path: Path, deep: bool) -> None:
    from tepid import onnx

    onnx.find(path)
    onnx.recorded(path)
    if deep:
        onnx.insert(path, 2.0, path.with_name("again.onnx"))


def read_answers(path: Path, deep: bool) -> Any:
    from tepid.sources.matching import read_answers as read

    answers = read(path)
    if deep:
        tepid.calibrate(Z, path, engine=tepid.Threads(1))
    return list(zip(answers.ids.tolist(), answers.labels.tolist(), strict=True))


def csv_answers(path: Path, _: Any) -> Any:
    text = path.read_bytes().decode("utf-8-sig")
    first = next(line for line in io.StringIO(text, newline="") if line.strip("\r\n "))
    delimiter = next((sign for sign in ",;\t" if sign in first), ",")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    filled = [[cell.strip() for cell in row] for row in rows if any(map(str.strip, row))]
    names = filled[0]
    padded = [row + [""] * (len(names) - len(row)) for row in filled[1:]]
    pairs = [(row[names.index("id")], row[names.index("label")]) for row in padded]
    return [(re.sub(r"^(-?[0-9]+)[.]0*$", r"\1", key), label) for key, label in pairs]


def parse_accuracy(path: Path, deep: bool) -> None:
    from tepid.methods import accuracy as accuracies

    accuracy = accuracies.parse_accuracy(path.read_bytes().decode("utf-8", "surrogateescape"))
    accuracies.estimate(accuracy)
    if deep:
        tepid.calibrate(Z, accuracy=accuracy, engine=tepid.Threads(1))


def read_samples(path: Path, deep: bool) -> None:
    for _ in tepid.open_source(path, labels="target").batches(8):
        pass
    if deep:
        tepid.calibrate(path, "target", engine=tepid.Threads(1))


def read_responses(path: Path, deep: bool) -> None:
    options = ["A", "B", "C", "D"]
    labels = "label" if b'"label"' in path.read_bytes() else None
    for _ in tepid.open_source(path, labels=labels, columns=options).batches(8):
        pass
    if deep:
        tepid.calibrate(path, columns=options, accuracy=0.8, engine=tepid.Threads(1))


HARNESSES: dict[str, Harness] = {
    "npy": Harness(".npy", read_logits, numpy_array, containers.NPY),
    "npz": Harness(".npz", read_logits, numpy_member, containers.ZIP),
    "csv": Harness(".csv", read_logits, csv_columns, mutate=mutate_text),
    "csv-gz": Harness(".csv.gz", read_logits, csv_columns, containers.GZIP),
    "parquet": Harness(".parquet", read_logits, parquet_columns, containers.PARQUET, count=10_000),
    "arrow": Harness(".arrow", read_logits, ipc_columns, count=10_000),
    "feather": Harness(".feather", read_logits, ipc_columns, count=10_000),
    "hdf5": Harness(".h5", read_logits, hdf5_member, count=10_000),
    "zarr": Harness(
        ".zarr",
        read_logits,
        zarr_member,
        mutate=functools.partial(containers.mutate_members, container=containers.ZIP),
        count=10_000,
    ),
    "safetensors": Harness(".safetensors", read_logits, safetensors_member, containers.SAFETENSORS),
    "pt": Harness(".pt", read_logits, torch_member, containers.ZIP, count=10_000),
    "samples": Harness(".jsonl", read_samples, mutate=mutate_lines),
    "responses": Harness(".jsonl", read_responses, mutate=mutate_lines),
    "temperature": Harness(".json", load_and_save(tepid.load, use_temperature), mutate=mutate_json),
    "summaries": Harness(
        ".npz",
        load_and_save(tepid.Summaries.load, use_summaries),
        container=containers.ZIP,
    ),
    "monitor": Harness(".npz", load_and_save(load_monitor, use_monitor), container=containers.ZIP),
    "scaling": Harness(
        ".npz", load_and_save(load_calibrator, use_calibrator), container=containers.ZIP
    ),
    "onnx": Harness(".onnx", find_head, mutate=containers.mutate_protobuf),
    "answers": Harness(".csv", read_answers, csv_answers, mutate=mutate_text),
    "accuracy": Harness(".txt", parse_accuracy, mutate=mutate_text),
}


def same(found: Any, expected: Any) -> bool:
    """Whether tepid read what the library reads."""
    if isinstance(found, list):
        return found == expected
    ours, theirs = np.asarray(found.logits), np.asarray(expected)
    if ours.size != theirs.size:
        return False
    with np.errstate(all="ignore"):
        theirs = theirs.reshape(ours.shape).astype(ours.dtype)
    return bool(np.array_equal(ours, theirs, equal_nan=True))


@functools.cache
def read_corpus(folder: Path, name: str) -> dict[str, bytes]:
    """The files of the corpus of one format."""
    return {path.name: path.read_bytes() for path in sorted((folder / name).iterdir())}


def execute(harness: Harness, path: Path, *, deep: bool) -> tuple[str, str, Any]:
    """Run a harness on a file: `accepted`, `refused` or `raised`, why, and what was read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "accepted", "", harness.run(path, deep)
        except tepid.InputError as error:
            said = str(error)
            if "\n" in said or len(said) > 1000:
                return "raised", f"a refusal of {len(said)} characters: {said[:200]!r}", None
            return "refused", said, None
        except Exception as error:
            return "raised", _place(error), None


def _place(error: Exception) -> str:
    """An exception with the innermost function of tepid that it passed."""
    frames = traceback.extract_tb(error.__traceback__)
    last = ([frame for frame in frames if "/tepid/" in frame.filename] or list(frames))[-1]
    where = f"{last.filename.rpartition('/tepid/')[2]}:{last.lineno} {last.name}"
    return f"{type(error).__name__} in {where}: {str(error)[:200]}"


def compare(harness: Harness, path: Path, found: Any) -> str:
    """`same`, `differs` or `library refused`, of a file that tepid accepts."""
    if harness.library is None:
        return "same"  # after it was saved again, or there is nothing to compare with
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = harness.library(path, found)
        except Exception:
            return "library refused"
    return "same" if same(found, expected) else "differs"
