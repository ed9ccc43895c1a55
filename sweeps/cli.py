"""`fgrpo-bench sweep`, `python -m sweeps`: plan a sweep, run it, follow it.

In: a sweep's name and overrides, or the name of a run. Out: what is printed, and the exit code.
Each command imports what it needs when it is called, so that `status` starts in a blink. Next:
sweeps.freeze for planning, sweeps.local.drive and sweeps.slurm.drive for running.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fgrpo_bench.command import application
from fgrpo_bench.command.application import Application, Json, Run, Wide, print_json, refuse
from fgrpo_bench.command.runs import choose_run, default_root, find_runs, run_address, split_name
from fgrpo_bench.core.commandline import check_once
from fgrpo_bench.files.paths import RunPaths
from sweeps import REPOSITORY
from sweeps.text import error_message

if TYPE_CHECKING:
    from fgrpo_bench.specs import Declaration
    from sweeps.plan import Plan

EXIT_DAMAGED, EXIT_REFUSED = 1, 2
"""`check` found something; nothing was started."""

OVERRIDES = """\
SWEEP is a file of conf/sweep, also with what it is run on and as which version:
  groupsize/countdown-prompts/v2  the same as experiment=countdown-prompts version=v2

Overrides are key=value, as many as wanted:
  experiment=countdown            another file of conf/experiment
  profile.max_parallel=2          any key; `plan <sweep> --config` lists them all
  seed=11 group_size=[8,16]       axes of the grid, also algorithm, focal_gamma, prompts_per_step
                                  and learning_rate_factor (quote brackets where shells mind)
  version=v2 run_root=/data/runs  where the results stand
"""
RUN_KEYS = """\
The run is found by its files: SWEEP, SWEEP/EXPERIMENT or SWEEP/EXPERIMENT/VERSION. Of several it
is the one that `run SWEEP` would resume. key=value may also be experiment=countdown, version=v1
and run_root=/data/runs.
"""
KEYS = ("experiment", "version", "run_root")


@contextmanager
def _refusals() -> Iterator[None]:
    """Refusals are one message on standard error and exit code 2."""
    try:
        yield
    except BrokenPipeError:  # whoever read the output, e.g. `head`, has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  (flushed at exit)
        raise typer.Exit(128 + signal.SIGPIPE) from None
    except (ValueError, OSError) as error:
        print(f"error: {error_message(error)}", file=sys.stderr)
        raise typer.Exit(EXIT_REFUSED) from None
    except KeyboardInterrupt:
        print("interrupted; nothing is lost", file=sys.stderr)
        raise typer.Exit(130) from None


app = Application(
    "Plan a sweep, run it, and follow it.",
    "fgrpo-bench sweep plan groupsize        what would run, and what it would cost",
    "fgrpo-bench sweep run groupsize         run it, or resume it",
    "fgrpo-bench sweep status groupsize      where it stands",
    "fgrpo-bench sweep logs groupsize grpo-n8-g0.5-s11",
    "fgrpo-bench sweep cancel groupsize      stop it where it can be continued",
    guard=_refusals,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command to its exit code."""
    return application.run(app, argv, "python -m sweeps")


def _complete_sweep(incomplete: str) -> list[str]:
    """What the name of a sweep of conf/ can go on with, for the Tab key: sweeps, then experiments,
    then versions that are there."""
    sweep, *parts = incomplete.split("/")
    names = _options("sweep")
    if parts:
        names = [f"{sweep}/{_option}" for _option in _options("experiment")]
    if len(parts) > 1:
        names = [run_address(run) for run in find_runs(default_root(), sweep)]
    return [name for name in names if name.startswith(incomplete)]


