"""The public names: a name that comes or goes has to be changed here too."""

import importlib
import inspect

import pytest

import tepid

NAMES = [
    "CalibrationWarning", "Counted", "InputError", "Range", "Summaries", "Temperature", "Threads",
    "calibrate", "compare", "load", "match_accuracy", "open_source", "summarize",
    "temperature_scaling", "uts",
]  # fmt: skip
# What each public module lists.
MODULES = {
    "lab": ["Recipe", "named", "names"],
    "llm": [
        "BoundEffect", "Log", "LogWarning", "bound_effect", "option_logits", "read_responses",
        "read_samples",
    ],
    "metrics": [
        "Interval", "accuracy", "aurc", "bootstrap", "brier", "brier_calibration",
        "brier_refinement", "confidence", "difference", "eaurc", "ece", "ece_classwise",
        "ece_equal_mass", "excess_nll", "ks_error", "mce", "nll", "rmsce_debiased", "smooth_ece",
    ],
    "online": ["Monitor", "Outputs", "Reference", "Rules", "prometheus", "read_log"],
    "onnx": ["Head", "find", "insert", "recorded", "run"],
    "plots": [
        "Bin", "Covered", "arrows", "bins", "classes", "confidence", "coverage", "covered",
        "history", "loss", "reliability",
    ],
    "report": ["write"],
    "scaling": [
        "Affine", "Betas", "ClassMaps", "Mixture", "bbq", "beta", "dirichlet", "ensemble",
        "histogram", "isotonic", "load", "matrix", "vector",
    ],
    "sklearn": ["CalibratedClassifier", "CalibrationWarning", "TemperatureCalibrator"],
    "torch": [
        "AllReduced", "Calibrated", "CalibrationWarning", "Warmup", "calibrate", "fold", "recorded",
    ],
}  # fmt: skip
REMOVED = [
    "advise", "counted", "from_few_labels", "from_logits", "from_models", "from_source",
    "from_summaries", "guarded", "judged", "labels_to_halve", "merged", "would_help", "Tails",
]  # fmt: skip


def test_the_public_names_are_these_and_documented():
    assert tepid.__all__ == NAMES
    for name in NAMES:
        assert getattr(tepid, name).__doc__, name
    assert dir(tepid) == sorted([*NAMES, *MODULES, "__version__"])
    for name in REMOVED:
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            getattr(tepid, name)


@pytest.mark.parametrize("name", MODULES)
def test_each_public_module_lists_these_names_and_documents_them(name):
    try:
        module = getattr(tepid, name)
    except (ImportError, tepid.InputError) as error:
        assert "pip install 'tepid[" in str(error)  # noqa: PT017 - nothing is raised with the extra
        pytest.skip(str(error))
    assert inspect.ismodule(module)
    assert module.__doc__
    assert importlib.import_module(f"tepid.{name}") is module
    assert module.__all__ == MODULES[name]
    for public in MODULES[name]:
        assert getattr(module, public).__doc__, public
