"""`fgrpo-bench groups`: groups of a dump, and where each advantage puts its gradient on them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from evaluators.__main__ import main
from evaluators.dumps import NamedColumns
from evaluators.groups import dump_files, read_groups, summary
from fgrpo_bench.__main__ import main as fgrpo_bench
from fgrpo_bench.analysis.rollouts import BINS, RolloutSummary, group_names, success_rate_bin
from sweeps import REPOSITORY
from tests.pages.blocks import assert_printed, blocks
from tests.report.conftest import drawing_plainly

N = 4
GROUPS = {
    "1 + 1?": ([0, 0, 0, 0], "different"),
    "1 + 2?": ([0, 0, 0, 0], "repeated"),
    "1 + 3?": ([0, 1, 0, 0], "different"),
    "1 + 4?": ([1, 0, 1, 0], "different"),
    "1 + 5?": ([1, 1, 1, 1], "repeated"),
}
"""Rewards of a group of N by problem, and whether all responses are one text."""


def rollouts(step: int = 1, groups=GROUPS) -> list[dict]:
    """Rows of verl's trainer, in the order of the rollouts of a prompt."""
    return [
        {
            "input": f"user\n{problem}\nassistant\n",
            "output": "so it is" + (f" {i}" if responses == "different" else ""),
            "gts": "2",
            "score": float(reward),
            "step": step,
        }
        for problem, (rewards, responses) in groups.items()
        for i, reward in enumerate(rewards)
    ]


