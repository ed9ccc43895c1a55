"""`fgrpo-bench evaluate`, `python -m evaluators`: what draws (run, plan), and what it needs (data).

In: a checkpoint or a stage's folder. Out: draws, grades and pass@k below the folder of all runs.
Next: evaluators.standalone, a checkpoint without a sweep; evaluators.evaluate, the stage itself;
evaluators.cli_stored, the commands of draws that exist.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fgrpo_bench.command import application
from fgrpo_bench.command.application import (
    REPEATED_METAVAR,
    Application,
    By,
    Json,
    Root,
    aside,
    print_json,
    refusals,
)
from fgrpo_bench.command.runs import default_root
from fgrpo_bench.core.commandline import INSTALLED, check_packages
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.spec import StageSpec, read_spec
from fgrpo_bench.stages.stage import EXIT_DONE, StageRun, named_stage, run_stage

from . import cli_stored
from .cli_stored import Also, Strict, is_override, print_scores, share_verdicts

if TYPE_CHECKING:
    from fgrpo_bench.specs import Placement

    from .request import Options
    from .standalone import Request

EXIT = (
    "exit code 0: done (or was done before); 75: stopped at a save, run it again; other: failed\n"
)
RUN = (
    """\
MODEL is a folder, a stored checkpoint or an id of the Hub; --data is a file of problems (.jsonl,
.json, .csv, .parquet) or a benchmark. Columns, sampler, prompt and lengths are looked up where you
name none, and said. Rerun the same command to resume; a larger -n draws only what is missing.

Any key of conf/evaluate.yaml can stand beside, in place of an option or where there is none:
  prompt=boxed|chat|plain ks=[1,8,64] design=staged stream=0
  revision=<of the Hub> placement=<file of conf/placement>

Without --data nothing is looked up: benchmarks=[math500,aime24] names what is evaluated, and all
that you do not name is as conf/evaluate.yaml has it. checkpoint=<MODEL> is the same as MODEL. A
word with a = that is a file or folder here is a path.

--endpoint URL --model NAME draws from a server (vLLM serve, SGLang, ...) in place of MODEL; its key
is read from OPENAI_API_KEY and stored nowhere.

With a folder that holds a spec.json it runs that stage.

"""
    + EXIT
)
PLAN = """\
Under a design that stops (design=staged) these are the most: a problem stops where enough of its
draws are correct.
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
    "fgrpo-bench evaluate out/my-model --data mine.jsonl -n 64",
    "fgrpo-bench evaluate run checkpoint=Qwen/Qwen2.5-7B 'benchmarks=[math500]' n_samples=64",
    "fgrpo-bench evaluate grade qwen2.5-7b-1f0a52c3",
    "fgrpo-bench evaluate audit qwen2.5-7b-1f0a52c3",
    "fgrpo-bench evaluate import samples_math500.jsonl --benchmark math500 --name theirs",
    "fgrpo-bench evaluate export-lm-eval math500 aime24 --to tasks",
    guard=refusals,
    otherwise="run",
)
app.add_typer(cli_stored.app)
What = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODEL|key=value", help="a model, a stage's folder, and overrides"),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command to its exit code."""
    return application.run(app, argv, f"python -m {__package__}")


