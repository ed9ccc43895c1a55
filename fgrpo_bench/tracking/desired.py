"""What MLflow should hold for a sweep, told from its files and locks: no clock, no MLflow.

One experiment a sweep and experiment name (`groupsize/countdown`). In it a run a point, base models
included, with training curves, pass@k of its checkpoints and its tables and files; above them a
parent run a cell, with mean and interval over its seeds and where along k it falls behind its base
models; and a run with the files of the report. The same files always give the same digests and
states (`source`), so a second sync finds nothing to do.

MLflow renders descriptions as Markdown, so every name and sentence in them is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import polars as pl

from fgrpo_bench.analysis import Analysis, stored
from fgrpo_bench.analysis.checkpoints import describe_rule
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.command.runs import find_runs
from fgrpo_bench.documents.html import html
from fgrpo_bench.documents.markdown import markdown_blocks
from fgrpo_bench.documents.table import Block, Paragraph
from fgrpo_bench.files.paths import EVALUATIONS, RunPaths
from fgrpo_bench.report.captions import title
from fgrpo_bench.report.narrative import answered, explained, over_all_k
from fgrpo_bench.report.tables.main import interval_table
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.plan import read_sweep
from fgrpo_bench.tracking.cells import with_cells
from fgrpo_bench.tracking.points import desired_points
from fgrpo_bench.tracking.source import Source, digest_of, report_files
from fgrpo_bench.tracking.states import (
    CELLS,
    NOTE,
    POINTS,
    REPORT,
    TABLE,
    DesiredRun,
    ExperimentState,
    RunState,
    identity_tags,
    readable,
    source_tags,
)

VIEW = "mlflow.sharedViewState."
"""Before the name of a view in an experiment's tag: which runs and columns a page of them shows."""
LONGEST = 5000
"""Characters of an experiment's tag that MLflow takes; a run's may be longer."""
ENDS = ("low", "high")
"""Of an interval, as the names of metrics end."""
TRAINING = ("train/reward", "train/active_fraction", "train/entropy")
"""Curves whose charts stand before those of all other metrics of a point."""
ANSWER = "answer.html"
"""The report's page that MLflow opens on: the answer and the main table."""


def desired_experiment(paths: RunPaths) -> ExperimentState:
    """What MLflow should hold for one sweep; points that have not begun have no run yet.

    Raises FileNotFoundError where the sweep was never run and ValueError for a damaged file.
    """
    source = Source(load_results(paths))
    runs = with_cells(source, desired_points(source))
    digest = digest_of(
        source.origin, source.rule, stored.VERSION, stored.analysis_digest(source.results)
    )
    report = _desired_report(source, runs, digest)
    return ExperimentState(
        name=experiment_name(paths),
        digest=digest if paths == _latest(paths) else None,
        tags=lambda: {
            NOTE: experiment_note(source.analysis),
            **{f"{VIEW}{kind}": _view(source.analysis, kind) for kind in (CELLS, POINTS)},
            "mlflow.experimentKind": "custom_model_development",
        },
        runs=runs if report is None else (*runs, report),
    )


def experiment_name(paths: RunPaths) -> str:
    """e.g. `groupsize/countdown`; `evaluations` of those without a sweep."""
    return "evaluations" if paths.sweep == EVALUATIONS else f"{paths.sweep}/{paths.experiment}"


def _latest(paths: RunPaths) -> RunPaths:
    """The version that was run last: it speaks for the experiment that all versions share."""
    runs = find_runs(paths.root, paths.sweep, experiment=paths.experiment)
    versions = [run for run in runs if run.sweep_json.exists()]
    return max(versions, key=lambda run: (read_sweep(run).created, run == paths))


def _view(analysis: Analysis, kind: str) -> str:
    """The runs of a kind by pass@k at the largest k, with the columns of both ends and no others,
    so that they stand on a screen, and as charts with the curves first, those of training or of
    pass@k; in the form of MLflow's page of runs."""
    first, last = analysis.ends[0], analysis.ends[-1]
    columns = analysis.headline
    names = [f"pass_at_{k}/{column}" for column in columns for k in dict.fromkeys((last, first))]
    if kind == CELLS:
        names += [f"pass_at_{last}_{end}/{column}" for column in columns for end in ENDS]
    selected = [f"metrics.`{name}`" for name in names]
    view = {
        "searchFilter": f"tags.kind = '{kind}'",
        "orderByKey": selected[0],
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "selectedColumns": selected,
        "runsHiddenMode": "FIRST_20_RUNS",
        **_charts([*(TRAINING if kind == POINTS else ()), *(f"pass_at_k/{c}" for c in columns)]),
    }
    return json.dumps(view)


def _charts(keys: Sequence[str]) -> dict[str, Any]:
    """Of a view: charts of these metrics, in sections by the first part of their names, before
    those of all others, which MLflow adds. k has a logarithmic axis."""
    sections = dict.fromkeys(key.partition("/")[0] for key in keys)
    return {
        "isAccordionReordered": True,  # else it sorts sections by name
        "compareRunSections": [
            {"uuid": name, "name": name, "display": True, "isReordered": True} for name in sections
        ],
        "compareRunCharts": [_chart(key) for key in keys],
    }


