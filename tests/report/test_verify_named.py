"""Every kind of thing that a report says is found where it was edited, and named by its place."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import polars as pl
import pytest

from fgrpo_bench.analysis import analysed
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report import verify as module
from fgrpo_bench.report.build import FILES, write_report
from fgrpo_bench.report.verify import verify
from fgrpo_bench.stages.digests import with_checksum
from tests.report.conftest import drawing_plainly
from tests.support.graded import forge
from tests.support.report import MANY_PROBLEMS, constant, copy, forget, small_sweep


def once(function):
    """A function of an analysis that is always the same."""
    known = {}

    def again(analysis, *rest, **named):
        key = (rest, *named.items())
        if key not in known:
            known[key] = function(analysis, *rest, **named)
        return known[key]

    return again


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A report with significant differences, and a point missing; what verifying it computes again
    is computed once."""
    with drawing_plainly() as patch:
        rates = constant(Base=0.3, GRPO=0.05, F_GRPO=0.1)
        whole = small_sweep(
            tmp_path_factory.mktemp("planted"), "groupsize", MANY_PROBLEMS, success_rates=rates
        )
        results = forget(whole, "grpo-n4-g0-s12")
        write_report(results)
        analysis = analysed(results)
        patch.setattr(module, "analyse", lambda results, _: replace(analysis, results=results))
        for name in ("render", "draw"):
            patch.setattr(module, name, once(getattr(module, name)))
        yield results


def found(results, name):
    """What verifying says beside that the drawings of the sweep are not stored."""
    differences = verify(results.paths.report / name, root=results.paths.root, regrade=False)
    return [line for line in differences.differences if "there are no grades" not in line]


METHODS = "Group size: pass@1 / pass@32 in percent"
INTERVALS = "countdown: pass@k in percent with 95% intervals"
FOCAL, INCOMPLETE = "row method F-GRPO, gamma 0.5", "row method GRPO, N 4"
CAPTION = r"\1; all of it exact"
ALL_OF_IT = "'## Group size: pass@1 / pass@32 in percent; all"
NO_ROW = "has no such line, computed again '| GRPO | 8 | 0 |"
PLAIN_8 = "row method GRPO, $N$ 8, column countdown: has"
PLAIN_4 = "row method GRPO, $N$ 4, column countdown: has"
COUNTED = "'Differences': has '"
EDITS = [
    # number, verdict, bold, dagger, title, caption, words, row, header
    (
        "report.md",
        r"(\| GRPO \| 8 \| 0 \| )5\.1",
        r"\g<1>5.4",
        f"{INTERVALS!r}, row method GRPO, N 8, ",
    ),
    ("report.md", r"(gamma=0\.5 \| 1 .*\| )significant", r"\1open", "column verdict: has 'open'"),
    ("appendix.md", r"\*\*(<ins>10\.1</ins>)\*\*", r"\1", f"{FOCAL}, column countdown: has"),
    ("appendix.md", r"(4\.9)†", r"\1", f"{INCOMPLETE}, column countdown: has"),
    ("appendix.md", r"(## Group size.*)", CAPTION, ALL_OF_IT),
    ("report.md", r"\n(Training of GRPO.*)", "\nTraining.", "'Further figures': has 'Training.'"),
    (
        "report.md",
        r"(\*\*pass@1: significant rise in )2",
        r"\g<1>1",
        f"{COUNTED}  - **pass@1: significant",
    ),
    ("report.md", r"\| GRPO \| 8 \| 0 \|.*\n", "", NO_ROW),
    ("report.md", r"(\| method .*\| )pass@32", r"\1all", "has '| method | N | gamma | pass@1"),
    # number, dagger, caption
    ("appendix.tex", r"(GRPO & 8 & 0 & )5\.1", r"\g<1>5.4", PLAIN_8),
    ("appendix.tex", r"(4\.9)\$\^\\dagger\$", r"\1", PLAIN_4),
    ("appendix.tex", r"(\\caption\{Group size)", r"\1s", "'\\\\caption{Group sizes: pass@1"),
    # number, header
    ("results.csv", r"(,GRPO,grpo,8,0.0,20,countdown,1,)0", r"\g<1>1", "k 1, column pass_at_k"),
    ("results.csv", r"ci_high", "ci_low", "results.csv, line 1: has 'sweep,experiment,"),
    # number, bold, title, words, figure
    (
        "report.html",
        r"(<td>8</td><td>0</td><td>)5\.1",
        r"\g<1>5.4",
        f"{INTERVALS!r}, row method GRPO, ",
    ),
    ("appendix.html", r"<strong>(<u>10\.1</u>)</strong>", r"\1", f"{FOCAL}, column countdown: has"),
    ("appendix.html", r"(<h2[^>]*>Group size[^<]*)", CAPTION, f"{METHODS!r}: has '<h2 id="),
    (
        "report.html",
        r"(<strong>pass@1: significant rise in )2",
        r"\g<1>1",
        f"{COUNTED}<ul><li>GRPO N=8",
    ),
    ("report.html", r'd="M 10 20"', 'd="M 10 21"', "pass@32?': has '"),
]
"""A file, what is replaced in it by what, and what is said of it."""


