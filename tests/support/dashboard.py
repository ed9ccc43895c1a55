"""A synthetic sweep with draws and grades, some of them hostile, and reading pages as a browser."""

from __future__ import annotations

import itertools
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl

from fgrpo_bench.analysis.results import PointResult, SweepResults
from fgrpo_bench.analysis.scoring import count
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.specs.cell import Cell
from fgrpo_bench.stages.draws import DrawsRecord
from fgrpo_bench.stages.tables import (
    DRAWS,
    GRADES,
    PASSK,
    ROLLOUTS,
    UNFINISHED,
    read_table,
    write_table,
)
from fgrpo_bench.stats.staged import fixed_design
from tests.support.synthetic import SMALL, copy, template_root, write_sweep

TWO_SEEDS = [*SMALL, "sweep.grid.seed=[11,12]", "sweep.grid.group_size=[2,8]"]
GRADER = "countdown-1"
HOSTILE = (
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    '"><svg onload=window.hacked=1>',
    '<a href="javascript:window.hacked=1">click</a>',
    "[click](javascript:window.hacked=1)",
    "$\\href{javascript:window.hacked=1}{x}$",
    "$\\text{<script>window.hacked=1</script>}$",
    "{{ 7 * 191 }}{% raw %}",
    "right \u202eto left\u0000 \u001b[31m \ufeff end",
)
"""Model output that tries to be more than text."""


def sweep_with_draws(
    root: Path, *overrides: str, texts: tuple[str, ...] = ("one of $\\frac{1}{2}$",)
) -> SweepResults:
    """A finished sweep whose draws and grades agree with its pass@k; texts: the responses, in turn,
    which are also the extracted answers and the reasons. Made once a process, then copied."""
    return copy(_with_draws(overrides, texts), root)


@cache
def _with_draws(overrides: tuple[str, ...], texts: tuple[str, ...]) -> SweepResults:
    results = write_sweep(template_root(), overrides=[*TWO_SEEDS, *overrides])
    for point in results.points:
        for benchmark in results.benchmarks:
            add_draws(point, benchmark, texts)
        if point.cell is not None:
            add_rollouts(point, point.cell, texts)
    return results


def add_rollouts(point: PointResult, cell: Cell, texts: tuple[str, ...]) -> None:
    """Two steps of two groups, of which the first is all wrong and the second half right; texts:
    prompts and responses, in turn."""
    n, number = cell.group_size, itertools.count()
    rows = []
    for step, group, rollout in itertools.product((1, point.step), range(2), range(n)):
        is_right = group == 1 and rollout < n // 2
        weight = 0.5**cell.focal_gamma if group else 1.0
        rows.append(
            {
                "step": step,
                "group": group,
                "rollout": rollout,
                "prompt": texts[group % len(texts)],
                "response": texts[next(number) % len(texts)],
                "n_tokens": 4,
                "finish_reason": "stop" if rollout else "length",
                "outcome": "correct" if is_right else "incorrect",
                "reward": float(is_right),
                "advantage": weight * (1 if is_right else -1) if group else 0.0,
                "focal_weight": weight,
                "gradient_share": 0.25 / n if group else 0.0,
                "log_prob": -1.5 - rollout,
            }
        )
    write_table(point.train.rollouts, pl.DataFrame(rows, schema=ROLLOUTS), ROLLOUTS)


def add_draws(point: PointResult, benchmark: str, texts: tuple[str, ...]) -> None:
    """Draws and grades of a point as its pass@k table has them; the last draw is cut off, and the
    last ones are those that could not be judged."""
    paths = point.evaluate.benchmark(benchmark)
    table = read_table(paths.passk(), PASSK)
    table = table.filter(pl.col("k") == pl.col("k").min()).sort("problem_id")
    n, problems = read_json(point.evaluate.done)["target"]["n_samples"], table["problem_id"]
    size = n * len(problems)
    draw = np.tile(np.arange(n), len(problems))
    right, judged = (
        draw < np.repeat(table[name].to_numpy(), n) for name in ("n_correct", "n_scored")
    )
    outcome = np.where(right, "correct", np.where(judged, "incorrect", "unscored"))
    said = [texts[i % len(texts)] for i in range(size)]
    names = np.repeat(problems.to_list(), n).tolist()
    draws = {
        "problem_id": names,
        "draw": draw,
        "seed": np.arange(size),
        "response": said,
        "n_tokens": 5 + draw % 7,
        "finish_reason": np.where(draw == n - 1, "length", "stop").tolist(),
        "end_token": [None if cut else 1 for cut in draw == n - 1],
    }
    grades = {
        "problem_id": names,
        "draw": draw,
        "outcome": outcome.tolist(),
        "extracted": [None if i % 5 == 4 else text for i, text in enumerate(said)],
        "reason": [f"because {text}" for text in said],
        "grader_version": [GRADER] * size,
    }
    draws, grades = pl.DataFrame(draws, schema=DRAWS), pl.DataFrame(grades, schema=GRADES)
    write_table(paths.draws, draws, DRAWS)
    write_table(paths.grades(GRADER), grades, GRADES)
    counts = count(grades, fixed_design(n), draws=draws).select("problem_id", *UNFINISHED)
    passk = read_table(paths.passk(), PASSK).drop(UNFINISHED)
    counted = passk.join(counts, on="problem_id", maintain_order="left").select(PASSK.names())
    write_table(paths.passk(), counted, PASSK)
    marker = read_json(point.evaluate.done)
    marker["target"]["graders"] |= {benchmark: GRADER}
    write_json(point.evaluate.done, marker)
    engine = {"engine": "embedded", "torch": "2.13.0"}
    manifest = DrawsRecord(
        fingerprint=marker["fingerprint"],
        weights_sha256=None,
        prompts_sha256="p",
        engines=(engine,),
    )
    write_json(paths.manifest, manifest.as_json())


class Reader(HTMLParser):
    """What a page is made of: elements with their attributes, and the text that is shown."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._silent = 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._silent += tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag == "script"

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.text += data

    def hrefs(self) -> list[str]:
        """Where links and choosers lead."""
        found = [a.get("href") for tag, a in self.elements if tag == "a"]
        found += [a.get("value") for tag, a in self.elements if tag == "option"]
        return [href for href in found if href]


def assert_inert(html: str) -> None:
    """Nothing in a page runs but the project's own files."""
    for tag, attributes in Reader(html).elements:
        assert tag not in ("iframe", "object", "embed", "img", "base"), tag
        assert tag != "svg" or attributes.get("class") == "spark", attributes
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        if tag == "script" and attributes.get("type") != "application/json":
            source = attributes.get("src") or ""
            assert source.endswith(("/plotly.min.js", "/app.js", "/looks.js")), attributes
        for name in ("href", "src", "action", "value"):
            value = (attributes.get(name) or "").strip().lower()
            assert not value.startswith(("javascript:", "vbscript:", "data:text")), attributes


def snapshot(root: Path) -> dict[str, tuple[int, int]]:
    """Modification time and size of everything under a folder."""
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in sorted([root, *root.rglob("*")])
    }
