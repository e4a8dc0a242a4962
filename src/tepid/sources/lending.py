"""Memory that is lent again once nobody looks at it.

To get fresh pages from the system for every block takes about as long as to sum the block.
"""

import threading

# So many pieces of memory are kept by a thread, and none that is larger.
_MOST, _LARGEST = 6, 1 << 23
_HELD = threading.local()


def lent(size: int) -> bytearray:
    """At least so many bytes, which this thread lends again when every array over them is gone."""
    held: list[bytearray] = _HELD.__dict__.setdefault("held", [])
    for memory in sorted(held, key=len):
        if len(memory) >= size and _is_free(memory):
            return memory
    fresh = bytearray(size)
    if size <= _LARGEST:
        held[:] = [*held, fresh][-_MOST:]
    return fresh


def _is_free(memory: bytearray) -> bool:
    """Whether nobody looks at it: as long as somebody does, its length cannot be changed."""
    try:
        memory.append(memory.pop())
    except BufferError:
        return False
    return True
