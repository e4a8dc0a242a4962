"""Everything that writes a file: killed while it overwrites one, it leaves the old or the new file.

`COMMANDS` lists the commands of `tepid` that have an output option, and tests/test_chaos.py checks
that it is complete. Writers of the Python API that no command calls are in `_api_writers`.
"""

import contextlib
import io
import itertools
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

import tepid
from faults.processes import End, Findings, run_and_kill

_ROWS, _CLASSES = 2000, 20
# A process writes the two contents in turn until it is killed: at a random moment of this many
# writes, and of this many seconds at least.
_WRITES, _SECONDS = 2.5, 0.25

# The arguments of each command, where {i} is the number of the content and {out} is the output.
COMMANDS = {
    "fit calibration.json": "fit logits-{i}.npy --labels labels-{i}.npy -o {out}",
    "fit calibrator.npz": "fit logits-{i}.npy --labels labels-{i}.npy --method isotonic -o {out}",
    "fit --report report.html": "fit logits-{i}.npy --report {out}",
    "ask to_label.csv": "ask logits-{i}.npy -n 25 -o {out}",
    "apply rows.npy": "apply calibration-{i}.json logits-{i}.npy -o {out}",
    "apply rows.npz": "apply calibration-{i}.json logits-{i}.npy -o {out}",
    "apply rows.csv": "apply calibration-{i}.json logits-{i}.npy -o {out}",
    "apply rows.parquet": "apply calibration-{i}.json logits-{i}.npy -o {out}",
    "decide rows.csv": "decide logits-{i}.npy -c calibration-{i}.json --precision 0.9 -o {out}",
    "decide rows.parquet": "decide logits-{i}.npy -c calibration-{i}.json --precision 0.9 -o {out}",
    "sets sets.csv": "sets logits-{i}.npy -c calibration-{i}.json --coverage 0.9 -o {out}",
    "onnx model.onnx": "onnx network-{i}.onnx -c calibration-{i}.json -o {out}",
    "report report.html": "report logits-{i}.npy -c calibration-{i}.json -o {out}",
    "summarize sums.npz": "summarize logits-{i}.npy -o {out}",
    "merge sums.npz": "merge sums-{i}.npz sums-2.npz -o {out}",
    "lab odds calibration.json": "lab odds logits-{i}.npy -o {out}",
    "lab table table.md": "lab table run-{i} --seeds 2 -o {out}",
}
# These write many files: faults/trainings.py kills the training, and `_api_writers` draws.
ELSEWHERE = ("lab train", "lab isic", "lab figures")
# This one refuses to replace a file, so "the old file" is none.
_NEVER_REPLACES = "tepid ask"


@dataclass(frozen=True)
class Writer:
    """A function that writes one of two contents to a path, their bytes, and its duration."""

    name: str
    path: Path
    write: Callable[[Path, int], None]
    whole: tuple[bytes, bytes]
    seconds: float


def prepare(folder: Path, rng: np.random.Generator) -> list[Writer]:
    """All writers; each has a folder of its own."""
    inputs = folder / "inputs"
    inputs.mkdir(parents=True)
    _write_inputs(inputs, rng)
    writers = {f"tepid {name}": _command(inputs, line) for name, line in COMMANDS.items()}
    writers |= _api_writers(inputs)
    return [
        _measure(folder / f"{number:02}", name, write)
        for number, (name, write) in enumerate(writers.items())
    ]


def _write_inputs(folder: Path, rng: np.random.Generator) -> None:
    for i in range(3):
        z = (4 * rng.normal(size=(_ROWS, _CLASSES))).astype(np.float32)
        y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
        np.save(folder / f"logits-{i}.npy", z)
        np.save(folder / f"labels-{i}.npy", y)
        (folder / f"run-{i}").mkdir()
        np.savez(folder / f"run-{i}" / "set.npz", logits=z, labels=y)
        engine = tepid.Threads(1)
        tepid.calibrate(z, y, engine=engine).save(folder / f"calibration-{i}.json")
        tepid.summarize(z, engine=engine).save(folder / f"sums-{i}.npz")
        _write_network(folder / f"network-{i}.onnx", rng)


