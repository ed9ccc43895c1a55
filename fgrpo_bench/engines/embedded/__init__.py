"""The embedded engine: model, sampler, warm-up and reinforcement learning in one process."""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# bytes
_KEPT, _LARGEST = 2**29, 2**25


def keep_freed_memory() -> None:
    """Let the C library keep up to half a gigabyte that was freed, for what is allocated next.

    By default glibc gives the tensors of a step back to the system and asks for them anew, page by
    page, in the next. Elsewhere than on glibc this does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_MMAP_THRESHOLD, _LARGEST)  # more than this it does not take
