"""What a running sweep shows, on a terminal and in a log file."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.kinds import Stage
from sweeps.local.drive import Lines, Overview, Running, draw, progress_view, summary_line
from sweeps.local.pool import Pool, stop_requests
from sweeps.text import counted, duration

SEEN = Overview(
    stages_done=17,
    stages_total=48,
    failed=1,
    eta_seconds=310.0,
    running=(
        Running(
            title="train grpo-n8-g0.5-s11",
            elapsed_seconds=21.0,
            step=180,
            steps=300,
            reward=0.3125,
            eta_seconds=14.0,
        ),
        Running(
            title="evaluate base-s12",
            elapsed_seconds=1.0,
            step=None,
            steps=None,
            reward=None,
            eta_seconds=None,
        ),
    ),
)


def test_a_summary_line_says_stages_workers_and_time_left() -> None:
    assert summary_line(SEEN) == (
        "17 of 48 stages done, 1 failed; "
        "train grpo-n8-g0.5-s11 180/300 reward 0.312; evaluate base-s12; about 5 min 10 s left"
    )


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_drawing_is_one_line_of_stages_time_left_and_workers(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(draw(SEEN))
    (line,) = console.export_text().splitlines()
    assert line.startswith("17/48 stages  ━")
    assert "about 5 min 10 s left  1 failed  " in line
    at_work = "train grpo-n8-g0.5-s11 180/300 reward 0.312; evaluate base-s12"
    assert (at_work in line) == (width == 200)


def test_output_that_is_no_terminal_gets_lines() -> None:
    out = io.StringIO()
    with progress_view(out) as watcher:
        watcher.say("hello")
    assert isinstance(watcher, Lines)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  hello\n", out.getvalue())


def test_durations_and_counts_read_well() -> None:
    read = {0.2: "0 s", 59.4: "59 s", 59.6: "1 min 00 s", 200: "3 min 20 s"}
    read |= {3600: "1 h 00 min", 10_020: "2 h 47 min"}
    assert {seconds: duration(seconds) for seconds in read} == read
    assert [counted(1, "point"), counted(0, "point")] == ["1 point", "0 points"]


LEAVES_A_MARKER = (
    "import pathlib, sys; pathlib.Path(sys.argv[1], 'DONE.json').write_text(sys.argv[2])"
)


def pool_after(root: Path, **marker: Any) -> Pool:
    """One that has run a stage, an evaluation, which left this marker."""
    stage = Stage(
        name="evaluation",
        spec=StageSpec(kind="evaluate", fingerprint="f", target={}),
        needs=(),
        point_id="base-s11",
        environment="base",
    )
    marker = {"fingerprint": "f", "target": {}, "outputs": {}} | marker
    paths = RunPaths(root=root, sweep="s", experiment="e", version="v")
    write_json(StagePaths(paths.folder / stage.name).spec, {})
    with stop_requests() as stop, progress_view(io.StringIO()) as watcher:
        pool = Pool(
            paths=paths,
            stages=[stage],
            seconds={stage.name: 30.0},
            workers=1,
            command=lambda _, folder: [
                sys.executable,
                "-c",
                LEAVES_A_MARKER,
                str(folder),
                json.dumps(marker),
            ],
            environment=lambda _: dict(os.environ),
            driver="test",
            watcher=watcher,
            stop=stop,
        )
        pool.run()
    assert pool.done == {stage.name}
    return pool


def test_the_seconds_of_an_evaluation_that_took_draws_over_say_nothing_of_others(
    tmp_path: Path,
) -> None:
    took = {"taken_from": {"countdown": "s/e/v/x"}, "wall_seconds": 2.0, "cpu_seconds": 1.0}
    pool = pool_after(tmp_path, **took)
    assert not pool.walls and not pool.loads


def test_what_else_the_machine_did_is_known_of_a_stage(tmp_path: Path) -> None:
    pool = pool_after(tmp_path, wall_seconds=6.0, cpu_seconds=3.0)
    assert pool.loads == {"evaluation": 2.0} and pool.walls["evaluation"] < 60
