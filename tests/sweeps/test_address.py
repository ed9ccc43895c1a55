"""A run root means the same to the command that makes a run and to those that find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgrpo_bench.specs import config
from sweeps.cli import find_run, plain_value
from sweeps.freeze import freeze, run_paths
from sweeps.plan import make_plan


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("plain", "{}"),
        ("a b", "{}"),
        ("a b", "'{}'"),
        ("a b", '"{}"'),
        ("runs[1]", "'{}'"),
        ("a, b = c", "'{}'"),
    ],
)
def test_a_run_is_found_by_the_run_root_that_it_was_given(
    tmp_path: Path, name: str, given: str
) -> None:
    override = "run_root=" + given.format(tmp_path / name)
    plan = make_plan(config.load("smoke", [override]))
    paths = run_paths(plan.declaration)
    assert paths.root == tmp_path / name
    freeze(paths, plan, nothing_to_run=False)
    assert find_run("smoke", [override]) == paths


def test_escaped_quotes_and_variables_are_read_as_run_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SCRATCH", "/fast")
    assert plain_value("run_root", r"'it\'s'") == "it's"
    assert plain_value("run_root", "${oc.env:SCRATCH}/runs") == "/fast/runs"
    with pytest.raises(ValueError, match="these overrides cannot be applied: run_root='/a b"):
        plain_value("run_root", "'/a b")