@app.add(
    "run",
    "evaluate a checkpoint, or run one evaluation stage of a sweep",
    "fgrpo-bench evaluate out/my-model --data mine.jsonl --prompt question --answer gold -n 64",
    "fgrpo-bench evaluate out/my-model --data math500 --temperature 0 --few-shot solved.jsonl",
    "fgrpo-bench evaluate --endpoint http://localhost:8000/v1 --model policy --data mine.jsonl",
    "fgrpo-bench evaluate run checkpoint=Qwen/Qwen2.5-7B 'benchmarks=[math500,aime24]' "
    "n_samples=64",
    "fgrpo-bench evaluate run checkpoint=out/step-300 'benchmarks=[math500]' n_samples=64",
    "fgrpo-bench evaluate run runs/groupsize/countdown/v1/grpo-n8-g0-s11/eval/pass256-*/step-00300",
    more=RUN,
)
def run(
    context: typer.Context,
    what: What = None,
    data: Annotated[
        list[str] | None, typer.Option(metavar="FILE|BENCHMARK", help="problems with answers")
    ] = None,
    prompt: Annotated[str | None, typer.Option(metavar="COLUMN", help="of the problems")] = None,
    answer: Annotated[str | None, typer.Option(metavar="COLUMN", help="of the answers")] = None,
    grader: Annotated[
        str | None, typer.Option(help="what judges, also your own module:function (now: math)")
    ] = None,
    n_samples: Annotated[
        int | None, typer.Option("-n", "--n-samples", help="draws a problem (now: 16)")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="longest response (now: 4096, or what the context holds)")
    ] = None,
    max_prompt_tokens: Annotated[
        int | None, typer.Option(help="longest prompt (now: 1024, or what the context holds)")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="of sampling; 0: greedy, one draw a problem (now: 1.0)")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(help="the most likely tokens of this probability (now: 1.0)")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="so many of the most likely tokens (now: all)")
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(
            metavar=REPEATED_METAVAR, help="what ends a response; --stop again for another"
        ),
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="system message")] = None,
    suffix: Annotated[str | None, typer.Option(metavar="TEXT", help="after each problem")] = None,
    no_chat_template: Annotated[
        bool, typer.Option("--no-chat-template", help="the problem as it stands")
    ] = False,
    prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="what each response begins with, graded as part of it"),
    ] = None,
    few_shot: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="solved examples, all of which stand in every prompt"),
    ] = None,
    staged: Annotated[
        bool, typer.Option("--staged", help="stop a problem early once enough draws are correct")
    ] = False,
    strict: Strict = False,
    limit: Annotated[int | None, typer.Option(help="the first problems alone")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="what problems share; intervals are over these"),
    ] = None,
    sampler: Annotated[
        str | None, typer.Option(help="vllm, transformers or embedded (now: what is installed)")
    ] = None,
    by: By = None,
    also: Also = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="bfloat16, float16 or float32 (now: bfloat16 on a GPU, else float32)"),
    ] = None,
    peft: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="an adapter over the model")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="a server that speaks OpenAI's protocol, with --model"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="what --endpoint calls its model")
    ] = None,
    name: Annotated[str | None, typer.Option(help="folder under evals/")] = None,
    seed: Annotated[int | None, typer.Option(help="of the draws (now: 0)")] = None,
    device: Annotated[
        Literal["cpu", "cuda"] | None, typer.Option(help="now: a GPU where there is one")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="threads of torch (now: 1)")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(help="draws at once, or requests to a server (now: the sampler's number)"),
    ] = None,
    placement: Annotated[
        str | None, typer.Option(help="of a stage's folder: profile.placement as JSON")
    ] = None,
    trust_remote_code: Annotated[
        bool,
        typer.Option("--trust-remote-code", help="let code that the model brings run (auto_map)"),
    ] = False,
    bar: Annotated[
        bool, typer.Option("--bar", help="of a stage's folder: a progress bar, as a model has")
    ] = False,
    as_json: Json = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="the same as `plan`")] = False,
) -> int:
    # in a checkout an engine's own environment draws too, without what other commands need
    if INSTALLED:
        check_packages("evaluators")
    from .request import Options
    from .standalone import key_of

    overrides = [word for word in (*(what or ()), *(data or ())) if is_override(word)]
    places = [word for word in what or () if not is_override(word)]
    dry_run = dry_run or context.info_name == "plan"
    options = Options(
        checkpoint=places[0] if places else None,
        data=tuple(word for word in data or () if not is_override(word)),
        overrides=overrides,
        prompt=prompt,
        answer=answer,
        grader=grader,
        n_samples=n_samples,
        max_tokens=max_tokens,
        max_prompt_tokens=max_prompt_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        stop=tuple(stop) if stop else None,
        system=system,
        suffix=suffix,
        no_chat_template=no_chat_template or None,
        prefix=prefix,
        few_shot=few_shot,
        staged=staged,
        strict=strict,
        limit=limit,
        cluster=cluster,
        by=by,
        also=also,
        sampler=sampler,
        dtype=dtype,
        peft=peft,
        endpoint=endpoint,
        model=model,
        device=device,
        threads=threads,
        batch_size=batch_size,
        name=name,
        seed=seed,
        trust_remote_code=trust_remote_code or None,
    )
    keys = {key_of(word) for word in overrides}
    is_server = endpoint is not None or "endpoint" in keys
    if not (places or is_server or model or "checkpoint" in keys) and (options.data or not keys):
        context.fail(
            "no model is named: write its folder or id first, e.g. `fgrpo-bench evaluate "
            "out/my-model --data mine.jsonl`"
        )
    if places[1:]:
        context.fail(f"{places[1]!r} after {places[0]!r}: name one model, or one stage, at a time")
    if places and _is_stage(Path(places[0]), options.data):
        return _run_stage(context, options, placement, bar=bar, as_json=as_json, dry_run=dry_run)
    if placement is not None:
        context.fail(
            f"--placement {placement}: is for a stage's folder; write placement=single-gpu"
        )
    is_named = places or is_server
    if is_named and not options.data and not {"evaluation.benchmarks", "evaluation"} & keys:
        context.fail(
            "--data is missing: name a file of problems with answers (.jsonl, .json, .csv, "
            ".parquet), or a benchmark, e.g. --data mine.jsonl or --data math500"
        )
    return _run_model(options, as_json=as_json, dry_run=dry_run)


