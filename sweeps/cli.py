"""`python -m sweeps`: arguments in, exit code out; the work is elsewhere.

Each command imports what it needs when it is called, so that `status` starts in a blink.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fgrpo_bench.stages.digests import MANIFEST_FILE
from fgrpo_bench.stages.paths import RunPaths
from sweeps.arguments import find_run, parse
from sweeps.text import error_words

if TYPE_CHECKING:
    from fgrpo_bench.specs import Declaration
    from sweeps.plan import Plan

EXIT_DAMAGED = 1
EXIT_REFUSED = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; refusals are one message on standard error and exit code 2."""
    arguments = parse(argv)
    try:
        if arguments.command in PLANNING:
            return PLANNING[arguments.command](arguments)
        if arguments.command == "check" and _is_folder(arguments.sweep):
            return _check_folder(arguments)
        paths = find_run(arguments.sweep, arguments.overrides)
        return OF_RUNS[arguments.command](paths, arguments)
    except BrokenPipeError:  # whoever read the output, e.g. `head`, has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  (flushed at exit)
        return 128 + signal.SIGPIPE
    except (ValueError, OSError) as error:
        print(f"error: {error_words(error)}", file=sys.stderr)
        return EXIT_REFUSED
    except KeyboardInterrupt:
        print("interrupted; nothing is lost", file=sys.stderr)
        return 130


def _plan(arguments: Namespace) -> int:
    from fgrpo_bench.specs import config
    from sweeps.freeze import plan_over

    if arguments.config:
        composed = config.compose([f"sweep={arguments.sweep}", *arguments.overrides])
        print("\n".join(config.as_overrides(composed)))
        return 0
    plan, paths = plan_over(config.load(arguments.sweep, arguments.overrides))
    _show_plan(plan, paths, as_json=arguments.json)
    return 0


def _show_plan(plan: Plan, paths: RunPaths, *, as_json: bool = False) -> None:
    """Raises ValueError, once it is shown, where other settings stand."""
    from sweeps import preview
    from sweeps.conflicts import check_conflicts

    shown = preview.preview(plan, paths)
    if plan.declaration.profile.dispatcher == "slurm":
        from sweeps.slurm import preflight, scheduler

        if scheduler.missing("scontrol") is None:
            shown["warnings"] += preflight.short_graces(plan, scheduler.call)
    print(json.dumps(shown, indent=1) if as_json else preview.render(shown, paths))
    check_conflicts(paths, plan)


def _run(arguments: Namespace) -> int:
    from fgrpo_bench.specs import config
    from sweeps.freeze import plan_over

    declaration = config.load(arguments.sweep, arguments.overrides)
    on_slurm = declaration.profile.dispatcher == "slurm"
    if not arguments.dry_run:
        return _start(declaration)
    if on_slurm:
        from sweeps.slurm import drive as slurm

        limit = slurm.largest_array(declaration)
        plan, paths = plan_over(declaration)
        _show_plan(plan, paths)
        for text in slurm.dry_run(plan, paths, limit=limit):
            print(f"\n{text}", end="")
        return 0
    _show_plan(*plan_over(declaration))
    return 0


def _start(declaration: Declaration) -> int:
    if declaration.profile.dispatcher == "slurm":
        from sweeps.slurm import drive as slurm

        return slurm.run(declaration)
    from sweeps.local import drive

    return drive.run(declaration)


def _status(paths: RunPaths, arguments: Namespace) -> int:
    from sweeps import logs, status

    warn = partial(print, file=sys.stderr)
    if status.on_slurm(paths):
        from sweeps.slurm import status as slurm

        report, render = slurm.report(paths, warn=warn), slurm.render
    else:
        report, render = status.report(paths, warn), status.render
    report = logs.with_last_lines(paths, report)
    if arguments.json:
        print(json.dumps(report, indent=1))
    else:
        print(render(report))
        print(logs.render_failures(report), end="")
    return 0


def _check(paths: RunPaths, arguments: Namespace) -> int:
    from fgrpo_bench.documents.terminal import escaped
    from fgrpo_bench.stages.plan import check_format
    from sweeps.check import examine, findings

    check_format(paths)
    try:
        with examine.reading(sys.stderr) as bar:
            examined = examine.examine(paths, bar)
    except ValueError as error:  # without a plan there is nothing to compare
        print(f"damaged: {escaped(str(error))}", file=sys.stderr)
        return EXIT_DAMAGED
    result = findings.findings(examined)
    print(json.dumps(result, indent=1) if arguments.json else findings.render(result))
    if not result["damaged"] or not arguments.repair:
        return EXIT_DAMAGED if result["damaged"] else 0
    from sweeps.check.repair import repair
    from sweeps.text import echo

    return repair(examined, say=lambda text: echo(escaped(text)), run=_start)


def _is_folder(word: str) -> bool:
    """Whether `check` was given an unpacked bundle in place of a sweep's name."""
    return "/" in word or (Path(word) / MANIFEST_FILE).exists()


def _check_folder(arguments: Namespace) -> int:
    from sweeps.check import examine, unpacked

    if arguments.repair or arguments.overrides:
        raise ValueError(
            f"{arguments.sweep} is an unpacked bundle, which takes no --repair and no key=value: "
            "unpack its archive again"
        )
    with examine.reading(sys.stderr) as bar:
        answer = unpacked.examine_folder(Path(arguments.sweep), bar)
    print(json.dumps(answer, indent=1) if arguments.json else unpacked.render(answer))
    return EXIT_DAMAGED if answer["damaged"] else 0


def _cancel(paths: RunPaths, arguments: Namespace) -> int:
    from sweeps import status
    from sweeps.local import stopping

    if status.on_slurm(paths):
        from sweeps.slurm import drive as slurm

        return slurm.cancel(paths)
    for line in stopping.cancel(paths):
        print(line, flush=True)
    return 0


def _tick(paths: RunPaths, arguments: Namespace) -> int:
    from sweeps.slurm import drive

    drive.update(paths)
    return 0


def _follow(paths: RunPaths, arguments: Namespace) -> int:
    from sweeps.slurm import drive

    return drive.follow(paths, seconds=arguments.every)


def _retry(paths: RunPaths, arguments: Namespace) -> int:
    from sweeps.slurm import drive

    return drive.retry(paths, arguments.point)


def _logs(paths: RunPaths, arguments: Namespace) -> int:
    from sweeps import logs

    stage = logs.find_stage(paths, arguments.point_id, arguments.stage)
    if arguments.stage is None and (others := logs.others(paths, stage)):
        print(f"the {stage.kind} stage; --stage shows {', '.join(others)}", file=sys.stderr)
    for text in logs.read(paths, stage, lines=arguments.lines, follow=arguments.follow):
        print(text, end="", flush=True)
    return 0


def _tune(paths: RunPaths, arguments: Namespace) -> int:
    from sweeps.tuning import tuned

    print(tuned(paths))
    return 0


PLANNING = {"plan": _plan, "run": _run}
"""Commands that take a declaration; all others take a run that is there."""
OF_RUNS = {
    "status": _status,
    "check": _check,
    "cancel": _cancel,
    "logs": _logs,
    "tick": _tick,
    "follow": _follow,
    "retry": _retry,
    "tune": _tune,
}
