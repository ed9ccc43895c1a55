"""Every table is set by a real LaTeX, with the packages that its first line names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.analysis import Analysis, analyse
from fgrpo_bench.documents.latex import PREAMBLE, escape_latex, latex_table
from fgrpo_bench.documents.table import Table
from fgrpo_bench.paper.published.__main__ import main as paper_tables
from fgrpo_bench.report.build import FILES, latex, write_files
from tests.latex.install import LATEX
from tests.support.report import ONE_SEED, forget, nine_benchmarks, small_sweep, with_frames

pytestmark = pytest.mark.latex


TWO_COLUMNS = r"""\documentclass[twocolumn]{article}
\usepackage[letterpaper,textwidth=6.75in,textheight=9in,columnsep=.25in]{geometry}"""


def set_by_latex(folder: Path, tables: str, begins: str = r"\documentclass{article}") -> str:
    """The words of the PDF; raises where LaTeX complains or something is larger than its place.

    begins: the first lines.
    """
    needed = re.findall(r"\\usepackage\{[^}]*\}", tables.splitlines()[0])
    document = [begins, *needed, r"\begin{document}", tables, r"\end{document}"]
    (folder / "paper.tex").write_text("\n".join(document), encoding="utf-8")
    return pdf_words(folder, "paper")


def pdf_words(folder: Path, name: str) -> str:
    """Those of the PDF that a .tex file of a folder gives; raises as `set_by_latex`."""
    LATEX.require()
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    assert done.returncode == 0, done.stdout[-3000:]
    for complaint in ("Overfull", "too large", "multiply defined"):
        assert complaint not in done.stdout, done.stdout
    return subprocess.run(
        ["pdftotext", "-layout", f"{name}.pdf", "-"], cwd=folder, capture_output=True, text=True
    ).stdout


def both(analysis: Analysis, folder: Path) -> str:
    """The main file and its appendix; the figures that it shows are written into the folder."""
    kinds = ("latex", "latex-appendix")
    write_files(analysis, folder, formats=kinds, compare_paper=False)
    return "\n".join((folder / FILES[kind]).read_text() for kind in kinds)


def test_the_tables_and_figures_of_a_sweep_compile_as_they_are(tmp_path):
    words = set_by_latex(tmp_path, both(analyse(small_sweep(tmp_path)), tmp_path))
    assert "GRPO" in words and "Checkpoints: the last one of every run." in words
    assert re.search(r"Figure \d+: Pass@1 against pass@32 on countdown", words)


def test_tables_and_figures_fit_an_article_of_two_columns(tmp_path):
    results = small_sweep(tmp_path, "groupsize", ONE_SEED)
    text = both(analyse(results), tmp_path)
    words = set_by_latex(tmp_path, text, TWO_COLUMNS)
    assert "Figure 7:" in words and text.count(r"\includegraphics{") == 5
    kinds = set(re.findall(r"\\begin\{((?:table|figure)\*?)\}", text))
    assert kinds == {"table", "table*", "figure", "figure*"}


def test_a_paper_compiles_by_itself(tmp_path):
    analysis = analyse(small_sweep(tmp_path, "groupsize", ONE_SEED))
    write_files(analysis, tmp_path, formats=["latex"], compare_paper=False)
    words = pdf_words(tmp_path, "main")
    main, _, appendix = words.partition("\f")
    for name in ("Table 1:", "Figure 1:", "Figure 2:"):
        assert name in main, "the main part is one page"
    assert "Further tables and figures" in appendix and "Figure 7:" in appendix


def test_nine_benchmarks_with_averages_and_gaps_fit_the_page(tmp_path):
    results = nine_benchmarks(tmp_path, "gamma")
    ids = [point.point_id for point in results.points if "-g2-" in point.point_id]
    words = set_by_latex(tmp_path, both(analyse(forget(results, *ids[:4])), tmp_path))
    assert "average in-domain" in words and "Incomplete, 2 of 3 seeds" in words
    assert "†" in words


def test_the_papers_tables_compile_as_they_are(tmp_path, capsys):
    assert paper_tables(["--format", "latex"]) == 0
    words = set_by_latex(tmp_path, capsys.readouterr().out)
    assert "table 10, Qwen2.5-7B" in words and "Olympiad" in words


def test_whatever_a_name_holds_is_set_as_text(tmp_path):
    hostile = r"50% & $x_1$ #2 {a} \input{/etc/passwd} ~^<>| é 中 [x] *"
    table = Table(title=hostile, header=(hostile, "n"), rows=((hostile, "1"), ("[b]", "2")))
    made = f"{PREAMBLE}\n{latex_table(table, caption=escape_latex(table.title))}"
    words = set_by_latex(tmp_path, made)
    assert r"\input{/etc/passwd}" in words and "root:" not in words


def test_a_hostile_engine_in_the_footnotes_compiles(tmp_path):
    analysis = analyse(small_sweep(tmp_path))
    hostile = ["cpu Intel(R) ™ 50%_#1", r"cpu \end{document}"] * len(analysis.completeness)
    engine = pl.Series("engine", hostile[: len(analysis.completeness)])
    changed = with_frames(analysis, completeness=analysis.completeness.with_columns(engine))
    words = set_by_latex(tmp_path, latex(changed))
    assert "engines that differ" in words
