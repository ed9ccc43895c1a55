"""The commands of draws that exist, stored or in files: grade, audit, compare, groups, import,
export-lm-eval.

In: evaluations below the folder of all runs, or files that another program wrote. Out: grades,
scores and comparisons of them. Next: evaluators.cli, of which these commands are a part.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fgrpo_bench.command.application import (
    Application,
    By,
    Json,
    Root,
    Wide,
    aside,
    is_there,
    print_json,
    refusals,
    refuse,
)
from fgrpo_bench.command.runs import default_root
from fgrpo_bench.stages.stage import EXIT_DONE

from .audit import COMPARED

if TYPE_CHECKING:
    from .dumps import NamedColumns
    from .interchange import Import
    from .stored import StoredDraws

COMPARE = """\
PLACE is the name of an evaluation under evals/ (without its digest too), its folder, a cell or a
training run as <sweep>/<experiment>/<version>/<cell>, or a file of draws as `import` takes it, or a
folder of such files: of several draws, or of steps (100.jsonl, 200.jsonl), of which the last one
that all have is compared. Several places are seeds of one label; one place beside several seeds is
a model that all are compared with.

Compared is what all have: the problems, benchmarks and k in common, which is said first.
exit code 0; 3: --fail-if-worse K, and pass@K fell; 1: it cannot be compared
"""
GROUPS = """\
DUMP is what a trainer wrote of its rollouts: verl's rollout_data_dir, TRL's completions, prime-rl's
rollouts, SkyRL's dumped evaluations, or lines with a prompt, a response and a score each.

A group is what the dump names as one, else the rollouts of a step with the same prompt. Rewards
other than 0 and 1 need a --threshold, from which on a rollout counts as right; methods whose
formulas are for 0 and 1 alone then read right and wrong, the others the reward itself.

exit code 0; 1: it cannot be read, or groups cannot be told
"""
EXIT_WORSE = 3
"""Of `compare --fail-if-worse`; 1 and 2 are refusals."""

app = Application("Draws that are stored, or in files.", guard=refusals)

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
OfPrompt = Annotated[
    str | None,
    typer.Option("--prompt", metavar="COLUMN", help="of the problems, in --data or else in FILE"),
]
OfAnswer = Annotated[
    str | None,
    typer.Option("--answer", metavar="COLUMN", help="of the answers, in --data or else in FILE"),
]
OfResponse = Annotated[
    str | None, typer.Option("--response", metavar="COLUMN", help="of the responses in FILE")
]
OfScore = Annotated[
    str | None, typer.Option("--score", metavar="COLUMN", help="of FILE's own verdicts")
]
Verdicts = Annotated[
    Literal["both", "theirs"],
    typer.Option("--verdicts", help="theirs: what FILE says alone counts; nothing is graded"),
]
Threshold = Annotated[
    float | None,
    typer.Option("--threshold", help="the least score in FILE of a correct draw (now: 1)"),
]
Step = Annotated[int | None, typer.Option("--step", help="of several, the one that is taken")]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="by the strict form of each grader: a stated, finished answer alone"
    ),
]


Also = Annotated[
    str | None,
    typer.Option(
        "--also",
        metavar="READING,...",
        help="other readings of the same draws: pass^k, maj@k, best@k, distinct@k, share@k; of "
        "one evaluation also gini and cover@0.5, of two solutions",
    ),
]


def print_scores(
    evaluations: Sequence[StoredDraws],
    graders: Sequence[str],
    by: str | None,
    also: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """pass@k of evaluations, by the values of a column of the problems too, and other readings of
    the draws. graders: beside those of each benchmark."""
    from fgrpo_bench.documents.table import table_as_json
    from fgrpo_bench.documents.terminal import plain_table

    from .readings import readings_table
    from .stored import closing_table, scores

    table = readings_table(evaluations, also, graders) if also else None
    if as_json:
        print_json({
            "folders": [*dict.fromkeys(str(item.stage.folder) for item in evaluations)],
            "by": by,
            "scores": scores(evaluations, graders, by),
            "also": [] if table is None else [table_as_json(table)],
        })  # fmt: skip
        return
    print(closing_table(evaluations, graders, by))
    if table is not None:
        print("", *(plain_table(table) if table.rows else table.notes), sep="\n", end="\n\n")


def share_verdicts(root: Path) -> None:
    """Let the judges' verdicts be those of all sweeps and evaluations under a run root."""
    # setdefault: a sweep that started this process has named the place already
    os.environ.setdefault("FGRPO_VERDICTS", str((root / "verdicts").absolute()))


