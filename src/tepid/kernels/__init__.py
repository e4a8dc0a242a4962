"""Sums over one batch of rows: compiled by numba, and the same sums in array code (`reference`).

A kernel releases the GIL, is cached on disk and takes one C-ordered batch; threads, files and
clusters call it from above. Kernels take float32 only: `validation.as_kernel_input` first subtracts
each row's maximum from other types, which does not change the softmax.
"""