def _is_stage(path: Path, data: Sequence[str]) -> bool:
    """Whether a place is the folder of a stage, rather than a model's or the Hub's. data: beside
    it a folder without a spec.json is meant as a model."""
    if not path.is_dir() or (path / "config.json").exists():
        return False
    return not data or (path / "spec.json").exists()


def _run_stage(
    context: typer.Context,
    options: Options,
    placement: str | None,
    *,
    bar: bool,
    as_json: bool,
    dry_run: bool,
) -> int:
    """Run the stage of a folder, or say what it would draw."""
    paths = named_stage(context.fail, Path(str(options.checkpoint)))
    if others := [*options.overrides, *options.typed(but=("device", "threads", "batch_size"))]:
        raise ValueError(
            f"{', '.join(others)} beside a stage's folder: what it draws stands in {paths.spec}, "
            "and is what it was planned with; leave it out"
        )
    if dry_run:
        if (kind := read_spec(paths).kind) != "evaluate":
            raise ValueError(
                f"{paths.spec} is of kind {kind!r}: only an evaluation is planned alone; "
                "`fgrpo-bench sweep plan` says what a sweep's other stages cost"
            )
        _print_plan(paths, as_json=as_json)
        return EXIT_DONE
    if as_json:
        context.fail("--json beside a stage's folder, which prints no scores: leave it out")
    device, threads = options.device or "cpu", options.threads or 1
    given = None if placement is None else _placement(placement)
    root = Path(named) if (named := os.environ.get("FGRPO_RUN_ROOT")) else None
    return run_stage(
        paths,
        lambda spec, stage: _run(
            spec,
            stage,
            device=device,
            threads=threads,
            placement=given,
            batch_size=options.batch_size,
            bar=bar,
            root=root,
        ),
    )


def _placement(text: str) -> Placement:
    from fgrpo_bench.specs import Placement, from_dict

    try:
        return from_dict(Placement, json.loads(text))
    except ValueError as error:
        raise ValueError(
            f"--placement {text[:80]}: give a JSON object with every key of conf/placement/cpu.yaml"
        ) from error


def _run(
    spec: StageSpec,
    stage: StageRun,
    *,
    device: str,
    threads: int,
    placement: Placement | None,
    batch_size: int | None,
    bar: bool,
    root: Path | None,
) -> Record:
    """Draw, or score under a checkpoint, as the spec says; what the stage's marker holds."""
    from fgrpo_bench.engines.embedded.kernels import choose_kernels
    from fgrpo_bench.kinds.evaluate import DrawsSpec

    from .evaluate import Bar, evaluate

    if spec.kind == "import":
        raise ValueError(
            f"{stage.paths.folder} holds imported draws: nothing can be drawn there; `fgrpo-bench "
            "evaluate grade` grades them again"
        )
    if spec.kind not in ("evaluate", "rare", "likelihood"):
        raise ValueError(
            f"{stage.paths.spec} is of kind {spec.kind!r}: this command runs evaluate, rare and "
            "likelihood; warm-up and training are run by `python -m fgrpo_bench.engines.embedded`"
        )
    sampler = spec.as_kind(DrawsSpec).eval_spec.sampler
    if sampler == "embedded":
        choose_kernels()
    if sampler != "endpoint":
        import torch

        torch.set_num_threads(threads)
    if spec.kind != "evaluate":
        if batch_size is not None:
            raise ValueError(
                f"--batch-size {batch_size} is of evaluations: {stage.paths.spec} is of kind "
                f"{spec.kind!r}; leave it out"
            )
        from .rare import collect, rescore

        if spec.kind == "rare":
            return collect(spec, stage, device=device, placement=placement)
        return rescore(spec, stage, device=device, placement=placement)
    shown = Bar() if bar else None
    try:
        return evaluate(
            spec,
            stage,
            device=device,
            placement=placement,
            bar=shown,
            root=root,
            batch_size=batch_size,
        )
    finally:
        if shown is not None:
            shown.close()


