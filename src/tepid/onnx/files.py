"""Model files: read without their external data, checked, and written with it beside them."""

import filecmp
import os
import shutil
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError

from tepid.errors import InputError
from tepid.onnx import graphs
from tepid.replacing import replacing

PathLike = str | os.PathLike[str]


def read(path: PathLike) -> onnx.ModelProto:
    """The model in a file; tensors that are stored in other files stay there."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"model must be a file that exists, got {file}")
    try:
        model = onnx.load(file, format="protobuf", load_external_data=False)
    except DecodeError:
        raise InputError(f"{file.name} must be a whole ONNX model, got something else") from None
    _check_model(model, file)
    return model


def _check_model(model: onnx.ModelProto, file: Path) -> None:
    if not model.ir_version or not model.graph.output:
        raise InputError(f"{file.name} must be a whole ONNX model, got one without a graph")
    noted = [text for entry in model.metadata_props for text in (entry.key, entry.value)]
    strange = [w for w in (*noted, *graphs.words(model.graph)) if isinstance(w, bytes)]
    if strange:
        raise InputError(f"{file.name} must have names that are text, got {strange[0][:80]!r}")
    if opset(model) < 7:
        raise InputError(f"{file.name} must be of opset 7 or later, got {opset(model)}")
    _check_sides(model, file)


def _check_sides(model: onnx.ModelProto, file: Path) -> None:
    for where, size in sides(model, file).items():
        if not where.is_file():
            raise InputError(f"{file.name} must have its external data beside it, got no {where}")
        if where.stat().st_size < size:
            there = where.stat().st_size
            raise InputError(f"{where.name} must have {size} bytes of external data, got {there}")


def opset(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators; where a model has none of them, the one to add."""
    versions = [given.version for given in model.opset_import if given.domain in ("", "ai.onnx")]
    return max(versions, default=13 if model.ir_version >= 7 else 9)


def sides(model: onnx.ModelProto, path: PathLike) -> dict[Path, int]:
    """The files beside the model's own that hold some of its tensors, and how long they must be."""
    # Not resolved: where a model is a link, its data is linked beside the link.
    folder = Path(path).absolute().parent
    found: dict[Path, int] = {}
    for tensor in graphs.tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            where = Path(os.path.normpath(folder / entries.get("location", "")))
            if where == folder or not where.is_relative_to(folder):
                got = entries.get("location", "nothing")
                raise InputError(f"external data must lie in the model's folder, got {got}")
            found[where] = max(found.get(where, 0), _end(entries))
    return found


def _end(entries: dict[str, str]) -> int:
    try:
        return int(entries.get("offset", "0")) + int(entries.get("length", "0"))
    except ValueError:
        raise InputError(f"external data must have a place in its file, got {entries}") from None


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return (str(error).strip().splitlines() or ["no reason"])[0][:300]


def check_target(path: PathLike, out: PathLike) -> None:
    """Refuse an output that is the model itself or is not called a model."""
    target = Path(out)
    if target.suffix.lower() != ".onnx":
        raise InputError(f"output must end in .onnx, got {target.name}")
    if target.exists() and target.samefile(path):
        raise InputError(f"output must not be the model itself, got {target}")


def write(model: onnx.ModelProto, path: PathLike, out: PathLike) -> None:
    """Write a model that was read from `path`, whole or not at all; copy its external data.

    In the model's own folder the external data is shared. Elsewhere it is copied under the same
    name, and a file that is there already must be the same.
    """
    try:
        content = model.SerializeToString()
    except (EncodeError, ValueError) as error:
        said = first_line(error)
        raise InputError(f"model must fit into one file, got too large a one: {said}") from None
    copies = _copies(model, path, out)
    with replacing(out) as file:
        file.write(content)
        for side, copy in copies:
            copy.parent.mkdir(parents=True, exist_ok=True)
            with side.open("rb") as source, replacing(copy) as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def _copies(model: onnx.ModelProto, path: PathLike, out: PathLike) -> list[tuple[Path, Path]]:
    """The external data that has yet to be copied, and where to."""
    home, target = Path(path).absolute().parent, Path(out).absolute().parent
    pairs = [(side, target / side.relative_to(home)) for side in sides(model, path)]
    if Path(out).absolute() in [copy for _, copy in pairs]:
        raise InputError(f"output must not have the name of external data, got {out}")
    pairs = [(side, copy) for side, copy in pairs if not _same(side, copy)]
    for _, copy in pairs:
        if copy.exists():
            raise InputError(f"external data must not replace another file, got {copy}")
    return pairs


def _same(side: Path, copy: Path) -> bool:
    return copy.is_file() and (copy.samefile(side) or filecmp.cmp(side, copy, shallow=False))
