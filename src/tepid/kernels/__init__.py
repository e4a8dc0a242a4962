"""Sums over a block of rows, compiled by numba, and the same sums in plain array code.

Every kernel releases the GIL, is cached on disk, and works on one C-ordered block; threads, files
and clusters drive it from above. The kernels see float32 only: other types are centred on their
row's maximum first (`arrays`), which softmax does not see.
"""
