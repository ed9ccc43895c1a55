"""Checkpoints from anywhere are analysed like those of a sweep, and no view asks for a sweep."""

from __future__ import annotations

import inspect
import pkgutil
import re
from dataclasses import replace
from importlib import import_module

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dashboards
import fgrpo_bench.analysis
import fgrpo_bench.report
import fgrpo_bench.stats
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint, from_evaluation
from fgrpo_bench.analysis.frames import analyse
from fgrpo_bench.analysis.results import SweepResults, load_for_compare
from fgrpo_bench.report.build import terminal_text


def brought(finished: SweepResults) -> list[EvaluatedCheckpoint]:
    """The sweep's checkpoints as somebody brings them: a folder with a label and a seed."""
    return [
        from_evaluation(point.evaluate.folder, point.label, seed=point.seed, step=point.step)
        for point in finished.points
    ]


def shown(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    return frame.select(names).sort(names)


@pytest.mark.slow
def test_checkpoints_without_a_sweep_have_the_numbers_that_they_have_in_one(
    finished, analysis
) -> None:
    other = analyse(load_for_compare(brought(finished)))
    numbers = ("column", "cell", "k", "mean", "low", "high", "n_problems")
    assert_frame_equal(shown(other.estimates, *numbers), shown(analysis.estimates, *numbers))
    numbers = ("benchmark", "problem_id", "cell", "seed", "n_drawn", "n_scored", "n_correct")
    assert_frame_equal(shown(other.problems, *numbers), shown(analysis.problems, *numbers))
    numbers = ("column", "new", "old", "k", "difference", "low", "high", "p")
    alike = shown(analysis.comparisons, *numbers).join(
        shown(other.comparisons, *numbers), on=numbers, how="semi", nulls_equal=True
    )
    assert len(alike) == len(analysis.comparisons) > 0, (
        "every pair of the sweep, with the same numbers"
    )
    assert not other.has_family
    assert len(other.cost) == len(other.checkpoints) == 0, "which a sweep alone has"


def test_labels_are_any_text_and_seeds_may_be_unknown(finished) -> None:
    base, *_, last = brought(finished)
    named = ((base, "Qwen, as it came"), (last, "ours | v2"))
    mine = [replace(each, label=label, seed=None) for each, label in named]
    analysis = analyse(load_for_compare(mine))
    assert set(analysis.estimates["cell"]) == {"Qwen, as it came", "ours | v2"}
    (pair,) = analysis.comparisons.select("new", "old").unique().rows()
    assert pair == ("ours | v2", "Qwen, as it came")
    assert "Checkpoints: as they were given." in terminal_text(analysis)


def test_what_cannot_be_compared_is_refused_with_a_remedy(finished, tmp_path) -> None:
    first, *others = brought(finished)
    with pytest.raises(ValueError, match=r"there is no checkpoint .* name some"):
        load_for_compare([])
    with pytest.raises(ValueError, match=r"are both called .* give each its own label"):
        load_for_compare([first, replace(others[-1], label=first.label.upper(), seed=first.seed)])
    with pytest.raises(ValueError, match=r"has no seed, and others have one: .* or none"):
        load_for_compare([first, replace(others[-1], seed=None)])
    with pytest.raises(ValueError, match=r"of step 0 and .* of step 7: .* a label of its own"):
        load_for_compare([first, replace(first, seed=99, step=7)])
    with pytest.raises(ValueError, match=r"label 'a\\nb': must be 1 to 80 characters"):
        from_evaluation(first.evaluate.folder, "a\nb")
    with pytest.raises(FileNotFoundError, match=r"holds no evaluation: run `fgrpo-bench evaluate"):
        from_evaluation(tmp_path, "mine")


OF_SWEEPS = {
    "fgrpo_bench.analysis.checkpoints": "chooses among the checkpoints of a sweep's runs",
    "fgrpo_bench.analysis.frames": "completeness is counted over a sweep's points",
    "fgrpo_bench.analysis.stored": "frames are kept in a sweep's folder",
    "fgrpo_bench.analysis.other_scores": "likelihoods are stages of a plan",
    "fgrpo_bench.analysis.published": "looks up the published figure of a sweep's cell",
    "fgrpo_bench.report.narrative": "who made a sweep's results",
    "fgrpo_bench.report.leaderboard": "rows are of a declared sweep",
    "fgrpo_bench.report.provenance": "digests of a sweep's files",
    "dashboards.pages.sweep": "the page of a sweep's progress",
    "dashboards.queries": "opens the sweeps under a root",
}
"""Modules whose functions may ask for a sweep or its points, and why."""
SWEEPS = re.compile(r"\b(SweepResults|SweepPoint|SweepSpec|PointResult|Plan)\b")


def test_no_signature_asks_for_a_sweep_but_those_that_show_what_a_sweep_adds() -> None:
    asking = set()
    for package in (fgrpo_bench.stats, fgrpo_bench.analysis, fgrpo_bench.report, dashboards):
        names = {
            each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        }
        for module in (import_module(n) for n in names if not n.endswith("__main__")):
            for _, function in inspect.getmembers(module, inspect.isfunction):
                taken = dict(inspect.get_annotations(function))
                taken.pop("return", None)
                if function.__module__ == module.__name__ and SWEEPS.search(str(taken)):
                    asking.add(module.__name__)
    assert asking == set(OF_SWEEPS)