def _complete_override(ctx: typer.Context, incomplete: str) -> list[str]:
    """Likewise key=value: every key of the sweep's configuration with its value, and the files of a
    group."""
    # bash hands `key`, `=` and the value apart, and replaces the value alone
    typed = re.sub(" = ", "=", " ".join([*(ctx.params.get("overrides") or []), incomplete]))
    *given, last = typed.split(" ")
    before = last.removesuffix(incomplete)
    from fgrpo_bench.specs import config

    try:
        lines = config.as_overrides(config.compose(_with_sweep(ctx.params["sweep"], given)))
    except ValueError:  # the line so far is refused
        return []
    groups = [f"{group}={_option}" for group in config.CHOICES[1:] for _option in _options(group)]
    axes = [line.removeprefix("sweep.grid.") for line in lines if line.startswith("sweep.grid.")]
    return [
        line.removeprefix(before)
        for line in [*groups, *axes, *lines]
        if line.startswith(last) and re.fullmatch(r"[\w.,=\[\]-]*", line)  # no shell minds these
    ]


def _options(group: str) -> list[str]:
    """Names of a group of conf/, read from its folder: specs.config takes longer to import."""
    return sorted(path.stem for path in (REPOSITORY / "conf" / group).glob("*.yaml"))


Sweep = Annotated[
    str,
    typer.Argument(
        metavar="SWEEP",
        help="a file of conf/sweep, also sweep/experiment/version",
        autocompletion=_complete_sweep,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="key=value", help="see below", autocompletion=_complete_override),
]
Keys = Annotated[list[str] | None, typer.Argument(metavar="key=value", help="see below")]


def _with_sweep(name: str, overrides: Sequence[str]) -> list[str]:
    """Overrides that choose a sweep by its name and set the others, axes of the grid under their
    full names. ValueError for a name of another form, or for what is named twice and differs."""
    check_once(overrides, _key)
    keys = dict(override.split("=", 1) for override in overrides if "=" in override)
    sweep, *run_names = split_name(
        name, experiment=keys.get("experiment"), version=keys.get("version")
    )
    from_name = [
        f"{key}={value}"
        for key, value in zip(("experiment", "version"), run_names, strict=True)
        if value is not None and key not in keys
    ]
    return [f"sweep={sweep}", *from_name, *map(_axis, overrides)]


def _axis(override: str) -> str:
    """`seed=11` is sweep.grid.seed=[11]; any other override is left as it is."""
    from dataclasses import fields

    from fgrpo_bench.specs.sweep import Grid

    key, equals, value = override.partition("=")
    if not equals or key not in {field.name for field in fields(Grid)}:
        return override
    listed = value if value.strip().startswith("[") else f"[{value}]"
    # with ++ because the files need not name an axis that has a default
    return f"++sweep.grid.{key}={listed}"


def _key(override: str) -> str:
    """The whole key that an override sets."""
    return _axis(override).partition("=")[0].lstrip("+")


def _declared(name: str, overrides: Sequence[str] | None) -> tuple[str, list[str]]:
    """The sweep and the overrides that are meant; says which were taken for axes of the grid."""
    given = overrides or []
    sweep, *others = _with_sweep(name, given)
    for override, meaning in zip(given, others[len(others) - len(given) :], strict=True):
        if override != meaning:
            print(f"{override} is taken for {meaning.lstrip('+')}", file=sys.stderr)
    return sweep.partition("=")[2], others


@app.add(
    "plan",
    "show points, what of them exists, and what the rest would cost; starts and writes nothing",
    "fgrpo-bench sweep plan groupsize",
    "fgrpo-bench sweep plan groupsize/countdown-prompts/v2",
    "fgrpo-bench sweep plan gamma 'seed=[21,22]' --json",
    "fgrpo-bench sweep plan groupsize --config",
    more=OVERRIDES,
)
def plan(
    context: typer.Context,
    sweep: Sweep,
    overrides: Overrides = None,
    as_json: Json = False,
    with_config: Annotated[
        bool, typer.Option("--config", help="print every key with its value, as overrides")
    ] = False,
) -> int:
    from fgrpo_bench.specs import config
    from sweeps.freeze import plan_over

    name, others = _declared(sweep, overrides)
    if with_config:
        refuse(context, "is not asked with --config", "as_json")
        composed = config.compose([f"sweep={name}", *others])
        print("\n".join(config.as_overrides(composed)))
        return 0
    _show_plan(*plan_over(config.load(name, others)), as_json=as_json)
    return 0


