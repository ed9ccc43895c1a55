"""`run` from a declaration to an exit code: freeze the plan, run the pool, finish; and what fetches
the files of a sweep on SLURM here, where there is a network.

Exit codes: 0 all done, 1 a stage failed, 128 + signal when it was stopped; refusals are raised.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fgrpo_bench import engines
from fgrpo_bench.data import DatasetMarker
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import void
from fgrpo_bench.kinds import KINDS, Environment, Stage, remade
from fgrpo_bench.kinds.kind import dataset_name
from fgrpo_bench.specs import DatasetSpec, Declaration, Profile
from fgrpo_bench.stages.attempts import tail
from fgrpo_bench.stages.locks import driving, lock_holder
from fgrpo_bench.stages.markers import read_marker_of
from fgrpo_bench.stages.states import damage_of, driver_id
from sweeps import schedule
from sweeps.commands import (
    StageCommand,
    check_installed,
    stage_command,
    stage_environment,
    workers,
)
from sweeps.conflicts import check_conflicts
from sweeps.freeze import check_writable, freeze, plan_over
from sweeps.local.pool import Pool
from sweeps.local.stopping import stop_requests
from sweeps.local.view import shown as view
from sweeps.local.view import title
from sweeps.plan import Plan, stage_record
from sweeps.reporting import finish
from sweeps.text import counted, echo, shown

LOG_LINES = 12
"""Last lines of a failed stage's log that the end of a run shows."""

FETCHED_AT_ONCE = 4
"""Most files that are fetched at once: they share one line, and one machine that many use."""

Finish = Callable[[RunPaths, Callable[[str], None]], None]


def run(
    declaration: Declaration, *, command: StageCommand = stage_command, finish: Finish = finish
) -> int:
    """Bring a sweep as far as it goes; see the exit codes above.

    Raises ValueError or OSError where it cannot be begun: a plan that makes no sense, a folder
    that cannot be written or holds other settings, another driver at work.
    """
    plan, paths = plan_over(declaration)
    check_installed(declaration, {stage.environment for stage in plan.stages}, echo)
    check_writable(paths)
    with driving(paths):
        check_conflicts(paths, plan)

        def begin(pool: Pool) -> None:
            freeze(paths, plan, nothing_to_run=not pool.waiting)
            _say_begin(plan, pool)

        at_once = workers(declaration.profile)
        exit_code = pooled(plan, paths, plan.stages, command=command, workers=at_once, begin=begin)
        if exit_code == 0:
            finish(paths, echo)
        return exit_code


def pooled(
    plan: Plan,
    paths: RunPaths,
    stages: Sequence[Stage],
    *,
    command: StageCommand,
    workers: int,
    begin: Callable[[Pool], None] = void,
) -> int:
    """Bring stages of a plan as far as they go, as the sweep's driver, who holds its lock; see the
    exit codes above.

    workers: at once. begin: called when what is done is known and nothing was started.
    """
    profile = plan.declaration.profile
    with stop_requests() as stop, view(sys.stdout) as seen:
        pool = Pool(
            paths=paths,
            stages=stages,
            seconds={stage.name: schedule.cpu_seconds(stage) for stage in stages},
            workers=workers,
            command=lambda stage, folder: command(stage.kind, folder, profile, stage.environment),
            environment=lambda stage: stage_environment(
                profile, paths, os.environ, fetches=KINDS[stage.kind].fetches
            ),
            driver=driver_id(lock_holder(paths.driver_lock)),
            watcher=seen,
            stop=stop,
        )
        begin(pool)
        pool.run()
    if stop.signum is not None:
        done = f"{len(pool.done)} of {counted(len(pool.stages), 'stage')} done"
        echo(f"stopped: {done}, nothing is lost; run the same command again to continue")
        return stop.exit_code
    if pool.failures:
        _say_failures(pool)
        return 1
    return 0


def fetch_files(plan: Plan, paths: RunPaths, command: StageCommand) -> int:
    """Run the stages that fetch, as the sweep's driver, who holds its lock; exit code 0, or 128 +
    signal where it was stopped.

    Raises OSError where one fails, ValueError where a dataset is too small for what the points ask
    of it.
    """

    def local(kind: str, folder: Path, profile: Profile, environment: Environment) -> list[str]:
        return [sys.executable, *command(kind, folder, profile, environment)[1:]]

    stages = [stage for stage in plan.stages if KINDS[stage.kind].fetches]
    at_once = FETCHED_AT_ONCE
    exit_code = pooled(plan, paths, stages, command=local, workers=at_once) if stages else 0
    if exit_code == 1:
        lacks = next(s.name for s in stages if not StagePaths(paths.folder / s.name).done.exists())
        raise OSError(f"{lacks} was not fetched, so nothing was submitted; its reason stands above")
    if exit_code == 0:
        _check_sizes(plan, paths)
    return exit_code


def _check_sizes(plan: Plan, paths: RunPaths) -> None:
    """ValueError where a fetched dataset has fewer problems than an epoch of a point, or than its
    evaluation during training."""

    def rows(dataset: DatasetSpec) -> int:
        marker = read_marker_of(DatasetMarker, StagePaths(paths.folder / dataset_name(dataset)))
        return marker.rows

    for point in plan.points:
        try:
            engines.of(point.train).check_sizes(point, rows)
        except ValueError as error:
            raise ValueError(f"{error}; nothing was submitted") from None


def _say_begin(plan: Plan, pool: Pool) -> None:
    seen = pool.watcher
    seen.say(f"{plan.declaration.sweep.name}: {plan.declaration.sweep.question}")
    seen.say(f"folder {shown(pool.paths.folder)}")
    seen.say(
        f"{counted(len(plan.points), 'point')}, {counted(len(pool.stages), 'stage')}: "
        f"{len(pool.done)} done before, {len(pool.waiting)} to run, "
        f"{counted(pool.workers, 'worker')} at once"
    )
    for warning in plan.warnings:
        seen.say(f"warning: {warning}")
    for stage in pool.waiting.values():
        folder = StagePaths(pool.paths.folder / stage.name)
        why = damage_of(folder, stage_record(stage), remade, done=False)
        if why is not None:
            seen.say(f"damaged: {title(stage)}: {why}")


def _say_failures(pool: Pool) -> None:
    for failure in pool.failures:
        print(f"\n{title(failure.stage)} {failure.reason}; the end of {shown(failure.log)}:")
        for line in tail(failure.log)[-LOG_LINES:]:
            print(f"  | {line}" if line.strip() else "")
    echo(
        f"\n{counted(len(pool.failures), 'stage')} failed, {len(pool.waiting)} that need them were "
        f"not started, {len(pool.done)} are done; mend the cause and run the same command again"
    )