def lines(path: Path, rows: Sequence[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def summed(*places: Path, methods: Sequence[str] | None = None, **options) -> RolloutSummary:
    files = [file for place in places for file in dump_files(place)]
    return summary(read_groups(files, **options), "dump", methods)


def verl(folder: Path) -> Path:
    rows = rollouts()
    return lines(folder / "rollouts/1.jsonl", [*rows[::2], *rows[1::2]])  # balanced over devices


def verl_with_uid(folder: Path) -> Path:
    rows = [
        row | {"uid": f"6_f-{i // N}_{i % N}_0", "input": "cut"} for i, row in enumerate(rollouts())
    ]
    return lines(folder / "rollouts/1.jsonl", rows)


def trl(folder: Path) -> Path:
    """With advantages as TRL computes them: 1e-4 beside the standard deviation."""
    rows = []
    for problem, (rewards, responses) in GROUPS.items():
        mean = sum(rewards) / N
        deviation = (sum((reward - mean) ** 2 for reward in rewards) / (N - 1)) ** 0.5
        rows += [
            {
                "step": 1,
                "prompt": problem,
                "completion": "so" + (f" {i}" if responses == "different" else ""),
                "correct_reward": float(reward),
                "advantage": (reward - mean) / (deviation + 1e-4),
            }
            for i, reward in enumerate(rewards)
        ]
    path = folder / "completions/completions_00001.parquet"
    path.parent.mkdir(parents=True)
    pl.DataFrame(rows).write_parquet(path)
    return path.parent


def prime_rl(folder: Path) -> Path:
    episodes = [
        {
            "task": {"data": {"idx": place, "prompt": problem, "answer": "2"}, "hash": "h"},
            "group": {"id": f"g{place}"},
            "ok": True,
            "errors": [],
            "traces": [
                {
                    "nodes": [
                        {"message": {"role": "user", "content": problem}, "sampled": False},
                        {"message": {"role": "assistant", "content": text}, "sampled": True},
                    ],
                    "calls": [{"finish_reason": "stop"}],
                    "rewards": {"correct": {"score": float(reward), "weight": 1.0}},
                }
            ],
        }
        for place, (problem, (rewards, responses)) in enumerate(GROUPS.items())
        for i, reward in enumerate(rewards)
        for text in ["so" + (f" {i}" if responses == "different" else "")]
    ]
    lines(folder / "rollouts/step_1/train/effective/traces.jsonl", episodes[:N])
    return lines(folder / "rollouts/step_1/train/all/traces.jsonl", episodes).parents[3]


def skyrl(folder: Path) -> Path:
    rows = [
        {
            "input_prompt": row["input"],
            "output_response": row["output"] + "<|im_end|>",
            "score": [0.0, row["score"]],
            "stop_reason": "stop",
            "env_class": "math",
            "env_extras": {},
            "data_source": "sums",
        }
        for row in rollouts()
    ]
    return lines(folder / "dumped_evals/global_step_1_evals/sums.jsonl", rows).parents[1]


@pytest.mark.parametrize("dump", [verl, verl_with_uid, trl, prime_rl, skyrl])
def test_the_same_groups_are_read_of_every_trainer(dump, tmp_path: Path):
    of = summed(dump(tmp_path))
    assert of.group_sizes == {"4": 5} and of.in_bins == (2, 0, 1, 1, 0, 0, 1)
    assert [counts.step for counts in of.steps] == [1]
    total = of.total
    assert (total.n_groups, total.n_rollouts, total.n_correct) == (5, 20, 7)
    assert (total.wrong_different, total.wrong_repeated) == (1, 1)
    assert (total.right_different, total.right_repeated, total.without_gradient) == (0, 1, 3)


ROOT = 12**0.5
"""4 |A| of GRPO at a rate of one half: (1 / 2) / sqrt(1 / 3) each."""


@pytest.mark.parametrize(
    ("method", "by_bin", "with_gradient"),
    [
        # one of four right: s = 1/2, so 3/2 and three times 1/2
        ("grpo", (0, 0, 3, ROOT, 0, 0, 0), 2),
        ("grpo@0.5", (0, 0, 3 * 0.75**0.5, ROOT * 0.5**0.5, 0, 0, 0), 2),
        ("grpo@1", (0, 0, 2.25, ROOT / 2, 0, 0, 0), 2),
        ("dapo", (0, 0, 3, ROOT, 0, 0, 0), 2),
        ("dapo@1", (0, 0, 2.25, ROOT / 2, 0, 0, 0), 2),
        ("dr_grpo", (0, 0, 1.5, 2, 0, 0, 0), 2),
        ("rloo", (0, 0, 2, 8 / 3, 0, 0, 0), 2),
        # right N / c - 1, wrong -1
        ("maxrl", (8, 0, 6, 4, 0, 0, 0), 4),
        ("maxrl_coded", (0, 0, 6, 4, 0, 0, 0), 2),
        # k (1 - (c - 1) / 3) of each right one, less what the others leave: 2 and 2 (1 - 1 / 3)
        ("pkpo:k=2", (0, 0, 2, 8 / 3, 0, 0, 0), 2),
        ("psr", (0, 0, 1, 2, 0, 0, 4), 3),
        ("nsr", (8, 0, 3, 2, 0, 0, 0), 4),
        ("w_reinforce:weight=0.5", (8, 0, 3.5, 3, 0, 0, 2), 5),
    ],
)
def test_the_gradient_of_a_method_is_that_by_hand(method, by_bin, with_gradient, tmp_path: Path):
    (of,) = summed(verl(tmp_path), methods=[method]).methods
    assert of.by_bin == pytest.approx(by_bin, rel=1e-5)
    assert of.with_gradient == with_gradient
    assert (of.n_groups, of.n_rollouts) == ((2, 8) if "dapo" in method else (5, 20))


def test_success_rates_are_binned_alike_from_both_ends_and_without_rounding():
    for size in (2, 3, 5, 7, 8, 10, 15, 16, 100):
        places = [
            int(success_rate_bin(pl.Series([c]).to_numpy(), size)[0]) for c in range(size + 1)
        ]
        assert places == [len(BINS) - 1 - place for place in reversed(places)]
        assert places == sorted(places)
    assert [int(success_rate_bin(pl.Series([c]).to_numpy(), 5)[0]) for c in range(6)] == [
        0,
        1,
        2,
        4,
        5,
        6,
    ]


def test_a_prompt_that_is_drawn_twice_in_a_step_is_split_in_the_order_of_the_file(tmp_path: Path):
    twice = {"again?": ([0, 0, 0, 0, 1, 1, 1, 1], "repeated")}
    of = summed(lines(tmp_path / "1.jsonl", rollouts(groups=GROUPS | twice)))
    assert of.group_sizes == {"4": 7}
    assert (of.total.wrong_repeated, of.total.right_repeated) == (2, 2)
    assert any("multiple of 4 rollouts in a step (1)" in remark for remark in of.remarks)


def test_the_same_prompt_in_another_step_is_another_group(tmp_path: Path):
    for step in (9, 10):
        lines(tmp_path / f"{step}.jsonl", rollouts(step))
    of = summed(tmp_path)
    assert of.group_sizes == {"4": 10} and [step.step for step in of.steps] == [9, 10]
    assert [step.n_correct for step in of.steps] == [7, 7]


def test_with_a_group_size_prompts_of_another_number_are_left_out_and_counted(tmp_path: Path):
    file = lines(tmp_path / "1.jsonl", rollouts()[1:])
    with pytest.raises(ValueError, match=r"4 with 4, 1 with 3 rollouts.*--group-size N"):
        summed(file)
    of = summed(file, group_size=4)
    assert of.group_sizes == {"4": 4}
    assert any("no multiple of 4 (1, with 3 rollouts)" in remark for remark in of.remarks)


def test_a_size_that_few_prompts_have_is_not_that_of_the_groups(tmp_path: Path):
    rows = rollouts()[:2] + rollouts()[N:]
    with pytest.raises(ValueError, match="4 with 4, 1 with 2 rollouts"):
        summed(lines(tmp_path / "1.jsonl", rows))


def test_files_that_tell_no_step_are_apart(tmp_path: Path):
    keys = {"input": "prompt", "output": "response", "score": "score"}
    rows = [{name: row[key] for key, name in keys.items()} for row in rollouts()]
    of = summed(lines(tmp_path / "a.jsonl", rows), lines(tmp_path / "b.jsonl", rows))
    assert of.group_sizes == {"4": 10} and of.steps == ()


def test_groups_that_the_dump_names_may_differ_in_size(tmp_path: Path):
    file = verl_with_uid(tmp_path)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[8]["score"] = None  # of the group with one right rollout
    lines(file, [*rows, rows[0] | {"uid": "alone_0_0"}])
    of = summed(file, methods=["rloo", "pkpo:k=4"])
    assert of.group_sizes == {"3": 1, "4": 4}
    rloo, pkpo = of.methods
    assert rloo.by_bin == pytest.approx((0, 0, 2, 8 / 3, 0, 0, 0))  # 1 of 3: 3/2 (2/3 + 2/3)
    assert (pkpo.n_groups, pkpo.n_rollouts) == (4, 16)
    said = " ".join(of.remarks)
    assert "rollouts without a reward (1)" in said and "less than two rollouts (1)" in said
    assert "Not defined for 1 of the groups: PKPO k=4 (k=4 of pkpo" in said


def test_of_a_rollout_with_several_outputs_the_last_counts(tmp_path: Path):
    file = verl_with_uid(tmp_path)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[2:3] = [rows[2] | {"score": 1.0}, rows[2] | {"uid": rows[2]["uid"][:-1] + "1"}]
    of = summed(lines(file, rows))
    assert of.group_sizes == {"4": 5} and of.total.n_correct == 7
    assert "outputs of a rollout the last counts (1 left out)" in " ".join(of.remarks)


def test_advantages_in_the_dump_are_compared_with_ours(tmp_path: Path):
    of = summed(trl(tmp_path))
    assert of.nearest is not None and of.nearest.labels == ("GRPO",)
    # the 1e-4 beside a deviation of 1/2
    assert of.nearest.largest_difference == pytest.approx(1.5 - 0.75 / (0.5 + 1e-4), rel=0.02)
    assert of.nearest.largest_advantage == pytest.approx(1.5, abs=1e-3)


def test_a_method_without_an_advantage_for_some_groups_is_not_the_nearest(tmp_path: Path):
    folder = trl(tmp_path)
    (file,) = folder.iterdir()
    table = pl.read_parquet(file)
    rewards = table["correct_reward"].to_list()
    rewards[0] = float("nan")  # which no reward function scored; its group is all wrong
    table.with_columns(correct_reward=pl.Series(rewards)).write_parquet(file)
    score = NamedColumns(score="correct_reward")
    of = summed(folder, named=score, methods=["pkpo:k=4", "grpo", "grpo"])
    assert of.group_sizes == {"3": 1, "4": 4}
    assert [method.method for method in of.methods] == ["pkpo:k=4", "grpo"]
    assert of.nearest is not None and of.nearest.labels == ("GRPO",)
    assert summed(folder, named=score, methods=["pkpo:k=4"]).nearest is None


GRADED = {
    "1 + 1?": ([0.1, 0.1, 0.1, 0.1], "different"),
    "1 + 2?": ([0.0, 0.1, 0.0, 0.1], "different"),
    "1 + 3?": ([0.1, 1.0, 0.1, 0.0], "different"),
    "1 + 4?": ([0.95, 0.95, 0.95, 0.95], "different"),
}


def test_rewards_between_0_and_1_need_a_threshold_which_some_methods_read(tmp_path: Path):
    file = lines(tmp_path / "1.jsonl", rollouts(groups=GRADED))
    with pytest.raises(ValueError, match=r"rewards are 0, 0.1, 0.95, 1, .*--threshold R"):
        summed(file)
    of = summed(file, threshold=0.5, methods=["dr_grpo", "grpo", "dapo", "maxrl", "grpo@1"])
    assert of.in_bins == (2, 0, 1, 0, 0, 0, 1) and of.total.without_gradient == 2
    dr_grpo, grpo, dapo, maxrl, focal = of.methods
    # of the reward itself: 4 times 0.05, and 0.7 + 0.2 + 0.2 + 0.3; equal ones give 0 exactly
    assert dr_grpo.by_bin == pytest.approx((0.2, 0, 1.4, 0, 0, 0, 0))
    assert grpo.by_bin[-1] == 0 and grpo.with_gradient == 2
    # the filter and the focal weight go by right and wrong
    assert dapo.by_bin[0] == 0 and dapo.by_bin[2] == grpo.by_bin[2]
    assert focal.by_bin == pytest.approx((grpo.by_bin[0], 0, 0.75 * grpo.by_bin[2], 0, 0, 0, 0))
    assert maxrl.by_bin == pytest.approx((8, 0, 6, 0, 0, 0, 0)) and maxrl.reads == "right and wrong"
    said = " ".join(of.remarks)
    assert "The rewards as they are: Dr. GRPO, GRPO, GRPO with DAPO's filter and F-GRPO" in said
    assert "Right and wrong as 1 and 0, which their formulas need: MaxRL." in said


def test_rewards_of_minus_one_and_one_are_right_and_wrong(tmp_path: Path):
    groups = {name: ([2 * r - 1 for r in rewards], how) for name, (rewards, how) in GROUPS.items()}
    of = summed(lines(tmp_path / "1.jsonl", rollouts(groups=groups)))
    assert of.in_bins == (2, 0, 1, 1, 0, 0, 1)
    by_method = {method.method: method for method in of.methods}
    assert by_method["rloo"].by_bin == pytest.approx((0, 0, 4, 16 / 3, 0, 0, 0))
    assert by_method["maxrl_coded"].by_bin == pytest.approx((0, 0, 6, 4, 0, 0, 0))


def test_verls_verdict_says_what_is_right_and_its_score_what_is_learned(tmp_path: Path):
    rows = [row | {"acc": row["score"], "score": 2 * row["score"] - 1.5} for row in rollouts()]
    of = summed(lines(tmp_path / "1.jsonl", rows), methods=["dr_grpo"])
    assert of.in_bins == (2, 0, 1, 1, 0, 0, 1)
    assert of.methods[0].by_bin == pytest.approx((0, 0, 3, 4, 0, 0, 0))


def test_several_rewards_of_trl_are_named_and_added(tmp_path: Path):
    folder = trl(tmp_path)
    (file,) = folder.iterdir()
    half = pl.Series("format_reward", [None if i % 5 == 0 else 0.5 for i in range(20)])
    pl.read_parquet(file).with_columns(half).write_parquet(file)
    with pytest.raises(ValueError, match="numbers in correct_reward, format_reward"):
        summed(folder)
    of = summed(folder, named=NamedColumns(score="correct_reward"))
    assert of.total.n_correct == 7 and "not added: format_reward." in " ".join(of.remarks)
    with pytest.raises(ValueError, match=r"--score formt_reward \(did you mean format_reward\?\)"):
        summed(folder, named=NamedColumns(score="correct_reward"), added=["formt_reward"])
    of = summed(
        folder, named=NamedColumns(score="correct_reward"), added=["format_reward"], threshold=1
    )
    assert of.total.n_correct == 7 and of.nearest is not None
    assert "correct_reward + format_reward" in " ".join(of.remarks)


def test_rewards_are_added_of_columns_that_no_trainer_names_too(tmp_path: Path):
    rows = [
        {
            "prompt": row["input"],
            "response": row["output"],
            "a": row["score"],
            "b": 1 - row["score"],
        }
        for row in rollouts()
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / "mine.parquet")
    of = summed(tmp_path, named=NamedColumns(score="a"), added=["b"])
    assert of.total.n_correct == of.total.n_rollouts == 20


def test_rewards_that_a_formula_has_no_number_for_leave_it_out(tmp_path: Path):
    rows = [row | {"score": 1000 * row["score"]} for row in rollouts()]
    file = lines(tmp_path / "1.jsonl", rows)
    of = summed(file, threshold=1)
    assert "RS-GRPO" not in " ".join(method.label for method in of.methods)
    assert "Not defined for the groups: RS-GRPO beta=2 (its adv" in " ".join(of.remarks)
    with pytest.raises(ValueError, match="'rs_grpo': its advantages of these rewards are not fin"):
        summed(file, threshold=1, methods=["rs_grpo"])


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        (["grpoo"], "grpo"),
        (["ds_grpo"], "reads log-probabilities"),
        (["curverl"], "learns from the steps before too"),
        (["grpo@-1"], "a number of at least 0"),
        (["grpo@nan"], "a number of at least 0"),
        (["dapo:k=3@1"], "no parameters; write dapo@1"),
        (["pkpo:k=9"], "from 1 to 4"),
        (["pkpo"], "needs its parameter k"),
    ],
)
def test_a_method_that_cannot_be_told_is_refused(methods, reason, tmp_path: Path):
    with pytest.raises(ValueError, match=reason):
        summed(verl(tmp_path), methods=methods)