def _show_plan(plan: Plan, paths: RunPaths, *, as_json: bool = False) -> None:
    """Raises ValueError, once it is shown, where other settings stand."""
    from sweeps import preview
    from sweeps.freeze import check_conflicts

    shown = preview.preview(plan, paths)
    if plan.declaration.profile.dispatcher == "slurm":
        from sweeps.slurm import preflight, scheduler

        if scheduler.missing("scontrol") is None:
            shown["warnings"] += preflight.short_graces(plan, scheduler.call)
    print_json(shown) if as_json else print(preview.render(shown, paths))
    check_conflicts(paths, plan)


@app.add(
    "run",
    "run a sweep, or resume one, until all of it is done; with profile=slurm submit it",
    "fgrpo-bench sweep run smoke",
    "fgrpo-bench sweep run groupsize profile.max_parallel=2",
    "fgrpo-bench sweep run groupsize 'seed=[11,12,13,14]'",
    "fgrpo-bench sweep run groupsize --dry-run",
    "fgrpo-bench sweep run groupsize profile=slurm profile.partition=gpu",
    more=f"{OVERRIDES}\n"
    "Ctrl-C lets the workers save and leaves everything to be continued by the same command.\n"
    "Exit codes: 0 all done, 1 a stage failed, 2 refused, 130 stopped by Ctrl-C.\n",
)
def run(
    sweep: Sweep,
    overrides: Overrides = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="the same as `plan`, and with profile=slurm every sbatch file that would be sent",
        ),
    ] = False,
) -> int:
    from fgrpo_bench.specs import config
    from sweeps.freeze import plan_over

    declaration = config.load(*_declared(sweep, overrides))
    on_slurm = declaration.profile.dispatcher == "slurm"
    if not dry_run:
        return _start(declaration)
    if on_slurm:
        from sweeps.slurm import drive

        limit = drive.largest_array(declaration)
        plan, paths = plan_over(declaration)
        _show_plan(plan, paths)
        for text in drive.dry_run(plan, paths, limit=limit):
            print(f"\n{text}", end="")
        return 0
    _show_plan(*plan_over(declaration))
    return 0


@app.add(
    "rehearse",
    "run an experiment on processors that is meant for GPUs, with a tiny model",
    "fgrpo-bench sweep rehearse mine",
    "fgrpo-bench sweep rehearse mine algorithm=[grpo,dapo]",
    "make rehearse EXPERIMENT=mine           # installs what it needs, too",
    more="EXPERIMENT is a file of conf/experiment. Its problems, prompt, reward and evaluation\n"
    "stay, with few and short draws; the tiny model has its model's architecture and tokenizer.\n"
    "Overrides are those of `run`.\n",
)
def rehearse(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="a file of conf/experiment",
            autocompletion=lambda incomplete: [
                name for name in _options("experiment") if name.startswith(incomplete)
            ],
        ),
    ],
    overrides: Overrides = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="the same as `plan`")] = False,
) -> int:
    from fgrpo_bench.specs import config
    from sweeps import rehearse as rehearsal
    from sweeps.freeze import plan_over

    chosen = [f"experiment={experiment}", *(overrides or [])]
    if "sweep.grid.algorithm" not in map(_key, chosen):
        chosen.append("sweep.grid.algorithm=[grpo]")
    original = config.load(*_declared(rehearsal.SWEEP, chosen))
    declared = rehearsal.rehearsed(original, Path(original.run_root))
    print(rehearsal.summary(declared, original))
    for line in rehearsal.lowered(overrides or (), declared, original):
        print(line)
    if not dry_run:
        return _start(declared)
    _show_plan(*plan_over(declared))
    return 0


def _start(declaration: Declaration) -> int:
    if declaration.profile.dispatcher == "slurm":
        from sweeps.slurm.drive import run as submit

        return submit(declaration)
    from sweeps.local.drive import run as run_here

    return run_here(declaration)


