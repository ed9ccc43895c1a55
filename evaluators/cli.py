"""`fgrpo-bench evaluate`, `python -m evaluators`: draw, grade, score, and what each command takes.

In: a checkpoint or a stage's folder. Out: draws, grades and pass@k below the folder of all runs.
Next: evaluators.standalone, a checkpoint without a sweep; evaluators.evaluate, the stage itself.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fgrpo_bench.command import application
from fgrpo_bench.command.application import Application, Root, is_there, refusals
from fgrpo_bench.command.runs import default_root
from fgrpo_bench.core.commandline import INSTALLED, check_packages
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.spec import StageSpec, read_spec
from fgrpo_bench.stages.stage import EXIT_DONE, StageRun, named_stage, run_stage

from .audit import COMPARED

if TYPE_CHECKING:
    from fgrpo_bench.specs import BenchmarkSpec, Placement

    from .asked import Options
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
  prompt=boxed|chat|plain prompt.chat_template=false dtype=bfloat16|float32 ks=[1,8,64]
  design=staged stream=0 revision=<of the Hub> placement=<file of conf/placement>

Without --data nothing is looked up: benchmarks=[math500,aime24] names what is evaluated, and all
that you do not name is as conf/evaluate.yaml has it. checkpoint=<MODEL> is the same as MODEL. A
word with a = that is a file or folder here is a path.

With a folder that holds a spec.json it runs that stage.

"""
    + EXIT
)
PLAN = """\
Under a design that stops (design=staged) these are the most: a problem stops where enough of its
draws are correct.
"""
COMPARE = """\
PLACE is the name of an evaluation under evals/ (without its digest too), its folder, or a cell or a
training run as <sweep>/<experiment>/<version>/<cell>; with --data or --benchmark also a file of
draws as `import` takes it, or its folder (lm-eval's samples_*.jsonl, inspect's *.eval). Several
places are seeds of one label; one place beside several seeds is a model that all are compared with.

Compared is what all have: the problems, benchmarks and k in common, which is said first.
exit code 0; 3: --fail-if-worse K, and pass@K fell; 1: it cannot be compared
"""
EXIT_WORSE = 3
"""Of `compare --fail-if-worse`; 1 and 2 are refusals."""
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
    "fgrpo-bench evaluate fetch math500 aime24",
    guard=refusals,
    otherwise="run",
)
What = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODEL|key=value", help="a model, a stage's folder, and overrides"),
]
Evaluation = Annotated[
    str, typer.Argument(metavar="EVALUATION", help="folder or name under evals/")
]


