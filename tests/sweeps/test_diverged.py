"""A training run whose numbers are not finite any more, from the real engine to the report."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.engines.embedded.__main__ import main
from fgrpo_bench.report.words import incomplete
from fgrpo_bench.stages.attempts import begin, end, ending
from sweeps import status
from tests.support.plans import frozen
from tests.support.stages import TINY

POINT = "grpo-n4-g0-s11"


@pytest.fixture
def restored() -> Iterator[None]:
    """What a stage's command changes in its process is put back."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.slow
def test_a_learning_rate_of_1e10_fails_its_stage_and_is_no_result(
    tmp_path: Path, restored: None, capfd: pytest.CaptureFixture[str]
) -> None:
    paths, _ = frozen(tmp_path, *TINY, "experiment.train.learning_rate=1e10")
    stage = paths.point(POINT)
    assert main([str(paths.warmup(11).folder)]) == 0
    assert main([str(stage.folder), "--save-seconds", "0"]) == 1
    said = capfd.readouterr().err.splitlines()[-1]
    # Which step it is depends on the rollouts: one whose rewards are all equal moves no weight.
    assert re.match(
        r"FloatingPointError: step [12]: .* is not finite\. The run diverged and gives no result; "
        r"(nothing|the state after step 1) is saved\.",
        said,
    )
    assert not stage.done.exists()
    assert not list(stage.folder.glob("checkpoints/*"))

    note, log = begin(stage, driver="gone")
    with log:
        log.write(f"{said}\n".encode())
    how = ending(1, marked=stage.done.exists())
    end(stage, note, exit_code=1, outcome=how, seconds=1.0)
    shown = status.render_failures(status.with_last_lines(paths, status.report(paths)))
    assert f"failed: train of {POINT}\n  | {said[:80]}" in shown
    words = incomplete(analyse(load_results(paths)))
    assert words is not None and f"{POINT} (not trained)" in words
