"""`fgrpo-bench evaluate`, `python -m evaluators`: draw, grade, score, and what each command takes.

In: a checkpoint or a stage's folder. Out: draws, grades and pass@k below the folder of all runs.
Next: evaluators.commands, which does it.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from evaluators.audit import COMPARED
from fgrpo_bench.command.application import Application, Root, refusals
from fgrpo_bench.command.application import run as run_program
from fgrpo_bench.command.runs import default_root

EXIT = (
    "exit code 0: done (or was done before); 75: stopped at a save, run it again; other: failed\n"
)
RUN = (
    """\
With overrides (the first word holds a =) it works alone: checkpoint=<folder or id of the Hub>, then
any of
  benchmarks=[math500,aime24] n_samples=64 ks=[1,8,64] temperature=1.0 dtype=bfloat16|float32 seed=0
  sampler=vllm|transformers|embedded device=cpu|cuda prompt=boxed|chat|plain stream=0
  prompt_tokens=1024 response_tokens=4096 name=<folder under evals/>
conf/evaluate.yaml has every key with its value. The same command goes on after a stop, and a larger
n_samples draws only what is missing.

With a folder that holds a spec.json it runs that stage.

"""
    + EXIT
)
PLAN = """\
Under a design that stops (design=staged) these are expected draws, tokens and hours beside those of
n_samples for every problem, and the standard error of mean pass@k of both: by success rates of what
is graded here, else by a prior that is named.
"""
FETCH = (
    """\
A sweep that is to use the same local file takes the same values:
  experiment.evaluation.benchmarks.amc23.dataset={source: file, repository: null, path: ...}

"""
    + EXIT
)


app = Application(
    "A checkpoint in; draws, grades and pass@k out.",
    "fgrpo-bench evaluate run checkpoint=Qwen/Qwen2.5-7B 'benchmarks=[math500]' n_samples=64",
    "fgrpo-bench evaluate grade qwen2.5-7b-1f0a52c3",
    "fgrpo-bench evaluate audit qwen2.5-7b-1f0a52c3",
    "fgrpo-bench evaluate import samples_math500.jsonl --benchmark math500 --name theirs",
    "fgrpo-bench evaluate export-lm-eval math500 aime24 --to tasks",
    "fgrpo-bench evaluate fetch math500 aime24",
    guard=refusals,
)
What = Annotated[
    list[str],
    typer.Argument(metavar="folder|key=value", help="a stage's folder, or overrides"),
]
Evaluation = Annotated[
    str, typer.Argument(metavar="EVALUATION", help="folder or name under evals/")
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command to its exit code."""
    return run_program(app, argv, "python -m evaluators")


@app.add(
    "run",
    "evaluate a checkpoint, or run one evaluation stage of a sweep",
    "fgrpo-bench evaluate run checkpoint=Qwen/Qwen2.5-7B 'benchmarks=[math500,aime24]' "
    "n_samples=64",
    "fgrpo-bench evaluate run checkpoint=out/step-300 'benchmarks=[math500]' n_samples=64",
    "fgrpo-bench evaluate run runs/groupsize/countdown/v1/grpo-n8-g0-s11/eval/pass256-*/step-00300",
    more=RUN,
)
def run(
    context: typer.Context,
    what: What,
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="of a stage")] = "cpu",
    threads: Annotated[int, typer.Option(help="threads of torch, of a stage")] = 1,
    placement: Annotated[
        str | None, typer.Option(help="profile.placement as JSON; needed for sampler=vllm")
    ] = None,
    bar: Annotated[bool, typer.Option("--bar", help="show a progress bar on a terminal")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="the same as `plan`")] = False,
) -> int:
    from evaluators.commands import run_command

    return run_command(
        context,
        Namespace(
            what=what, device=device, threads=threads, placement=placement, bar=bar, dry_run=dry_run
        ),
    )


@app.add(
    "plan",
    "say what `run` with the same words would draw, and what it would cost; draw nothing",
    "fgrpo-bench evaluate plan checkpoint=Qwen/Qwen2.5-7B 'benchmarks=[math500]' n_samples=1024 "
    "design=staged",
    more=PLAN,
)
def plan(context: typer.Context, what: What) -> int:
    from evaluators.commands import plan_command

    return plan_command(context, Namespace(what=what))