OfBenchmark = Annotated[
    str | None, typer.Option("--benchmark", help="what a file's draws are of: conf/benchmark/")
]
OfData = Annotated[
    Path | None,
    typer.Option("--data", metavar="FILE", help="the same of your own problems, as of `run`"),
]
OfPrompt = Annotated[str | None, typer.Option("--prompt", metavar="COLUMN", help="of --data")]
OfAnswer = Annotated[str | None, typer.Option("--answer", metavar="COLUMN", help="of --data")]
OfGrader = Annotated[str | None, typer.Option("--grader", help="of --data (now: math)")]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="by the strict form of each grader: a stated, finished answer alone"
    ),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command to its exit code."""
    return application.run(app, argv, f"python -m {__package__}")


@app.add(
    "run",
    "evaluate a checkpoint, or run one evaluation stage of a sweep",
    "fgrpo-bench evaluate out/my-model --data mine.jsonl --prompt question --answer gold -n 64",
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
    temperature: Annotated[float | None, typer.Option(help="of sampling (now: 1.0)")] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="system message")] = None,
    suffix: Annotated[str | None, typer.Option(metavar="TEXT", help="after each problem")] = None,
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
    name: Annotated[str | None, typer.Option(help="folder under evals/")] = None,
    seed: Annotated[int | None, typer.Option(help="of the draws (now: 0)")] = None,
    device: Annotated[
        Literal["cpu", "cuda"] | None, typer.Option(help="now: a GPU where there is one")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="threads of torch (now: 1)")] = None,
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="the same as `plan`")] = False,
) -> int:
    # in a checkout an engine's own environment draws too, without what other commands need
    if INSTALLED:
        check_packages("evaluators")
    from .asked import Options
    from .standalone import key_of

    overrides = [word for word in (*(what or ()), *(data or ())) if _is_override(word)]
    places = [word for word in what or () if not _is_override(word)]
    dry_run = dry_run or context.info_name == "plan"
    options = Options(
        model=places[0] if places else None,
        data=tuple(word for word in data or () if not _is_override(word)),
        overrides=overrides,
        prompt=prompt,
        answer=answer,
        grader=grader,
        n_samples=n_samples,
        max_tokens=max_tokens,
        max_prompt_tokens=max_prompt_tokens,
        temperature=temperature,
        system=system,
        suffix=suffix,
        staged=staged,
        strict=strict,
        limit=limit,
        cluster=cluster,
        sampler=sampler,
        device=device,
        threads=threads,
        name=name,
        seed=seed,
        trust_remote_code=trust_remote_code or None,
    )
    keys = {key_of(word) for word in overrides}
    if not places and "checkpoint" not in keys and (options.data or not keys):
        context.fail(
            "no model is named: write its folder or id first, e.g. `fgrpo-bench evaluate "
            "out/my-model --data mine.jsonl`"
        )
    if places[1:]:
        context.fail(f"{places[1]!r} after {places[0]!r}: name one model, or one stage, at a time")
    if places and _is_stage(Path(places[0]), options.data):
        return _run_stage(context, options, placement, bar=bar, dry_run=dry_run)
    if placement is not None:
        context.fail(
            f"--placement {placement}: is for a stage's folder; write placement=single-gpu"
        )
    if places and not options.data and not {"evaluation.benchmarks", "evaluation"} & keys:
        context.fail(
            "--data is missing: name a file of problems with answers (.jsonl, .json, .csv, "
            ".parquet), or a benchmark, e.g. --data mine.jsonl or --data math500"
        )
    return _run_model(options, dry_run=dry_run)


def _is_override(word: str) -> bool:
    """Whether a word is key=value: a path that is there may hold a = too."""
    return "=" in word and not is_there(word)


def _is_stage(path: Path, data: Sequence[str]) -> bool:
    """Whether a place is the folder of a stage, rather than a model's or the Hub's. data: beside
    it a folder without a spec.json is meant as a model."""
    if not path.is_dir() or (path / "config.json").exists():
        return False
    return not data or (path / "spec.json").exists()


def _run_stage(
    context: typer.Context, options: Options, placement: str | None, *, bar: bool, dry_run: bool
) -> int:
    """Run the stage of a folder, or say what it would draw."""
    paths = named_stage(context.fail, Path(str(options.model)))
    if others := [*options.overrides, *options.typed(but=("device", "threads"))]:
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
        from . import standalone

        print(standalone.planned(paths))
        return EXIT_DONE
    device, threads = options.device or "cpu", options.threads or 1
    given = None if placement is None else _placement(placement)
    root = Path(named) if (named := os.environ.get("FGRPO_RUN_ROOT")) else None
    return run_stage(
        paths,
        lambda spec, stage: _run(
            spec, stage, device=device, threads=threads, placement=given, bar=bar, root=root
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
    if spec.of(DrawsSpec).eval_spec.sampler == "embedded":
        choose_kernels()
    import torch

    torch.set_num_threads(threads)
    if spec.kind != "evaluate":
        from .rare import collect, rescore

        if spec.kind == "rare":
            return collect(spec, stage, device=device, placement=placement)
        return rescore(spec, stage, device=device, placement=placement)
    shown = Bar() if bar else None
    try:
        return evaluate(spec, stage, device=device, placement=placement, bar=shown, root=root)
    finally:
        if shown is not None:
            shown.close()


def _run_model(options: Options, *, dry_run: bool) -> int:
    """Say what was chosen for a model, and evaluate it."""
    from . import standalone
    from .asked import request_of

    request, said = request_of(options)
    for line in said:
        print(line, flush=True)
    if dry_run:
        print(standalone.planned(standalone.freeze(request)))
        return EXIT_DONE
    return _run_alone(request)


def _run_alone(request: Request) -> int:
    """Freeze a request as a stage, run it, here or in vLLM's environment, and print its table."""
    from . import standalone
    from .stored import closing_table, examples, find

    python = standalone.elsewhere(request)
    paths = standalone.freeze(request)
    _share_verdicts(request.root)
    if python is not None:
        code = standalone.run_elsewhere(python, paths, request)
    else:
        code = run_stage(
            paths,
            lambda spec, stage: _run(
                spec,
                stage,
                device=request.device,
                threads=request.threads,
                placement=request.placement,
                bar=True,
                root=request.root,
            ),
            refusing=True,
        )
    if code == EXIT_DONE:
        names = request.evaluation.benchmarks
        evaluations = [s for s in find(str(paths.folder)) if s.benchmark.name in names]
        print(closing_table(evaluations))
        print(examples(evaluations))
        name = paths.folder.parents[2].name
        print(f"next: fgrpo-bench evaluate audit {name}     what a reviewer would ask")
        print(f"      fgrpo-bench compare {name} <another>  both, problem by problem")
    return code