@pytest.mark.parametrize(
    ("rows", "options", "reason"),
    [
        (rollouts()[::4], {}, "every prompt stands in a step once"),
        ([row | {"uid": "a_0_0"} for row in rollouts()], {"group_size": 4}, "names its groups"),
        (rollouts(), {"group_size": 1}, "at least 2 rollouts"),
        (rollouts(), {"group_size": 3}, "no prompt has a multiple of it in a step, but 5 with 4"),
        (rollouts(), {"threshold": float("nan")}, "must be a finite number"),
        ([row | {"score": None} for row in rollouts()], {}, "the dump has no group"),
        ([{"response": "a", "score": 1.0}], {}, "neither a group nor a prompt"),
        ([{"prompt": "a", "response": "a"}], {}, "numbers in no column"),
        ([{"prompt": "a"}], {}, "--response"),
    ],
)
def test_a_dump_without_groups_is_refused(rows, options, reason, tmp_path: Path):
    with pytest.raises(ValueError, match=reason):
        summed(lines(tmp_path / "1.jsonl", rows), **options)


def test_of_prime_rl_a_run_a_step_or_a_file_is_named(tmp_path: Path):
    run = prime_rl(tmp_path / "a")
    for place in (run, run / "step_1", run.parent):
        ((step, file),) = dump_files(place)
        assert step == 1 and file.parts[-3:] == ("train", "all", "traces.jsonl")
    prime_rl(tmp_path / "b")
    with pytest.raises(ValueError, match="holds several runs: name one, as "):
        dump_files(tmp_path)


