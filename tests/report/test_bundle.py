"""One archive of a sweep's results: the same report, and its digests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.analysis import analyse, analysed
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.build import render, write_report
from fgrpo_bench.report.exports import bundle
from fgrpo_bench.stages.tables import PASSK, read_table, write_table
from sweeps.local import drive
from tests.conftest import SOMEBODY
from tests.report.conftest import drawing_plainly
from tests.support.report import copy, made_of_tasks, published_and_gated, small_sweep
from tests.support.tiny_run import tiny_plan

pytestmark = pytest.mark.usefixtures("plain_figures")


@pytest.fixture(scope="module")
def archive(reported, tmp_path_factory) -> Path:
    results = copy(reported, tmp_path_factory.mktemp("packed"))
    out = tmp_path_factory.mktemp("out") / "smoke.tar.gz"
    with drawing_plainly():
        assert main(["bundle", "smoke", "--root", str(results.paths.root), "--out", str(out)]) == 0
    return out


@pytest.fixture
def unpacked(archive, tmp_path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    return folder


def fails(unpacked: Path) -> list[str]:
    """What sha256sum says of an unpacked bundle."""
    command = ["sha256sum", "--check", "--quiet", "manifest.sha256"]
    return subprocess.run(command, cwd=unpacked, capture_output=True, text=True).stdout.splitlines()


def test_an_unpacked_bundle_has_the_digest_of_every_file(unpacked):
    assert fails(unpacked) == []
    names = {p.relative_to(unpacked).as_posix() for p in unpacked.rglob("*") if p.is_file()}
    manifest = (unpacked / "manifest.sha256").read_text().splitlines()
    assert {line.partition("  ")[2] for line in manifest} == names - {"manifest.sha256"}
    (spec,) = unpacked.glob("runs/*/*/*/sweep.json")
    edit(spec, "smoke", "smog")
    assert fails(unpacked) == [f"{spec.relative_to(unpacked)}: FAILED"]


@pytest.mark.slow
@pytest.mark.rare
def test_an_unpacked_bundle_is_verified_to_what_was_left_out(unpacked, capsys):
    (report,) = unpacked.glob("runs/*/*/*/report")
    assert main(["--verify", str(report)]) == 0
    said = capsys.readouterr().out
    assert "built anew, nothing differs" in said
    assert re.search(r"not looked at: \d+ stored files that are not there, e\.g\. .*draws", said)
    (passk,) = list(unpacked.glob("runs/*/*/*/grpo-n4-*/eval/*/*/*/passk.parquet"))[:1]
    table = read_table(passk, PASSK)
    write_table(passk, table.with_columns(pass_at_k=pl.col("pass_at_k") / 2), PASSK)
    assert main(["--verify", str(report / "results.csv")]) == 1
    said = capsys.readouterr().out
    assert "passk.parquet: is not what the stored grades give" in said
    assert "passk.parquet: was changed since the report was built" in said


@pytest.mark.slow
def test_the_same_report_comes_from_the_unpacked_runs(unpacked, reported):
    run = reported.paths
    paths = RunPaths(
        root=unpacked / "runs", sweep=run.sweep, experiment=run.experiment, version=run.version
    )
    again, before = analyse(load_results(paths)), analysed(reported, is_kept=False)
    for kind in ("md", "csv"):
        assert render(again, kind) == render(before, kind)


def test_the_same_results_give_the_same_bytes(archive, results, tmp_path):
    again = tmp_path / "again.tar.gz"
    assert main(["bundle", "smoke", "--root", str(results.paths.root), "--out", str(again)]) == 0
    with tarfile.open(archive) as first, tarfile.open(again) as second:
        for one, other in zip(first, second, strict=True):
            assert one.name == other.name
            assert one.mtime == 0
            assert not one.uname
            assert first.extractfile(one).read() == second.extractfile(other).read(), one.name


@pytest.mark.slow
def test_a_bundle_of_a_real_run_names_no_folder_of_this_machine_and_no_user(real_run, tmp_path):
    out, here = tmp_path / "out.tar.gz", str(real_run.root)
    paths = replace(real_run, root=tmp_path / "runs")
    shutil.copytree(real_run.folder, paths.folder, symlinks=True)
    words = ["bundle", "smoke", "--draws", "--root", str(paths.root), "--out", str(out)]
    assert main(words) == 0
    with tarfile.open(out) as packed:
        contents = {each.name: packed.extractfile(each).read() for each in packed}
    assert f"smoke-countdown-tiny-v1/runs/{paths.sweep_json.relative_to(paths.root)}" in contents
    for name, content in contents.items():
        own = (here, str(tmp_path), SOMEBODY)
        assert not [each for each in own if each.encode() in content], name
    before = paths.sweep_json.read_bytes()  # in a root that it was moved to
    assert drive.run(tiny_plan(paths.root)[0].declaration, finish=lambda *_: None) == 0
    assert paths.sweep_json.read_bytes() == before


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.slow
@pytest.mark.usefixtures("plain_figures")
def test_no_text_of_a_gated_benchmark_is_packed(tmp_path):
    results = published_and_gated(tmp_path / "runs")
    write_report(results)
    left_out = bundle.pack(analysed(results), tmp_path / "nine.tar.gz", name="nine", draws=True)
    (said,) = left_out
    assert said.startswith("grades and draws of gpqa: a gated benchmark")
    with tarfile.open(tmp_path / "nine.tar.gz") as packed:
        names = packed.getnames()
    assert any(name.endswith("gpqa/passk.parquet") for name in names)
    assert not any("gpqa/grades" in name or "gpqa/draws.parquet" in name for name in names)
    with tarfile.open(tmp_path / "nine.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    assert fails(tmp_path / "nine") == []
    (report,) = (tmp_path / "nine").glob("runs/*/*/*/report")
    assert main(["--verify", str(report)]) == 0


@pytest.mark.slow
def test_an_unpacked_bundle_tells_the_tasks_of_a_benchmark_without_its_problems(tmp_path):
    results = made_of_tasks(small_sweep(tmp_path / "packed", "smoke"))
    run, data = results.paths, tmp_path / "shared"
    (run.folder / "_data" / "problems").rename(data)  # as a sweep links to a dataset
    (run.folder / "_data" / "problems").symlink_to(data)
    for point in results.points:
        spec = read_json(point.evaluate.spec)
        link = os.path.relpath(run.folder / "_data" / "problems", point.evaluate.folder)
        spec["data"] = {"countdown": link}
        write_json(point.evaluate.spec, spec)
    (data / "problems.parquet").write_bytes(b"no text of a problem is packed")
    before, out = analyse(load_results(run)).by_value, tmp_path / "smoke.tar.gz"
    assert main(["bundle", "smoke", "--root", str(run.root), "--out", str(out)]) == 0
    with tarfile.open(out) as packed:
        packed.extractall(tmp_path / "theirs", filter="data")
    shutil.rmtree(run.root)
    shutil.rmtree(data)
    (unpacked,) = (tmp_path / "theirs").iterdir()
    paths = RunPaths(root=unpacked / "runs", sweep=run.sweep, experiment=run.experiment,
                     version=run.version)  # fmt: skip
    again = analyse(load_results(paths)).by_value
    assert len(again) and again.equals(before)
    assert {path.name for path in unpacked.glob("runs/*/*/*/_data/*/*")} == {"columns.parquet"}
