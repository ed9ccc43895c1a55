"""Words for people: durations and counts, the same on paper and on a screen."""

from __future__ import annotations

from pathlib import Path


def duration(seconds: float) -> str:
    """e.g. `42 s`, `3 min 20 s`, `1 h 05 min`."""
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    return f"{total // 3600} h {total % 3600 // 60:02d} min"


def counted(number: int, noun: str) -> str:
    """e.g. `1 point`, `2 points`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def printable(text: str, width: int = 200) -> str:
    """One line for a terminal: what is no printable character becomes a space, the rest is cut."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return shown if len(shown) <= width else f"{shown[: width - 4]} ..."


def error_message(error: Exception) -> str:
    """What an error says, with the file that it is about where it does not name it itself."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror


def short_path(path: Path) -> str:
    """A path as short as it can be said from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def echo(text: str) -> None:
    """To standard output, at once."""
    print(text, flush=True)
