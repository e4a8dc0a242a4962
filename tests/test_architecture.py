"""What the house promises about itself."""

import ast
import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tepid

SOURCES = Path(tepid.__file__).parent


@pytest.mark.parametrize("name", ["uts", "match_accuracy"])
def test_what_is_called_label_free_cannot_take_labels(name):
    assert not [p for p in inspect.signature(getattr(tepid, name)).parameters if "label" in p]


@pytest.mark.parametrize("name", ["uts", "match_accuracy"])
def test_label_free_methods_do_not_read_the_labels_of_their_source(name, network):
    z = network[0]
    wrong = np.full(len(z), -7)  # would be refused if it were read
    source = tepid.sources.open_source(z, labels=wrong)
    arguments = (0.8,) if name == "match_accuracy" else ()
    method = getattr(tepid, name)
    assert method(source, *arguments).value == method(z, *arguments).value
    with pytest.raises(tepid.InputError, match="labels"):
        tepid.temperature_scaling(source)


def test_calibrate_uses_the_labels_of_its_source_only_if_it_has_any(network):
    z, y = network
    wrong = tepid.open_source(z, labels=np.full(len(z), 99))
    with pytest.raises(tepid.InputError, match="labels"):
        tepid.calibrate(wrong)
    assert "labels" not in tepid.calibrate(z, accuracy=0.8).evidence
    assert "labels" in tepid.calibrate(tepid.open_source(z, labels=y)).evidence


def test_the_version_is_that_of_the_package():
    assert tepid.__version__ == importlib.metadata.version("tepid")


def test_importing_tepid_imports_nothing_heavy():
    code = "import tepid, sys; print([m for m in ('numpy', 'numba', 'typer') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_sources_are_imported_without_the_compiler():
    code = "import tepid.sources, sys; print('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


# What is optional, and the one place of the library that is built on it.
OPTIONAL = {
    "numba": ("kernels/compiled/",),
    "llvmlite": ("kernels/compiled/",),
    "scipy": ("scaling/extras.py",),
    "sklearn": ("scaling/extras.py", "sklearn/"),
    "torch": ("torch/", "lab/"),
    "torchvision": ("lab/",),
    "PIL": ("lab/",),
    "matplotlib": ("plots/", "lab/"),
    "onnx": ("onnx/",),
    "onnxruntime": ("onnx/",),
    "dask": ("engines/dask.py", "sources/dask.py"),
    "distributed": ("engines/dask.py",),
    "pyspark": ("engines/spark.py",),
}


def test_optional_packages_are_imported_only_by_the_parts_that_are_built_on_them():
    for path in SOURCES.rglob("*.py"):
        place = path.relative_to(SOURCES).as_posix()
        for name in _imported(path) & OPTIONAL.keys():
            assert place.startswith(OPTIONAL[name]), (place, name)


# Packages that read a format; they are imported when such data is opened.
FORMATS = (
    "pyarrow",
    "h5py",
    "zarr",
    "fsspec",
    "safetensors",
    "narwhals",
    "pandas",
    "polars",
    "duckdb",
)


def test_importing_the_readers_imports_no_package_of_a_format():
    code = f"import tepid.sources, sys; print([m for m in {FORMATS} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _imported(path):
    """The top of every module that a file imports, anywhere in it."""
    tops = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            tops |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            tops.add(str(node.module).partition(".")[0])
    return tops


def test_calibrate_needs_no_scipy():
    code = (
        "import sys; sys.modules['scipy'] = None; import numpy as np, tepid\n"
        "z = 9 * np.random.default_rng(0).normal(size=(50, 3)); y = z.argmax(axis=1)\n"
        "evidence = {'models': [z], 'reference': y, 'source': (z, y), 'accuracy': 0.9}\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "print(tepid.calibrate(z, y, **evidence).value > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_importing_tepid_does_not_import_the_scalings():
    code = "import tepid, tepid.methods, sys; print([m for m in sys.modules if 'scaling' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_scipy_and_scikit_learn_are_not_imported_before_a_scaling_is_fitted():
    code = (  # numba itself looks whether SciPy is there
        "import tepid.scaling, sys; "
        "print([m for m in ('scipy.optimize', 'scipy.special', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_kernels_have_one_door():
    for path in SOURCES.rglob("*.py"):
        if path.parent.name in ("kernels", "compiled"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tepid.kernels."):
                assert node.module == "tepid.kernels.tiers", path
