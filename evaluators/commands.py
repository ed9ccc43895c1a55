"""What each command of `fgrpo-bench evaluate` does, to its exit code. What they raise, the command
prints.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import typer

from fgrpo_bench.command.runs import default_root
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.spec import StageSpec, read_spec
from fgrpo_bench.stages.stage import EXIT_DONE, StageRun, named_stage, run_stage


def run_command(context: typer.Context, options: argparse.Namespace) -> int:
    if options.dry_run:
        return plan_command(context, options)
    if "=" in options.what[0]:
        return _alone(options)
    paths = _named(context, options)
    return run_stage(paths, lambda spec, stage: _work(spec, stage, options))


def _named(context: typer.Context, options: argparse.Namespace) -> StagePaths:
    """The stage whose folder is given, alone."""
    if len(options.what) > 1:
        context.fail(f"{options.what[1]!r} after a folder: name one stage at a time")
    return named_stage(context.fail, Path(options.what[0]))


def plan_command(context: typer.Context, options: argparse.Namespace) -> int:
    from evaluators import standalone

    if "=" in options.what[0]:
        paths = standalone.freeze(standalone.load_request(options.what))
    else:
        paths = _named(context, options)
        if (kind := read_spec(paths).kind) != "evaluate":
            raise ValueError(
                f"{paths.spec} is of kind {kind!r}: only an evaluation is planned alone; `python "
                "-m sweeps plan` says what a sweep's other stages cost"
            )
    print(standalone.expected_draws(paths))
    return EXIT_DONE


def _work(spec: StageSpec, run: StageRun, options: argparse.Namespace) -> Record:
    import torch

    from evaluators.evaluate import Bar, evaluate
    from fgrpo_bench.specs import Placement, from_dict

    if spec.kind == "import":
        raise ValueError(
            f"{run.paths.folder} holds imported draws: nothing can be drawn there; `python -m "
            "evaluators grade` grades them again"
        )
    if spec.kind not in ("evaluate", "rare", "likelihood"):
        raise ValueError(
            f"{run.paths.spec} is of kind {spec.kind!r}: this command runs evaluate, rare and "
            "likelihood; warm-up and training are run by `python -m fgrpo_bench.engines.embedded`"
        )
    torch.set_num_threads(options.threads)
    given = options.placement
    placement = None if given is None else from_dict(Placement, json.loads(given))
    if spec.kind != "evaluate":
        from evaluators.rare import collect, rescore

        if spec.kind == "rare":
            return collect(spec, run, device=options.device, placement=placement)
        return rescore(spec, run, device=options.device, placement=placement)
    bar = Bar() if options.bar else None
    try:
        return evaluate(spec, run, device=options.device, placement=placement, bar=bar)
    finally:
        if bar is not None:
            bar.close()


def _alone(options: argparse.Namespace) -> int:
    from evaluators import standalone
    from evaluators.stored import closing_table, find
    from fgrpo_bench.specs import to_dict

    asked = standalone.load_request(options.what)
    python = standalone.elsewhere(asked)
    paths = standalone.freeze(asked)
    _share_verdicts(asked.root)
    os.environ["FGRPO_DRAWS"] = str((asked.root / "draws").absolute())
    if python is not None:
        code = standalone.run_elsewhere(python, paths, asked)
    else:
        options.bar, options.device, options.threads = True, asked.device, asked.threads
        options.placement = json.dumps(to_dict(asked.placement))
        code = run_stage(paths, lambda spec, stage: _work(spec, stage, options))
    if code == EXIT_DONE:
        names = asked.evaluation.benchmarks
        print(closing_table([s for s in find(str(paths.folder)) if s.benchmark.name in names]))
    return code


def _share_verdicts(root: Path) -> None:
    """Let the judges' verdicts be those of all sweeps and evaluations under a run root."""
    os.environ.setdefault("FGRPO_VERDICTS", str((root / "verdicts").absolute()))


def grade_command(_: typer.Context, options: argparse.Namespace) -> int:
    from evaluators.stored import closing_table, find, regrade

    _share_verdicts(default_root())
    evaluations = find(options.evaluation)
    for stored in evaluations:
        print(regrade(stored, options.grader), flush=True)
    print(closing_table(evaluations))
    return EXIT_DONE


def audit_command(_: typer.Context, options: argparse.Namespace) -> int:
    from evaluators.audit import audit, render
    from evaluators.stored import find

    _share_verdicts(default_root())
    audits = [
        report
        for stored in find(options.evaluation)
        for report in audit(stored, compared=options.compared)
    ]
    print(
        json.dumps([report.as_json() for report in audits], indent=1)
        if options.json
        else render(audits)
    )
    return EXIT_DONE


def import_command(_: typer.Context, options: argparse.Namespace) -> int:
    from evaluators.interchange import conclude, import_file
    from evaluators.stored import closing_table, regrade

    _share_verdicts(default_root())
    stored = import_file(
        options.file,
        benchmark=options.benchmark,
        name=options.name,
        root=default_root(),
        subset=options.subset,
        keys=options.overrides,
    )
    print(regrade(stored, None), flush=True)
    conclude(stored)
    print(closing_table([stored]))
    return EXIT_DONE


def export_command(_: typer.Context, options: argparse.Namespace) -> int:
    from evaluators.interchange import export

    print(export(options.benchmarks, options.to, root=default_root(), n_samples=options.n_samples))
    return EXIT_DONE
