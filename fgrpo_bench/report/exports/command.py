"""`python -m fgrpo_bench.report export <sweep> --to <format>`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fgrpo_bench.analysis import Analysis, analysed
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.commandline import Parser
from fgrpo_bench.report.exports import (
    every_eval_ever,
    hf_eval_results,
    inspect_log,
    lm_eval,
    passk_inference,
)
from fgrpo_bench.report.exports.evaluated import Evaluated, Writer
from fgrpo_bench.results import load_results
from fgrpo_bench.runs import add_run_options, choose_run

FORMATS: dict[str, Writer] = {
    "every-eval-ever": every_eval_ever.write,
    "passk-inference": passk_inference.write,
    "hf-eval-results": hf_eval_results.write,
    "lm-eval": lm_eval.write,
    "inspect": inspect_log.write,
}
EXAMPLES = """\
every-eval-ever   JSON with pass@k for every k, intervals and the design; draws as JSON Lines
passk-inference   {"id", "c", "n"} a problem; a fixed number of draws only
hf-eval-results   .eval_results/<benchmark>.yaml for a model's repository on the Hub; pass@1
lm-eval           results_*.json; draws as samples_*.jsonl
inspect           a log for `inspect view`; draws as epochs

examples:
  python -m fgrpo_bench.report export groupsize --to every-eval-ever
  python -m fgrpo_bench.report export groupsize --to passk-inference --cell grpo-n8-g0 --cell base
  python -m fgrpo_bench.report export groupsize --to inspect --cell grpo-n8-g1 --draws
"""


def main(arguments: Sequence[str]) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    parser = Parser(
        prog="python -m fgrpo_bench.report export",
        description="Write the evaluations of a sweep in the format of another program: a file or "
        "more for every checkpoint that stands for a run, and every benchmark.",
        epilog=EXAMPLES,
    )
    parser.add_argument("sweep", help="name of the sweep, e.g. groupsize")
    parser.add_argument("--to", required=True, choices=list(FORMATS), help="the format")
    parser.add_argument("--cell", action="append", help="only of this cell, e.g. grpo-n8-g0.5")
    parser.add_argument("--benchmark", action="append", help="only on this benchmark")
    parser.add_argument("--draws", action="store_true", help="every draw with its text too")
    parser.add_argument("--out", type=Path, help="folder (default: exports/<format> of the run)")
    parser.add_argument(
        "--organisation",
        default="local",
        metavar="NAME",
        help="whose the models are, before the slash of their names (%(default)s)",
    )
    parser.add_argument(
        "--select", default=LAST, metavar="RULE", help="which checkpoint, as of the report"
    )
    add_run_options(parser)
    options = parser.parse_args(arguments)
    try:
        paths = choose_run(
            options.root, options.sweep, experiment=options.experiment, version=options.version
        )
        analysis = analysed(load_results(paths), options.select)
        chosen = list(
            evaluations(
                analysis,
                cells=options.cell,
                benchmarks=options.benchmark,
                organisation=options.organisation,
            )
        )
        folder = options.out or paths.folder / "exports" / options.to
        for number, evaluated in enumerate(chosen, 1):
            for path in FORMATS[options.to](evaluated, folder, draws=options.draws):
                print(f"{number}/{len(chosen)}  {path}", flush=True)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
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
                    f"missing; run `python -m sweeps run {run.sweep}` again, which makes "
                    "them"
                )
            yield evaluated
    if not n_chosen:
        raise ValueError(
            f"{run.folder} has no complete evaluation to export: `python -m sweeps "
            f"status {run.sweep}` says what is missing"
        )


_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."


def _check(option: str, given: Sequence[str], known: Sequence[str] | dict[str, str]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{option}={name}: the sweep has {', '.join(known)}")