def test_a_folder_without_files_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="has no file of rollouts"):
        dump_files(tmp_path)


def test_the_command_prints_writes_and_refuses(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for step in range(1, 46):
        lines(tmp_path / f"<b>dump/{step}.jsonl", rollouts(step))
    assert main(["groups", "<b>dump"]) == 0
    out = capsys.readouterr().out
    assert "225 groups of 4 rollouts" in out and "35.0% of 900 rollouts are right" in out
    assert "\n1 to 3        15          35.0       40.0       20.0               60.0\n" in out
    assert max(map(len, out.splitlines())) <= 100
    with drawing_plainly():
        words = ["groups", "<b>dump", "--html", "a.html", "--md", "a.md"]
        words += ["--method", "grpo", "dapo"]
        assert main(words) == 0
        assert capsys.readouterr().out.split() == ["a.html", "a.md"]
        assert main([*words, "--json"]) == 0
    page = Path("a.html").read_text()
    assert page.count("<svg") == 4 and "<b>dump" not in page and "GRPO with DAPO" in page
    stored = RolloutSummary.parsed(json.loads(capsys.readouterr().out))
    assert len(stored.steps) == 45 and [method.method for method in stored.methods] == [
        "grpo",
        "dapo",
    ]
    assert [row.sums["grpo"] for row in stored.by_count] == pytest.approx(
        [0, 45 * 3, 45 * ROOT, 0], rel=1e-5
    )
    assert main(["groups", "<b>dump", "--method", "grpo:k=1"]) == 1
    assert "error: " in capsys.readouterr().err


def test_the_guide_can_be_followed(tmp_path: Path, monkeypatch, capsys):
    page = REPOSITORY / "docs/guides/groups.md"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path / "runs"))
    lines(Path("rollouts/1.jsonl"), rollouts())
    printed = []
    for line in "".join(blocks(page, "bash")).splitlines():
        program, *words = shlex.split(line.partition(" >")[0])
        with drawing_plainly():
            assert program == "fgrpo-bench" and fgrpo_bench(words) == 0
        printed.append(capsys.readouterr().out)
    first, files, stored, chosen = printed
    assert_printed(*blocks(page, ""), first)
    assert RolloutSummary.parsed(json.loads(files)).total.n_groups and Path("groups.html").exists()
    assert stored == first and group_names(tmp_path / "runs") == ["my-run"]
    assert "GRPO with DAPO's filter" in chosen and "PKPO k=2" in chosen and "RLOO" not in chosen
