"""`fgrpo-bench conform`: planted faults are found, equal ones pass, and results can be read."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from fgrpo_bench.conformance.__main__ import main
from fgrpo_bench.conformance.check import (
    BOTH,
    CONSTANT,
    DIFFERS,
    EPSILON,
    EQUAL,
    Estimator,
    check_estimator,
    check_groups,
    example_rewards,
)
from fgrpo_bench.conformance.make import names
from fgrpo_bench.conformance.vectors import read_vectors
from fgrpo_bench.objectives.advantages import ADVANTAGES

REPOSITORY = Path(__file__).parents[2]


def mean(rewards):
    return rewards.mean(1, keepdims=True)


def alike(rewards):
    """1 where a group's rewards are alike, whatever the rounding."""
    return (rewards == rewards[:, :1]).all(1, keepdims=True)


def centred(rewards):
    return np.where(alike(rewards), 0, rewards - mean(rewards))


def normalised(rewards, epsilon=1e-6, ddof=1):
    return centred(rewards) / (rewards.std(1, ddof=ddof, keepdims=True) + epsilon)


def others(rewards):
    return (rewards.sum(1, keepdims=True) - rewards) / (rewards.shape[1] - 1)


def left_in(rewards):
    return rewards - rewards.sum(1, keepdims=True) / (rewards.shape[1] - 1)


def of_order_less_1(rewards):
    return np.where(rewards.any(1, keepdims=True), rewards / np.maximum(mean(rewards), 1e-9) - 1, 0)


def noisy(rewards):
    """Rewards that carry 1e-8 of noise, over their own deviation."""
    noise = 1e-8 * np.cos(np.arange(rewards.size)).reshape(rewards.shape)
    given = rewards.astype("float64") + noise
    return (given - mean(given)) / (given.std(1, ddof=1, keepdims=True) + 1e-9)


def rounded(rewards):
    """GRPO's as it is written down, whose mean of eight rewards of 0.95 is off by a rounding."""
    given = torch.from_numpy(rewards.astype("float32"))
    return (given - given.mean(1, keepdim=True)) / (given.std(1, keepdim=True) + 1e-6)


def kinds(function, advantage, **options):
    verdicts = check_estimator(Estimator("it", advantage, function, **options))
    return {verdict.name: verdict for verdict in verdicts}


