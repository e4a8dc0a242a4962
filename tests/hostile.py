"""Files that no reader should trust: damaged, cut off, or written to mislead."""

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests import containers
from tests.needs import needed

WORKER = Path(__file__).with_name("hostile_worker.py")
TABLE = containers.made(rows=60).without("w", "site", "id", "latency_ms")
FLIPS = 24
WRITERS: dict[str, Callable[[Path], Path]] = {
    ".npy": lambda path: containers.write_npy(path, TABLE.logits),
    ".npz": lambda path: containers.write_npz(path, TABLE),
    ".csv": lambda path: containers.write_csv(path, TABLE),
    ".csv.gz": lambda path: containers.write_csv(path, TABLE),
    ".csv.bz2": lambda path: containers.write_csv(path, TABLE),
    ".csv.xz": lambda path: containers.write_csv(path, TABLE),
    ".csv.zst": lambda path: containers.write_csv(path, TABLE),
    ".parquet": lambda path: containers.write_parquet(path, containers.arrow_list(TABLE), 25),
    ".feather": lambda path: containers.write_feather(path, containers.arrow_list(TABLE)),
    ".arrow": lambda path: containers.write_ipc(path, containers.arrow_numbered(TABLE)),
    ".h5": lambda path: containers.write_hdf5(path, TABLE),
    ".safetensors": lambda path: containers.write_safetensors(path, TABLE),
    ".pt": lambda path: containers.write_pt(path, TABLE),
}


# --- damage to a sound file


