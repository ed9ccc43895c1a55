"""Adding a kind is one module and one line in KINDS: it is planned and run as any other."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.kinds import KINDS, Kind, Planned, Stage, rerun_hint
from fgrpo_bench.kinds.kind import make_stage
from fgrpo_bench.specs import Declaration, Profile, config
from fgrpo_bench.stages.markers import is_done
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.states import read_stages
from sweeps.commands import stage_command
from sweeps.freeze import check_conflicts, freeze, plan_over
from sweeps.local import drive
from sweeps.plan import plan_record
from sweeps.slurm.payload import Payload, is_marked
from sweeps.slurm.submissions import arrange
from tests.support.fake_stage import fake_command

COUNT = """
import sys
from pathlib import Path
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.stages.stage import run_stage

def work(spec, run):
    (run.paths.folder / "count.txt").write_text(str(spec.further["wanted"]))
    run.register_outputs(run.paths.folder / "count.txt")
    return Record()

sys.exit(run_stage(StagePaths(Path(sys.argv[1])), work))
"""


@dataclass(frozen=True, kw_only=True)
class CountSpec(StageSpec):
    wanted: int


def stages(planned: Planned) -> Iterator[Stage]:
    """One for each point, of its training run."""
    for point in planned.points:
        source = planned.training(point)
        yield make_stage(
            CountSpec,
            "count",
            f"{source.name}/count",
            {"version": 1, "source": source.fingerprint},
            point_id=point.point_id,
            needs=(source.name,),
            wanted=point.group_size,
        )


def command(folder: Path, profile: Profile, environment: str) -> list[str]:
    return ["-c", COUNT, str(folder)]


KIND = Kind(name="count", noun="count", stages=stages, command=command)


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kind]:
    """The line in KINDS."""
    monkeypatch.setitem(KINDS, KIND.name, KIND)
    monkeypatch.setenv("FAKE_HELD", "nothing")
    yield KIND


@pytest.fixture
def declaration(tmp_path: Path) -> Declaration:
    return config.load("smoke", [f"run_root='{tmp_path}'", "profile.max_parallel=2"])


def mixed(kind: str, folder: Path, profile: Profile, environment: str) -> list[str]:
    """Fake programs in place of all but the added kind's."""
    if kind == KIND.name:
        return [sys.executable, *KINDS[kind].command(folder, profile, environment)]
    return fake_command(kind, folder, profile, environment)


@pytest.mark.slow
def test_it_is_planned_and_run_by_the_pool(kind: Kind, declaration: Declaration) -> None:
    assert drive.run(declaration, command=mixed, finish=lambda *_: None) == 0
    plan, paths = plan_over(declaration)
    own = [stage for stage in plan.stages if stage.kind == kind.name]
    assert len(own) == len(plan.points) == 2
    for stage, point in zip(own, plan.points, strict=True):
        folder = StagePaths(paths.folder / stage.name)
        assert is_done(folder, fingerprint=stage.fingerprint, target=stage.target)
        assert (folder.folder / "count.txt").read_text() == str(point.group_size)
    told = read_stages(paths, read_plan(paths).stages, rerun_hint=rerun_hint)
    assert {each.state for each in told} == {"done"}


@pytest.mark.slow
def test_it_is_a_job_of_the_cluster(kind: Kind, declaration: Declaration) -> None:
    plan, paths = plan_over(declaration)
    check_conflicts(paths, plan)
    freeze(paths, plan, nothing_to_run=False)
    record = next(r for r in plan_record(plan).stages if r.kind == kind.name)
    done = set(record.needs)
    (sending,) = arrange(
        [record], done=done, places={}, limit=10, at_once=1, name=lambda kind: kind, now=0.0
    )
    assert (sending.batch.kind, sending.batch.stages) == (kind.name, (record.name,))
    folder = paths.folder / record.name
    payload = Payload(
        folder=str(folder),
        needs=(),
        command=tuple(mixed(kind.name, folder, declaration.profile, "base")),
        cwd=str(Path.cwd()),
        environment=(("PYTHONPATH", str(Path.cwd())),),
        batch="count",
    )
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)())"

    ran = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(payload),
        capture_output=True,
        env=os.environ | {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "count"},
    )
    assert ran.stdout.decode().strip() == "done", ran.stderr.decode()
    assert is_marked(StagePaths(folder))


def test_without_its_line_nothing_of_it_is_left(declaration: Declaration) -> None:
    plan, _ = plan_over(declaration)
    assert KIND.name not in {stage.kind for stage in plan.stages}
    assert rerun_hint(KIND.name) == "makes it again"


def test_a_kind_that_is_not_there_any_more_is_refused_by_its_name(
    declaration: Declaration, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="of kind 'count', which this version does not have"):
        stage_command(KIND.name, tmp_path, declaration.profile, "base")
