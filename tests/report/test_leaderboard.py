"""The table of methods: rows say what a sweep's analysis says, and the page what its rows say."""

from __future__ import annotations

import tarfile
from dataclasses import replace

import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.report import leaderboard
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.leaderboard import MARK, PAGE, Entry, put, rendered, stored_rows
from fgrpo_bench.stages.plan import DeclaredFamily
from tests.support.on_paths import FOCAL, PLAIN, SLOW, STILL, sweep_on_paths
from tests.support.report import copy

DECLARED = (
    f"sweep.family={{pairs: [focal], cells: [{{new: {STILL}, old: {PLAIN}}}], ks: null, "
    "columns: null, at: equal_pass_at_1}"
)
ROW = Entry(
    sweep="mine",
    experiment="countdown",
    version="v1",
    model="small",
    benchmark="countdown",
    n_problems=120,
    n_samples=64,
    steps=20,
    k=32,
    method="F-GRPO N=8 gamma=1",
    cell=FOCAL,
    against="GRPO N=8",
    seeds=(11, 12, 13),
    pass_at_1=0.301,
    pass_at_k=0.872,
    difference=0.152,
    low=0.061,
    high=0.258,
    p_holm=0.004,
    verdict="significant",
    train_cpu_seconds=11.25,
    train_gpu_seconds=0.0,
    finished="2026-01-02T03:04:05+00:00",
    git_commit="0123456789" * 4,
    git_dirty=False,
)
LESS = replace(ROW, method="F-GRPO N=8 gamma=0.5", cell=SLOW, difference=0.01, git_dirty=True)
APART = replace(ROW, method="GRPO N=32", cell=STILL, difference=None, low=None, reason="why")


@pytest.fixture(scope="module")
def on_paths(tmp_path_factory):
    return analyse(sweep_on_paths(tmp_path_factory.mktemp("paths"), DECLARED))


@pytest.mark.slow
def test_a_row_says_what_the_analysis_says_of_a_declared_comparison(on_paths):
    rows = {row.cell: row for row in leaderboard.entries(on_paths, on_paths.results)}
    assert rows.keys() == {FOCAL, SLOW, STILL}
    for compared in on_paths.equal_pass_at_1.filter(k=32, old=PLAIN).to_dicts():
        row = rows[compared["new"]]
        for name in ("pass_at_1", "pass_at_k", "difference", "low", "high", "p_holm", "verdict"):
            assert getattr(row, name) == compared[name], name
        assert row.seeds == (11, 12, 13) and row.k == 32 and row.against == "GRPO N=8"
    still = rows[STILL]
    assert still.verdict == "inconclusive" and "does not rise" in (still.reason or "")
    assert still.pass_at_1 is still.difference is None
    kept = rows[FOCAL]
    assert kept.train_cpu_seconds == 11.25 and kept.finished == "2026-01-02T03:04:05+00:00"
    assert kept.git_commit == "0" * 40 and (kept.n_problems, kept.n_samples) == (120, 64)


@pytest.mark.slow
@pytest.mark.usefixtures("plain_figures")
def test_an_unpacked_bundle_gives_the_same_rows(on_paths, tmp_path):
    results = copy(on_paths.results, tmp_path / "runs")
    out, page = tmp_path / "sent.tar.gz", tmp_path / "page.md"
    root = ["--root", str(results.paths.root)]
    assert main(["bundle", "groupsize", *root, "--out", str(out)]) == 0
    with tarfile.open(out) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (runs,) = (tmp_path / "unpacked").glob("*/runs")
    assert main(["leaderboard", "groupsize", "--root", str(runs), "--page", str(page)]) == 0
    rows = leaderboard.entries(on_paths, on_paths.results)
    assert list(stored_rows(page.with_suffix(".json"))) == rows


@pytest.mark.slow
def test_what_was_not_asked_before_is_refused_and_what_is_not_finished(analysis, on_paths):
    results = on_paths.results
    with pytest.raises(ValueError, match="is not declared at equal pass@1"):
        leaderboard.entries(analysis, analysis.results)
    late = DeclaredFamily(
        declared="2026-01-02", family="x", question="q", comparisons=3, sha256="y", trained=2
    )
    later = replace(results, record=replace(results.record, families=(late,)))
    with pytest.raises(ValueError, match="after a first training had finished"):
        leaderboard.entries(replace(on_paths, results=later), later)
    done = next(p for p in results.points if p.point_id == f"{FOCAL}-s12").evaluate.done
    marker = done.read_bytes()
    done.unlink()
    try:
        with pytest.raises(ValueError, match=f"{FOCAL}-s12: trained, not evaluated.*sweep run"):
            leaderboard.entries(analyse(results), results)
    finally:
        done.write_bytes(marker)


def test_a_page_keeps_its_words_and_the_rows_of_others(tmp_path):
    page = tmp_path / "ours.md"
    page.write_text(f"# Ours\n\nWords.\n\n{MARK}\n\nwhat stood there\n")
    theirs, before = replace(ROW, sweep="theirs"), replace(ROW, difference=0.5)
    assert put(page, [theirs])[0] == "theirs/countdown/v1: 1 rows, 0 replaced"
    put(page, [before])
    assert put(page, [APART, LESS, ROW])[0] == "mine/countdown/v1: 3 rows, 1 replaced"
    assert stored_rows(page.with_suffix(".json")) == (theirs, APART, LESS, ROW)
    text = page.read_text()
    assert text.startswith(f"# Ours\n\nWords.\n\n{MARK}\n") and "what stood there" not in text
    *_, lines = text.partition("| method")[2].split("\n", 2)
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines.split("\n")[:4]]
    assert [row[0] for row in shown] == [ROW.method, ROW.method, LESS.method, APART.method]
    assert shown[0][1:6] == ["11 to 13", "significant", "30.1", "87.2", "+15.2 [+6.1, +25.8]"]
    assert shown[0][6:] == ["0.0031 CPU-h", "2026-01-02", "01234567", "theirs/countdown/v1"]
    assert shown[2][8] == "01234567\\*" and shown[3][5] == "-" and "GRPO N=32: why." in text
    assert max(len(line) for line in text.split("\n") if not line.startswith("|")) <= 100
    stood = page.read_bytes()
    assert put(page, []) == [f"{page}: 4 rows"] and page.read_bytes() == stood


def test_only_what_was_compared_alike_stands_in_one_table_and_text_is_no_markup():
    other = replace(
        ROW, steps=40, method="<b>|x", seeds=(1, 2, 4, 5, 6, 9), train_gpu_seconds=432e3
    )
    text = rendered([ROW, other, LESS])
    assert text.count("| method |") == 2
    assert "| \\<b>\\|x | 1, 2, 4 to 6, 9 |" in text and "| 120 GPU-h |" in text


def test_a_page_without_its_mark_and_damaged_rows_are_refused(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("# No mark\n")
    assert main(["leaderboard", "--page", str(page)]) == 1
    assert "has no line" in capsys.readouterr().err and page.read_text() == "# No mark\n"
    page.unlink()
    write_json(page.with_suffix(".json"), {"rows": [{"sweep": 3}]})
    assert main(["leaderboard", "--page", str(page)]) == 1
    assert "rows[0].sweep is 3, not text" in capsys.readouterr().err and not page.exists()


def test_the_page_of_the_docs_says_what_its_rows_say():
    words, _, tables = PAGE.read_text(encoding="utf-8").partition(f"{MARK}\n")
    assert words and tables == rendered(stored_rows(PAGE.with_suffix(".json")))