def truncations(content: bytes) -> dict[str, bytes]:
    ends = {"empty": 0, "one byte": 1, "half": len(content) // 2, "all but one": len(content) - 1}
    return {name: content[:end] for name, end in ends.items()}


def random_bytes() -> dict[str, bytes]:
    return {f"random {seed}": np.random.default_rng(seed).bytes(2000) for seed in range(4)}


def bit_flips(content: bytes) -> dict[str, bytes]:
    """From one to eight bits that are wrong, each time elsewhere."""
    found = {}
    for seed in range(FLIPS):
        rng = np.random.default_rng(seed)
        bits = np.unpackbits(np.frombuffer(content, np.uint8))
        bits[rng.integers(len(bits), size=1 + seed % 8)] ^= 1
        found[f"flip {seed}"] = np.packbits(bits).tobytes()
    return found


# --- files written to mislead


def npy(header: str | bytes, data: bytes = b"", claimed: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else header.encode("latin1")
    length = len(text) if claimed is None else claimed
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", length) + text + data


def npy_of(shape: str, descr: str = "'<f4'", data: bytes = bytes(160)) -> bytes:
    return npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n", data)


class Evil:
    """Unpickled, it makes a folder."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.marker),)


def pickled_npy(marker: Path) -> bytes:
    file = io.BytesIO()
    objects = np.empty((3, 4), object)
    objects[:] = Evil(marker)
    np.save(file, objects, allow_pickle=True)
    return file.getvalue()


def pickled_pt(marker: Path) -> bytes:
    file = io.BytesIO()
    needed("torch").save({"logits": Evil(marker)}, file)
    return file.getvalue()


def archive(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for name, content in members.items():
            written.writestr(name, content)
    return file.getvalue()


def archive_with(offset: int, value: int) -> bytes:
    """An archive whose two headers of its member hold another number: flags (6) or method (8)."""
    content = bytearray(archive({"logits.npy": npy_of("(10, 4)")}))
    struct.pack_into("<H", content, offset, value)
    struct.pack_into("<H", content, content.index(b"PK\x01\x02") + offset + 2, value)
    return bytes(content)


def safetensors(header: bytes, data: bytes = bytes(160), claimed: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if claimed is None else claimed) + header + data


def tensor(**fields: Any) -> bytes:
    about = {"dtype": "F32", "shape": [10, 4], "data_offsets": [0, 160]} | fields
    return safetensors(json.dumps({"logits": about}).encode())


def rows_of_csv(*lines: str) -> bytes:
    good = [",".join(map(str, row)) for row in TABLE.logits.tolist()]
    return ("\n".join(["z0,z1,z2,z3", *good[:20], *lines, *good[20:]]) + "\n").encode()


def hdf5(path: Path, fill: Callable[[Any], Any]) -> bytes:
    with needed("h5py").File(path, "w") as file:
        fill(file)
    return path.read_bytes()


MISLEADING: dict[str, Callable[[Path], bytes]] = {
    "cut header.npy": lambda _: npy("{'descr': '<f4', 'fortran_order': False, 'shape': ("),
    "brackets.npy": lambda _: npy("(((((((("),
    "closing.npy": lambda _: npy("}"),
    "open string.npy": lambda _: npy("{'descr': '<f4"),
    "deep.npy": lambda _: npy("(" * 4000 + ")" * 4000),
    "no header.npy": lambda _: npy(""),
    "long header.npy": lambda _: npy("{", claimed=60000),
    "indented header.npy": lambda _: npy("  {\n\t'descr'"),
    "header of zeros.npy": lambda _: npy(bytes(118)),
    "header of letters.npy": lambda _: npy(bytes(range(128, 246))),
    "version.npy": lambda _: b"\x93NUMPY\x09\x09" + npy_of("(10, 4)")[8:],
    "huge shape.npy": lambda _: npy_of(str((1 << 40, 4))),
    "overflowing shape.npy": lambda _: npy_of(str((1 << 62, 1 << 62))),
    "negative shape.npy": lambda _: npy_of("(-10, 4)"),
    "shape of text.npy": lambda _: npy_of("('ten', 4)"),
    "shape of numbers.npy": lambda _: npy_of("(10.5, 4)"),
    "no rows.npy": lambda _: npy_of("(0, 4)", data=b""),
    "no classes.npy": lambda _: npy_of("(10, 0)", data=b""),
    "unknown type.npy": lambda _: npy_of("(10, 4)", "'<f9'"),
    "type of code.npy": lambda _: npy_of("(10, 4)", "__import__('os')"),
    "text.npy": lambda _: npy_of("(10, 4)", "'<U1'"),
    "records.npy": lambda _: npy_of("(10,)", "[('a', '<f4'), ('b', '<f4')]"),
    "objects.npy": lambda _: npy_of("(10, 4)", "'|O'"),
    "pickle.npy": lambda folder: pickled_npy(folder / "unpickled"),
    "more than there is.npz": lambda _: archive({"logits.npy": npy_of(str((1 << 40, 4)))}),
    "a row more.npz": lambda _: archive({"logits.npy": npy_of("(11, 4)")}),
    "cut header.npz": lambda _: archive({"logits.npy": npy("{'shape': (")}),
    "text.npz": lambda _: archive({"logits.npy": b"no array"}),
    "no member.npz": lambda _: archive({}),
    "pickle.npz": lambda folder: archive({"logits.npy": pickled_npy(folder / "unpickled")}),
    "encrypted.npz": lambda _: archive_with(6, 1),
    "unknown compression.npz": lambda _: archive_with(8, 99),
    "long cell.csv": lambda _: rows_of_csv("1," + "2" * 200_000 + ",3,4"),
    "long quoted cell.csv": lambda _: rows_of_csv('1,"' + "x" * 200_000 + '",3,4'),
    "zero byte.csv": lambda _: rows_of_csv("1,2\0,3,4"),
    "zero bytes.csv": lambda _: bytes(500),
    "no utf-8.csv": lambda _: rows_of_csv("1,2,3,4").replace(b"1,2,3,4", b"1,\xff\xfe,3,4"),
    "no utf-8 in the header.csv": lambda _: b"z0,z\xff\n1,2\n3,4\n",
    "short row.csv": lambda _: rows_of_csv("1,2,3"),
    "long row.csv": lambda _: rows_of_csv("1,2,3,4,5"),
    "empty cell.csv": lambda _: rows_of_csv("1,,3,4"),
    "word.csv": lambda _: rows_of_csv("1,two,3,4"),
    "open quote.csv": lambda _: rows_of_csv('1,"2,3,4'),
    "header only.csv": lambda _: b"z0,z1,z2,z3\n",
    "no numbers.parquet": lambda _: b"PAR1" + bytes(64) + b"PAR1",
    "long footer.parquet": lambda _: b"PAR1" + bytes(64) + struct.pack("<I", 1 << 31) + b"PAR1",
    "zeros.arrow": lambda _: b"ARROW1\0\0" + bytes(64) + b"ARROW1",
    "long footer.arrow": lambda _: (
        b"ARROW1\0\0" + bytes(64) + struct.pack("<i", 0x7FFFFFFF) + b"ARROW1"
    ),
    "zeros.feather": lambda _: b"FEA1" + bytes(64) + b"FEA1",
    "no dataset.h5": lambda folder: hdf5(folder / "made.h5", lambda file: None),
    "group.h5": lambda folder: hdf5(
        folder / "made.h5", lambda file: file.create_group("logits").create_group("logits")
    ),
    "text.h5": lambda folder: hdf5(
        folder / "made.h5", lambda file: file.create_dataset("logits", data=[b"a", b"b"])
    ),
    "long header.safetensors": lambda _: safetensors(b"{}", claimed=1 << 60),
    "no json.safetensors": lambda _: safetensors(b'{"logits": '),
    "deep.safetensors": lambda _: safetensors(b"[" * 100_000),
    "a list.safetensors": lambda _: safetensors(b"[1, 2]"),
    "a number.safetensors": lambda _: safetensors(b'{"logits": 3}'),
    "outside.safetensors": lambda _: tensor(data_offsets=[1000, 1160]),
    "backwards.safetensors": lambda _: tensor(data_offsets=[160, 0]),
    "another size.safetensors": lambda _: tensor(shape=[1 << 40, 4]),
    "unknown type.safetensors": lambda _: tensor(dtype="F99"),
    "pickle.pt": lambda folder: pickled_pt(folder / "unpickled"),
    "plain pickle.pt": lambda folder: pickle.dumps(Evil(folder / "unpickled")),
    "no pickle.pt": lambda _: archive({"archive/version": b"3"}),
}


def invalid_list_offsets() -> Any:
    """A table of Arrow whose lists lie outside of its numbers."""
    pa = needed("pyarrow")
    values = pa.array(np.zeros(40))
    offsets = np.arange(11, dtype=np.int32) * 4
    offsets[1:-1] = 1 << 30
    buffers = [None, pa.py_buffer(offsets.tobytes())]
    lists = pa.Array.from_buffers(pa.list_(pa.float64()), 10, buffers, children=[values])
    return pa.table({"logits": lists})


# --- running the cases


def case(name: str, path: Path, labels_of: Path | None = None) -> dict[str, Any]:
    """A fit to a file; with `labels_of`, to those logits with the file as their labels."""
    where = [str(path)] if labels_of is None else [str(labels_of), "--labels", str(path)]
    alone = str(path) if labels_of is None else None
    return {"name": name, "args": ["fit", *where], "logits": alone, "out": f"{path}.out.json"}


def run(cases: list[dict[str, Any]], folder: Path, seconds: float = 240) -> dict[str, Any]:
    """The result of every case by its name; one that ends the process is `aborted`."""
    results: dict[str, Any] = {}
    left, aborted = cases, 0
    while left:
        (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, left)) + "\n", "utf-8")
        printed, ended = _run_worker(folder, seconds)
        results |= {result["name"]: result for result in printed}
        left = left[len(printed) :]
        if left:
            results[left[0]["name"]] = {"code": f"aborted, {ended}", "err": "", "written": False}
            left, aborted = left[1:], aborted + 1
            if aborted > 20:
                raise RuntimeError(f"{aborted} cases ended the process, the last with {ended}")
    return results


def _run_worker(folder: Path, seconds: float) -> tuple[list[Any], str]:
    command = [sys.executable, str(WORKER), str(folder / "cases.jsonl")]
    try:
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, timeout=seconds, check=False
        )
        out, ended = done.stdout, f"exit code {done.returncode}"
    except subprocess.TimeoutExpired as error:
        out, ended = error.stdout or b"", f"more than {seconds} s"
    lines = out.decode().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")], ended
