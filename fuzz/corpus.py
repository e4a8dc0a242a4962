"""Write the seeds of the corpus: small sound files of every format, from a fixed seed.

`python -m fuzz.corpus` writes fuzz/corpus/FORMAT/seed-*, which are sound, and made-*, which were
made up to mislead a reader. Files beside them that begin with `found` are inputs that once failed;
they are kept by hand and are never written by this script.
"""

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from tests import containers, hostile, logs

import tepid
from fuzz.containers import join_zip

CORPUS = Path(__file__).with_name("corpus")
RNG = np.random.default_rng(24)
TABLE = containers.made(rows=12, classes=3).without("w", "site", "id", "latency_ms")


def write_arrays(put: Any) -> None:
    z = TABLE.logits.astype(np.float32)
    for name, array in {
        "f32": z,
        "f64": TABLE.logits,
        "f16": z.astype("f2"),
        "binary": z[:, 0],
    }.items():
        put("npy", name, ".npy", lambda path, a=array: np.save(path, a))
    put("npy", "fortran", ".npy", lambda path: np.save(path, np.asfortranarray(z)))
    put("npz", "plain", ".npz", lambda path: containers.write_npz(path, TABLE))
    put("npz", "compressed", ".npz", lambda path: np.savez_compressed(path, logits=z))
    put("hdf5", "chunked", ".h5", lambda path: containers.write_hdf5(path, TABLE))
    put("hdf5", "plain", ".h5", lambda path: _hdf5(path, z))
    put("hdf5", "gzip", ".h5", lambda path: _hdf5(path, z, chunks=(5, 3), compression="gzip"))
    put("safetensors", "plain", ".safetensors", lambda p: containers.write_safetensors(p, TABLE))
    put("pt", "dict", ".pt", lambda path: containers.write_pt(path, TABLE))
    put("pt", "tensor", ".pt", lambda path: _pt(path, z))
    put("zarr", "group", ".zarr", lambda path: containers.write_zarr(path, TABLE))
    put("zarr", "array", ".zarr", lambda path: _zarr(path, z))


def _hdf5(path: Path, z: Any, **options: Any) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("logits", data=z, **options)


def _pt(path: Path, z: Any) -> None:
    import torch

    torch.save(torch.from_numpy(z), path)


def _zarr(path: Path, z: Any) -> None:
    import zarr

    zarr.create_array(str(path), data=z, chunks=(5, 3), compressors=None)


def write_tables(put: Any) -> None:
    import pyarrow as pa

    numbered, lists = containers.arrow_numbered(TABLE), containers.arrow_list(TABLE)
    fixed = containers.arrow_list(TABLE, fixed=True)
    put("csv", "header", ".csv", lambda path: containers.write_csv(path, TABLE))
    text = b"0.5;1.5;-2\r\n1;2;3.25\r\n-1e3;4;5\r\n"
    put("csv", "semicolon", ".csv", lambda path: path.write_bytes(text))
    quoted = b'"z0","z1",note\n1,"2",a\n"3.5",4,"b ""c"""\n'
    put("csv", "quoted", ".csv", lambda path: path.write_bytes(quoted))
    put("csv-gz", "header", ".csv.gz", lambda path: containers.write_csv(path, TABLE))
    for name, table in {"numbered": numbered, "lists": lists, "fixed": fixed}.items():
        put("parquet", name, ".parquet", lambda p, t=table: containers.write_parquet(p, t, 5))
        put("arrow", name, ".arrow", lambda path, t=table: containers.write_ipc(path, t))
    put("arrow", "stream", ".arrow", lambda path: _stream(path, numbered))
    dictionary = pa.table(
        {"logits": lists["logits"], "g": pa.array(["a", "b"] * 6).dictionary_encode()}
    )
    put("arrow", "dictionary", ".arrow", lambda path: containers.write_ipc(path, dictionary))
    put("feather", "lists", ".feather", lambda path: containers.write_feather(path, lists))
    put("feather", "numbered", ".feather", lambda path: containers.write_feather(path, numbered))


def _stream(path: Path, table: Any) -> None:
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def write_logs(put: Any) -> None:
    z, y = logs.answers(rows=4)
    put("samples", "four", ".jsonl", lambda path: logs.write(path, logs.samples(z, y)))
    uneven = [logs.sample(0, z[0], 1), logs.sample(1, z[1][:3], 2)]
    put("samples", "uneven", ".jsonl", lambda path: logs.write(path, uneven))
    p = logs.normalized(z)
    for name, line in {
        "chat": lambda v, i: logs.chat([logs.content(v)], i) | {"label": "ABCD"[y[i]]},
        "batch": lambda v, i: logs.batch(f"r{i}", logs.chat([logs.content(v)], i)),
        "legacy": lambda v, _: logs.legacy([logs.content(v)]),
        "llama-cpp": lambda v, _: logs.llama_cpp([logs.content(v)]),
        "sampled": lambda v, _: logs.llama_cpp([logs.content(v)], post_sampling_probs=True),
        "ollama": lambda v, _: logs.ollama([logs.content(v)]),
    }.items():
        records = [line(values, place) for place, values in enumerate(p)]
        put("responses", name, ".jsonl", lambda path, r=records: logs.write(path, r))


