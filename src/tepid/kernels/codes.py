"""The numbers by which Parquet calls what its pages are, and how their heads are laid out here.

Nothing is compiled for them, so that they may be named without the compiler.
"""

# Kinds of pages.
DATA, DICTIONARY, DATA_2 = 0, 2, 3
# How numbers and levels are written.
PLAIN, PLAIN_PLACES, RUNS, PLACES, SPLIT = 0, 2, 3, 8, 9
# Codecs.
UNCOMPRESSED, SNAPPY = 0, 1
# The fields of a head by number, and from INNER on those of the one struct within it that counts.
INNER, FIELDS = 16, 32
HEAD = 256  # bytes, of which a head needs about fifty
