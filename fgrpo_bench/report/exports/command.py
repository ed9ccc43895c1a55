"""`fgrpo-bench export <sweep or evaluations> --to <format>`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fgrpo_bench.analysis import Analysis, analysed
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import Results, find_results
from fgrpo_bench.command import application
from fgrpo_bench.command.application import (
    WHICH_RUN,
    Application,
    Root,
    Run,
    Select,
    check_choice,
    refusals,
)
from fgrpo_bench.command.runs import address, default_root
from fgrpo_bench.report.exports import formats
from fgrpo_bench.report.exports.evaluated import Evaluated, Writer

FORMATS: dict[str, Writer] = {
    "every-eval-ever": formats.write_every_eval_ever,
    "passk-inference": formats.write_passk_inference,
    "hf-eval-results": formats.write_hf_eval_results,
    "lm-eval": formats.write_lm_eval,
    "inspect": formats.write_inspect_log,
}
FORMATS_HELP = """\
every-eval-ever   JSON with pass@k for every k, intervals and the design; draws as JSON Lines
passk-inference   {"id", "c", "n"} a problem; a fixed number of draws only
hf-eval-results   .eval_results/<benchmark>.yaml for a model's repository on the Hub; pass@1
lm-eval           results_*.json; draws as samples_*.jsonl
inspect           a log for `inspect view`; draws as epochs
"""
app = Application("Evaluations in the format of another program.", guard=refusals)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    return application.run(app, arguments, "python -m fgrpo_bench.report export")


@app.add(
    "export",
    "write evaluations, those of a sweep or others, in the format of another program: a file or "
    "more for every checkpoint that stands for a run, and every benchmark",
    "fgrpo-bench export groupsize --to every-eval-ever",
    "fgrpo-bench export groupsize --to passk-inference --cell grpo-n8-g0 --cell base",
    "fgrpo-bench export groupsize/countdown/v1 --to inspect --cell grpo-n8-g1 --draws",
    "fgrpo-bench export evals/base-1b+step-300 --to lm-eval --draws",
    more=f"{WHICH_RUN}Evaluations: evals/<name>[+<name>].\n\n{FORMATS_HELP}",
)
def export(
    sweep: Run,
    to: Annotated[
        str,
        typer.Option(
            help=f"the format: {', '.join(FORMATS)}", autocompletion=lambda: list(FORMATS)
        ),
    ],
    cell: Annotated[
        list[str] | None, typer.Option(help="only of this cell, e.g. grpo-n8-g0.5")
    ] = None,
    benchmark: Annotated[list[str] | None, typer.Option(help="only on this benchmark")] = None,
    draws: Annotated[bool, typer.Option("--draws", help="every draw with its text too")] = False,
    out: Annotated[
        Path | None, typer.Option(help="folder (default: exports/<format> of the run)")
    ] = None,
    organisation: Annotated[
        str,
        typer.Option(metavar="NAME", help="whose the models are, before the slash of their names"),
    ] = "local",
    select: Select = LAST,
    root: Root = None,
) -> int:
    check_choice("--to", to, FORMATS)
    results = find_results(root or default_root(), sweep)
    analysis = analysed(results, select)
    chosen = list(
        evaluations(analysis, cells=cell, benchmarks=benchmark, organisation=organisation)
    )
    folder = out or results.address.folder / "exports" / to
    for number, evaluated in enumerate(chosen, 1):
        for path in FORMATS[to](evaluated, folder, draws=draws):
            print(f"{number}/{len(chosen)}  {path}", flush=True)
    return 0


def evaluations(
    analysis: Analysis,
    *,
    cells: Sequence[str] | None,
    benchmarks: Sequence[str] | None,
    organisation: str,
) -> Iterator[Evaluated]:
    """Every complete evaluation of the checkpoints that stand for their runs.

    cells, benchmarks: only these; None: all. ValueError for one that the sweep does not have, for a
    name that is none, where there is nothing to export, and where judgements ask for draws that
    are missing.
    """
    results = analysis.results
    known = {name: cell.label for name, cell in analysis.by_cell.items()}
    _check("--cell", cells or (), known)
    _check("--benchmark", benchmarks or (), results.benchmarks)
    if not organisation or set(organisation) - set(_NAME):
        raise ValueError(
            f"--organisation={organisation!r}: take letters, digits, '-', '_' and '.', as the Hub "
            "does"
        )
    n_chosen = 0
    for checkpoint in results.checkpoints:
        if cells and checkpoint.label not in cells:
            continue
        for benchmark in benchmarks or results.benchmarks:
            if checkpoint.results_on(benchmark) is None:
                continue
            n_chosen += 1
            evaluated = Evaluated(
                checkpoint=checkpoint,
                name=_name(results, checkpoint),
                base_model=None if results.sweep is None else results.sweep.model,
                label=known[checkpoint.label],
                benchmark=benchmark,
                organisation=organisation,
            )
            if evaluated.counts["n_drawn"].null_count():
                raise ValueError(
                    f"{checkpoint.name} on {benchmark}: its judgements ask for draws that are "
                    "missing; run the sweep, or evaluate, again, which makes them"
                )
            yield evaluated
    if not n_chosen:
        raise ValueError(
            f"{results.address.folder} has no complete evaluation to export: `fgrpo-bench sweep "
            f"status {address(results.address)}` says what is missing"
        )


def _name(results: Results, checkpoint: EvaluatedCheckpoint) -> str:
    """Of a checkpoint among all of a run root; an evaluation without a sweep has a folder alone."""
    if results.sweep is None:
        return checkpoint.evaluate.folder.relative_to(results.folder).parts[0]
    run = results.sweep.paths
    step = f"step-{checkpoint.step}"
    return "-".join((run.sweep, run.experiment, run.version, checkpoint.name, step))


_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."


def _check(option: str, given: Sequence[str], choices: Sequence[str] | dict[str, str]) -> None:
    for name in given:
        if name not in choices:
            raise ValueError(f"{option}={name}: take one of {', '.join(choices)}")
