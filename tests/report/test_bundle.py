"""One archive of a sweep's results: the same report, and a check that needs Python alone."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import tarfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from fgrpo_bench import StagedDesign, pass_at_k
from fgrpo_bench.analysis import analyse, analysed
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.build import render
from fgrpo_bench.report.exports import bundle, check_bundle
from fgrpo_bench.results import load_results
from fgrpo_bench.stages.paths import RunPaths
from sweeps.local import drive
from tests.support.report import copy, published_and_gated
from tests.support.staged import DESIGN, OTHER, staged_sweep
from tests.support.tiny_run import tiny_plan, tiny_run


@pytest.fixture(scope="module")
def archive(reported, tmp_path_factory) -> Path:
    results = copy(reported, tmp_path_factory.mktemp("packed"))
    out = tmp_path_factory.mktemp("out") / "smoke.tar.gz"
    assert main(["bundle", "smoke", "--root", str(results.paths.root), "--out", str(out)]) == 0
    return out


@pytest.fixture
def unpacked(archive, tmp_path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    return folder


def checked(path: Path) -> tuple[int, str]:
    """Exit code and words of the check, by an interpreter that sees the standard library alone."""
    program = Path(check_bundle.__file__)
    given = [sys.executable, "-I", "-S", str(program), str(path)]
    done = subprocess.run(given, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_the_check_needs_python_alone(archive, unpacked):
    for path in (archive, unpacked):
        code, said = checked(path)
        assert code == 0, said
        assert "means of pass@k follow from the counts" in said


def test_the_same_report_comes_from_the_unpacked_runs(unpacked, reported):
    run = reported.paths
    paths = RunPaths(
        root=unpacked / "runs", sweep=run.sweep, experiment=run.experiment, version=run.version
    )
    again, before = analyse(load_results(paths)), analysed(reported, is_kept=False)
    for kind in ("md", "csv"):
        assert render(again, kind) == render(before, kind)


def test_the_same_results_give_the_same_bytes(archive, reported, tmp_path):
    again = tmp_path / "again.tar.gz"
    results = copy(reported, tmp_path / "runs")
    assert main(["bundle", "smoke", "--root", str(results.paths.root), "--out", str(again)]) == 0
    with tarfile.open(archive) as first, tarfile.open(again) as second:
        for one, other in zip(first, second, strict=True):
            assert one.name == other.name
            assert one.mtime == 0
            assert not one.uname


def test_a_bundle_of_a_real_run_names_no_folder_of_this_machine_and_no_user(tmp_path, monkeypatch):
    home = tmp_path / "home of somebody"
    for name, value in {"HOME": str(home), "USER": "somebody", "LOGNAME": "somebody"}.items():
        monkeypatch.setenv(name, value)
    paths, out = tiny_run(home / "runs"), tmp_path / "out.tar.gz"
    words = ["bundle", "smoke", "--draws", "--root", str(paths.root), "--out", str(out)]
    assert main(words) == 0
    with tarfile.open(out) as packed:
        contents = {each.name: packed.extractfile(each).read() for each in packed}
    assert f"smoke-countdown-tiny-v1/runs/{paths.sweep_json.relative_to(paths.root)}" in contents
    for name, content in contents.items():
        assert not [each for each in (str(tmp_path), "somebody") if each.encode() in content], name
    before = paths.sweep_json.read_bytes()
    paths.root.rename(tmp_path / "moved")
    moved = replace(paths, root=tmp_path / "moved")
    assert drive.run(tiny_plan(moved.root)[0].declaration, finish=lambda *_: None) == 0
    assert moved.sweep_json.read_bytes() == before


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_every_edit_is_named(unpacked):
    with (unpacked / "counts.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if int(row["n_correct"]))
    counts = ",".join([row["problem_id"], row["n_drawn"], row["n_scored"]])
    edit(unpacked / "counts.csv", f"{counts},{row['n_correct']}", f"{counts},0")
    (spec,) = unpacked.glob("runs/*/*/*/sweep.json")
    edit(spec, "smoke", "smog")
    (table,) = unpacked.glob("runs/*/*/*/report/report.md")
    table.unlink()
    (unpacked / "more.txt").write_text("x")
    code, said = checked(unpacked)
    assert code == 1
    for line in (
        "counts.csv: was changed after the bundle was made",
        "sweep.json: was changed after the bundle was made",
        "report/report.md: is missing",
        "more.txt: is not of this bundle",
        f"estimates.csv: {row['benchmark']}, {row['cell']}",
        "from the counts",
    ):
        assert line in said


def test_what_is_no_bundle_is_an_error_in_a_line(tmp_path):
    garbage = tmp_path / "x.tar.gz"
    garbage.write_bytes(b"garbage")
    with tarfile.open(tmp_path / "link.tar.gz", "w:gz") as packed:
        member = tarfile.TarInfo("x/manifest.json")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(member, io.BytesIO())
    for path in (garbage, tmp_path / "link.tar.gz"):
        code, said = checked(path)
        assert code == 1
        assert said.startswith("error: ")
        assert "Traceback" not in said


def test_no_text_of_a_gated_benchmark_is_packed(tmp_path):
    results = published_and_gated(tmp_path / "runs")
    left_out = bundle.pack(analysed(results), tmp_path / "nine.tar.gz", name="nine", draws=True)
    (said,) = left_out
    assert said.startswith("grades and draws of gpqa: a gated benchmark")
    with tarfile.open(tmp_path / "nine.tar.gz") as packed:
        names = packed.getnames()
    assert any(name.endswith("gpqa/passk.parquet") for name in names)
    assert not any("gpqa/grades" in name or "gpqa/draws.parquet" in name for name in names)
    assert checked(tmp_path / "nine.tar.gz")[0] == 0


def test_means_of_draws_that_stop_follow_from_the_counts_too(tmp_path):
    results = staged_sweep(tmp_path / "runs")
    bundle.pack(analysed(results), tmp_path / "staged.tar.gz", name="staged", draws=False)
    code, said = checked(tmp_path / "staged.tar.gz")
    assert code == 0, said


@pytest.mark.parametrize("design", [DESIGN, OTHER, StagedDesign(stages=(3, 5, 9), enough=3)])
def test_the_checks_pass_at_k_is_that_of_the_package(design):
    drawn, correct = design.ends()
    for n, c in zip(drawn.tolist(), correct.tolist(), strict=True):
        for k in range(1, design.stages[-1] + 1):
            ours = design.pass_at_k(n_drawn=n, n_correct=c, k=k)
            none = (0,) * len(design.stages)
            checks = check_bundle.pass_at_k(design.stages, design.enough, n, n, c, none, k)
            assert float(checks) == pytest.approx(ours, abs=1e-12)
    assert check_bundle.pass_at_k((), 0, 8, 8, 3, (), 2) == Fraction(9, 14)
    assert pass_at_k(n_samples=8, n_correct=3, k=2) == pytest.approx(9 / 14)


@pytest.mark.parametrize("n_unscored", [(1, 0, 0), (0, 1, 0), (1, 1, 2)])
def test_it_is_so_with_draws_that_could_not_be_judged(n_unscored):
    lost = [sum(n_unscored[: i + 1]) for i in range(3)]
    for stage, n in enumerate(DESIGN.stages):
        own = [*n_unscored[: stage + 1], *([0] * (2 - stage))]
        for c in range(n - lost[stage] + 1):
            for k in range(1, 9):
                try:
                    ours = DESIGN.pass_at_k(n_drawn=n, n_correct=c, k=k, n_unscored=own)
                except ValueError:
                    continue  # the design cannot end so
                given = (DESIGN.stages, DESIGN.enough, n, n - sum(own), c, own, k)
                checks = check_bundle.pass_at_k(*given)
                assert (checks is None) == (ours != ours)
                if checks is not None:
                    assert float(checks) == pytest.approx(ours, abs=1e-12)
