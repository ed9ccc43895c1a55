"""`fgrpo-bench export <sweep> --to <format>`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fgrpo_bench.analysis import Analysis, analysed
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.command.application import (
    WHICH_RUN,
    Application,
    Root,
    Run,
    Select,
    check_choice,
    refusals,
    run,
)
from fgrpo_bench.command.runs import choose_run, default_root
from fgrpo_bench.report.exports import formats
from fgrpo_bench.report.exports.evaluated import Evaluated, Writer

FORMATS: dict[str, Writer] = {
    "every-eval-ever": formats.write_every_eval_ever,
    "passk-inference": formats.write_passk_inference,
    "hf-eval-results": formats.write_hf_eval_results,
    "lm-eval": formats.write_lm_eval,
    "inspect": formats.write_inspect_log,
}
FORMATS_IN_WORDS = """\
every-eval-ever   JSON with pass@k for every k, intervals and the design; draws as JSON Lines
passk-inference   {"id", "c", "n"} a problem; a fixed number of draws only
hf-eval-results   .eval_results/<benchmark>.yaml for a model's repository on the Hub; pass@1
lm-eval           results_*.json; draws as samples_*.jsonl
inspect           a log for `inspect view`; draws as epochs
"""
app = Application("A sweep's evaluations in the format of another program.", guard=refusals)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    return run(app, arguments, "python -m fgrpo_bench.report export")


@app.add(
    "export",
    "write the evaluations of a sweep in the format of another program: a file or more for every "
    "checkpoint that stands for a run, and every benchmark",
    "fgrpo-bench export groupsize --to every-eval-ever",
    "fgrpo-bench export groupsize --to passk-inference --cell grpo-n8-g0 --cell base",
    "fgrpo-bench export groupsize/countdown/v1 --to inspect --cell grpo-n8-g1 --draws",
    more=f"{WHICH_RUN}\n{FORMATS_IN_WORDS}",
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
    paths = choose_run(root or default_root(), sweep)
    analysis = analysed(load_results(paths), select)
    chosen = list(
        evaluations(analysis, cells=cell, benchmarks=benchmark, organisation=organisation)
    )
    folder = out or paths.folder / "exports" / to
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
    results = analysis.results.of_sweep()
    run = results.paths
    known = {name: cell.label for name, cell in analysis.by_cell.items()}
    _check("--cell", cells or (), known)
    _check("--benchmark", benchmarks or (), results.benchmarks)
    if not organisation or set(organisation) - set(_NAME):
        raise ValueError(
            f"--organisation={organisation!r}: take letters, digits, '-', '_' and '.', as the Hub "
            "does"
        )
    n_chosen = 0
    for point in results.points:
        if cells and point.label not in cells:
            continue
        for benchmark in benchmarks or results.benchmarks:
            if point.results_on(benchmark) is None:
                continue
            n_chosen += 1
            evaluated = Evaluated(
                checkpoint=point,
                name="-".join((run.sweep, run.experiment, run.version, point.name)),
                base_model=results.model,
                label=known[point.label],
                benchmark=benchmark,
                organisation=organisation,
            )
            if evaluated.counts["n_drawn"].null_count():
                raise ValueError(
                    f"{point.name} on {benchmark}: its judgements ask for draws that are "
                    f"missing; run `fgrpo-bench sweep run {run.sweep}` again, which makes "
                    "them"
                )
            yield evaluated
    if not n_chosen:
        raise ValueError(
            f"{run.folder} has no complete evaluation to export: `fgrpo-bench sweep "
            f"status {run.sweep}` says what is missing"
        )


_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."


def _check(option: str, given: Sequence[str], known: Sequence[str] | dict[str, str]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{option}={name}: the sweep has {', '.join(known)}")
