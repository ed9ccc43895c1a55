"""No path is a pattern: what looks like one reads its own files and no other's."""

from __future__ import annotations

import ast
import shutil
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.analysis.scoring import count, score
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.report.__main__ import main as report
from tests.report.conftest import drawing_plainly
from tests.support.dashboard import add_draws
from tests.support.synthetic import write_sweep
from tests.support.tiny_run import ONE_POINT, TINY

PACKAGES = ("fgrpo_bench", "evaluators", "sweeps", "dashboards")
REPOSITORY = Path(__file__).parents[2]
SCHEMA_ALONE = ("read_parquet_schema",)


def takes_pattern(node: ast.AST) -> bool | None:
    """Whether a call of a Polars function that reads a file would expand `*`, `?` and `[1]` in a
    path; None where it is no such call."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name("pl" | "polars"), attr=name)):
            if not name.startswith(("read_", "scan_")) or name in SCHEMA_ALONE:
                return None
            words = {word.arg: ast.unparse(word.value) for word in node.keywords}
            return words.get("glob") != "False"
    return None


@pytest.mark.slow
def test_no_reader_of_the_sources_takes_a_path_for_a_pattern() -> None:
    calls = {
        f"{path.relative_to(REPOSITORY)}:{node.lineno}": takes_pattern(node)
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*.py")
        for text in [path.read_text(encoding="utf-8")]
        if "read_" in text or "scan_" in text  # most have neither
        for node in ast.walk(ast.parse(text))
        if takes_pattern(node) is not None
    }
    assert len(calls) >= 4
    assert [place for place, wrong in calls.items() if wrong] == []


@pytest.mark.slow
def test_a_root_that_reads_as_a_pattern_is_scored_reported_and_verified_by_its_own_files(
    real_run: RunPaths, tmp_path: Path, capsys
) -> None:
    assert real_run.root.name == "runs[1]*?"
    finished = replace(real_run, root=tmp_path / "roots" / real_run.root.name)
    shutil.copytree(real_run.folder, finished.folder, symlinks=True)
    for point in write_sweep(tmp_path / "roots/runs1xy", "smoke", [*TINY, *ONE_POINT]).points:
        add_draws(point, "countdown", ("other",))  # which the pattern would match
    for point in load_results(finished).points:
        paths = point.evaluate.benchmark("countdown")
        grades = pl.read_parquet(BytesIO(paths.grades("countdown-1").read_bytes()))
        draws = pl.read_parquet(BytesIO(paths.draws.read_bytes()))
        design = point.stopping()
        expected = score(count(grades, design, draws=draws), [1, 4, 16], design).drop("cluster")
        assert point.passk("countdown").drop("cluster").equals(expected)
    file = finished.report / "results.csv"
    assert report(["--verify", str(file), "--regrade"]) == 0
    assert "nothing differs" in capsys.readouterr().out
    plain = replace(finished, root=tmp_path)
    shutil.copytree(finished.folder, plain.folder)
    with drawing_plainly():
        assert report(["smoke", "--root", str(tmp_path)]) == 0
    assert (plain.report / "results.csv").read_text() == file.read_text()