@app.add(
    "status",
    "show where a sweep stands, from its files alone",
    "fgrpo-bench sweep status groupsize",
    "fgrpo-bench sweep status groupsize/countdown/v1 --json",
    more=RUN_KEYS,
)
def show_status(
    context: typer.Context,
    sweep: Run,
    keys: Keys = None,
    as_json: Json = False,
    wide: Wide = False,
) -> int:
    from fgrpo_bench.documents import terminal
    from sweeps import status

    if as_json:
        refuse(context, "is not asked with --json, which has every number", "wide")
    paths = find_run(sweep, keys)
    warn = partial(print, file=sys.stderr)
    if status.on_slurm(paths):
        from sweeps.slurm import drive

        report, render = drive.report(paths, warn=warn), drive.render
    else:
        report, render = status.report(paths, warn), status.render
    report = status.with_last_lines(paths, report)
    if as_json:
        print_json(report)
    else:
        print(render(report, None if wide else terminal.width()))
        print(status.render_failures(report), end="")
    return 0


@app.add(
    "check",
    "compare every file of a sweep with its digest; --fix moves aside what is damaged",
    "fgrpo-bench check groupsize",
    "fgrpo-bench check groupsize/countdown/v1 --json",
    "fgrpo-bench check groupsize --fix",
    more=f"{RUN_KEYS}\n"
    "It lists which files differ from their digests, which are missing, and which no record\n"
    "lists. With --fix damaged files are moved into folders named `damaged`; the next `run`\n"
    "makes again what is missing. MLflow is a view of these files and is not compared:\n"
    "`fgrpo-bench tracking rebuild` makes it anew.\n"
    "Exit codes: 0 whole (with --fix: what is damaged was moved aside), 1 damaged, 2 refused.\n",
)
def check(
    context: typer.Context,
    sweep: Run,
    keys: Keys = None,
    as_json: Json = False,
    is_fix: Annotated[bool, typer.Option("--fix", help="move aside what is damaged")] = False,
) -> int:
    if as_json and is_fix:
        context.fail("--json and --fix: take one of them")
    from fgrpo_bench.documents.terminal import escaped
    from fgrpo_bench.stages.plan import check_format
    from sweeps import check
    from sweeps.text import echo

    paths = find_run(sweep, keys)
    check_format(paths)
    try:
        checked = check.check(paths)
    except ValueError as error:  # without a plan there is nothing to compare
        print(f"damaged: {escaped(str(error))}", file=sys.stderr)
        return EXIT_DAMAGED
    print_json(check.findings(checked)) if as_json else print(check.render(checked))
    if not is_fix:
        return EXIT_DAMAGED if checked.faults else 0
    check.fix(checked, lambda text: echo(escaped(text)))
    return EXIT_DAMAGED if any(fault.remedy for fault in checked.faults) else 0


@app.add(
    "cancel",
    "ask a running sweep to save and stop",
    "fgrpo-bench sweep cancel groupsize",
    "fgrpo-bench sweep cancel groupsize/countdown",
    more=RUN_KEYS,
)
def cancel(sweep: Run, keys: Keys = None) -> int:
    from sweeps import status
    from sweeps.local import pool

    paths = find_run(sweep, keys)
    if status.on_slurm(paths):
        from sweeps.slurm import drive

        return drive.cancel(paths)
    for line in pool.cancel(paths):
        print(line, flush=True)
    return 0


@app.add(
    "tick",
    "bring a sweep on SLURM up to date once: submit again what was lost, sync MLflow",
    "fgrpo-bench sweep tick groupsize",
    more=f"{RUN_KEYS}\nIt keeps nothing in mind: run it by hand, from cron, or not at all.\n",
)
def tick(sweep: Run, keys: Keys = None) -> int:
    from sweeps.slurm import drive

    drive.update(find_run(sweep, keys))
    return 0


@app.add(
    "follow",
    "watch a sweep on SLURM and bring it up to date until it is done",
    "fgrpo-bench sweep follow groupsize",
    "fgrpo-bench sweep follow groupsize --every 300",
    more=f"{RUN_KEYS}\nCtrl-C stops the watching and no job.\n"
    "Exit codes: 0 all done, 1 something was given up.\n",
)
def follow(
    sweep: Run,
    keys: Keys = None,
    every: Annotated[float, typer.Option(help="seconds")] = 30.0,
) -> int:
    from sweeps.slurm import drive

    return drive.follow(find_run(sweep, keys), seconds=every)


