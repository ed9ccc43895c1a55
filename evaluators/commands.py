"""The commands: their arguments, and what each calls. What they raise, `__main__` prints."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from evaluators.audit import COMPARED
from evaluators.fetch import add_fetch_arguments, fetch_command
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.paths import StagePaths, default_root
from fgrpo_bench.stages.shapes import SPEC
from fgrpo_bench.stages.stage import (
    EXIT_DONE,
    StageRun,
    add_machine_arguments,
    named_stage,
    run_stage,
)

RUN = """Evaluate a checkpoint, or run one evaluation stage of a sweep.

With overrides (the first word holds a =) it works alone: checkpoint=<folder or id of the Hub>, then
any of
  benchmarks=[math500,aime24] n_samples=64 ks=[1,8,64] temperature=1.0 dtype=bfloat16|float32 seed=0
  sampler=vllm|transformers|embedded device=cpu|cuda prompt=boxed|chat|plain
  prompt_tokens=1024 response_tokens=4096 name=<folder under evals/>
conf/evaluate.yaml has every key with its value. The same command goes on after a stop, and a larger
n_samples draws only what is missing.

With a folder that holds a spec.json it runs that stage."""
PLAN = """Say what `run` with the same words would draw; draw nothing.

Under a design that stops (design=staged) these are expected draws, tokens and hours beside those of
n_samples for every problem, and the standard error of mean pass@k of both: by success rates of what
is graded here, else by a prior that is named."""
EXAMPLES = {
    "run": [
        "checkpoint=Qwen/Qwen2.5-7B 'benchmarks=[math500,aime24]' n_samples=64",
        "checkpoint=out/step-300 'benchmarks=[math500]' n_samples=64",
    ],
    "plan": ["checkpoint=Qwen/Qwen2.5-7B 'benchmarks=[math500]' n_samples=1024 design=staged"],
    "grade": ["qwen2.5-7b-1f0a52c3", "qwen2.5-7b-1f0a52c3 --grader math"],
    "audit": ["qwen2.5-7b-1f0a52c3", "qwen2.5-7b-1f0a52c3 --json"],
    "import": ["samples_math500.jsonl --benchmark math500 --name theirs"],
    "export-lm-eval": ["math500 aime24 --to tasks", "math500 --to tasks --n-samples 64"],
}
"""What follows the command, by its name."""
COMPARED_HELP = "most draws to judge by plain math-verify too; default: %(default)s"
EXPORTED_HELP = "files of conf/benchmark/, fetched; and key=value as they were given to fetch"
OVERRIDES_HELP = "keys of the benchmark, as they were given to fetch"


def add(subparsers: Any) -> None:
    """Add every command to the parser."""
    run = _command(subparsers, "run", "draw, grade and score", RUN)
    run.add_argument(
        "what", nargs="+", metavar="folder|key=value", help="a stage's folder, or overrides"
    )
    add_machine_arguments(run)
    run.add_argument("--placement", help="profile.placement as JSON; needed for sampler=vllm")
    run.add_argument("--bar", action="store_true", help="show a progress bar on a terminal")
    run.add_argument("--dry-run", action="store_true", help="the same as `plan`")
    run.set_defaults(run=_run, words="what")

    plan = _command(subparsers, "plan", "what would be drawn, and what it would cost", PLAN)
    plan.add_argument("what", nargs="+", metavar="folder|key=value", help="as of `run`")
    plan.set_defaults(run=_plan, words="what")

    grade = _command(
        subparsers,
        "grade",
        "grade stored draws again",
        "Grade stored draws with the present grader; draws nothing. Grades of other versions stay\n"
        "beside; pass@k is computed anew.",
    )
    grade.add_argument("evaluation", help="folder or name under evals/")
    grade.add_argument("--grader", help="another grader than the benchmark's, e.g. math")
    grade.set_defaults(run=_grade, words=None)

    audit = _command(
        subparsers,
        "audit",
        "what a reviewer would ask about the grades",
        "Share of draws unscored, without a box, cut off, judged otherwise by plain math-verify\n"
        "on the whole response, with examples; distinct answers. Changes nothing.",
    )
    audit.add_argument("evaluation", help="folder or name under evals/")
    audit.add_argument(
        "--compared", type=int, default=COMPARED, metavar="DRAWS", help=COMPARED_HELP
    )
    audit.add_argument("--json", action="store_true", help="print JSON")
    audit.set_defaults(run=_audit, words=None)

    imported = _command(
        subparsers,
        "import",
        "score what another program has drawn",
        "Store and score draws of another program: lm-eval's samples_*.jsonl, or lines\n"
        '{"problem_id" or "problem": ..., "response" or "responses": ...}.',
    )
    imported.add_argument("file", type=Path, help="JSON Lines")
    imported.add_argument("overrides", nargs="*", metavar="key=value", help=OVERRIDES_HELP)
    imported.add_argument("--benchmark", required=True, help="a file of conf/benchmark/")
    imported.add_argument("--name", required=True, help="folder under evals/")
    imported.add_argument("--subset", action="store_true", help="the file may lack problems")
    imported.set_defaults(run=_import, words="overrides")

    export = _command(
        subparsers,
        "export-lm-eval",
        "write tasks for lm-evaluation-harness",
        "Write a folder for `lm_eval --include_path <folder>`; says how to call it.",
    )
    export.add_argument("benchmarks", nargs="+", help=EXPORTED_HELP)
    export.add_argument("--to", type=Path, required=True, help="folder to write")
    export.add_argument("--n-samples", type=int, default=1, help="draws a problem; default: 1")
    export.set_defaults(run=_export, words="benchmarks")

    fetch = subparsers.add_parser("fetch", help="fetch benchmarks, once")
    add_fetch_arguments(fetch)
    fetch.set_defaults(run=lambda _, options: fetch_command(options), words="names")


def _command(subparsers: Any, name: str, words: str, description: str) -> argparse.ArgumentParser:
    shown = "\n".join(f"  python -m evaluators {name} {example}" for example in EXAMPLES[name])
    command: argparse.ArgumentParser = subparsers.add_parser(
        name, help=words, description=description, epilog=f"examples:\n{shown}"
    )
    return command


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.dry_run:
        return _plan(parser, options)
    if "=" in options.what[0]:
        return _alone(options)
    paths = _named(parser, options)
    return run_stage(paths, lambda spec, stage: _work(spec, stage, options))


def _named(parser: argparse.ArgumentParser, options: argparse.Namespace) -> StagePaths:
    """The stage whose folder is given, alone."""
    if len(options.what) > 1:
        parser.error(f"{options.what[1]!r} after a folder: name one stage at a time")
    options.folder = Path(options.what[0])
    return named_stage(parser, options)


def _plan(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from evaluators import request, standalone

    if "=" in options.what[0]:
        paths = standalone.freeze(request.load(options.what))
    else:
        paths = _named(parser, options)
        if (kind := read_json(paths.spec, SPEC)["kind"]) != "evaluate":
            raise ValueError(
                f"{paths.spec} is of kind {kind!r}: only an evaluation is planned alone; `python "
                "-m sweeps plan` says what a sweep's other stages cost"
            )
    print(standalone.outlook(paths))
    return EXIT_DONE


def _work(spec: dict[str, Any], run: StageRun, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    from evaluators.evaluate import Bar, evaluate
    from fgrpo_bench.specs import Placement, from_dict

    if spec["kind"] == "import":
        raise ValueError(
            f"{run.paths.folder} holds imported draws: nothing can be drawn there; `python -m "
            "evaluators grade` grades them again"
        )
    if spec["kind"] not in ("evaluate", "rare", "likelihood"):
        raise ValueError(
            f"{run.paths.spec} is of kind {spec['kind']!r}: this command runs evaluate, rare and "
            "likelihood; warm-up and training are run by `python -m fgrpo_bench.engines.embedded`"
        )
    torch.set_num_threads(options.threads)
    given = options.placement
    placement = None if given is None else from_dict(Placement, json.loads(given))
    if spec["kind"] != "evaluate":
        from evaluators.rare import collect, rescore

        work = collect if spec["kind"] == "rare" else rescore
        return work(spec, run, device=options.device, placement=placement)
    bar = Bar() if options.bar else None
    try:
        return evaluate(spec, run, device=options.device, placement=placement, bar=bar)
    finally:
        if bar is not None:
            bar.close()


def _alone(options: argparse.Namespace) -> int:
    from evaluators import request, standalone
    from evaluators.stored import find
    from evaluators.summary import closing_table
    from fgrpo_bench.specs import to_dict

    asked = request.load(options.what)
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


def _grade(_: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from evaluators.regrade import regrade
    from evaluators.stored import find
    from evaluators.summary import closing_table

    _share_verdicts(default_root())
    evaluations = find(options.evaluation)
    for stored in evaluations:
        print(regrade(stored, options.grader), flush=True)
    print(closing_table(evaluations))
    return EXIT_DONE


def _audit(_: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from evaluators.audit import audit, render
    from evaluators.stored import find

    _share_verdicts(default_root())
    audits = [
        each
        for stored in find(options.evaluation)
        for each in audit(stored, compared=options.compared)
    ]
    print(
        json.dumps([each.as_json() for each in audits], indent=1)
        if options.json
        else render(audits)
    )
    return EXIT_DONE


def _import(_: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from evaluators.imports import conclude, import_file
    from evaluators.regrade import regrade
    from evaluators.summary import closing_table

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


def _export(_: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from evaluators.exports import export

    print(export(options.benchmarks, options.to, root=default_root(), n_samples=options.n_samples))
    return EXIT_DONE