@pytest.mark.parametrize(
    ("advantage", "function", "row"),
    [
        pytest.param("grpo", lambda r: r / (r.std(1, ddof=1, keepdims=True) + 1e-6), "it",
                     id="no mean subtracted"),
        pytest.param("grpo", lambda r: centred(r) / r.std(), "it", id="deviation over the batch"),
        pytest.param("rloo", left_in, "it", id="leave-one-out with itself left in"),
        pytest.param("maxrl", of_order_less_1, "it", id="weights of order N - 1"),
        pytest.param("rloo", lambda r: r.clip(0, 1) - others(r.clip(0, 1)), "it",
                     id="rewards clipped"),
        pytest.param("grpo", noisy, "it, equal rewards", id="noise over a deviation of 0"),
        pytest.param("grpo", rounded, "it, equal rewards", id="rounding over a deviation of 0"),
        pytest.param("dr_grpo", lambda r: -centred(r), "it", id="sign"),
        pytest.param("dr_grpo", lambda r: centred(r)[:, ::-1], "it", id="order in the group"),
        pytest.param("dr_grpo", lambda r: centred(r)[::-1], "it", id="groups exchanged"),
        pytest.param("grpo", lambda r: normalised(r, 0.1), "it", id="an epsilon of a tenth"),
        pytest.param("psr", lambda r: np.full(r.shape, np.nan), "it", id="not a number"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found(advantage, function, row):
    verdict = kinds(function, advantage)[row]
    assert verdict.kind == DIFFERS and not verdict.is_equal
    assert verdict.worst is not None and verdict.detail
    assert len(verdict.worst.given) == len(verdict.worst.rewards)


@pytest.mark.parametrize(
    ("advantage", "function", "kind", "detail"),
    [
        ("dr_grpo", centred, EQUAL, ""),
        ("rloo", lambda r: np.where(alike(r), 0, r - others(r)), EQUAL, ""),
        ("rloo", lambda r: 3 * (r - others(r)), CONSTANT, "3 times the paper's"),
        ("rloo", centred, CONSTANT, "times the paper's: 0.5 at N = 2, 0.667 at N = 3, 0.75 at"),
        ("grpo", normalised, EPSILON, "1e-06 beside the deviation"),
        ("grpo", lambda r: normalised(r, 1e-4), EPSILON, "0.0001 beside the deviation"),
        ("grpo", lambda r: normalised(r, 0 * 1e-4 + 1e-12, 0), CONSTANT, "1.15 at N = 4"),
        ("grpo", lambda r: normalised(r, 1e-4, 0), BOTH, "0.00011 beside the deviation"),
    ],
)
def test_a_constant_and_an_epsilon_count_as_equal_and_are_named(advantage, function, kind, detail):
    verdicts = kinds(function, advantage)
    assert verdicts["it"].kind == kind
    assert detail in verdicts["it"].detail
    assert all(verdict.is_equal for verdict in verdicts.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("advantage", "convert"),
    [
        *((name, torch.from_numpy) for name in names()),
        *((name, np.asarray) for name in names() if name != "grpo"),  # std(correction) is torch's
    ],
)
def test_the_functions_of_this_package_conform_in_numpy_and_in_torch(advantage, convert):
    settings = tuple(read_vectors(advantage).settings())
    verdicts = check_estimator(
        Estimator(
            "ours",
            advantage,
            lambda rewards, **parameters: ADVANTAGES[advantage](convert(rewards), **parameters),
            settings,
            passes=True,
        )
    )
    assert len(verdicts) >= len(settings)
    assert {verdict.kind for verdict in verdicts} <= {EQUAL, EPSILON}


def test_where_it_differs_the_curve_of_expected_weights_stands_beside_the_papers():
    verdict = kinds(of_order_less_1, "maxrl")["it"]
    assert verdict.curve_size == 8
    for p, (paper, given) in verdict.curve.items():
        assert paper == pytest.approx(sum((1 - p) ** (j - 1) for j in range(1, 9)))
        assert given == pytest.approx(sum((1 - p) ** (j - 1) for j in range(1, 8)), rel=1e-4)


SIZE, N_GROUPS = 4, 3
ROWS = [[g * SIZE + i for i in range(SIZE)] for g in range(N_GROUPS)]


@pytest.mark.parametrize(
    ("parts", "detail"),
    [
        ([[0, 1, 2, 4], [3, 5, 6, 7]], "a group of 4 holds 3 of group 0, 1 of group 1, of 4 each"),
        ([ROWS[0][:3]], "a group of 3 holds 3 of group 0, of 4 each"),
        ([ROWS[0], ROWS[1], ROWS[0]], "group 0 came back 2 times"),
        ([[0, 0, 1, 2]], "a group of 4 holds 4 of group 0"),
        ([], "0 of 3 groups came back, 3 were left out"),
    ],
)
def test_groups_that_do_not_come_back_as_they_went_in_are_found(parts, detail):
    verdict = check_groups("it", parts, n_groups=N_GROUPS, group_size=SIZE)
    assert verdict.kind == DIFFERS
    assert detail in verdict.detail


def test_groups_in_another_order_and_left_out_whole_are_whole():
    parts = [ROWS[2][::-1], ROWS[0]]
    verdict = check_groups("it", parts, n_groups=N_GROUPS, group_size=SIZE)
    assert verdict.kind == EQUAL
    assert verdict.detail == "2 of 3 groups came back, 1 were left out"


MODULE = """
import numpy as np

def dr_grpo(rewards):
    return rewards - rewards.mean(1, keepdims=True)

def raw(rewards):
    return rewards

def flat(rewards):
    return rewards.sum(1)

def refuses(rewards):
    if not np.isin(rewards, (0, 1)).all():
        raise ValueError("0 and 1 alone")
    return rewards - rewards.mean(1, keepdims=True)

def passk(rewards, k):
    raise TypeError(k)

def in_torch(rewards):
    return rewards - rewards.mean(dim=1, keepdim=True)

def torn(rewards, groups):
    return [np.flatnonzero(rewards > 0)]

def whole(rewards, groups):
    kept = [g for g in np.unique(groups) if np.ptp(rewards[groups == g])]
    return [np.flatnonzero(groups == g) for g in kept]
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "of_mine.py").write_text(MODULE, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("of_mine", None)


def words(name, advantage="dr_grpo", *more):
    return ["conform", "--function", f"of_mine:{name}", "--advantage", advantage, *more]


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (words("dr_grpo"), 0, "of_mine:dr_grpo "),
        (words("dr_grpo", "rloo"), 0, "equal up to a constant"),
        (words("raw"), 1, "Expected weight at N = 8"),
        (words("refuses", "dr_grpo", "--binary"), 0, "equal"),
        (words("in_torch", "dr_grpo", "--array", "torch"), 0, "equal"),
        (words("dr_grpo", "dr_grpo", "--split", "of_mine:torn"), 1, "a group of 4 holds"),
        (words("dr_grpo", "dr_grpo", "--split", "of_mine:whole"), 0, "6 of 12 groups came back"),
    ],
)
def test_a_table_and_an_exit_code_say_it(line, code, said, module, capsys):
    assert main(line[1:]) == code
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (words("refuses"), r"of_mine:refuses raised ValueError .*0 and 1 alone.*--binary"),
        (words("flat"), r"gave advantages of shape \[4\] for rewards of shape \[4, 2\]|of shape"),
        (words("absent"), "--function of_mine:absent: .*run the command where"),
        (words("dr_grpo", "grpoo"), "no vectors of 'grpoo': there are those of dr_grpo, grpo"),
        (words("dr_grpo", "passk"), "no keywords k: say what it was made for, one of passk:k=1"),
        (words("dr_grpo", "passk:k=9"), "passk with k=9: the vectors have k=1; k=2; k=4"),
        (words("dr_grpo", "grpo@1"), "without a focal weight"),
        (["conform", "--function", "of_mine", "--advantage", "grpo"], "write module:function"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(line, said, module, capsys):
    import re

    with pytest.raises(SystemExit) as stopped:
        sys.exit(main(line[1:]))
    assert stopped.value.code == 1
    assert re.search(said, capsys.readouterr().err, re.DOTALL)


def test_json_and_junit_say_the_same(module, capsys):
    assert main(words("raw", "rloo", "--json", "--junit", "report.xml")[1:]) == 1
    result = json.loads(capsys.readouterr().out)
    suite = ElementTree.parse(module / "report.xml").getroot()
    assert result["of"] == suite.get("name") == "of_mine:raw"
    assert result["conform"] is False
    failures = [case.get("name") for case in suite if case.find("failure") is not None]
    differing = [v["name"] for v in result["verdicts"] if v["kind"] == DIFFERS]
    assert failures == [f"{name} rloo" for name in differing]
    assert suite.get("failures") == str(len(failures))


@pytest.mark.slow
def test_a_function_of_numpy_needs_neither_torch_nor_pydantic(module):
    code = (
        "import sys; from fgrpo_bench.conformance.__main__ import main; "
        "code = main(sys.argv[2:]); "
        "print(code, sorted({'torch', 'pydantic', 'polars', 'scipy'} & {*sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words("dr_grpo")],
        env=os.environ | {"PYTHONPATH": f"{REPOSITORY}:{module}"},
        cwd=module,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0 []"


def test_a_trainer_that_is_not_installed_is_refused_with_the_version_to_install(
    monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "verl", None)
    monkeypatch.delitem(sys.modules, "fgrpo_bench.conformance.trainers.verl", raising=False)
    with pytest.raises(SystemExit):
        sys.exit(main(["verl"]))
    assert "install verl==0.9.1 in this environment" in capsys.readouterr().err


def test_the_batch_of_groups_has_what_a_filter_drops_and_what_it_keeps():
    rewards = example_rewards()
    spread = np.ptp(rewards, axis=1)
    assert rewards.shape == (12, 4)
    assert (spread > 0).sum() == 6
