"""Processors that the kernels are compiled for, and the features that running them needs."""

from pathlib import Path

FEATURES = {
    "generic": set(),
    "haswell": {"avx2", "fma", "bmi1", "bmi2", "movbe", "f16c"},
    "skylake-avx512": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "clwb", "adx"},
    "znver3": {"avx2", "fma", "sse4a", "vaes", "vpclmulqdq", "clwb", "clzero"},
}


def missing(processor):
    """The features that this machine lacks to run code for another processor, sorted."""
    if not FEATURES[processor]:
        return []
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ["/proc/cpuinfo"]  # only Linux lists features
    flags = [line.partition(":")[2] for line in text.splitlines() if line.startswith("flags")]
    return sorted(FEATURES[processor] - set(flags[0].split() if flags else ()))


def variables(processor):
    """The environment in which numba compiles for a processor and for nothing more."""
    # Without features of its own, numba would add those of this machine.
    return {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