def write_saved(put: Any) -> None:
    from tepid import scaling
    from tepid.online import Monitor, Rules

    rng = np.random.default_rng(24)
    z = (3 * rng.normal(size=(300, 3))).astype(np.float32)
    y = rng.integers(0, 3, 300)
    groups = np.where(np.arange(300) % 2, "a", "b")
    temperatures = {
        "labels": tepid.temperature_scaling(z, y),
        "groups": tepid.calibrate(z, y, groups=groups),
        "accuracy": tepid.match_accuracy(z, (0.8, 0.01)),
        "per-label": tepid.calibrate(z, (z > 0).astype(int), multilabel="per-label"),
    }
    for name, t in temperatures.items():
        put("temperature", name, ".json", t.save)
    put("summaries", "first", ".npz", tepid.summarize(z).save)
    put("summaries", "second", ".npz", tepid.summarize(z, given=tepid.summarize(z)).save)
    put("summaries", "labeled", ".npz", tepid.summarize(z, y).save)
    rules = Rules(reestimate=True, half_life=2.0, limits=(0.2, 0.9))
    monitor = Monitor.from_reference(z, 1.5, chunk=50, rules=rules)
    monitor.update(z[:120], time=1.0)
    put("monitor", "running", ".npz", monitor.save)
    for method in ("vector", "matrix", "ensemble", "histogram", "isotonic", "beta"):
        put("scaling", method, ".npz", getattr(scaling, method)(z, y).save)


def write_others(put: Any) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4])
    weights = numpy_helper.from_array(np.eye(4, 3, dtype=np.float32), "w")
    for end in ("", "Softmax", "Sigmoid", "LogSoftmax"):
        last = "p" if end else "z"
        nodes = [helper.make_node("MatMul", ["x", "w"], ["z"], "head")]
        nodes += [helper.make_node(end, ["z"], ["p"])] if end else []
        out = helper.make_tensor_value_info(last, TensorProto.FLOAT, [None, 3])
        graph = helper.make_graph(nodes, "g", [x], [out], [weights])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        put("onnx", end.lower() or "logits", ".onnx", lambda path, m=model: save(m, path))
    answers = b"id,confidence,label\n3,0.5,1\n5,0.25,\n7,0.125,2\n"
    put("answers", "asked", ".csv", lambda path: path.write_bytes(answers))
    quoted = b'id;label\n"a;b";0\nc;"1"\n'
    put("answers", "quoted", ".csv", lambda path: path.write_bytes(quoted))
    for name, text in {"share": "0.93", "percent": "93%", "error": "0.93±0.01", "count": "186/200",
                       "range": "0.91..0.95", "plain": "93 +- 1%"}.items():  # fmt: skip
        put("accuracy", name, ".txt", lambda path, t=text: path.write_text(t, "utf-8"))


FORMATS = {".h5": "hdf5", ".parquet": "parquet", ".arrow": "arrow", ".feather": "feather"}
LARGEST = 20_000


def write_misleading(put: Any) -> None:
    for name, build in hostile.MISLEADING.items():
        stem, suffix = Path(name).stem.replace(" ", "-"), Path(name).suffix
        if "pickle" in name:
            continue  # it names a folder of whoever wrote it
        with tempfile.TemporaryDirectory() as folder:
            content = build(Path(folder))
        if len(content) <= LARGEST:
            form = FORMATS.get(suffix, suffix.lstrip("."))
            put(form, stem, suffix, lambda path, c=content: path.write_bytes(c), kind="made")


def write_all(corpus: Path = CORPUS) -> None:
    """Write every seed; a folder such as .zarr becomes an archive."""

    def put(form: str, name: str, suffix: str, write: Any, kind: str = "seed") -> None:
        target = corpus / form / f"{kind}-{name}{suffix}"
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"made{suffix}"
            write(path)
            if path.is_dir():
                files = sorted(each for each in path.rglob("*") if each.is_file())
                members = {str(each.relative_to(path)): each.read_bytes() for each in files}
                target.write_bytes(join_zip(members))
            else:
                target.write_bytes(path.read_bytes())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for write in (write_arrays, write_tables, write_logs, write_saved, write_others):
            write(put)
        write_misleading(put)


if __name__ == "__main__":
    write_all()
