"""Files that are whole or absent: write aside, fsync, rename; and JSON, read and checked."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from fgrpo_bench.files.paths import between
from fgrpo_bench.files.records import Record, SchemaError

R = TypeVar("R", bound=Record)
FULL = (errno.ENOSPC, errno.EDQUOT)
"""What is said on a full disk."""


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Call `write` on a path beside `path`, fsync what it wrote and rename it over `path`.

    A reader sees the old file or the new one, never a part. Raises OSError naming the file when the
    disk is full or the folder cannot be written; what stood there before stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    aside = Path(name)
    try:
        write(aside)
        aside.chmod(0o644)
        with aside.open("rb") as file:
            os.fsync(file.fileno())  # before the rename: after a crash the old file or the new one
        aside.replace(path)
    except OSError as error:
        raise _unwritten(path, error) from error
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(path.parent)


def _unwritten(path: Path, error: OSError) -> OSError:
    return OSError(
        error.errno,
        f"cannot write {path}: {error.strerror or error}; nothing was lost, free some space or "
        "mend the permissions and run the same command again",
    )


def write_folder(folder: Path, files: dict[str, bytes]) -> None:
    """Write a folder of files whole or not at all, in place of one of the same name.

    Raises OSError as `write_whole` does.
    """
    aside = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        for name, content in files.items():
            with (aside / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())  # each file, then their names, then the folder's own name
        sync_folder(aside)
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
    except OSError as error:
        raise _unwritten(folder, error) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable (a rename is not, until its folder is synced)."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)  # of the folder: this is what makes a rename in it durable
    finally:
        os.close(handle)


def write_many(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files under a folder by relative path, each whole or not at all, and wait for the disk
    once instead of once a file: thousands take seconds less.

    If the machine itself fails before this returns, any of them may be empty afterwards.
    Raises OSError as `write_whole` does.
    """
    for name, text in texts.items():
        path = folder / name
        aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            aside.write_text(text, encoding="utf-8")
            aside.replace(path)
        except OSError as error:
            with suppress(OSError):
                aside.unlink()
            raise _unwritten(path, error) from error
    if texts:
        _sync_file_system(folder)


def _sync_file_system(folder: Path) -> None:
    """Make everything durable that was written to the file system of a folder."""
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:  # not Linux
        return os.sync()
    handle = os.open(folder, os.O_RDONLY)
    try:
        if syncfs(handle):
            code = ctypes.get_errno()
            raise _unwritten(folder, OSError(code, os.strerror(code)))
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Write bytes whole or not at all."""
    write_whole(path, lambda aside: noop(aside.write_bytes(content)))


def write_text(path: Path, text: str) -> None:
    """Write text whole or not at all."""
    write_bytes(path, text.encode())


def link_whole(path: Path, source: Path, *, check: Callable[[Path], None]) -> None:
    """Let `path` be another name of a file, or a copy on another file system or one that has no
    such names; whole or not at all, in place of what stood there. Raises OSError as `write_whole`
    does.

    check: raises where a file is not what it should be; called before it gets its name. Both names
    are one file: whoever changes it writes it anew, as everything here does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # a link takes no room; where the file system has none, a copy
        os.link(source, aside)
    except OSError:
        write_whole(path, lambda copied: check(Path(shutil.copyfile(source, copied))))
        return
    try:
        check(aside)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)  # a rename between two names of one file does nothing
    sync_folder(path.parent)


def point_to(path: Path, folder: Path) -> None:
    """Let `path` be a link to a folder, in place of the one that stood there, that holds where a
    folder above either is a link itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    aside.unlink(missing_ok=True)
    aside.symlink_to(between(path.parent, folder))
    aside.replace(path)  # at once: a reader finds the link before or the new one, never none


def noop(_: object) -> None:
    """Drop a value, so that an expression can stand where None is wanted."""


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON whole or not at all."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


RERUN_HINT = "delete it and run the sweep again, which makes only what is missing"


def read_record(path: Path, kind: type[R], remedy: str = RERUN_HINT) -> R:
    """The parsed file; FileNotFoundError where it is not there, ValueError that names file, fault
    and remedy where it is no JSON or says something else."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        problem = f"holds no valid JSON ({error})"
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.ELOOP):
            raise
        problem = f"is no file ({error.strerror})"
    else:
        return parse_record(path, value, kind, remedy)
    raise _damaged(path, problem, remedy)


def parse_record(path: Path, value: Any, kind: type[R], remedy: str = RERUN_HINT) -> R:
    """What a file was parsed into as a record; ValueError as of `read_record`."""
    try:
        return kind.parsed(value)
    except SchemaError as fault:
        raise damaged(path, fault, remedy) from None


def damaged(path: Path, fault: SchemaError, remedy: str = RERUN_HINT) -> ValueError:
    """For a file that says something else than belongs there."""
    return _damaged(path, f"does not hold what belongs there ({fault})", remedy)


def _damaged(path: Path, problem: str, remedy: str) -> ValueError:
    return ValueError(f"{path} {problem}; it was changed by hand or by a faulty disk: {remedy}")


def readable_record(path: Path, kind: type[R]) -> R | None:
    """The same; None where it cannot be read or says something else."""
    with suppress(OSError, ValueError):
        return read_record(path, kind)
    return None


def read_json(path: Path, remedy: str = RERUN_HINT) -> dict[str, Any]:
    """The parsed file, an object of whatever keys; raises as `read_record`."""
    return read_record(path, Record, remedy).further


def readable_json(path: Path) -> dict[str, Any] | None:
    """The same; None where it cannot be read or is no object."""
    with suppress(OSError, ValueError):
        return read_json(path)
    return None


@contextmanager
def reading_fields(path: Path) -> Iterator[None]:
    """Around what takes the values of a stored file apart: what is missing, or of another type, is
    a ValueError that names the file."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise ValueError(
            f"{path} does not hold what belongs there ({reason}); it was changed by hand or "
            "written by another version: delete it and run the sweep again, which writes it anew"
        ) from error


def quarantine(path: Path, into: Path) -> Path:
    """Move what is damaged to where nothing reads it, kept for whoever wants to look at it; returns
    the new path. into: a folder that nobody writes anew, unlike that of a checkpoint."""
    into.mkdir(parents=True, exist_ok=True)
    number, aside = 1, into / path.name
    while aside.exists():
        number, aside = number + 1, into / f"{path.name}.{number + 1}"
    path.rename(aside)
    return aside


def is_unfinished(path: Path) -> bool:
    """Whether a file is being written under another name, or was when its writer was killed."""
    return path.name.startswith(".") and path.suffix == ".tmp"


def now() -> str:
    """The time in UTC, to the second, as ISO 8601."""
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")
