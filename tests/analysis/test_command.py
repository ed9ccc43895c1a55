"""`python -m fgrpo_bench.analysis`: the frames listed, and one as CSV."""

from __future__ import annotations

import io

import polars as pl
import pytest

from fgrpo_bench.analysis.__main__ import main
from fgrpo_bench.analysis.rows import FRAMES
from tests.support.report import copy


@pytest.fixture(scope="module")
def root(finished, tmp_path_factory):
    return copy(finished, tmp_path_factory.mktemp("listed")).paths.root


def test_the_frames_are_listed_with_their_columns(root, capsys):
    assert main(["groupsize", "--root", str(root)]) == 0
    folder, *lines = capsys.readouterr().out.splitlines()
    assert folder.endswith("groupsize/countdown/v1/analysis")
    assert [line.split()[0] for line in lines] == list(FRAMES)
    assert "84 rows: column, k, group, name, new" in lines[2]


def test_a_frame_is_printed_as_csv_with_what_stands_in_a_list_in_one_column(root, capsys, analysis):
    assert main(["groupsize", "--root", str(root), "--frame", "comparisons"]) == 0
    frame = pl.read_csv(io.StringIO(capsys.readouterr().out))
    assert frame.columns == analysis.comparisons.columns
    assert frame["difference"].to_list() == pytest.approx(
        analysis.comparisons["difference"].to_list()
    )
    assert frame["seeds"].unique().to_list() == ["11 12 13"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "error: no run of nope under "),
        (["groupsize", "--select", "best"], "error: --select best is no rule: choose last"),
    ],
)
def test_what_cannot_be_analysed_is_one_line(root, capsys, arguments, said):
    assert main([*arguments, "--root", str(root)]) == 1
    assert capsys.readouterr().err.startswith(said)
