"""Remembering what was read while its files stand unchanged: a click costs no second read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import ParamSpec, TypeVar

KEPT = 128
"""Results that are kept; the one that was not asked for longest goes first."""

P = ParamSpec("P")
T = TypeVar("T")
State = tuple[tuple[str | int, ...], ...]
"""What a result was made of: names, each with what changes when it does."""

_kept: OrderedDict[Hashable, tuple[State, object]] = OrderedDict()
_lock = RLock()


def stamp(paths: Iterable[Path]) -> State:
    """The state of files: (path, modification time, size), zeros where there is none."""
    return tuple(_of(path) for path in paths)


def _of(path: Path) -> tuple[str, int, int]:
    try:
        facts = path.stat()
    except OSError:
        return str(path), 0, 0
    return str(path), facts.st_mtime_ns, facts.st_size


def remembered(state: Callable[..., State]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Keep a function's last result for its arguments until what it was computed from changes.

    state: identifies what that is, from the function's own arguments. The result depends on nothing
    else but the arguments that are plain values (str, int, float, bool, tuples of them).
    """

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            plain = [*args, *sorted(kwargs.items())]
            own = tuple(value for value in plain if isinstance(value, (str, int, float, tuple)))
            now = state(*args, **kwargs)
            names = tuple(name for name, *_ in now)
            key = (function.__module__, function.__qualname__, own, names)
            with _lock:
                before, result = _kept.get(key, (None, None))
                if before == now:
                    _kept.move_to_end(key)
                    return result  # type: ignore[return-value]
            computed = function(*args, **kwargs)
            with _lock:
                _kept[key] = now, computed
                _kept.move_to_end(key)
                while len(_kept) > KEPT:
                    _kept.popitem(last=False)
            return computed

        return call

    return wrap
