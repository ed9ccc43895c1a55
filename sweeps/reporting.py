"""The report and MLflow: while runs train, when every stage is done, and as a sweep's last job.

Both are views of the stored files and can be made again at any time, so that a server that is down
loses nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path

from fgrpo_bench.command.runs import default_root
from fgrpo_bench.engines.processes import spawn
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.kinds import train
from fgrpo_bench.stages.attempts import attempts
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.states import read_stages
from sweeps.text import counted, duration, short_path

SYNC_SECONDS = 30.0
"""Between the end of a sync and the next one, at least."""
SHARE = 10
"""A sync takes at most a part in so many of the time: after one of a minute ten pass."""
MANY_POINTS = 20
"""Their sync takes longer than the start of a process for it."""
FileStamps = tuple[bool, tuple[int, int] | None, tuple[int, int] | None]
"""Of a point: whether it failed, and modification time and bytes of its files of metrics."""


def finish(paths: RunPaths, say: Callable[[str], None]) -> None:
    """Report, sync (MLflow shows the report's files), and say on one screen what it took, what came
    out and how to see more."""
    from fgrpo_bench.analysis.results import load_results
    from fgrpo_bench.report.build import FILES, write_report

    results = load_results(paths)
    with _syncing(paths) if len(results.points) >= MANY_POINTS else nullcontext():
        written = write_report(results)
    sync(paths, say)
    page = paths.report / FILES["html"]
    print(f"\n{_spent(paths)}\n{written.text}")
    print(
        f"Report: {short_path(page)}, with {FILES['latex']}, {FILES['csv']} and figures beside it"
    )
    print(f"Dashboard: {_make('dashboard', paths)}")
    print(f"MLflow: {_make('mlflow-ui', paths)}", flush=True)


@contextmanager
def _syncing(paths: RunPaths) -> Iterator[None]:
    """Another process brings the runs to MLflow meanwhile, so that little is left for the sync that
    follows, which also says what is wrong where this one fails."""
    _, process = spawn(_sync_silently, paths, daemon=True)
    try:
        yield
        process.join()
    except BaseException:
        process.kill()  # as a sync may be, at any time
        raise


def _sync_silently(_: Connection, paths: RunPaths) -> None:
    from fgrpo_bench.tracking.sync import sync_run

    with suppress(Exception):  # whatever a server or its client may raise
        sync_run(paths)


def _spent(paths: RunPaths) -> str:
    """How long workers were at work, and what that was together, by the notes of all attempts."""
    folders = [paths.folder / stage.name for stage in read_plan(paths).stages]
    notes = [note for folder in folders for note in attempts(StagePaths(folder))]
    spans = sorted(
        (_seconds(note.begun), _seconds(note.ended))
        for note in notes
        if note.begun is not None and note.ended is not None
    )
    busy, until = 0.0, 0.0
    for begun, ended in spans:  # the time in which any worker was at work
        busy += max(0.0, ended - max(begun, until))
        until = max(until, ended)
    together = sum(note.wall_seconds or 0 for note in notes)
    stages = counted(len(folders), "stage")
    return f"{stages} in {duration(busy)}; {duration(together)} of all workers together"


def _seconds(time_: str) -> float:
    return datetime.fromisoformat(time_).timestamp()


def sync(paths: RunPaths, say: Callable[[str], None]) -> None:
    """Bring MLflow up to date with the files; a warning where it cannot be reached."""
    say("syncing to MLflow")
    try:
        from fgrpo_bench.tracking.sync import sync_run

        say(str(sync_run(paths)))
    except Exception as error:  # whatever a server or its client may raise
        say(_not_synced(paths, error))


def _not_synced(paths: RunPaths, error: Exception) -> str:
    """The warning that MLflow could not be synced."""
    return (
        f"warning: MLflow was not synced ({type(error).__name__}: {error}); the results are "
        f"safe in their files, and `{_make('mlflow-ui', paths)}` syncs again"
    )


def _make(target: str, paths: RunPaths) -> str:
    is_default = paths.root == default_root().absolute()
    return f"make {target}" + ("" if is_default else f" ARGS='--root {paths.root}'")


class LiveSync:
    """Brings metrics to MLflow as they grow; an MLflow that is away costs a warning."""

    def __init__(self, paths: RunPaths, say: Callable[[str], None]) -> None:
        self._paths, self._say = paths, say
        self._synced: dict[str, FileStamps] = {}
        self._next = 0.0

    def look(self, *, last: bool = False) -> None:
        """Sync the runs that have changed, if it is time to. last: it is, since no look follows."""
        begun = time.monotonic()
        if begun < self._next and not last:
            return
        try:
            stamps = self._file_stamps()
            changed = {point for point, now in stamps.items() if self._synced.get(point) != now}
            if not changed:
                return
            self._sync(changed)
            self._synced = stamps
        except BlockingIOError:
            pass  # somebody else syncs: the next look does what is left
        except Exception as error:  # whatever a server or its client may raise
            self._say(_not_synced(self._paths, error))
        ended = time.monotonic()
        self._next = ended + max(SYNC_SECONDS, SHARE * (ended - begun))

    def _sync(self, points: set[str]) -> None:
        from fgrpo_bench.tracking.sync import sync_run, sync_training

        if not sync_training(self._paths, points):
            sync_run(self._paths)

    def _file_stamps(self) -> dict[str, FileStamps]:
        """Points with metrics that are not trained yet, and those that failed."""
        stages = read_stages(self._paths, read_plan(self._paths).stages)
        failed = {stage.point_id for stage in stages if stage.state == "failed"}
        files = {}
        for stage in stages:
            if stage.kind == train.NAME and stage.state != "done":
                paths = StagePaths(self._paths.folder / stage.name)
                files[stage.point_id] = _stamp(paths.metrics), _stamp(paths.step_rows)
        begun = {point for point, stamps in files.items() if any(stamps)}
        return {
            point: (point in failed, *files.get(point, (None, None))) for point in failed | begun
        }


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes as a file does; None where there is none."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size


def main(folder: Path) -> int:
    """`python -m sweeps.reporting <folder>`: what a sweep's last job does, with no driver alive.

    It writes the report on what is done. MLflow is synced only where it is a server: nodes must not
    share an SQLite file over a network file system, so the embedded store is left to `tick`. Exit
    code 0; whatever goes wrong is raised.
    """
    from fgrpo_bench.analysis.results import load_results
    from fgrpo_bench.report.build import write_report
    from fgrpo_bench.tracking.sync import URI_VARIABLE

    *_, sweep, experiment, version = folder.parts
    paths = RunPaths(root=folder.parents[2], sweep=sweep, experiment=experiment, version=version)
    written = write_report(load_results(paths))
    if os.environ.get(URI_VARIABLE, "").startswith(("http://", "https://")):
        sync(paths, print)
    print(written.text)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
