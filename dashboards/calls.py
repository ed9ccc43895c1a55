"""The library calls that give a chart's numbers, as text to copy into a notebook.

Each defines `result`; the tests run them and compare.
"""

from __future__ import annotations

from fgrpo_bench.stages.paths import RunPaths

OPEN = """\
from fgrpo_bench.results import default_root, find_runs, load_results

[run] = find_runs(default_root(), {sweep!r}, experiment={experiment!r}, version={version!r})
results = load_results(run)
"""
SUMMARY = (
    OPEN
    + """\
from fgrpo_bench.report.summarise import summarise

summary = summarise(results)
"""
)
CURVES = (
    SUMMARY
    + """\
result = {{cell.label: summary.scores[{benchmark!r}, cell].estimates for cell in summary.cells}}
"""
)
PLANE = (
    SUMMARY
    + """\
ends = [summary.ks.index(k) for k in ({low}, {high})]
result = {{
    cell.label: [summary.scores[{benchmark!r}, cell].estimates[end] for end in ends]
    for cell in summary.cells
    if summary.scores[{benchmark!r}, cell].seeds
}}
"""
)
DIFFERENCES = (
    SUMMARY
    + """\
from fgrpo_bench.stats.intervals import DIFFERENCES, estimate

column = summary.ks.index({k})
by_label = {{cell.label: summary.scores[{benchmark!r}, cell] for cell in summary.cells}}
old = by_label.pop({reference!r})
result = {{}}
for name, new in by_label.items():
    seeds = [seed for seed in new.seeds if seed in old.seeds]
    values = new.of_seeds(seeds).values - old.of_seeds(seeds).values
    result[name] = estimate(values[:, :, [column]], limits=DIFFERENCES)[0]
"""
)
COMPUTE = (
    SUMMARY
    + """\
column = summary.ks.index({k})
result = {{
    cell.label: (
        summary.compute[cell].{cost},
        summary.scores[{benchmark!r}, cell].estimates[column],
    )
    for cell in summary.cells
    if not cell.is_base
}}
"""
)
LEARNING = (
    OPEN
    + """\
result = {{
    point.point_id: point.metrics().drop_nulls("eval_pass_at_1")
    for point in results.points
    if point.algorithm is not None
}}
"""
)
STEPS = (
    OPEN
    + """\
result = {{
    point.point_id: point.metrics().select("step", *{columns!r})
    for point in results.points
    if point.algorithm is not None
}}
"""
)
FORGETTING = (
    OPEN
    + """\
result = {{point.point_id: point.passk({benchmark!r}) for point in results.points}}
result = {{
    name: dict(table.filter(k={low}).select("problem_id", "pass_at_k").iter_rows())
    for name, table in result.items()
}}
"""
)
FATES = (
    SUMMARY
    + """\
from fgrpo_bench.report.covered import fates, mean_count

result = {{
    cell.label: {{name: mean_count(by_seed, name) for name in ("lost", "gained", "retained")}}
    for cell, by_seed in fates(summary, {benchmark!r}).items()
}}
"""
)
TAIL = """\
from fgrpo_bench.theory import tail_miss_probability

mu, rho = 0.3, 0.1
result = {n: tail_miss_probability(n, mu, rho * mu) for n in (2, 4, 8, 16, 32, 64)}
"""
MEASURED = (
    "\n"
    + OPEN
    + """\
from fgrpo_bench.analysis import analysed
from fgrpo_bench.theory.measured import measure

found = measure(analysed(results), benchmark={benchmark!r})
"""
)
TAIL_MEASURED = (
    MEASURED
    + """\
rates, lost = found.success_rates, found.lost
averaged = {{n: tail_miss_probability(n, rates, rho * rates).mean() for n in result}}
"""
)
ADVANTAGE_MEASURED = (
    MEASURED
    + """\
counts, _ = np.histogram(found.success_rates, bins=20, range=(0, 1))
shares = counts / counts.sum()
"""
)
ADVANTAGE = """\
import numpy as np

from fgrpo_bench.theory import mean_advantage

result = mean_advantage(np.linspace(0, 1, 101), focal_gamma=0.5)
"""


def call(template: str, run: RunPaths, **values: object) -> str:
    """A template for a run."""
    names = {"sweep": run.sweep, "experiment": run.experiment, "version": run.version}
    return template.format(**names, **values)