def _print_plan(paths: StagePaths, *, as_json: bool) -> None:
    from . import standalone

    planned = standalone.planned(paths)
    print_json(planned.as_json()) if as_json else print(planned)


def _run_model(options: Options, *, as_json: bool, dry_run: bool) -> int:
    """Say what was chosen for a model, and evaluate it."""
    from . import standalone
    from .readings import parse_readings
    from .request import evaluation_request

    also = parse_readings(options.also)
    with aside(as_json):
        request, notices = evaluation_request(options)
        for line in notices:
            print(line, flush=True)
        if options.by is not None:
            standalone.check_column(options.by, request.evaluation.benchmarks, request.root)
        python = None if dry_run else standalone.elsewhere(request)
        folder = (paths := standalone.freeze(request)).folder
        code = EXIT_DONE if dry_run else _run_alone(request, paths, python)
    if dry_run:
        _print_plan(paths, as_json=as_json)
    elif code == EXIT_DONE:
        from .stored import examples, find

        names = request.evaluation.benchmarks
        evaluations = [s for s in find(str(folder)) if s.benchmark.name in names]
        print_scores(evaluations, (), options.by, also, as_json=as_json)
        if not as_json:
            print(examples(evaluations))
            name = folder.parents[2].name
            print(f"next: fgrpo-bench evaluate audit {name}     what a reviewer would ask")
            print(f"      fgrpo-bench compare {name} <another>  both, problem by problem")
    return code


def _run_alone(request: Request, paths: StagePaths, python: Path | None) -> int:
    """Run the stage of a request to its exit code. python: of vLLM's environment, where it runs
    there; None: here."""
    from . import standalone

    share_verdicts(request.root)
    if python is not None:
        return standalone.run_elsewhere(python, paths, request)
    return run_stage(
        paths,
        lambda spec, stage: _run(
            spec,
            stage,
            device=request.device,
            threads=request.threads,
            placement=request.placement,
            batch_size=request.batch_size,
            bar=True,
            root=request.root,
        ),
        refusing=True,
    )


app.add(
    "plan",
    "say what `run` with the same words would draw; draw nothing",
    "fgrpo-bench evaluate plan out/my-model --data mine.jsonl -n 64 --staged",
    "fgrpo-bench evaluate plan checkpoint=Qwen/Qwen2.5-7B 'benchmarks=[math500]' n_samples=1024 "
    "design=staged",
    more=PLAN,
)(run)


@app.add(
    "data",
    "fetch benchmarks and prepare them for evaluations, once",
    "fgrpo-bench data                              what there is, and what of it is fetched",
    "fgrpo-bench data math500 aime24",
    "fgrpo-bench data amc23 path=amc23.jsonl prompt_key=problem answer_key=answer",
    "HF_TOKEN=<token> fgrpo-bench data gpqa",
    more=FETCH,
)
def data_(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="benchmark|key=value",
            help="files of conf/benchmark/ and keys of their dataset; path=<file> takes a local "
            "file",
        ),
    ] = None,
    root: Root = None,
    as_json: Json = False,
) -> int:
    from .fetch import fetch_command, overview

    if names and as_json:
        context.fail(f"--json is of the list of benchmarks, without {names[0]}: leave one out")
    if as_json:
        print_json(overview(root or default_root()))
        return EXIT_DONE
    return fetch_command(names or [], root or default_root())