def is_override(word: str) -> bool:
    """Whether a word is key=value: a path that is there may hold a = too."""
    return "=" in word and not is_there(word)


@app.add(
    "grade",
    "grade stored draws again with the present grader; draws nothing",
    "fgrpo-bench evaluate grade qwen2.5-7b-1f0a52c3",
    "fgrpo-bench evaluate grade qwen2.5-7b-1f0a52c3 --grader mypkg.mine:grade",
    "fgrpo-bench evaluate grade qwen2.5-7b-1f0a52c3 --strict",
    "fgrpo-bench evaluate grade qwen2.5-7b-1f0a52c3 --also pass^k,maj@k,cover@0.5",
    more="Grades of other versions stay beside; pass@k is computed anew.\n",
)
def grade(
    evaluation: Evaluation,
    grader: Annotated[
        str | None, typer.Option(help="another grader than the benchmark's, e.g. math")
    ] = None,
    strict: Strict = False,
    by: By = None,
    also: Also = None,
    as_json: Json = False,
) -> int:
    from .readings import parse_readings
    from .stored import find, layer, named_value_partitions, regrade

    words = parse_readings(also)
    share_verdicts(default_root())
    evaluations = find(evaluation)
    if by is not None:  # a column that is none is refused before anything is judged
        named_value_partitions(by, evaluations)
    others = [layer(of.benchmark, grader, strict=strict) for of in evaluations]
    with aside(as_json):
        for stored, other in zip(evaluations, others, strict=True):
            print(regrade(stored, other if strict else grader), flush=True)
    print_scores(evaluations, others, by, words, as_json=as_json)
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
    as_json: Json = False,
) -> int:
    from . import audit as of_grades
    from .stored import find

    share_verdicts(default_root())
    audits = [
        report
        for stored in find(evaluation)
        for report in of_grades.audit(stored, compared=compared)
    ]
    if as_json:
        print_json([report.as_json() for report in audits])
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
    "fgrpo-bench compare a/val/200.jsonl b/val/200.jsonl",
    "fgrpo-bench compare theirs.jsonl my-model --data mine.jsonl",
    "fgrpo-bench compare my-model tuned --by level",
    "fgrpo-bench compare my-model tuned --also pass^k,maj@k",
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
    response: OfResponse = None,
    score: OfScore = None,
    grader: Annotated[
        str | None,
        typer.Option("--grader", help="of files of draws; else of `evaluate grade --grader`"),
    ] = None,
    strict: Strict = False,
    verdicts: Verdicts = "both",
    threshold: Threshold = None,
    step: Step = None,
    by: By = None,
    also: Also = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write a page with figures")
    ] = None,
    md: Annotated[Path | None, typer.Option(metavar="FILE", help="write Markdown")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="write a row a k")] = None,
    as_json: Json = False,
    wide: Wide = False,
    fail_if_worse: Annotated[
        int | None,
        typer.Option(metavar="K", help="exit code 3 where pass@K fell: its interval is below 0"),
    ] = None,
) -> int:
    from fgrpo_bench.graders.recorded import is_recorded

    from . import compare, compare_output
    from .compare_places import files_in
    from .dumps import NamedColumns
    from .readings import parse_readings

    if as_json or html or md or csv:
        refuse(context, "is of what is shown, and nothing is shown beside a file or --json", "wide")
    root, words = root or default_root(), parse_readings(also, is_comparison=True)
    file_options = {
        "--data": data, "--benchmark": benchmark, "--prompt": prompt, "--answer": answer,
        "--response": response, "--score": score, "--threshold": threshold, "--step": step,
        "--verdicts": None if verdicts == "both" else verdicts,
    }  # fmt: skip
    given = [f"{option} {value}" for option, value in file_options.items() if value is not None]
    files = files_in(what)
    if given and not files:
        context.fail(
            f"{given[0]} says what a file of draws is of, and none of {', '.join(what)} is such a "
            "file: leave it out"
        )
    request, layer = None, grader
    if files:
        graded_by = None if grader is None or is_recorded(grader) else grader
        layer = grader if graded_by is None else None
        with aside(as_json):
            request = _request_of(
                context, root, lambda: files, benchmark, [], data,
                NamedColumns(prompt=prompt, response=response, answer=answer, score=score),
                graded_by, strict=strict, verdicts=verdicts, threshold=threshold, step=step,
                subset=True,
            )  # fmt: skip
        share_verdicts(root)
    compared = compare.compare(what, root, request, grader=layer, strict=strict, by=by, also=words)
    worse = [] if fail_if_worse is None else compare.worse_at(compared, fail_if_worse)
    written = compare_output.write(compared, html=html, md=md, csv=csv)
    if as_json:
        print_json(compare_output.as_json(compared))
    else:
        print(written or compare_output.text(compared, wide=wide))
    for row in worse:
        print(f"worse: {row.new} on {row.column} at k = {row.k}", file=sys.stderr)
    return EXIT_WORSE if worse else EXIT_DONE


