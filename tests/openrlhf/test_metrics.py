"""The metrics rows, and how a resumed run appends to them."""

import json
import math

import pytest

from fgrpo_bench.engines.openrlhf import metrics
from fgrpo_bench.engines.openrlhf.metrics import Sampled, Totals
from fgrpo_bench.files.journal import append_line, read_lines
from fgrpo_bench.stages.tables import METRICS

pytestmark = pytest.mark.openrlhf


def rollouts(text):
    """One rollout a letter: c is correct, in capitals in another way, w wrong, u unscored."""
    return [
        Sampled(
            correct=x in "cC",
            unscored=x == "u",
            tokens=i + 1,
            truncated=False,
            response=ord(x),
            solution=x if x in "cC" else None,
        )
        for i, x in enumerate(text)
    ]


@pytest.mark.parametrize(
    ("taught_rates", "weight"),
    [
        ([1 / 4, 3 / 4], ((3 / 4) ** 2 + (1 / 4) ** 2) / 2),
        ([0.0, 1 / 4, 3 / 4], (1 + (3 / 4) ** 2 + (1 / 4) ** 2) / 3),  # all wrong, and taught
        ([], None),
    ],
)
def test_what_was_sampled_is_measured_over_all_groups_and_weighted_over_active_ones(
    taught_rates, weight
):
    got = metrics.sampled_metrics(
        rollouts("cwwwcccwCcccwwwu"), group_size=4, focal_gamma=2.0, taught_rates=taught_rates
    )
    assert got == {
        "success_rate": 8 / 16,
        "active_fraction": len(taught_rates) / 4,
        "focal_weight": weight if weight is None else pytest.approx(weight),
        "wrong_repeated_fraction": 0.0,
        "wrong_different_fraction": 1 / 4,
        "right_repeated_fraction": 0.0,
        "right_different_fraction": 1 / 4,
        "solution_entropy": pytest.approx((math.log(4) + 3 * math.log(4 / 3)) / 4 / 3),
        "response_tokens": 8.5,
        "truncated_fraction": 0.0,
        "unscored_fraction": 1 / 16,
        "groups": 4,
    }


def row(step, status, before=Totals(rollouts=0, tokens=0)):  # noqa: B008
    return metrics.step_row(
        step=step,
        status=status,
        sampled=rollouts("cw"),
        taught_rates=[0.5],
        group_size=2,
        focal_gamma=0.5,
        gpus=3,
        before=before,
    )


def test_a_row_adds_up_phases_and_totals():
    status = {f"timing/{name}": 1.5 for name in metrics.PHASES} | {"learning_rates": [0.1, 0.2]}
    got = row(4, status, Totals(rollouts=10, tokens=100))
    assert got["seconds"] == 1.5 * len(metrics.PHASES)
    assert (got["rollouts"], got["step_tokens"], got["tokens"]) == (12, 3, 103)
    assert (got["learning_rate"], got["gpus"]) == (0.2, 3)
    assert set(METRICS) <= set(got)


def test_what_a_step_does_not_have_is_null_and_a_number_json_cannot_hold_too():
    got = row(1, {"policy_loss": math.nan, "learning_rates": []})
    assert got["loss"] is got["entropy"] is got["learning_rate"] is got["rollout_kl"] is None
    json.dumps(got, allow_nan=False)


def test_an_evaluation_is_the_mean_and_the_share_of_problems_with_any_success():
    correct = [True, False, False, False] + [False] * 4 + [True] * 4
    got = metrics.evaluation_metrics(correct, n_samples=4, seconds=2.0)
    assert got["eval_pass_at_1"] == pytest.approx((1 / 4 + 0 + 1) / 3)
    assert got["eval_pass_at_n"] == pytest.approx(2 / 3)


def test_a_resumed_run_drops_the_rows_that_it_makes_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert metrics.rewind(path, 0) == Totals(rollouts=0, tokens=0)
    before = Totals(rollouts=0, tokens=0)
    for step in (1, 2, 3):
        made = row(step, {}, before)
        append_line(path, made)
        before = Totals(rollouts=made["rollouts"], tokens=made["tokens"])
    assert metrics.rewind(path, 2) == Totals(rollouts=4, tokens=6)
    assert [kept["step"] for kept in read_lines(path)] == [1, 2]
    assert metrics.rewind(path, 0) == Totals(rollouts=0, tokens=0)
    assert path.read_text() == ""
