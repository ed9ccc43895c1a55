"""`fgrpo-bench compare`: whom its words mean, what is compared, said and refused."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from itertools import combinations
from math import comb
from pathlib import Path

import polars as pl
import pytest

from evaluators.__main__ import main
from evaluators.compare import changed_most, compare
from evaluators.readings import readings_table
from evaluators.stored import closing_table, find
from fgrpo_bench import compare_counts
from fgrpo_bench.analysis.checkpoints import table_estimates
from fgrpo_bench.analysis.readings import FATES, READINGS, ProblemDraws
from fgrpo_bench.analysis.results import SweepResults, together
from fgrpo_bench.analysis.rows import ALL, SEVERAL, Comparison, from_frame
from fgrpo_bench.analysis.stored import analysed
from fgrpo_bench.documents.table import with_interval
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.graders import GRADERS, PartialCredit
from fgrpo_bench.graders.countdown import grade
from fgrpo_bench.report.__main__ import main as report
from fgrpo_bench.report.exports.command import FORMATS
from fgrpo_bench.report.tables.solutions import solution_tables
from fgrpo_bench.stages.tables import PASSK, read_table
from tests.report.conftest import drawing_plainly
from tests.support.dashboard import sweep_with_draws
from tests.support.synthetic import write_sweep

SUMS = [{"question": f"What is {i} + {i}?", "answer": str(2 * i)} for i in range(12)]
DRAWS = 8


@pytest.fixture
def mine(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, with a file of problems."""
    monkeypatch.chdir(tmp_path)
    write("mine.jsonl", SUMS)
    return tmp_path


@pytest.fixture
def sweep(root: Path) -> SweepResults:
    return write_sweep(root)