@app.add(
    "groups",
    "the groups of a training run's rollouts, and where each advantage puts its gradient",
    "fgrpo-bench groups rollouts/",
    "fgrpo-bench groups rollouts/40.jsonl --html groups.html",
    "fgrpo-bench groups rollouts/ --json > groups.json",
    "fgrpo-bench groups rollouts/ --name my-run     which the dashboard then shows",
    "fgrpo-bench groups completions/ --score accuracy_reward --threshold 1",
    "fgrpo-bench groups rollouts/ --method grpo grpo@1 dapo pkpo:k=8",
    more=GROUPS,
)
def groups_(
    context: typer.Context,
    dump: Annotated[
        list[Path], typer.Argument(metavar="DUMP", help="files of rollouts, or folders of them")
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD",
            help="advantage[:parameter=value,...][@focal_gamma], or dapo (now: all)",
        ),
    ] = None,
    group_size: Annotated[
        int | None, typer.Option(metavar="N", help="rollouts of a group, where prompts repeat")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="REWARD", help="a rollout is right from this reward on"),
    ] = None,
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="COLUMN")] = None,
    response: Annotated[str | None, typer.Option("--response", metavar="COLUMN")] = None,
    score: Annotated[
        list[str] | None,
        typer.Option("--score", metavar="COLUMN", help="of the rewards; several are added"),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write a page with figures")
    ] = None,
    md: Annotated[Path | None, typer.Option(metavar="FILE", help="write Markdown")] = None,
    as_json: Json = False,
    name: Annotated[
        str | None, typer.Option(help="store it under this name, for the dashboard")
    ] = None,
    root: Root = None,
) -> int:
    from fgrpo_bench.analysis.rollouts import store_groups

    from . import groups
    from .dumps import NamedColumns

    if root is not None and name is None:
        context.fail(f"--root {root}: is of --name, under which groups are stored; leave it out")

    scores = score or []
    read = groups.read_groups(
        [file for place in dump for file in groups.dump_files(place)],
        NamedColumns(prompt=prompt, response=response, score=scores[0] if scores else None),
        added=scores[1:],
        group_size=group_size,
        threshold=threshold,
    )
    summary = groups.summary(read, ", ".join(place.name or str(place) for place in dump), method)
    written = groups.write(summary, html=html, md=md)
    if name is not None:
        stored = store_groups(summary, name, root=root)
        print(f"stored as {stored}: `fgrpo-bench dashboard` shows it", file=sys.stderr)
    print_json(summary.as_json()) if as_json else print(written or groups.text(summary))
    return EXIT_DONE


