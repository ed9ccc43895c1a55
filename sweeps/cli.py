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
from typing import TYPE_CHECKING

from sweeps.arguments import parse

if TYPE_CHECKING:
    from fgrpo_bench.specs import Declaration

EXIT_DAMAGED = 1
EXIT_REFUSED = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; refusals are one message on standard error and exit code 2."""
    arguments = parse(argv)
    try:
        return int(COMMANDS[arguments.command](arguments))
    except BrokenPipeError:  # whoever read the output, e.g. `head`, has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  (flushed at exit)
        return 128 + signal.SIGPIPE
    except (ValueError, OSError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        named = f": {error.filename}" if isinstance(error, OSError) and error.filename else ""
        print(f"error: {said}{named}", file=sys.stderr)
        return EXIT_REFUSED
    except KeyboardInterrupt:
        print("interrupted; nothing is lost", file=sys.stderr)
        return 130


def _plan(arguments: Namespace) -> int:
    from fgrpo_bench.specs import config
    from sweeps import show
    from sweeps.freeze import check_conflicts, plan_over

    if arguments.command == "plan" and arguments.config:
        composed = config.compose([f"sweep={arguments.sweep}", *arguments.overrides])
        print("\n".join(show.flat(composed)))
        return 0
    plan, paths = plan_over(config.load(arguments.sweep, arguments.overrides))
    found = show.preview(plan, paths)
    if plan.declaration.profile.dispatcher == "slurm":
        from sweeps.slurm import preemption, scheduler

        if scheduler.missing("scontrol") is None:
            found["warnings"] += preemption.short_graces(plan, scheduler.call)
    if arguments.command == "plan" and arguments.json:
        print(json.dumps(found, indent=1))
    else:
        print(show.render(found, paths))
    check_conflicts(paths, plan)
    return 0


def _run(arguments: Namespace) -> int:
    from fgrpo_bench.specs import config

    declaration = config.load(arguments.sweep, arguments.overrides)
    cluster = declaration.profile.dispatcher == "slurm"
    if arguments.dry_run:
        exit_code = _plan(arguments)
        return _sbatch_files(declaration) if cluster else exit_code
    if cluster:
        from sweeps.slurm import drive as slurm

        return slurm.run(declaration)
    from sweeps import drive

    return drive.run(declaration)


def _sbatch_files(declaration: Declaration) -> int:
    from sweeps.freeze import plan_over
    from sweeps.slurm import drive

    for text in drive.dry_run(*plan_over(declaration)):
        print(f"\n{text}", end="")
    return 0


def _status(arguments: Namespace) -> int:
    from sweeps import address, failures, status

    paths = address.find(arguments.sweep, arguments.overrides)
    render = status.render
    warn = partial(print, file=sys.stderr)
    if status.on_slurm(paths):
        from sweeps.slurm import show

        found = show.report(paths, warn=warn)
        render = show.render
    else:
        found = status.report(paths, warn)
    found = failures.with_last_lines(paths, found)
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        print(render(found))
        print(failures.render(found), end="")
    return 0


def _check(arguments: Namespace) -> int:
    from sweeps import address
    from sweeps.check import examine, findings
    from sweeps.view import reading

    paths = address.find(arguments.sweep, arguments.overrides)
    try:
        with reading(sys.stderr) as bar:
            examined = examine.examine(paths, bar)
    except ValueError as error:  # without a plan there is nothing to compare
        print(f"damaged: {error}", file=sys.stderr)
        return EXIT_DAMAGED
    found = findings.findings(examined)
    print(json.dumps(found, indent=1) if arguments.json else findings.render(found))
    if not found["damaged"] or not arguments.repair:
        return EXIT_DAMAGED if found["damaged"] else 0
    from sweeps.check.repair import repair

    return repair(examined, say=lambda text: print(text, flush=True))


def _cancel(arguments: Namespace) -> int:
    from sweeps import address, cancel, status

    paths = address.find(arguments.sweep, arguments.overrides)
    if status.on_slurm(paths):
        from sweeps.slurm import drive as slurm

        return slurm.cancel(paths)
    for line in cancel.cancel(paths):
        print(line, flush=True)
    return 0


def _tick(arguments: Namespace) -> int:
    from sweeps import address
    from sweeps.slurm import drive

    drive.update(address.find(arguments.sweep, arguments.overrides))
    return 0


def _follow(arguments: Namespace) -> int:
    from sweeps import address
    from sweeps.slurm import drive

    paths = address.find(arguments.sweep, arguments.overrides)
    return drive.follow(paths, seconds=arguments.every)


def _retry(arguments: Namespace) -> int:
    from sweeps import address
    from sweeps.slurm import drive

    paths = address.find(arguments.sweep, arguments.overrides)
    return drive.retry(paths, arguments.point)


def _logs(arguments: Namespace) -> int:
    from sweeps import address, logs

    paths = address.find(arguments.sweep, arguments.overrides)
    stage = logs.find_stage(paths, arguments.point_id, arguments.stage)
    for text in logs.read(paths, stage, lines=arguments.lines, follow=arguments.follow):
        print(text, end="", flush=True)
    return 0


COMMANDS = {
    "plan": _plan,
    "run": _run,
    "status": _status,
    "check": _check,
    "cancel": _cancel,
    "logs": _logs,
    "tick": _tick,
    "follow": _follow,
    "retry": _retry,
}
