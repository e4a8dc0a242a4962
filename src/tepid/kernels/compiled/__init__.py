"""The kernels in numba; `tepid.kernels` decides when they are loaded."""