def _share_verdicts(root: Path) -> None:
    """Let the judges' verdicts be those of all sweeps and evaluations under a run root."""
    # setdefault: a sweep that started this process has named the place already
    os.environ.setdefault("FGRPO_VERDICTS", str((root / "verdicts").absolute()))


app.add(
    "plan",
    "say what `run` with the same words would draw; draw nothing",
    "fgrpo-bench evaluate plan out/my-model --data mine.jsonl -n 64 --staged",
    "fgrpo-bench evaluate plan checkpoint=Qwen/Qwen2.5-7B 'benchmarks=[math500]' n_samples=1024 "
    "design=staged",
    more=PLAN,
)(run)


@app.add(
    "grade",
    "grade stored draws again with the present grader; draws nothing",
    "fgrpo-bench evaluate grade qwen2.5-7b-1f0a52c3",
    "fgrpo-bench evaluate grade qwen2.5-7b-1f0a52c3 --grader mypkg.mine:grade",
    "fgrpo-bench evaluate grade qwen2.5-7b-1f0a52c3 --strict",
    more="Grades of other versions stay beside; pass@k is computed anew.\n",
)
def grade(
    evaluation: Evaluation,
    grader: Annotated[
        str | None, typer.Option(help="another grader than the benchmark's, e.g. math")
    ] = None,
    strict: Strict = False,
) -> int:
    from .stored import closing_table, find, layer, regrade

    _share_verdicts(default_root())
    evaluations = find(evaluation)
    others = [layer(of.benchmark, grader, strict=strict) for of in evaluations]
    for stored, other in zip(evaluations, others, strict=True):
        print(regrade(stored, other if strict else grader), flush=True)
    print(closing_table(evaluations, others))
    return EXIT_DONE


@app.add(
    "audit",
    "what a reviewer would ask about the grades",
    "fgrpo-bench evaluate audit qwen2.5-7b-1f0a52c3",
    "fgrpo-bench evaluate audit qwen2.5-7b-1f0a52c3 --json",
    more="Share of draws unscored, without a box, cut off, graded otherwise by plain math-verify\n"
    "on the whole response, with examples; distinct answers. Changes nothing.\n",
)
def audit(
    evaluation: Evaluation,
    compared: Annotated[
        int,
        typer.Option(metavar="DRAWS", help="most draws to grade by plain math-verify too"),
    ] = COMPARED,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> int:
    from . import audit as of_grades
    from .stored import find

    _share_verdicts(default_root())
    audits = [
        report
        for stored in find(evaluation)
        for report in of_grades.audit(stored, compared=compared)
    ]
    if as_json:
        print(json.dumps([report.as_json() for report in audits], indent=1))
    else:
        print(of_grades.render(audits))
    return EXIT_DONE


@app.add(
    "compare",
    "compare evaluations, training runs or cells with the first named, problem by problem",
    "fgrpo-bench compare my-model tuned",
    "fgrpo-bench compare base=my-model ours=tuned-a,tuned-b,tuned-c   three seeds of one label",
    "fgrpo-bench compare groupsize/countdown/v1/grpo-n8-g0 groupsize/countdown/v1/grpo-n8-g0.5",
    "fgrpo-bench compare before after --html compare.html --fail-if-worse 1",
    "fgrpo-bench compare theirs.jsonl my-model --data mine.jsonl",
    more=COMPARE,
)
def compare_(
    context: typer.Context,
    what: Annotated[
        list[str],
        typer.Argument(metavar="[LABEL=]PLACE[,PLACE]", help="what is compared; the first is old"),
    ],
    root: Root = None,
    benchmark: OfBenchmark = None,
    data: OfData = None,
    prompt: OfPrompt = None,
    answer: OfAnswer = None,
    grader: Annotated[
        str | None,
        typer.Option("--grader", help="of --data; without: of `evaluate grade --grader`"),
    ] = None,
    strict: Strict = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write a page with figures")
    ] = None,
    md: Annotated[Path | None, typer.Option(metavar="FILE", help="write Markdown")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="write a row a k")] = None,
    json_: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="write every number")
    ] = None,
    fail_if_worse: Annotated[
        int | None,
        typer.Option(metavar="K", help="exit code 3 where pass@K fell: its interval is below 0"),
    ] = None,
) -> int:
    from . import compare

    root, spec = root or default_root(), None
    of_files = {"--data": data, "--benchmark": benchmark, "--prompt": prompt, "--answer": answer}
    given = [f"{option} {value}" for option, value in of_files.items() if value is not None]
    if given and not compare.holds_draws(what):
        context.fail(
            f"{given[0]} says what a file of draws is of, and none of {', '.join(what)} is such a "
            "file: leave it out"
        )
    if given:
        spec = _drawn_on(context, root, benchmark, [], data, prompt, answer, grader)
        _share_verdicts(root)
        grader = None
    compared = compare.compare(what, root, spec, grader=grader, strict=strict)
    worse = [] if fail_if_worse is None else compare.worse_at(compared, fail_if_worse)
    written = compare.write(compared, html=html, md=md, csv=csv, as_json=json_)
    print(written or compare.text(compared))
    for row in worse:
        print(f"worse: {row.new} on {row.column} at k = {row.k}", file=sys.stderr)
    return EXIT_WORSE if worse else EXIT_DONE


