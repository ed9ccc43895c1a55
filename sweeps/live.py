"""MLflow while runs train: what has changed since the last look, by one process, from the files.

A look that finds nothing new costs a stat or two a stage. What MLflow then holds is what a whole
sync would have written, so that the sync at the end finds these histories and adds the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from fgrpo_bench.stages.shapes import PLAN
from fgrpo_bench.stages.states import read_stages
from sweeps.finish import not_synced

SYNC_SECONDS = 30.0
"""Between the end of a sync and the next one, at least."""
SHARE = 10
"""A sync takes at most a part in so many of the time: after one of a minute ten pass."""

Seen = tuple[bool, tuple[int, int] | None, tuple[int, int] | None]
"""Of a point: whether it failed, and modification time and bytes of its files of metrics."""


class LiveSync:
    """Brings metrics to MLflow as they grow; an MLflow that is away costs a warning."""

    def __init__(self, paths: RunPaths, say: Callable[[str], None]) -> None:
        self._paths, self._say = paths, say
        self._synced: dict[str, Seen] = {}
        self._next = 0.0

    def look(self, *, last: bool = False) -> None:
        """Sync the runs that have changed, if it is time to. last: it is, since no look follows."""
        begun = time.monotonic()
        if begun < self._next and not last:
            return
        try:
            seen = self._seen()
            changed = {point for point, now in seen.items() if self._synced.get(point) != now}
            if not changed:
                return
            self._sync(changed)
            self._synced = seen
        except BlockingIOError:
            pass  # somebody else syncs: the next look does what is left
        except Exception as error:  # whatever a server or its client may raise
            self._say(not_synced(self._paths, error))
        ended = time.monotonic()
        self._next = ended + max(SYNC_SECONDS, SHARE * (ended - begun))

    def _sync(self, points: set[str]) -> None:
        from fgrpo_bench.tracking.sync import sync_run, sync_training

        if not sync_training(self._paths, points):
            sync_run(self._paths)

    def _seen(self) -> dict[str, Seen]:
        """Points with metrics that are not trained yet, and those that failed."""
        stages = read_stages(self._paths, read_json(self._paths.plan, PLAN)["stages"])
        failed = {stage.point_id for stage in stages if stage.state == "failed"}
        files = {
            stage.point_id: (_stamp(paths.metrics), _stamp(paths.step_rows))
            for stage in stages
            if stage.kind == "train" and stage.state != "done"
            for paths in [StagePaths(self._paths.folder / stage.name)]
        }
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
