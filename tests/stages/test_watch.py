"""What a person watches of a run, and what is warned of."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgrpo_bench.stages.watch import (
    METRICS,
    NUMBERS,
    ROLLOUT_GAP_BOUND,
    TOKENS_PER_SECOND,
    shown,
    step_numbers,
    warnings,
)
from tests.architecture import ROOTS

REPOSITORY = Path(__file__).parents[2]

ROW = {
    "step": 1,
    "seconds": 4.0,
    "tokens": 1000,
    "reward": 0.3125,
    "active_fraction": 0.75,
    "clip_fraction": 0.0012,
    "entropy": 0.41,
    "rollout_kl": 0.00097,
    "truncated_fraction": 0.02,
}
WELL = {name: ROW[name] for name in NUMBERS if name in ROW}


def test_the_numbers_are_those_of_the_last_step_by_the_names_of_the_metrics():
    assert step_numbers([ROW]) == WELL | {TOKENS_PER_SECOND: 250.0}
    later = ROW | {"step": 2, "tokens": 1800, "seconds": 2.0, "reward": 0.5}
    assert step_numbers([ROW, later]) == WELL | {"reward": 0.5, TOKENS_PER_SECOND: 400.0}


def test_no_other_module_words_a_metric():
    """Titles of two words or more; those of counts stand for others too, e.g. an axis' step."""
    titles = {m.label for m in METRICS.values() if " " in m.label and not m.whole}
    texts = {
        path.relative_to(REPOSITORY).as_posix(): path.read_text()
        for root in ROOTS
        for path in (REPOSITORY / root).rglob("*.py")
    }
    del texts["fgrpo_bench/stages/watch.py"]
    worded = [
        (path, title) for path, text in texts.items() for title in titles if f'"{title}' in text
    ]
    assert worded == []


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_what_a_step_does_not_have_is_left_out(value):
    found = step_numbers([ROW | {"rollout_kl": value, "seconds": 0.0}])
    assert set(found) == set(WELL) - {"rollout_kl"}
    assert shown("rollout_kl", found) == ""


def test_numbers_are_shown_as_a_person_reads_them():
    numbers = step_numbers([ROW | {"tokens": 54_321, "unscored_fraction": 0.25}])
    assert [shown(name, numbers) for name in NUMBERS] == [
        *("0.312", "75%", "0.12%", "0.410", "9.7e-04", "2%", "25%", "13,580")
    ]
    assert "unscored_fraction" not in step_numbers([ROW | {"unscored_fraction": 0.0}])


def test_a_run_that_is_well_has_no_warning_and_others_have_one_for_each_number():
    assert warnings(WELL, step=1) == []
    assert warnings({}, step=None) == []
    assert len(warnings({"truncated_fraction": 1.0, "rollout_kl": 3.0}, step=None)) == 2
    edge = {"truncated_fraction": 0.5, "active_fraction": 0.01, "rollout_kl": ROLLOUT_GAP_BOUND}
    assert warnings(edge, step=1) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("truncated_fraction", 0.51, "truncated_fraction is 0.51 at step 3 (over 0.5)"),
        ("unscored_fraction", 0.11, "unscored_fraction is 0.11 at step 3 (over 0.1): the grader"),
        ("active_fraction", 0.0, "active_fraction is 0 at step 3: no group has an advantage"),
        ("rollout_kl", 0.011, "rollout_kl is 0.011 nats per token at step 3 (beyond 0.01)"),
        ("rollout_kl", -0.4, "rollout_kl is -0.4 nats per token at step 3 (beyond 0.01)"),
    ],
)
def test_what_a_person_would_want_to_know_is_said_with_value_bound_and_remedy(name, value, said):
    (warning,) = warnings(WELL | {name: value}, step=3)
    assert warning.startswith(said)
    assert "; " in warning, "what can be done"