@app.add(
    "grade",
    "grade stored draws again with the present grader; draws nothing",
    "fgrpo-bench evaluate grade qwen2.5-7b-1f0a52c3",
    "fgrpo-bench evaluate grade qwen2.5-7b-1f0a52c3 --grader math",
    more="Grades of other versions stay beside; pass@k is computed anew.\n",
)
def grade(
    context: typer.Context,
    evaluation: Evaluation,
    grader: Annotated[
        str | None, typer.Option(help="another grader than the benchmark's, e.g. math")
    ] = None,
) -> int:
    from evaluators.commands import grade_command

    return grade_command(context, Namespace(evaluation=evaluation, grader=grader))


@app.add(
    "audit",
    "what a reviewer would ask about the grades",
    "fgrpo-bench evaluate audit qwen2.5-7b-1f0a52c3",
    "fgrpo-bench evaluate audit qwen2.5-7b-1f0a52c3 --json",
    more="Share of draws unscored, without a box, cut off, judged otherwise by plain math-verify\n"
    "on the whole response, with examples; distinct answers. Changes nothing.\n",
)
def audit(
    context: typer.Context,
    evaluation: Evaluation,
    compared: Annotated[
        int,
        typer.Option(metavar="DRAWS", help="most draws to judge by plain math-verify too"),
    ] = COMPARED,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> int:
    from evaluators.commands import audit_command

    options = Namespace(evaluation=evaluation, compared=compared, json=as_json)
    return audit_command(context, options)


@app.add(
    "import",
    "store and score what another program has drawn",
    "fgrpo-bench evaluate import samples_math500.jsonl --benchmark math500 --name theirs",
    more="It takes lm-eval's samples_*.jsonl, or lines\n"
    '{"problem_id" or "problem": ..., "response" or "responses": ...}.\n',
)
def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON Lines")],
    benchmark: Annotated[str, typer.Option(help="a file of conf/benchmark/")],
    name: Annotated[str, typer.Option(help="folder under evals/")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="key=value", help="keys of the benchmark, as they were given to fetch"
        ),
    ] = None,
    subset: Annotated[bool, typer.Option("--subset", help="the file may lack problems")] = False,
) -> int:
    from evaluators.commands import import_command

    options = Namespace(
        file=file, benchmark=benchmark, name=name, overrides=overrides or [], subset=subset
    )
    return import_command(context, options)


@app.add(
    "export-lm-eval",
    "write tasks for lm-evaluation-harness",
    "fgrpo-bench evaluate export-lm-eval math500 aime24 --to tasks",
    "fgrpo-bench evaluate export-lm-eval math500 --to tasks --n-samples 64",
    more="Writes a folder for `lm_eval --include_path <folder>`; says how to call it.\n",
)
def export_lm_eval(
    context: typer.Context,
    benchmarks: Annotated[
        list[str],
        typer.Argument(
            metavar="benchmark|key=value",
            help="files of conf/benchmark/, fetched; and key=value as they were given to fetch",
        ),
    ],
    to: Annotated[Path, typer.Option(help="folder to write")],
    n_samples: Annotated[int, typer.Option(help="draws a problem")] = 1,
) -> int:
    from evaluators.commands import export_command

    options = Namespace(benchmarks=benchmarks, to=to, n_samples=n_samples)
    return export_command(context, options)


@app.add(
    "fetch",
    "fetch benchmarks and prepare them for evaluations, once",
    "fgrpo-bench evaluate fetch                    what there is, and what of it is fetched",
    "fgrpo-bench evaluate fetch math500 aime24",
    "fgrpo-bench evaluate fetch amc23 path=amc23.jsonl prompt_key=problem answer_key=answer",
    "HF_TOKEN=<token> fgrpo-bench evaluate fetch gpqa",
    more=FETCH,
)
def fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="benchmark|key=value",
            help="files of conf/benchmark/ and keys of their dataset; path=<file> takes a local "
            "file",
        ),
    ] = None,
    root: Root = None,
) -> int:
    from evaluators.fetch import fetch_command

    return fetch_command(names or [], root or default_root())