def _write_network(path: Path, rng: np.random.Generator) -> None:
    import onnx  # noqa: PLC0415  # slow to import
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415  # the same

    weights = numpy_helper.from_array(rng.normal(size=(6, _CLASSES)).astype(np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", _CLASSES])
    node = helper.make_node("MatMul", ["x", "w"], ["z"])
    graph = helper.make_graph([node], "network", [x], [z], [weights])
    opset = [helper.make_opsetid("", 17)]
    version = helper.find_min_ir_version_for(opset)
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=version), path)


def _command(inputs: Path, line: str) -> Callable[[Path, int], None]:
    """A command, run in this process."""
    from tepid.cli.main import main  # noqa: PLC0415  # slow to import

    threaded = ("fit", "report", "summarize")

    def write(path: Path, i: int) -> None:
        if line.startswith("ask"):
            path.unlink(missing_ok=True)
        words = [word.format(i=i, out=path) for word in line.split()]
        # Names of inputs are those of files in the folder.
        words = [str(inputs / w) if (inputs / w).exists() else w for w in words]
        if words[0] in threaded:
            words += ["--threads", "1"]
        quiet = io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["tepid", *words]),
            contextlib.redirect_stdout(quiet),
            contextlib.redirect_stderr(quiet),
        ):
            try:
                main()
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"{' '.join(words)}: {quiet.getvalue()}") from None

    return write


def _api_writers(inputs: Path) -> dict[str, Callable[[Path, int], None]]:
    from tepid.lab import figures  # noqa: PLC0415  # matplotlib
    from tepid.online import Monitor  # noqa: PLC0415  # only here
    from tepid.summaries import Curve, Reliability, Tails  # noqa: PLC0415  # the same

    both = [np.load(inputs / f"logits-{i}.npy") for i in range(2)]
    labels = [np.load(inputs / f"labels-{i}.npy") for i in range(2)]
    cut = [tepid.load(inputs / f"calibration-{i}.json")(z) for i, z in enumerate(both)]
    saved = {
        "Tails tails.npz": [Tails.of(z) for z in both],
        "Curve curve.npz": [Curve.of(z) for z in both],
        "Reliability sums.npz": [
            Reliability.of(p, y) for p, y in zip(cut, labels, strict=True)
        ],
        "Monitor monitor.npz": [Monitor.from_reference(z, 1.5, chunk=500) for z in both],
    }  # fmt: skip

    def write_figures(path: Path, i: int) -> None:
        figures.write([inputs / f"run-{i}"], path.parent)

    return {
        **{name: lambda path, i, v=values: v[i].save(path) for name, values in saved.items()},
        "tepid lab figures set-reliability.png": write_figures,
    }


def _measure(folder: Path, name: str, write: Callable[[Path, int], None]) -> Writer:
    folder.mkdir()
    path = folder / name.rsplit(maxsplit=1)[-1]
    contents = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in (0, 1, 0):
            start = time.perf_counter()
            write(path, i)
            contents.append(path.read_bytes())
    if contents[0] != contents[2] or contents[0] == contents[1]:
        raise RuntimeError(f"{name} must write the same bytes for the same input, and others")
    return Writer(name, path, write, (contents[0], contents[1]), time.perf_counter() - start)


def trial(writer: Writer, rng: np.random.Generator, findings: Findings) -> None:
    """Kill a process that writes the two contents in turn."""
    names = {path.name for path in writer.path.parent.iterdir()}

    def job() -> None:
        warnings.simplefilter("ignore")
        for number in itertools.count():
            writer.write(writer.path, number % 2)

    end = run_and_kill(job, rng.uniform(0, max(_SECONDS, _WRITES * writer.seconds)))
    findings.check(writer.name, "it writes until it is killed", holds=end is End.KILLED)
    findings.count(writer.name, "kill -9")
    if writer.path.exists():
        holds = writer.path.read_bytes() in writer.whole
    else:
        holds = writer.name.startswith(_NEVER_REPLACES)
    findings.check(writer.name, "the file is the old or the new one, whole", holds=holds)
    findings.check_folder(writer.name, writer.path.parent, names)
    writer.write(writer.path, 0)
    holds = {path.name for path in writer.path.parent.iterdir()} == names
    findings.check(writer.name, "the next write leaves no other file", holds=holds)
