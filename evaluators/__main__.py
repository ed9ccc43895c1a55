"""The command of the evaluators: `python -m evaluators <command> ...`.

In: words of a command line. Out: an exit code. The first half says what each command takes, the
second what it does; what is raised there, `main` prints. What computes is imported within
functions, so that a missing package is named by `entered` and not by a traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fgrpo_bench.commandline import Parser, entered
from fgrpo_bench.registry import meant
from fgrpo_bench.runs import default_root
from fgrpo_bench.stages.paths import StagePaths
from fgrpo_bench.stages.records import Record
from fgrpo_bench.stages.spec import StageSpec, read_spec
from fgrpo_bench.stages.stage import EXIT_DONE, StageRun, named_stage, run_stage

RUN = """Evaluate a checkpoint, or run one evaluation stage of a sweep.

With overrides (the first word holds a =) it works alone: checkpoint=<folder or id of the Hub>, then
any of
  benchmarks=[math500,aime24] n_samples=64 ks=[1,8,64] temperature=1.0 dtype=bfloat16|float32 seed=0
  sampler=vllm|transformers|embedded device=cpu|cuda prompt=boxed|chat|plain stream=0
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
        "runs/groupsize/countdown/v1/grpo-n8-g0-s11/eval/pass256-*/step-00300",
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
EXIT = """

exit code 0: done (or was done before); 75: stopped at a save, run it again; other: failed"""


def main(argv: list[str] | None = None) -> int:
    """Run a command to its exit code."""
    parser = Parser(
        prog="python -m evaluators",
        description="A checkpoint in; draws, grades and pass@k out.",
        epilog=_examples({name: commands[:1] for name, commands in EXAMPLES.items()}) + EXIT,
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add(subparsers)
    options, others = parser.parse_known_args(argv)
    for other in others:  # argparse gives up on words that stand after an option
        if other.startswith("-") or "=" not in other or getattr(options, "words", None) is None:
            near = meant(other, parser.options())
            parser.error(
                f"unknown argument {other!r}{near}: see `python -m evaluators {options.command} "
                "--help`"
            )
        vars(options)[options.words].append(other)
    try:
        code: int = options.run(parser, options)
        return code
    except (ValueError, OSError) as error:
        print(f"python -m evaluators {options.command}: {error}", file=sys.stderr)
        return 1


def _add(subparsers: Any) -> None:
    """Add every command to the parser."""
    from evaluators.audit import COMPARED
    from evaluators.fetch import add_fetch_arguments, fetch_command
    from fgrpo_bench.stages.stage import add_machine_arguments

    run = _command(subparsers, "run", "draw, grade and score", RUN)
    run.add_argument(
        "what", nargs="+", metavar="folder|key=value", help="a stage's folder, or overrides"
    )
    add_machine_arguments(run)
    run.add_argument("--placement", help="profile.placement as JSON; needed for sampler=vllm")
    run.add_argument("--bar", action="store_true", help="show a progress bar on a terminal")
    run.add_argument("--dry-run", action="store_true", help="the same as `plan`")
    run.set_defaults(run=run_command, words="what")

    plan = _command(subparsers, "plan", "what would be drawn, and what it would cost", PLAN)
    plan.add_argument("what", nargs="+", metavar="folder|key=value", help="as of `run`")
    plan.set_defaults(run=plan_command, words="what")

    grade = _command(
        subparsers,
        "grade",
        "grade stored draws again",
        "Grade stored draws with the present grader; draws nothing. Grades of other versions stay\n"
        "beside; pass@k is computed anew.",
    )
    grade.add_argument("evaluation", help="folder or name under evals/")
    grade.add_argument("--grader", help="another grader than the benchmark's, e.g. math")
    grade.set_defaults(run=grade_command, words=None)

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
    audit.set_defaults(run=audit_command, words=None)

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
    imported.set_defaults(run=import_command, words="overrides")

    export = _command(
        subparsers,
        "export-lm-eval",
        "write tasks for lm-evaluation-harness",
        "Write a folder for `lm_eval --include_path <folder>`; says how to call it.",
    )
    export.add_argument("benchmarks", nargs="+", help=EXPORTED_HELP)
    export.add_argument("--to", type=Path, required=True, help="folder to write")
    export.add_argument("--n-samples", type=int, default=1, help="draws a problem; default: 1")
    export.set_defaults(run=export_command, words="benchmarks")

    fetch = subparsers.add_parser("fetch", help="fetch benchmarks, once")
    add_fetch_arguments(fetch)
    fetch.set_defaults(run=lambda _, options: fetch_command(options), words="names")


def _command(subparsers: Any, name: str, words: str, description: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = subparsers.add_parser(
        name, help=words, description=description, epilog=_examples({name: EXAMPLES[name]})
    )
    return command


def _examples(of: Mapping[str, Sequence[str]]) -> str:
    lines = [
        f"  python -m evaluators {name} {words}"
        for name, commands in of.items()
        for words in commands
    ]
    return "\n".join(["examples:", *lines])


# What each command does, to its exit code.


def run_command(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.dry_run:
        return plan_command(parser, options)
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


def plan_command(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from evaluators import standalone

    if "=" in options.what[0]:
        paths = standalone.freeze(standalone.load_request(options.what))
    else:
        paths = _named(parser, options)
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


def grade_command(_: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from evaluators.stored import closing_table, find, regrade

    _share_verdicts(default_root())
    evaluations = find(options.evaluation)
    for stored in evaluations:
        print(regrade(stored, options.grader), flush=True)
    print(closing_table(evaluations))
    return EXIT_DONE


def audit_command(_: argparse.ArgumentParser, options: argparse.Namespace) -> int:
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


def import_command(_: argparse.ArgumentParser, options: argparse.Namespace) -> int:
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


def export_command(_: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from evaluators.interchange import export

    print(export(options.benchmarks, options.to, root=default_root(), n_samples=options.n_samples))
    return EXIT_DONE


if __name__ == "__main__":
    with entered():
        sys.exit(main())