def test_what_nobody_edited_does_not_differ(planted):
    for name in set(FILES.values()) - {"by-task.csv"}:
        assert found(planted, name) == []


def test_an_edit_is_named_by_table_row_and_column(planted, tmp_path):
    results = copy(planted, tmp_path)
    for name, pattern, replacement, said in EDITS:
        file = results.paths.report / name
        whole = file.read_text(encoding="utf-8")
        edited, n = re.subn(pattern, replacement, whole, count=1)
        assert n == 1, pattern
        file.write_bytes(edited.encode())
        forge(results)
        differences = found(results, name)
        assert any(said in line for line in differences), (pattern, differences)
        assert all(line.startswith(f"{name}, line ") for line in differences), pattern
        file.write_bytes(whole.encode())


def test_drawings_of_another_program_are_not_called_a_difference_of_the_page(planted, tmp_path):
    results = copy(planted, tmp_path)
    page, record = results.paths.report / "report.html", results.paths.report / "provenance.json"
    page.write_text(page.read_text().replace("M 10 20", "M 10.0 20"))
    known = read_json(record) | {"drawn_with": "matplotlib 0"}
    del known["content_sha256"]
    write_json(record, known)
    forge(results)
    assert found(results, "report.html") == []
    unseen = verify(page, root=results.paths.root, regrade=False).unseen
    assert any("they were drawn with matplotlib 0, and this is" in line for line in unseen)
    page.write_text(page.read_text().replace("64 draws per problem", "65 draws per problem"))
    forge(results)
    assert found(results, "report.html")


def test_an_edited_frame_is_named_by_row_and_column(planted, tmp_path):
    results = copy(planted, tmp_path)
    path = results.paths.analysis / "comparisons.parquet"
    frame = pl.read_parquet(path)
    this = (pl.col("new") == "grpo-n8-g1") & (pl.col("old") == "grpo-n8-g0") & (pl.col("k") == 8)
    other = pl.when(this).then(0.5).otherwise("p").alias("p")
    frame.with_columns(other).write_parquet(path)
    changed, named = found(results, "results.csv")
    since = "since the analysis was stored"
    assert changed == f"analysis/comparisons.parquet: was changed {since}"
    where = "comparisons.parquet, row k 8, group GRPO N=8, focal weight against none, name gamma=1"
    assert f"{where}, column p: has 0.5, computed again " in named
    frame[1:].write_parquet(path)
    assert any("the number of rows: has " in line for line in found(results, "results.csv"))
    path.unlink()
    assert found(results, "results.csv") == [f"{changed.partition(':')[0]}: is missing {since}"]


def test_edited_facts_of_an_analysis_are_found_and_one_of_other_results_is_not_looked_at(
    planted, tmp_path
):
    results = copy(planted, tmp_path)
    at = results.paths.analysis / "analysis.json"
    facts = read_json(at)
    for key, value in (("version", 1), ("inputs", "0" * 64), ("family", "another")):
        write_json(at, facts | {key: value})
        said = found(results, "results.csv")
        assert said[0] == "analysis/analysis.json: was changed after the analysis was stored"
    del facts["content_sha256"]
    write_json(at, with_checksum(facts | {"inputs": "0" * 64}))
    assert found(results, "results.csv") == []
    file = results.paths.report / "results.csv"
    unseen = verify(file, root=results.paths.root, regrade=False).unseen
    assert any(line.startswith("the stored analysis, of other results") for line in unseen)


FLIPS = 2
"""Bits of each file that are flipped, one at a time."""


def test_any_flipped_bit_of_any_file_is_found(planted):
    """Where its digest is forged as well, by computing again what it says."""
    folder = planted.paths.report
    files = {
        path.suffix + path.stem[:6]: path for path in sorted(folder.iterdir())
    }  # figures: some
    contents = {path: path.read_bytes() for path in files.values()}
    record = folder / "provenance.json"
    for file, whole in contents.items():
        drawn = Random(file.name)
        for _ in range(FLIPS):
            at = drawn.randrange(len(whole))
            file.write_bytes(
                whole[:at] + bytes([whole[at] ^ 1 << drawn.randrange(8)]) + whole[at + 1 :]
            )
            if file == record:
                try:
                    assert found(planted, "report.md"), at
                except ValueError as refused:
                    assert str(record) in str(refused)
            else:
                for forged in (False, True):
                    if forged:
                        forge(planted)
                    assert any(file.name in line for line in found(planted, file.name)), (file, at)
            file.write_bytes(whole)
            record.write_bytes(contents[record])