def write(name: str, rows: list[dict]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def numbers(*words: str) -> dict:
    """What `compare --json` prints: JSON and nothing else."""
    with redirect_stdout(StringIO()) as out:
        assert main(["compare", *words, "--json"]) == 0
    return json.loads(out.getvalue())


def imported(name: str, n_correct: list[int], *more: str) -> None:
    """An evaluation of that name, with so many correct draws of each of SUMS."""
    lines = [
        {
            "problem": row["question"],
            "responses": [f"\\boxed{{{row['answer'] if i < c else -1}}}" for i in range(DRAWS)],
        }
        for row, c in zip(SUMS, n_correct, strict=False)
    ]
    write(f"{name}.jsonl", lines)
    assert main(["import", f"{name}.jsonl", "--data", "mine.jsonl", "--name", name, *more]) == 0


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What the command prints, or where it refuses, what stands on stderr."""
    capsys.readouterr()
    assert main(["compare", *words]) == code
    shown = capsys.readouterr()
    return shown.err if code == 1 else shown.out


@pytest.mark.slow
def test_cells_of_a_sweep_have_the_differences_of_its_analysis(sweep, root, capsys):
    run = "groupsize/countdown/v1"
    of = compare([f"{run}/grpo-n8-g0", f"{run}/grpo-n8-g0.5"], root)
    (pair,) = of.pairs()
    wanted = from_frame(
        Comparison, analysed(sweep).comparisons.filter(new=pair[0], old=pair[1], column="countdown")
    )
    assert len(wanted) > 2 and pair == ("grpo-n8-g0.5", "grpo-n8-g0")
    for row, same in zip(of.differences("countdown", *pair), wanted, strict=True):
        assert (row.k, row.difference, row.low, row.high, row.p, row.p_draws, row.seeds) == (
            same.k, same.difference, same.low, same.high, same.p, same.p_draws, same.seeds
        )  # fmt: skip
    shown = said(capsys, f"{run}/grpo-n8-g0", f"{run}/grpo-n8-g0.5")
    assert "Intervals and p are over problems and 3 seeds, paired in order." in shown
    assert ": grpo-n8-g0.5 is " in shown.rpartition("Over all k at once, by a 95% band")[2]
    assert "One checkpoint of each" in said(
        capsys, f"before={run}/grpo-n8-g0-s11", f"after={run}/grpo-n8-g0.5-s11"
    )


def test_several_places_are_seeds_and_one_stands_beside_all_of_them(sweep, root, capsys):
    run = "groupsize/countdown/v1"
    seeds = ",".join(f"{run}/grpo-n8-g0.5-s{seed}" for seed in (11, 12, 13))
    shown = said(capsys, f"base={run}/grpo-n8-g0-s11", f"ours={seeds}")
    assert "base: one model, which stands beside every seed." in " ".join(shown.split())
    with pytest.raises(ValueError, match="has 2 seeds and another one 3: name as many of each"):
        compare([f"a={seeds.rpartition(',')[0]}", f"b={seeds}"], root)


@pytest.mark.slow
def test_names_that_differ_in_a_step_are_checkpoints_of_one_run_compared_at_equal_pass_at_1(
    mine, root, capsys
):
    even = [1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2]
    imported("start", even)
    for step in (1, 2, 3):
        wide = [c + step for c in even]
        narrow = [c + 2 * step if i < 8 else 0 for i, c in enumerate(even)]
        imported(f"wide-step-{step}00", wide)
        imported(f"narrow-step-{step}00", [min(c, DRAWS) for c in narrow])
    runs = [
        f"{name}=" + ",".join(f"{name}-step-{step}00" for step in (2, 1, 3))
        for name in ("narrow", "wide")
    ]
    of = compare(["base=start", *runs], root)
    assert [(item.label, item.step) for item in of.checkpoints] == [
        ("base", 0),
        ("narrow", 300),
        ("wide", 300),
    ]
    assert [at.step for at in of.checkpoints[1].run_checkpoints] == [100, 200, 300]
    rows = of.analysis.equal_pass_at_1.filter(k=8)
    (row,) = rows.to_dicts()
    assert (row["new"], row["old"]) == ("wide", "narrow") and row["difference"] > 0.1
    shown = said(capsys, "base=start", *runs)
    assert "At equal pass@1, in pass@8: wide" in shown
    apart = compare(["start", "wide-step-100", "wide-step-200"], root)
    assert len(apart.labels) == 3 and apart.analysis.path_ranges.is_empty()


@pytest.mark.slow
def test_what_was_won_and_lost_and_changed_most_is_told_problem_by_problem(mine, root, capsys):
    imported("old", [8] * 4 + [1] * 4 + [0] * 4)
    imported("new", [8] * 4 + [0] * 4 + [8] + [0] * 3)
    of = compare(["old", "new"], root)
    (benchmark,) = of.analysis.results.benchmarks
    changed = changed_most(of, benchmark, "new", "old")
    assert [(c.text, c.old, c.new) for c in changed] == [
        ("What is 8 + 8?", 0.0, 1.0),
        *((f"What is {i} + {i}?", 1 / 8, 0.0) for i in range(4, 8)),
    ]
    shown = said(capsys, "old", "new")
    assert "Problems within reach at k = 8, expected: " in shown and "What is 8 + 8?" in shown
    assert "12.5    0.0" in shown
    assert "new is " in shown.rstrip().splitlines()[-1], "the verdict stands last"


@pytest.mark.slow
def test_all_that_is_shown_is_of_the_problems_and_k_that_both_have_so_that_columns_subtract(
    mine, root, capsys
):
    imported("old", [8] * 4 + [0] * 8)
    imported("new", [2, 8, 0, 1, 8], "--subset")
    passk = next(root.glob("evals/new/**/passk.parquet"))  # as were a draw there not to be judged
    is_short = pl.col("problem_id") == pl.col("problem_id").sort().first()
    lacking = pl.when(~(is_short & (pl.col("k") == DRAWS))).then("pass_at_k").alias("pass_at_k")
    pl.read_parquet(passk).with_columns(lacking).write_parquet(passk)
    shown = said(capsys, "old", "new")
    words = " ".join(shown.split())
    assert ": 5 problems are shared and compared; it has old 12, new 5." in words
    assert "What old, new read, and how many tokens were allowed, is not known." in words
    everything = numbers("old", "new", "--csv", "c.csv", "--md", "c.md", "--html", "c.html")
    table = pl.read_csv("c.csv")
    assert table["n_problems"].to_list() == [5, 5, 5, 4]  # at k = 8 one lacks a judged draw
    apart = table["pass_at_k_new"] - table["pass_at_k_old"]
    assert apart.to_list() == pytest.approx(table["difference"].to_list(), abs=1e-12)
    assert table["pass_at_k_old"][0] == 0.8
    assert pl.DataFrame(everything["rows"])["pass_at_k_old"].equals(table["pass_at_k_old"])
    for text in (shown, Path("c.md").read_text(), Path("c.html").read_text()):
        assert "80.0 [" in text and "33.3 [" not in text
    assert together(root, ["old", "new"]).checkpoints[0].passk(
        *together(root, ["old", "new"]).benchmarks
    )["problem_id"].n_unique() == 5  # fmt: skip


@pytest.mark.slow
def test_files_hold_every_number_and_a_page_stands_alone(mine, capsys):
    imported("old", [4] * 6 + [1] * 6)
    imported("new", [2] * 12)
    files = ("--html", "c.html", "--md", "c.md", "--csv", "c.csv")
    assert said(capsys, "old", "new", *files).split() == ["c.html", "c.md", "c.csv"]
    everything, rows = numbers("old", "new"), pl.read_csv("c.csv")
    assert pl.DataFrame(everything["rows"])["difference"].to_list() == rows["difference"].to_list()
    assert rows["k"].to_list() == [1, 2, 4, 8] and set(rows["n_problems"]) == {12}
    for row in everything["rows"]:  # the same from the counts alone
        of = compare_counts(old=[4] * 6 + [1] * 6, new=[2] * 12, n_samples=DRAWS, k=row["k"])
        ours = (of.old, of.new, of.difference, of.low, of.high, of.p_value, of.p_draws)
        names = ("pass_at_k_old", "pass_at_k_new", "difference", "ci_low", "ci_high", "p")
        theirs = [row[name] for name in (*names, "p_draws")]
        assert [pytest.approx(part, abs=1e-12) for part in ours] == theirs
    assert everything["labels"] == ["old", "new"] and everything["problems"][0]["lost"] > 0
    page = Path("c.html").read_text()
    assert page.count("<svg") >= 1 and "http" not in page.replace("http://www.w3.org", "")
    assert "| 8 | " in Path("c.md").read_text()


@pytest.mark.slow
def test_draws_of_another_program_are_compared_as_they_lie(mine, root, capsys):
    imported("old", [4] * 12)
    imported("new", [2] * 12)
    for name in ("old", "new"):
        (mine / f"{name}-run").mkdir()
        (mine / f"{name}.jsonl").rename(mine / f"{name}-run" / "samples_mine_2026.jsonl")
    as_imported = said(capsys, "old", "new")
    files = said(
        capsys, "old=old-run", "new=new-run/samples_mine_2026.jsonl", "--data", "mine.jsonl"
    )
    assert files.startswith("problems: mine.jsonl, columns ") and files.endswith(as_imported)
    assert len(list(root.glob("evals/samples_mine_2026-*"))) == 2
    assert said(capsys, "old=old-run", "new", "--data", "mine.jsonl").endswith(as_imported)
    assert "give the problems with answers by --data" in said(capsys, "old-run", "new", code=1)


@pytest.mark.slow
def test_they_have_a_report_that_can_be_verified_and_exports(mine, root, capsys):
    imported("old", [8] * 6 + [1] * 6)
    imported("new", [2] * 12)
    with drawing_plainly():
        assert report(["evals/old+new"]) == 0
        shown = capsys.readouterr().out
        folder = root / "evals" / "old+new" / "together" / "report"
        for name in ("report.md", "report.tex", "report.html", "results.csv", "appendix.md"):
            text = (folder / name).read_text()
            assert "Base" not in text and "question" not in text.replace("question_", ""), name
        assert "# new against old on mine-" in (folder / "report.md").read_text()
        assert "engines that differ" not in shown
        assert report(["--verify", str(folder), "--regrade"]) == 0
        page = folder / "results.csv"
        page.write_text(page.read_text().replace(",1,0.", ",1,1."))
        assert report(["--verify", str(folder)]) == 1
    assert "results.csv, line " in capsys.readouterr().out
    assert report(["evals/odl"]) == 1
    assert "no finished evaluation 'odl' (did you mean old?)" in capsys.readouterr().err
    for to in set(FORMATS) - {"hf-eval-results"}:
        assert report(["export", "evals/old+new", "--to", to]) == 0
        assert any(folder.parents[1].glob(f"together/exports/{to}/**/*old*")), to
        assert any(folder.parents[1].glob(f"together/exports/{to}/**/*new*")), to


@pytest.mark.slow
def test_a_fall_gives_an_exit_code(mine, capsys):
    imported("old", [8] * 12)
    imported("new", [2] * 12)
    assert "new minus old" in said(capsys, "old", "new", "--fail-if-worse", "1", code=3)
    said(capsys, "new", "old", "--fail-if-worse", "1")
    assert "--fail-if-worse 3: k is one of 1, 2, 4, 8, those" in said(
        capsys, "old", "new", "--fail-if-worse", "3", code=1
    )


@pytest.mark.slow
def test_what_cannot_be_compared_is_refused_with_its_remedy(mine, sweep, capsys):
    imported("old", [4] * 12)
    write("mine.jsonl", SUMS[:9])
    imported("other", [4] * 9)
    write("mine.jsonl", SUMS)
    imported("judged", [4] * 12, "--grader", "math-tolerance")
    run = "groupsize/countdown/v1"
    for words, wanted in {
        ("old",): "name at least two to compare",
        ("old", "od"): "od (did you mean old?): no evaluation there, and none of that name under",
        ("old", "old"): "are both called 'old': give each its own label",
        ("old", "other"): "no benchmark is common to the checkpoints that are compared",
        ("old", "judged"): "no benchmark is common to the checkpoints that are compared",
        (f"{run}/grpo-n8-g0", f"{run}/grpo-n9-g0"): "has no cell 'grpo-n9-g0' (did you mean grpo-",
    }.items():
        assert wanted in said(capsys, *words, code=1), words
    with pytest.raises(SystemExit):
        main(["compare", "old", "judged", "--data", "mine.jsonl"])
    assert "--data mine.jsonl says what a file of draws is of, and" in capsys.readouterr().err
    stage = next(Path("runs/evals/old").glob("eval/*/step-00000"))
    marker = stage / "DONE.json"
    kept = read_json(marker)
    marker.unlink()
    imported("again", [4] * 12)
    assert "old is not evaluated (" in said(capsys, "old", "again", code=1)
    write_json(marker, kept)
    assert "new minus old" not in said(capsys, "old", "again")


@pytest.mark.slow
def test_they_are_compared_by_another_layer_of_grades_once_each_has_it(mine, root, capsys):
    imported("new", [2] * 12)
    unboxed = re.sub(r"\\\\boxed\{(-?\d+)\}", r"It makes \1", Path("new.jsonl").read_text())
    Path("old.jsonl").write_text(unboxed, encoding="utf-8")
    assert main(["import", "old.jsonl", "--data", "mine.jsonl", "--name", "old"]) == 0
    refused = said(capsys, "old", "new", "--strict", code=1)
    assert "old has no grades of math-strict-" in refused and " --strict` first" in refused
    for name, share in (("old", "0.0"), ("new", "25.0")):
        capsys.readouterr()
        assert main(["grade", name, "--strict"]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        ends = {line[1]: line[5] for line in lines if len(line) > 5 and line[4] == "1"}
        assert ends == {"math": "25.0", "math-strict": share}, name
    assert main(["grade", "old", "--strict", "--grader", "math"]) == 1
    assert {row["difference"] for row in rows_of("old", "new")} == {0.0}
    (first, *_) = rows_of("old", "new", "--strict")
    assert (first["pass_at_k_old"], first["pass_at_k_new"]) == (0.0, 0.25)
    assert "Judged by math-strict-" in said(capsys, "old", "new", "--strict")
    assert "old has no grades of math-tolerance-" in said(
        capsys, "old", "new", "--grader", "math-tolerance", code=1
    )


def rows_of(*words: str) -> list[dict]:
    """The rows of a comparison."""
    return numbers(*words)["rows"]


@pytest.mark.slow
def test_shares_cut_off_by_place_and_unscored_stand_beside_pass_at_k_and_unlike_ones_come_first(
    mine, root, capsys
):
    imported("unsaid", [4] * 12)
    assert "not known" in capsys.readouterr().out  # without a finish_reason in the file
    for name in ("old", "new"):
        lines = []
        for row in SUMS:  # in one the first draw is cut off, and the first three have no box
            for i in range(DRAWS):
                answer = row["answer"] if i < 4 else -1
                text = f"It makes {answer}" if name == "new" and i < 3 else f"\\boxed{{{answer}}}"
                ended = "length" if name == "new" and i == 0 else "stop"
                lines.append({"problem": row["question"], "response": text, "finish_reason": ended})
        write(f"{name}.jsonl", lines)
        assert main(["import", f"{name}.jsonl", "--data", "mine.jsonl", "--name", name]) == 0
    closing = capsys.readouterr().out
    assert [line.split()[-3:] for line in closing.splitlines() if " math " in line][-1] == [
        *("12.5%", "25.0%", "75.0%")
    ]
    passk = next(root.glob("evals/new/**/passk.parquet"))
    judged = {"n_scored": pl.lit(6, pl.Int64), "n_unscored": pl.lit([DRAWS - 6])}
    pl.read_parquet(passk).with_columns(**judged).write_parquet(passk)
    kept = numbers("old", "new", "--md", "c.md")
    assert kept["remarks"][0].startswith("Of old 0.0% of the draws on mine-")
    assert "of new 12.5%" in kept["remarks"][0]
    names = ("unscored", "cut_off", "correct_cut_off", "correct_by_place", "all_wrong", "all_right")
    for side, shares in (("old", (0.0, 0.0, 0.0, 0.0)), ("new", (0.25, 0.125, 0.25, 0.75))):
        for row in kept["rows"]:
            ends = (
                row[f"pass_at_k_{side}"],
            ) * 2  # of the stored bounds, which are left as they are
            assert tuple(row[f"{name}_{side}"] for name in names) == (*shares, *ends), side
    page = Path("c.md").read_text()
    for name, share in (("", "12.5%"), ("correct, of which ", "25.0%")):
        assert f"| {name}cut off | 0.0% | {share} |" in page
    assert "| correct, of which by place | 0.0% | 75.0% |" in page
    assert " (25.0% unscored: 50.0 to 50.0)" in page


LEVELS = [*["easy"] * 5, *["hard"] * 4, "odd", None, None]
"""Of SUMS: five, four and one, and two without."""


@pytest.fixture
def with_levels(mine: Path) -> Path:
    """The same, whose problems have a level, an own number and a source."""
    rows = [
        row | {"level": level, "number": i, "source": "sums"}
        for i, (row, level) in enumerate(zip(SUMS, LEVELS, strict=True))
    ]
    write("mine.jsonl", rows)
    return mine


@pytest.mark.slow
def test_a_comparison_by_level_has_the_numbers_of_each_level_alone(with_levels, root, capsys):
    imported("old", [8, 8, 8, 8, 4, *[2] * 4, 8, 8, 8])
    imported("new", [8, 8, 8, 4, 4, *[6] * 4, 0, 0, 0])
    outs = ("--csv", "c.csv", "--md", "c.md", "--html", "c.html")
    everything = numbers("old", "new", "--by", "level", *outs)["rows"]
    rows = pl.read_csv("c.csv")
    assert rows.filter(pl.col("value").is_null())["k"].to_list() == [1, 2, 4, 8]
    assert set(rows["by"]) == {"level"}
    first = {row["value"]: row for row in rows.filter(k=1).drop_nulls("value").to_dicts()}
    # easy: (1 + 1 + 1 + 1 + 1/2) / 5 and (1 + 1 + 1 + 1/2 + 1/2) / 5; hard: 1/4 and 3/4; odd: 1, 0
    sides = {
        value: (row["pass_at_k_old"], row["pass_at_k_new"], row["difference"], row["n_problems"])
        for value, row in first.items()
    }
    assert sides == {
        "easy": (pytest.approx(0.9), pytest.approx(0.8), pytest.approx(-0.1), 5),
        "hard": (pytest.approx(0.25), pytest.approx(0.75), pytest.approx(0.5), 4),
        "odd": (1.0, 0.0, -1.0, 1),
    }
    assert first["odd"]["ci_low"] is None and first["odd"]["p_holm"] is None
    smaller, larger = sorted((first["easy"]["p"], first["hard"]["p"]))
    holms = sorted((first["easy"]["p_holm"], first["hard"]["p_holm"]))
    assert holms == pytest.approx([min(2 * smaller, 1), max(min(2 * smaller, 1), larger)])
    assert [row["value"] for row in everything if row["k"] == 8] == [None, "easy", "hard", "odd"]
    shown = said(capsys, "old", "new", "--by", "level")
    for text in (shown, Path("c.md").read_text(), Path("c.html").read_text()):
        words = " ".join(text.split())
        assert " by level: new minus old, pass@k in percent, differences in" in words
        assert "-100.0" in words and "2 of 12 problems have nothing in level" in words
        assert "Of one problem, and so without an interval: odd." in words
        assert "p Holm: corrected over the values of the column" in words
    assert "level" not in said(capsys, "old", "new")


@pytest.mark.slow
def test_the_closing_table_tells_pass_at_k_by_level(with_levels, capsys):
    imported("old", [8, 8, 8, 8, 4, *[2] * 4, 8, 8, 8], "--by", "level")
    closing = capsys.readouterr().out
    _, _, by_level = closing.partition(": pass@k in percent by level\n")
    rows = [line.split() for line in by_level.splitlines() if line.startswith("math")]
    assert [(row[1], row[2], row[3], row[5]) for row in rows if row[4] == "1"] == [
        ("easy", "5", "8", "90.0"),
        ("hard", "4", "8", "25.0"),
        ("odd", "1", "8", "100.0"),
    ]
    assert "Of one problem, and so without an interval: odd." in closing
    assert main(["grade", "old", "--by", "level"]) == 0
    assert ": pass@k in percent by level\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_column_that_does_not_tell_problems_apart_is_refused_before_any_work(
    with_levels, root, capsys
):
    imported("old", [4] * 12)
    imported("new", [4] * 12)
    before = {path: path.stat().st_mtime_ns for path in root.glob("evals/**/*.parquet")}
    for by, wanted in {
        "levle": "no column of the problems is called so, of those that hold short texts or numb"
        "ers; mine-",
        "question": "--by question: no column of the problems is called so",
        "number": "--by number: 12 different values over 12 problems of mine-",
    }.items():
        refused = said(capsys, "old", "new", "--by", by, code=1)
        assert wanted in refused and " has level (3 values)" in refused and "source" not in refused
        for words in (
            ["grade", "old", "--by", by],
            ["import", "new.jsonl", "--data", "mine.jsonl", "--name", "again", "--by", by],
        ):
            assert main(words) == 1
            assert wanted in capsys.readouterr().err, words
    assert {path: path.stat().st_mtime_ns for path in root.glob("evals/**/*.parquet")} == before
    assert not (root / "evals" / "again").exists()


@pytest.mark.slow
def test_problems_that_were_prepared_without_their_columns_are_prepared_again(
    with_levels, root, capsys
):
    imported("old", [4] * 12)
    imported("new", [4] * 12)
    (columns,) = root.glob("_data/mine-*/columns.parquet")
    columns.write_bytes(columns.read_bytes() + b"!")
    assert "it was changed or damaged since it was prepared" in said(
        capsys, "old", "new", "--by", "level", code=1
    )
    columns.unlink()
    refused = said(capsys, "old", "new", "--by", "level", code=1)
    done = columns.with_name("DONE.json")
    assert f"delete {done.resolve()} and prepare it again" in refused
    done.unlink()
    imported("third", [4] * 12)
    assert "by level: new minus old" in said(capsys, "old", "new", "--by", "level")
    assert "level" not in said(capsys, "old", "new")


@pytest.mark.slow
def test_intervals_of_the_closing_table_follow_the_clusters(with_levels, root, capsys):
    imported("old", [8, 8, 8, 8, 4, *[2] * 4, 8, 8, 8])
    alone = closing_table(find("old"))
    passk = next(root.glob("evals/old/**/passk.parquet"))
    table = pl.read_parquet(passk)
    half = pl.col("problem_id").str.slice(-1).cast(pl.Int64) // 6
    table.with_columns(cluster=half.cast(pl.String)).write_parquet(passk)
    clustered = closing_table(find("old"))
    assert "70.8 [40.8, 92.7]" in alone and "70.8 [" in clustered
    (at_1, *_) = table_estimates(read_table(passk, PASSK))
    assert with_interval(at_1.mean, at_1.low, at_1.high) in clustered
    assert with_interval(at_1.mean, at_1.low, at_1.high) in str(
        readings_table(find("old"), ["pass^k"]).rows
    )
    assert "70.8 [40.8, 92.7]" not in clustered


@pytest.mark.slow
def test_other_readings_of_the_draws_stand_beside_pass_at_k(mine: Path, capsys) -> None:
    imported("before", [8] * 6 + [4] * 6)
    imported("after", [2] * 12)
    words = ("before", "after", "--also", "pass^k,maj@k,best@k")
    all_right, majority, best = numbers(*words)["also"]
    by_cell = {(row[0], row[1]): row[2].split()[0] for row in all_right["rows"]}
    assert by_cell["before", "8"] == "50.0" and by_cell["after", "8"] == "0.0"
    assert by_cell["before", "1"] == "75.0" and by_cell["after", "1"] == "25.0"
    won = {(row[0], row[1]): row[2].split()[0] for row in majority["rows"]}
    # of 8 draws 4 are right and 4 are one wrong answer, so that chance decides
    assert won["before", "8"] == "75.0" and won["after", "8"] == "0.0"
    one_of_8 = {row[0]: row[2:] for row in best["rows"] if row[1] == "1"}
    assert one_of_8["before"][0].startswith("0.750 [") and one_of_8["after"][1].startswith("-0.500")
    assert "math says right or wrong alone, so that best@k is pass@k there" in best["notes"][0]
    capsys.readouterr()
    assert main(["grade", "before", "--also", "gini,cover@0.65,distinct@k"]) == 0
    printed = capsys.readouterr().out
    assert "gini" in printed and "cover@0.65 47.4 to 100.0" in printed and "distinct@k" in printed
    assert main(["grade", "before", "--grader", "countdown-partial", "--also", "best@k"]) == 0
    assert re.search(r"countdown-partial +8 +0\.000 \[", capsys.readouterr().out)


@pytest.mark.slow
def test_best_at_k_is_of_the_scores_that_a_trainer_has_dumped(mine: Path) -> None:
    scores = {"old": (1.0, 0.1, 0.1, 0.0), "new": (0.1, 0.0, 0.0, 0.0)}
    for name, of_problem in scores.items():
        rows = [
            {"input": row["question"], "output": "x", "gts": row["answer"], "step": 1, "score": s}
            for i, row in enumerate(SUMS)
            for s in (of_problem if i < 6 else scores["old"])
        ]
        write(f"{name}.jsonl", rows)
    words = ("--verdicts", "theirs", "--threshold", "1", "--also", "best@k")
    compared = numbers("old.jsonl", "new.jsonl", *words)
    (best,) = compared["also"]
    assert best["title"].endswith(": best@k, the largest reward")
    values = {
        (row[0], int(row[1])): [None if text == "-" else float(text.split()[0]) for text in row[2:]]
        for row in best["rows"]
    }
    for k in (1, 2, 4):
        means = {
            name: sum(map(max, combinations(of, k))) / comb(4, k) for name, of in scores.items()
        }
        new = (means["old"] + means["new"]) / 2
        assert values["old.jsonl", k] == [pytest.approx(means["old"], abs=6e-4), None]
        assert values["new.jsonl", k] == pytest.approx([new, new - means["old"]], abs=6e-4)


@pytest.mark.slow
def test_what_is_no_reading_of_these_draws_is_refused(mine: Path, capsys) -> None:
    imported("before", [8] * 12)
    imported("after", [2] * 12)
    for words, refusal in (
        ("grade before --also best@8", "--also 'best@8': choose among pass^k, maj@k, best@k"),
        ("compare before after --also gini", "--also 'gini': choose among"),
        ("compare before after --also solutions", "are one solution, its gold"),
        ("grade before --also cover@0.1", "draw 50, or take a larger tau"),
    ):
        assert main(words.split()) == 1
        assert refusal in capsys.readouterr().err, words


@pytest.mark.slow
def test_solutions_of_a_sweeps_cells_are_kept_moved_or_lost(root: Path, capsys) -> None:
    sweep = sweep_with_draws(root, texts=("9*3-2*1", "3*9-2", "9+8+8"))
    run = "/".join((sweep.paths.sweep, sweep.paths.experiment, sweep.paths.version))
    cells = list(dict.fromkeys(point.label for point in sweep.points))[:2]
    words = [*(f"{run}/{cell}" for cell in cells), "--also", "distinct@k,share@k,solutions"]
    distinct, share, mass = numbers(*words)["also"]
    values = [float(row[2].split()[0]) for row in distinct["rows"] if row[0] == cells[0]]
    assert values == sorted(values) and values[-1] > 1.5, "two solutions, not three texts"
    assert {row[2] for row in share["rows"]} == {"-"}, "these problems are not the task's"
    of = ProblemDraws(n_samples=4, votes={(True, "9"): 2, (False, "8"): 1}, n_solutions=2)
    assert READINGS["share@k"].values([of], [1]) == [[0.25]]
    in_report = next(
        table
        for table in solution_tables(analysed(sweep), "countdown")
        if "became of the base models' right solutions" in table.title
    )
    halves, under = mass["rows"]
    assert [list(row[3:6]) for row in in_report.rows[:2]] == [halves[1:], under[1:]]
    for row in mass["rows"]:
        assert all(0 <= float(part.split()[0]) <= 100 for part in row[1:])


@pytest.mark.slow
def test_the_frame_of_readings_has_what_compare_says_while_grades_are_there(
    root: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GRADERS, "countdown", (1, PartialCredit(grade)))
    sweep = sweep_with_draws(root, texts=("scored 0.25; 9*3-2", "3*9-2", "9+8+8"))
    run = "/".join((sweep.paths.sweep, sweep.paths.experiment, sweep.paths.version))
    analysis = analysed(sweep)
    cells = list(analysis.by_cell)[:2]
    words = [*(f"{run}/{cell}" for cell in cells), "--also", "distinct@k,best@k,pass^k,solutions"]
    distinct, best, all_right, mass = numbers(*words)["also"]
    rows = {(row.reading, row.cell, row.k): row for row in analysis.rows("readings")}
    titles = [table.title for table in solution_tables(analysis, "countdown")]
    assert any("in percent but for best@k and distinct@k [" in title for title in titles)
    for word, table in (("distinct@k", distinct), ("best@k", best), ("pass^k", all_right)):
        for cell, k, value, _ in table["rows"]:
            row, scale = rows[word, cell, int(k)], 100 if word == "pass^k" else 1
            assert float(value.split()[0]) == pytest.approx(scale * row.mean, abs=0.051), row
    under = rows["kept", cells[1], None]
    assert float(mass["rows"][1][1].split()[0]) == pytest.approx(100 * under.mean, abs=0.051)
    parts = [rows[fate, cells[1], None].mean for fate in ("kept", "moved", "lost")]
    assert sum(parts) == pytest.approx(
        sum(rows[fate, "base", None].mean for fate in ("kept", "moved", "lost")), abs=0.05
    )
    gini = rows["gini", cells[1], None]
    assert gini.mean is None and gini.is_bounds and 0 <= gini.low <= gini.high <= 1
    for path in {item.evaluate for item in sweep.checkpoints if item.label == cells[1]}:
        for grades in path.benchmark("countdown").folder.glob("grades.*"):
            grades.unlink()
    left_behind = analysed(sweep).rows("readings")
    assert {row.cell for row in left_behind} == set(analysis.by_cell) - {cells[1]}


@pytest.mark.slow
def test_readings_of_problems_with_several_solutions_are_of_these_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_with_draws(root, texts=("9*3-2*1", "3*9-2", "9+8+8"))
    base = [item.passk("countdown").filter(k=1) for item in sweep.checkpoints if item.cell is None]
    names = sorted(base[0]["problem_id"])
    several = names[: len(names) // 3]
    numbers_of = dict.fromkeys(names, 1) | dict.fromkeys(several, 2)
    monkeypatch.setattr("fgrpo_bench.analysis.readings.solution_counts", lambda *_: numbers_of)
    rows = {
        (row.problems, row.reading, row.k): row
        for row in analysed(sweep).rows("readings")
        if row.cell == sweep.points[-1].label
    }
    of_several = {reading for part, reading, _ in rows if part == SEVERAL}
    assert of_several == {"distinct@k", "share@k", *FATES}
    for part, of_part in ((ALL, names), (SEVERAL, several)):
        fates = [rows[part, fate, None] for fate in FATES]
        solved = [table.filter(pl.col("problem_id").is_in(of_part))["pass_at_k"] for table in base]
        assert {row.n_problems for row in fates} == {len(of_part)}
        assert sum(row.mean for row in fates) == pytest.approx(pl.concat(solved).mean())
    share, distinct = rows[SEVERAL, "share@k", 1], rows[SEVERAL, "distinct@k", 1]
    assert share.mean == pytest.approx(distinct.mean / 2), "two solutions each"
