"""The page views of an experiment: which runs, columns and charts MLflow opens with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fgrpo_bench.results import SweepResults
from fgrpo_bench.stages.watch import METRICS
from fgrpo_bench.tracking.state import UNCERTAINTY

VIEW = "overview"
"""Name of the experiment's page view that shows the columns which answer the question."""
POINTS = "points"
"""Name of the view with a row a point instead of a row a cell."""
CHARTS, TRAINING = "charts", "training"
"""Names of the views that MLflow's chart mode opens with: of cells over k, of points over steps."""
SHARED = "mlflow.sharedViewState."
"""What MLflow's Share button puts before the name of a view, to make it a tag's."""
INTERVAL = ("{}", f"{UNCERTAINTY}{{}}_low", f"{UNCERTAINTY}{{}}_high")
"""Names of a metric's mean and of the ends of its interval."""
CHARTED = 100
"""Most runs in a chart."""


def views(results: SweepResults) -> dict[str, str]:
    """Tags of the experiment, a view each."""
    return {
        f"{SHARED}{VIEW}": _view(results, "cell", INTERVAL),
        f"{SHARED}{POINTS}": _view(results, "point", ("{}",)),
        f"{SHARED}{CHARTS}": _view(results, "cell", INTERVAL, **_over_k(results)),
        f"{SHARED}{TRAINING}": _view(results, "point", ("{}",), **_training()),
    }


def _view(results: SweepResults, kind: str, names: Sequence[str], **charts: Any) -> str:
    """The runs page as MLflow's own Share button would store it: filter, columns, order, charts."""
    metrics = _at_ends(results)
    # The values come first, before what the name of a run says too: MLflow's panels leave little
    # room on a narrow screen.
    columns = {f"metrics.`{name.format(each)}`": 155 for each in metrics for name in names}
    columns |= {"params.`group_size`": 100, "params.`focal_gamma`": 110, "params.`method`": 90}
    columns |= {"tags.`seeds`": 95} if kind == "cell" else {"params.`seed`": 70}
    return json.dumps(
        {
            "searchFilter": f"tags.kind = '{kind}'",
            "selectedColumns": list(columns),
            "columnOrder": list(columns),  # widths count only for columns that are listed here
            "columnWidths": columns,
            "runsHiddenMode": "SHOW_ALL",
            "orderByKey": f"metrics.`{metrics[-1]}`",
            "orderByAsc": False,
            **charts,
        }
    )


def _at_ends(results: SweepResults) -> list[str]:
    """Metrics of the headline at the smallest and the largest k."""
    ks = results.evaluation["ks"]
    ends = dict.fromkeys((ks[0], ks[-1]))
    return [f"{column}/pass_at_{k}" for column in results.headline for k in ends]


def _over_k(results: SweepResults) -> dict[str, Any]:
    """Charts of MLflow's chart mode, in a section a headline: pass@k over log k, and the plane of
    its ends."""
    charts: dict[str, list[dict[str, Any]]] = {}
    for column in results.headline:
        first, *last = (each for each in _at_ends(results) if each.startswith(f"{column}/"))
        curve = _line(f"{column}/pass_at_k", "pass@k over k (log)", scale="log")
        charts[f"pass@k, {column}"] = [curve, *(_plane(first, each) for each in last)]
    return _sections(charts)


def _training() -> dict[str, Any]:
    """Curves of training over its steps."""
    named = {
        "train/success_rate": METRICS["success_rate"],
        "train/active_fraction": METRICS["active_fraction"],
        "train/entropy": METRICS["entropy"],
        "eval/pass_at_n": METRICS["eval_pass_at_n"],
    }
    return _sections({"training": [_line(key, metric.label) for key, metric in named.items()]})


def _sections(charts: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Ours first; MLflow puts a chart of every other metric into sections below."""
    of = {"deleted": False, "isGenerated": False}
    return {
        "compareRunSections": [
            {"uuid": name, "name": name, "display": True, "isReordered": True, "columns": 2, **of}
            for name in charts
        ],
        "compareRunCharts": [
            {"uuid": f"{name} {i}", "metricSectionId": name, **of, **chart}
            for name, own in charts.items()
            for i, chart in enumerate(own)
        ],
        "isAccordionReordered": True,
    }


def _line(metric: str, title: str, *, scale: str = "linear") -> dict[str, Any]:
    """scale: of its steps."""
    return {
        "type": "LINE",
        "displayName": title,
        "metricKey": metric,
        "selectedMetricKeys": [metric],
        "xAxisKey": "step",
        "useGlobalXaxisKey": False,
        "xAxisScaleType": scale,
        "scaleType": "linear",
        "lineSmoothness": 0,
        "useGlobalLineSmoothing": False,
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "range": {},
        "runsCountToCompare": CHARTED,
    }


def _plane(across: str, up: str) -> dict[str, Any]:
    return {
        "type": "SCATTER",
        "displayName": f"{up.rpartition('/')[2]} against {across.rpartition('/')[2]}",
        "xaxis": {"key": across, "type": "METRIC"},
        "yaxis": {"key": up, "type": "METRIC"},
        "runsCountToCompare": CHARTED,
    }
