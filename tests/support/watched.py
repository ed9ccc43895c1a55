"""A finished synthetic run made to train again, writing its metrics as an engine does."""

from __future__ import annotations

from typing import Any

from fgrpo_bench.analysis.results import PointResult
from fgrpo_bench.engines.openrlhf.metrics import rewind
from fgrpo_bench.files.journal import append_line
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.stages.tables import METRICS, metrics_table, read_table, write_table
from fgrpo_bench.stages.watch import Progress, step_numbers

Rows = list[dict[str, Any]]


def note(stage: StagePaths, attempt: int = 1, **ending: Any) -> None:
    """Note an attempt at a stage, as a driver does that is gone. ending: what it noted at the end;
    nothing where it noted none."""
    begun = {"attempt": attempt, "driver": "d", "begun": f"t{attempt}"}
    write_json(stage.attempt(attempt), begun | ending)


class Training:
    """A training run that writes its metrics as an engine does, and nothing else."""

    def __init__(self, point: PointResult, engine: str) -> None:
        self.point, self.engine, self.attempt = point, engine, 0
        self.whole: Rows = read_table(point.train.metrics, METRICS).to_dicts()
        self.rows: Rows = []
        self.aside = {path: path.read_bytes() for path in (point.train.done, point.evaluate.done)}
        for path in (*self.aside, point.train.metrics):
            path.unlink()

    def train(self, until: int) -> None:
        """Steps up to that one; those that are made again end later and have other losses."""
        for row in self.whole[len(self.rows) : until]:
            made = row | {
                "time_ms": row["time_ms"] + 60000 * self.attempt,
                "loss": row["loss"] + self.attempt / 7,
            }
            self.rows.append(made)
            if self.engine == "openrlhf":
                append_line(self.point.train.step_rows, made | {"groups": 8, "step_tokens": 2048})
        if self.engine == "embedded":
            write_table(self.point.train.metrics, metrics_table(self.rows), METRICS)
        told = Progress(
            step=len(self.rows),
            of=len(self.whole),
            eta_seconds=None,
            further=step_numbers(self.rows),
        )
        write_json(self.point.train.progress, told.as_json())

    def tear(self) -> None:
        """Half a line, of a step that is being written; the embedded engine writes no halves."""
        if self.engine == "openrlhf":
            with self.point.train.step_rows.open("ab") as file:
                file.write(b'{"step": %d, "time_ms": 17673' % (len(self.rows) + 1))

    def resume(self, saved: int) -> None:
        """Go on after the step whose state was saved."""
        self.attempt += 1
        del self.rows[saved:]
        if self.engine == "openrlhf":
            rewind(self.point.train.step_rows, saved)

    def finish(self) -> None:
        """Train to the end and leave what a finished run and its evaluation leave."""
        self.train(len(self.whole))
        write_table(self.point.train.metrics, metrics_table(self.rows), METRICS)
        for path, content in self.aside.items():
            path.write_bytes(content)