def _chart(key: str) -> dict[str, Any]:
    """A line chart of a metric, with every setting that MLflow's page gives one of its own."""
    section, _, name = key.partition("/")
    return {
        "type": "LINE",
        "uuid": key,
        "metricKey": key,
        "displayName": name,
        "metricSectionId": section,
        "isGenerated": True,
        "deleted": False,
        "xAxisKey": "step",
        "useGlobalXaxisKey": False,
        "xAxisScaleType": "log" if section == "pass_at_k" else "linear",
        "selectedXAxisMetricKey": "",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "scaleType": "linear",
        "range": {},
        "lineSmoothness": 0,
        "useGlobalLineSmoothing": True,
        "ignoreOutliers": False,
        "runsCountToCompare": 10,
    }


def experiment_note(analysis: Analysis) -> str:
    """Description of the experiment: the answer, the table of the headline, where the files are,
    and as much of the report's other words as MLflow takes."""
    paths = analysis.results.require_sweep().paths
    return _shortened(
        _answer_text(
            analysis,
            f"A view of the files in {paths.sweep}/{paths.experiment}/{paths.version} under the "
            "run root. Runs of kind cell are means over training seeds with intervals; below them "
            "are the points, one a seed; the run named report has the tables and figures.",
        ),
        LONGEST,
    )


def _answer_text(analysis: Analysis, about: str) -> str:
    """The answer in the report's own words, its main numbers, which checkpoints they are of, and
    what the answer rests on, as Markdown.

    about: a sentence on what the reader has before them.
    """
    checkpoints = describe_rule(analysis.results, analysis.rule)
    blocks: list[Block] = [
        *answered(analysis),
        *(interval_table(analysis, column) for column in analysis.headline),
        Paragraph(text=f"Checkpoints: {checkpoints}."),
        Paragraph(text=about),
        *explained(analysis),
        *over_all_k(analysis),
    ]
    return markdown_blocks(blocks)


def _shortened(text: str, longest: int) -> str:
    """The text up to a line's end where it is too long for MLflow, and where to read on.

    >>> _shortened("a line\\nanother", 80)
    'a line\\nanother'
    """
    if len(text) <= longest:
        return text
    left = "\n\nThe report has the rest."
    return text[: text.rfind("\n", 0, longest - len(left))].rstrip() + left


def _desired_report(source: Source, runs: Sequence[DesiredRun], digest: str) -> DesiredRun | None:
    """The report's tables and figures as artifacts; None where it was not written or no run has
    begun.

    digest: of what its words are computed from.
    """
    files = report_files(source.results.paths)
    if not runs or not files:
        return None
    contents = [[path.name, sha256_file(path)] for path in files]
    begun = [run.name for run in runs if run.parent is not None]
    return DesiredRun(
        name=REPORT,
        digest=digest_of(digest, contents, [run.digest for run in runs if run.parent is None]),
        state=partial(_report_run, source, begun),
    )


def _report_run(source: Source, begun: Sequence[str]) -> RunState:
    paths = source.results.paths
    spans = [source.span(point) for point in source.results.points if point.point_id in begun]
    ends = [end for _, end in spans if end is not None]
    is_whole = len(ends) == len(spans) and not source.analysis.missing
    mark = fingerprint([REPORT, paths.sweep, paths.experiment, paths.version])
    about = (
        f"Under Artifacts: {TABLE}, every cell at every k; report.md in words, report.tex for a "
        "paper, results.csv for your own plots, and the figures."
    )
    analysis = source.analysis
    first = [
        *answered(analysis),
        *(interval_table(analysis, column) for column in analysis.headline),
        Paragraph(text=about),
    ]
    return RunState(
        name=REPORT,
        title=REPORT,
        start=min(start for start, _ in spans if start is not None),
        end=max(ends) if is_whole else None,
        params={},
        tags={
            **identity_tags(source.results, REPORT, mark),
            "kind": REPORT,
            NOTE: _shortened(_answer_text(analysis, about), LONGEST),
            **source_tags(source.results),
        },
        points=(),
        artifacts={
            ANSWER: html(title(analysis), first, {}).encode(),
            **{
                path.relative_to(paths.report).as_posix(): path.read_bytes()
                for path in report_files(paths)
            },
        },
        tables={TABLE: _table_of_report(analysis)},
    )


def _table_of_report(analysis: Analysis) -> pl.DataFrame:
    """A row a benchmark or average and cell: pass@k at the largest k first and at the smallest,
    each with its interval, then at the k between. Fractions with the digits that a person reads."""
    ends, ks = tuple(reversed(analysis.ends)), analysis.ks
    rows = []
    for column, cell in product(analysis.columns, analysis.by_cell.values()):
        row: dict[str, str | float | None] = {"cell": cell.label, "benchmark": column}
        for k in dict.fromkeys((*ends, *ks)):
            estimate, name = analysis.estimate(column, cell, k), f"pass_at_{k}"
            row[name] = _rounded(estimate.mean)
            if k in ends:
                row |= {f"{name}_low": _rounded(estimate.low)}
                row |= {f"{name}_high": _rounded(estimate.high)}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _rounded(value: float | None) -> float | None:
    return None if value is None else readable(value)