@app.add(
    "import",
    "store and score what another program has drawn",
    "fgrpo-bench evaluate import samples_math500.jsonl --benchmark math500 --name theirs",
    "fgrpo-bench evaluate import log.eval --data mine.jsonl --name theirs",
    more="It takes lm-eval's samples_*.jsonl, inspect's .eval and .json logs, or lines\n"
    '{"problem_id" or "problem": ..., "response" or "responses": ...}.\n',
)
def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="what was drawn")],
    name: Annotated[str, typer.Option(help="folder under evals/")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="key=value", help="keys of the benchmark, as they were given to fetch"
        ),
    ] = None,
    benchmark: OfBenchmark = None,
    data: OfData = None,
    prompt: OfPrompt = None,
    answer: OfAnswer = None,
    grader: OfGrader = None,
    strict: Strict = False,
    subset: Annotated[bool, typer.Option("--subset", help="the file may lack problems")] = False,
) -> int:
    from .interchange import take_in
    from .stored import closing_table

    root = default_root()
    if others := [word for word in overrides or () if not _is_override(word)]:
        context.fail(
            f"{others[0]!r} after {str(file)!r}: import one file at a time, each by a --name"
        )
    spec = _drawn_on(context, root, benchmark, overrides or [], data, prompt, answer, grader)
    if strict:
        from .asked import with_strict

        spec = with_strict(spec)
    _share_verdicts(root)
    stored, said = take_in(file, spec, name=name, root=root, subset=subset)
    print(said, closing_table([stored]), sep="\n")
    return EXIT_DONE


def _drawn_on(
    context: typer.Context,
    root: Path,
    benchmark: str | None,
    keys: Sequence[str],
    data: Path | None,
    prompt: str | None,
    answer: str | None,
    grader: str | None,
) -> BenchmarkSpec:
    """What a file of draws is of: a benchmark, or problems of one's own."""
    if (benchmark is None) == (data is None):
        context.fail("name what a file's problems are of: --benchmark, or --data with your own")
    of_data = {"--prompt": prompt, "--answer": answer, "--grader": grader}
    if data is None and (given := [option for option in of_data if of_data[option] is not None]):
        context.fail(
            f"{given[0]} {of_data[given[0]]} is of --data: --benchmark {benchmark} has its own "
            "columns and grader; `fgrpo-bench evaluate grade NAME --grader ...` grades by another"
        )
    if data is not None and keys:
        context.fail(
            f"{keys[0]} is of --benchmark: of --data {data} say it with --prompt, --answer"
        )
    if data is None:
        from .stored import benchmark_spec

        return benchmark_spec(str(benchmark), keys)[0]
    from .asked import Options, own_benchmark

    options = Options(model="", data=(), prompt=prompt, answer=answer, grader=grader)
    said: list[str] = []
    spec = own_benchmark(data, options, root, said)
    print(*said, sep="\n")
    return spec


@app.add(
    "export-lm-eval",
    "write tasks for lm-evaluation-harness",
    "fgrpo-bench evaluate export-lm-eval math500 aime24 --to tasks",
    "fgrpo-bench evaluate export-lm-eval math500 --to tasks --n-samples 64",
    more="Writes a folder for `lm_eval --include_path <folder>`; says how to call it.\n",
)
def export_lm_eval(
    benchmarks: Annotated[
        list[str],
        typer.Argument(
            metavar="benchmark|key=value",
            help="files of conf/benchmark/, fetched; and key=value as they were given to fetch",
        ),
    ],
    to: Annotated[Path, typer.Option(help="folder to write")],
    n_samples: Annotated[int, typer.Option(help="draws per problem")] = 1,
) -> int:
    from .interchange import export

    print(export(benchmarks, to, root=default_root(), n_samples=n_samples))
    return EXIT_DONE


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
    from .fetch import fetch_command

    return fetch_command(names or [], root or default_root())