@app.add(
    "import",
    "store and score what another program has drawn",
    "fgrpo-bench evaluate import val/200.jsonl --name theirs",
    "fgrpo-bench evaluate import output-rs*.jsonl --name theirs          a file a draw",
    "fgrpo-bench evaluate import samples_math500.jsonl --benchmark math500 --name theirs",
    "fgrpo-bench evaluate import log.eval --data mine.jsonl --name theirs",
    more="It takes what trainers and harnesses write, told by its content (docs/guides/import.md),"
    '\nor lines {"problem_id" or "problem": ..., "response" or "responses": ...}. Several files are'
    "\ndraws of the same problems. Without --data the answers are those in the file.\n",
)
def import_(
    context: typer.Context,
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|key=value",
            help="what was drawn; and keys of the benchmark, as they were given to `data`",
        ),
    ],
    name: Annotated[str, typer.Option(help="folder under evals/")],
    benchmark: OfBenchmark = None,
    data: OfData = None,
    prompt: OfPrompt = None,
    answer: OfAnswer = None,
    response: OfResponse = None,
    score: OfScore = None,
    grader: Annotated[str | None, typer.Option("--grader", help="what judges (now: math)")] = None,
    strict: Strict = False,
    verdicts: Verdicts = "both",
    threshold: Threshold = None,
    step: Step = None,
    subset: Annotated[
        bool, typer.Option("--subset", help="the file may lack problems, and have others")
    ] = False,
    by: By = None,
    as_json: Json = False,
) -> int:
    from .dumps import NamedColumns
    from .folders import only_step
    from .interchange import import_and_grade
    from .standalone import check_column

    root = default_root()
    overrides = [word for word in what if is_override(word)]
    places = [Path(word) for word in what if not is_override(word)]
    if not places:
        context.fail("no file is named: give what was drawn, e.g. val/200.jsonl")
    with aside(as_json):
        request = _request_of(
            context, root, lambda: only_step(places, step), benchmark, overrides, data,
            NamedColumns(prompt=prompt, response=response, answer=answer, score=score), grader,
            strict=strict, verdicts=verdicts, threshold=threshold, step=step, subset=subset,
        )  # fmt: skip
        if by is not None and request.spec is not None:
            check_column(by, {request.spec.name: request.spec}, root)
        share_verdicts(root)
        stored, notices = import_and_grade(request, name=name, root=root)
        print(notices)
    print_scores([stored], (), by, (), as_json=as_json)
    return EXIT_DONE


def _request_of(
    context: typer.Context,
    root: Path,
    files: Callable[[], Sequence[Path]],
    benchmark: str | None,
    keys: Sequence[str],
    data: Path | None,
    named: NamedColumns,
    grader: str | None,
    *,
    strict: bool,
    verdicts: str,
    threshold: float | None,
    step: int | None,
    subset: bool,
) -> Import:
    """How files of draws are taken, by the words of a command. files: looked for once the words are
    known to fit."""
    from .dumps import open_dump
    from .interchange import Import
    from .request import GRADER, Options, check_grader, file_benchmark

    is_theirs = verdicts == "theirs"
    if benchmark is not None and data is not None:
        context.fail("--benchmark and --data both say what the draws are of: leave one out")
    if is_theirs and (grader is not None or strict):
        option = "--strict" if grader is None else f"--grader {grader}"
        context.fail(
            f"{option} beside --verdicts theirs, by which nothing is graded: leave one out"
        )
    data_options = {"--prompt": named.prompt, "--answer": named.answer, "--grader": grader}
    given = [f"{option} {value}" for option, value in data_options.items() if value is not None]
    if benchmark is not None and given:
        context.fail(
            f"{given[0]} is of --data: --benchmark {benchmark} has its own columns and grader; "
            "`fgrpo-bench evaluate grade NAME --grader ...` grades by another"
        )
    if benchmark is None and keys:
        source = "the problems in a file" if data is None else f"--data {data}"
        context.fail(f"{keys[0]} is of --benchmark: of {source} say it with --prompt, --answer")
    spec = None
    if benchmark is not None:
        from .stored import benchmark_spec

        spec = benchmark_spec(benchmark, keys)[0]
    elif data is not None:
        from fgrpo_bench.graders.recorded import layer_name

        options = Options(
            checkpoint=None, data=(), prompt=named.prompt, answer=named.answer, grader=grader
        )
        named, recorded = replace(named, prompt=None, answer=None), None
        if is_theirs:
            recorded = layer_name(open_dump(files()[0], named).format.program, threshold)
        notices: list[str] = []
        spec = file_benchmark(data, options, root, notices, recorded=recorded)
        print(*notices, sep="\n")
    else:
        check_grader(grader or GRADER)
    return Import(
        files=tuple(files()),
        spec=spec,
        named=named,
        grader=grader or GRADER,
        theirs=is_theirs,
        threshold=threshold,
        step=step,
        strict=strict,
        subset=subset,
    )


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
            help="files of conf/benchmark/, fetched; and key=value as they were given to `data`",
        ),
    ],
    to: Annotated[Path, typer.Option(help="folder to write")],
    n_samples: Annotated[int, typer.Option(help="draws per problem")] = 1,
) -> int:
    from .lm_eval_tasks import export

    print(export(benchmarks, to, root=default_root(), n_samples=n_samples))
    return EXIT_DONE