@app.add(
    "retry",
    "try again what was given up on SLURM",
    "fgrpo-bench sweep retry groupsize",
    "fgrpo-bench sweep retry groupsize grpo-n8-g0.5-s11",
    more=f"{RUN_KEYS}\n"
    "Jobs run the code as it was frozen, or where that copy is damaged, as it is now.\n",
)
def retry(
    sweep: Run,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[point] key=value", help="see below")
    ] = None,
    point: Annotated[
        str | None,
        typer.Option(help="only this one, which may also stand after the sweep's name"),
    ] = None,
) -> int:
    from sweeps.slurm import drive

    others = list(keys or [])
    if point is None and others and "=" not in others[0]:  # a point, as `logs` takes it
        point = others.pop(0)
    return drive.retry(find_run(sweep, others), point)


@app.add(
    "tune",
    "print a sweep with every method at the learning rate that suited it best on other seeds",
    "fgrpo-bench sweep tune methods/countdown/rates > conf/sweep/methods-tuned.yaml",
    more=f"{RUN_KEYS}\nBest is the highest pass@1, or where the family is at equal pass@1\n"
    "the highest pass@k at a pass@1 that every method reaches; GRPO then keeps all. The run\n"
    "has other seeds than the sweep declares and several factors:\n"
    "  fgrpo-bench sweep run methods version=rates seed=10 'learning_rate_factor=[0.5,1,2]'\n",
)
def tune(sweep: Run, keys: Keys = None) -> int:
    from sweeps.tuning import tuned

    print(tuned(find_run(sweep, keys)))
    return 0


@app.add(
    "logs",
    "print the log of the latest attempt at a point",
    "fgrpo-bench sweep logs groupsize grpo-n8-g0.5-s11",
    "fgrpo-bench sweep logs groupsize grpo-n8-g0.5-s11 --stage evaluate -n 100",
    "fgrpo-bench sweep logs groupsize base-s11 --follow",
    more=RUN_KEYS,
)
def show_logs(
    sweep: Run,
    point: Annotated[
        str, typer.Argument(metavar="POINT", help="as `status` lists it, e.g. grpo-n8-g0.5-s11")
    ],
    keys: Keys = None,
    stage: Annotated[
        str | None,
        typer.Option(
            help="which stage, as plan.json names its kind, e.g. evaluate; without it the one that "
            "was started last"
        ),
    ] = None,
    lines: Annotated[int, typer.Option("-n", help="last lines")] = 40,
    follow: Annotated[
        bool, typer.Option("--follow", help="go on while the stage is at work")
    ] = False,
) -> int:
    from sweeps import status

    paths = find_run(sweep, keys)
    chosen = status.find_stage(paths, point, stage)
    if stage is None and (kinds := status.other_kinds(paths, chosen)):
        print(f"the {chosen.kind} stage; --stage shows {', '.join(kinds)}", file=sys.stderr)
    for text in status.read(paths, chosen, lines=lines, follow=follow):
        print(text, end="", flush=True)
    return 0


def find_run(name: str, overrides: Sequence[str] | None = None) -> RunPaths:
    """The run that sweep[/experiment[/version]] names (fgrpo_bench.command.runs.choose_run).

    overrides: any of experiment=, version= and run_root=.
    Raises ValueError where a key means nothing here, FileNotFoundError where there is no such run.
    """
    check_once(overrides or ())
    given: dict[str, str] = {}
    for override in overrides or ():
        key, equals, value = override.partition("=")
        if key not in KEYS or not equals:
            raise ValueError(
                f"{override!r} says nothing here: this command reads files and takes only "
                f"{', '.join(f'{key}=<value>' for key in KEYS)}"
            )
        given[key] = plain_value(key, value)
    root = Path(given.pop("run_root", default_root())).absolute()
    return choose_run(root, name, **given)


def plain_value(key: str, value: str) -> str:
    """The value that `run` reads in key=value: quotes around it are none of it.

    Hydra is loaded only where it could tell a difference. Raises ValueError where it refuses one.
    """
    if key == "experiment" or not re.search(r"^\s*['\"]|[\\$]", value):
        return value.strip()
    from fgrpo_bench.specs import config

    return str(config.compose([f"{key}={value}"])[key])
