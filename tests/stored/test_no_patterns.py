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
from tests.support.dashboard import add_draws
from tests.support.synthetic import write_sweep
from tests.support.tiny_run import ONE_POINT, TINY

PACKAGES = ("fgrpo_bench", "evaluators", "sweeps", "dashboards")
REPOSITORY = Path(__file__).parents[2]
SCHEMA_ALONE = ("read_parquet_schema",)


def readers(tree: ast.AST) -> list[ast.Call]:
    """Calls of a Polars function that reads a file."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in ("pl", "polars")
        and node.func.attr.startswith(("read_", "scan_"))
        and node.func.attr not in SCHEMA_ALONE
    ]


def takes_patterns(call: ast.Call) -> bool:
    """Whether a call would expand `*`, `?` and `[1]` in a path."""
    return not any(
        word.arg == "glob" and isinstance(word.value, ast.Constant) and word.value.value is False
        for word in call.keywords
    )


def test_a_reader_is_told_from_one_that_takes_patterns() -> None:
    code = "pl.read_parquet(a)\npl.scan_csv(b, glob=True)\npl.read_parquet(c, glob=False)\nf.read_x"
    assert [takes_patterns(call) for call in readers(ast.parse(code))] == [True, True, False]


def test_no_reader_of_the_sources_takes_a_path_for_a_pattern() -> None:
    calls = {
        f"{path.relative_to(REPOSITORY)}:{call.lineno}": takes_patterns(call)
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*.py")
        for call in readers(ast.parse(path.read_text(encoding="utf-8")))
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
        own = pl.read_parquet(BytesIO(paths.grades("countdown-1").read_bytes()))
        expected = score(count(own), [1, 4, 16]).drop("cluster")
        assert point.passk("countdown").drop("cluster").equals(expected)
    file = finished.report / "results.csv"
    assert report(["--verify", str(file), "--regrade"]) == 0
    assert "none differs" in capsys.readouterr().out
    plain = replace(finished, root=tmp_path)
    shutil.copytree(finished.folder, plain.folder)
    assert report(["smoke", "--root", str(tmp_path)]) == 0
    assert (plain.report / "results.csv").read_text() == file.read_text()
