"""Reinforcement learning: what an update does, and that a killed run ends bit for bit the same."""

import time
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file

from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint
from fgrpo_bench.engines.embedded.model import Policy, positions
from fgrpo_bench.engines.embedded.reinforce import (
    Learner,
    Rollouts,
    distinct_responses,
    measure,
    reinforce,
)
from fgrpo_bench.engines.embedded.session import Session
from fgrpo_bench.engines.embedded.tokenizer import EOS, PAD, Tokenizer
from fgrpo_bench.engines.embedded.warmup import learning_rate, warm_up
from fgrpo_bench.engines.engine import TrainingFacts
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.spec import StageSpec, read_spec
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.objectives.advantages import ADVANTAGES, has_signal, is_active
from fgrpo_bench.specs import AlgorithmSpec, SweepPoint, from_dict, to_dict
from fgrpo_bench.specs.stored import TrainStageSpec
from fgrpo_bench.stages.stage import StageRun, Stopped
from fgrpo_bench.stages.tables import METRICS, ROLLOUTS, read_table
from fgrpo_bench.stages.watch import step_numbers
from fgrpo_bench.stats.groups import uniform_groups
from fgrpo_bench.tasks import make_task
from sweeps.plan import make_plan
from tests.support.plans import loaded
from tests.support.stages import freeze, start


def algorithm_of(name: str) -> AlgorithmSpec:
    """As it is shipped."""
    return loaded("gamma").algorithms[name]


def learner(warmed, folder, **changes) -> Learner:
    """A learner on the warmed-up base with some fields of its point or training spec changed."""
    plan, paths = warmed
    point: SweepPoint = plan.points[0]
    train = {key: changes.pop(key) for key in list(changes) if hasattr(point.train, key)}
    point = replace(point, train=replace(point.train, **train), **changes)
    policy, tokenizer = load_checkpoint(paths.warmup(11).checkpoint(0), "cpu", None)
    return learner_of(point, policy, tokenizer, folder)


def learner_of(point: SweepPoint, policy, tokenizer, folder) -> Learner:
    session = Session(
        policy,
        run=StageRun(StagePaths(folder)),
        fingerprint="test",
        betas=(point.train.beta1, point.train.beta2),
        weight_decay=0.0,
        grad_clip=point.train.grad_clip,
        has_metrics=True,
    )
    return Learner(point, session, tokenizer)


def judged(batch: Rollouts, correct: torch.Tensor) -> Rollouts:
    """The same with other judgements, 1 where correct, which are the rewards too."""
    return replace(batch, rewards=correct, correct=correct)


def weights(policy) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()]).clone()


def run_steps(learner: Learner, steps: int) -> list[dict[str, float]]:
    return [learner.learn(learner.rollouts(step)[0]) for step in range(1, steps + 1)]


def test_groups_without_a_gradient_change_nothing_but_the_mean(warmed, tmp_path):
    """Leaving them out of the forward pass gives the loss and gradient of taking them in."""
    one = learner(warmed, tmp_path)
    batch, _ = one.rollouts(1)
    active = is_active(batch.rewards)
    assert 0 < int(active.sum()) < len(active)
    advantages, gradients = one.advantages(batch), []
    assert torch.equal(has_signal(advantages), active)
    for used in (advantages, advantages + 1e-30 * (advantages == 0)):
        one.policy.zero_grad()
        for part in one.losses(batch, used):
            part.loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in one.policy.parameters()]))
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-6, rtol=1e-4)
    assert gradients[0].abs().max() > 1e-4


def test_equal_responses_to_a_prompt_are_graded_once_and_count_each(warmed, tmp_path):
    batch, _ = learner(warmed, tmp_path).rollouts(1)
    tokens = batch.tokens[:, [0, 0, 2, 3]]  # the first two are alike
    responses, owner, places = distinct_responses(tokens)
    assert len(responses) <= 3 * len(tokens)
    assert torch.equal(responses[places], tokens.flatten(0, 1))
    assert torch.equal(owner[places], torch.arange(len(tokens)).repeat_interleave(4))


def test_a_batch_without_active_groups_leaves_the_weights_alone(warmed, tmp_path):
    one = learner(warmed, tmp_path)
    batch, _ = one.rollouts(1)
    before = weights(one.policy)
    learned = one.learn(judged(batch, torch.ones_like(batch.rewards)))
    assert torch.equal(weights(one.policy), before)
    zeros = dict.fromkeys(("loss", "grad_norm", "clip_fraction", "learning_rate"), 0.0)
    assert learned == zeros | {"rollout_kl": None, "reference_kl": None}
    assert one.session.counters.optimizer_steps == 0


def test_advantages_learn_from_rewards_and_all_else_stands_on_correctness(warmed, tmp_path):
    """Partial credit and a penalty of length change rewards; draws, success rates, the focal weight
    and what dynamic sampling keeps are as without."""
    plain = learner(warmed, tmp_path / "plain", focal_gamma=1.0)
    both = learner(warmed, tmp_path, focal_gamma=1.0, overlong_buffer_tokens=4)
    both.reward = "countdown-partial"
    batch, ours = plain.rollouts(1)[0], both.rollouts(1)[0]
    for name in ("tokens", "correct", "unscored"):
        assert torch.equal(getattr(batch, name), getattr(ours, name)), name
    assert torch.equal(batch.rewards, batch.correct)
    longest = both.task.response_length + 1
    penalty = -((ours.mask.sum(-1) - (longest - 4)) / 4).clamp(0, 1)
    credit = ours.rewards - penalty - ours.correct
    assert set((credit * 1000).round().unique().tolist()) == {0.0, 100.0}
    assert not credit[ours.correct == 1].any() and penalty.min() == -1.0
    weight = 1 - ours.correct.mean(1, keepdim=True)
    spread = ours.rewards.std(1, keepdim=True) + 1e-6
    wanted = weight * (ours.rewards - ours.rewards.mean(1, keepdim=True)) / spread
    assert torch.allclose(both.advantages(ours), wanted, atol=1e-6)
    before, after = (
        measure(b, one.advantages(b), 1.0) for b, one in ((batch, plain), (ours, both))
    )
    assert before["success_rate"] == after["success_rate"]
    assert before["active_fraction"] < after["active_fraction"]
    assert both.evaluate(1) == plain.evaluate(1)


def test_an_advantage_without_baseline_teaches_from_groups_that_are_all_wrong(warmed, tmp_path):
    """Their active share is 1, and a focal weight leaves it so; all right teach nothing."""
    algorithm = replace(algorithm_of("grpo"), advantage="nsr")
    one = learner(warmed, tmp_path, algorithm=algorithm, focal_gamma=1.0)
    batch, _ = one.rollouts(1)
    wrong = judged(batch, torch.zeros_like(batch.rewards))
    assert measure(wrong, one.advantages(wrong), 1.0)["active_fraction"] == 1
    before = weights(one.policy)
    one.learn(wrong)
    assert not torch.equal(weights(one.policy), before)
    right = judged(batch, torch.ones_like(batch.rewards))
    assert measure(right, one.advantages(right), 1.0)["active_fraction"] == 0


def test_a_collapsed_group_is_told_from_one_beyond_reach(warmed, tmp_path):
    """What dumped groups are split into, of the metrics of a batch."""
    one = learner(warmed, tmp_path)
    batch, _ = one.rollouts(1)
    few = batch.take(torch.arange(4))
    tokens, correct = few.tokens.clone(), torch.zeros_like(few.correct)
    tokens[:2] = tokens[:2, :1]
    tokens[3, 1, 0] = tokens[3, 0, 0] + 1
    correct[1:3] = 1.0
    solutions = torch.arange(correct.shape[1]).expand(correct.shape).where(correct == 1, -1)
    solutions[1] = 0
    changed = replace(judged(few, correct), tokens=tokens, solutions=solutions)
    row = measure(changed, one.advantages(changed), 1.0)
    shares = {name: row[f"{name}_fraction"] for name in uniform_groups(0, 1, True)}
    assert shares == dict.fromkeys(shares, 0.25)
    assert row["solution_entropy"] == pytest.approx(np.log(correct.shape[1]) / 2)
    right = (batch.solutions >= 0) == (batch.correct == 1)
    assert right.all() and batch.correct.any()


def test_an_advantage_of_log_probabilities_reads_those_of_the_rollouts(warmed, tmp_path):
    one = learner(warmed, tmp_path)
    smooth = replace(algorithm_of("grpo"), advantage="ds_grpo", parameters={"beta": 0.1})
    other = learner(warmed, tmp_path, algorithm=smooth)
    batch, _ = one.rollouts(1)
    total = (batch.log_probs * batch.mask).sum(-1)
    expected = one.advantages(batch) + 0.1 * total * (1 - 2 * batch.rewards)
    torch.testing.assert_close(other.advantages(batch), expected)
    assert total.min() < -1


def test_an_advantage_that_is_not_finite_stops_the_run_with_its_group(
    warmed, tmp_path, monkeypatch
):
    monkeypatch.setitem(ADVANTAGES, "broken", lambda rewards: (rewards - 1) / (rewards - 1))
    algorithm = replace(algorithm_of("grpo"), advantage="broken")
    one = learner(warmed, tmp_path, algorithm=algorithm)
    with pytest.raises(FloatingPointError, match=r"the advantage of .*group"):
        one.learn(one.rollouts(1)[0])


def test_a_constant_length_divides_by_the_longest_response_that_there_can_be(warmed, tmp_path):
    algorithm = replace(algorithm_of("grpo"), loss_aggregation="constant_length")
    one, other = learner(warmed, tmp_path), learner(warmed, tmp_path, algorithm=algorithm)
    batch, _ = one.rollouts(1)
    losses = [next(it.losses(batch, it.advantages(batch))).loss.item() for it in (one, other)]
    n_tokens, n_places = int(batch.mask.sum()), batch.mask.numel()
    assert losses[1] == pytest.approx(losses[0] * n_tokens / n_places)


def test_gamma_zero_is_bitwise_the_base_algorithm(warmed, tmp_path, monkeypatch):
    ends = []
    for weighted in (True, False):
        one = learner(warmed, tmp_path)
        if not weighted:
            monkeypatch.setattr(
                "fgrpo_bench.objectives.advantages.focal_weight", lambda rate, gamma: 1
            )
        run_steps(one, 3)
        ends.append(weights(one.policy))
    assert torch.equal(*ends)


@pytest.mark.slow
def test_with_several_updates_the_algorithms_part_and_clip(warmed, tmp_path):
    ends, fractions = {}, {}
    for name in ("grpo", "dapo", "cispo"):
        one = learner(
            warmed,
            tmp_path,
            algorithm=algorithm_of(name),
            updates_per_batch=8,
            learning_rate=1e-3,
        )
        learned = run_steps(one, 12)
        ends[name] = weights(one.policy)
        fractions[name] = max(row["clip_fraction"] for row in learned)
    assert min(fractions.values()) > 0, fractions
    for a, b in (("grpo", "dapo"), ("grpo", "cispo"), ("dapo", "cispo")):
        assert not torch.equal(ends[a], ends[b]), (a, b)


def test_dynamic_sampling_trains_on_active_groups_only_and_counts_every_rollout(warmed, tmp_path):
    algorithm = replace(algorithm_of("dapo"), dynamic_sampling=True)
    one = learner(warmed, tmp_path, algorithm=algorithm)
    batch, sampled = one.rollouts(1)
    assert is_active(batch.rewards).all()
    assert len(sampled.rewards) > one.point.n_prompts
    assert one.session.counters.rollouts == sampled.rewards.numel()


def test_prompts_come_epoch_after_epoch_each_problem_once(warmed, tmp_path):
    one = learner(warmed, tmp_path)
    n = one.task.n_train
    seen = [problem.problem_id for problem in one.problems(n - 3) + one.problems(n + 3)]
    assert sorted(seen[:n]) == sorted(seen[n:]) and len(set(seen)) == n
    assert seen[:n] != seen[n:]


def test_points_of_one_seed_begin_with_the_same_prompts_and_draws(warmed, tmp_path):
    a, b = (learner(warmed, tmp_path, focal_gamma=gamma).rollouts(1)[0] for gamma in (0.0, 2.0))
    assert torch.equal(a.tokens, b.tokens)


def test_a_policy_cannot_hide_in_padding(warmed, tmp_path):
    """A sampled padding token that leads to a wrong answer becomes less likely."""
    one = learner(warmed, tmp_path, updates_per_batch=1, learning_rate=1e-3)
    batch, _ = one.rollouts(1)
    tokens, rewards = batch.tokens.clone(), torch.ones_like(batch.rewards)
    tokens[:, 0, 1:], rewards[:, 0] = PAD, 0.0  # one rollout of each group ends in padding

    def log_probs() -> torch.Tensor:
        logits = one.policy.completion_logits(batch.prompts, tokens.flatten(0, 1))
        taken = torch.log_softmax(logits, -1).gather(2, tokens.flatten(0, 1)[..., None])
        return taken.view(tokens.shape).detach()

    before = log_probs()
    one.learn(replace(judged(batch, rewards), tokens=tokens, log_probs=before))
    change = (log_probs() - before)[:, 0, 1]
    assert (change < 0).all(), change


def finish(stage: StagePaths, spec: StageSpec) -> TrainingFacts:
    return reinforce(spec, StageRun(stage), "cpu")


@pytest.fixture(scope="module")
def whole(warmed) -> tuple[StagePaths, StageSpec, TrainingFacts]:
    """A run of four steps that nothing befell."""
    plan, paths = warmed
    stage = paths.point(plan.points[1].point_id)
    spec = read_spec(stage)
    return stage, spec, finish(stage, spec)


def stop_after(stage: StagePaths, spec: StageSpec, last: int) -> None:
    """Run a stage, a state after every step, until it stops after one."""
    run = StageRun(stage, save_seconds=0.0)
    run.progress = lambda step, of, **_: setattr(run, "stopping", step == last)
    with pytest.raises(Stopped, match=f"state of step {last} is saved"):
        reinforce(spec, run, "cpu")


def test_a_stopped_run_goes_on_and_ends_bit_for_bit_the_same(whole, tmp_path):
    stage, spec, facts = whole
    other = StagePaths(tmp_path)
    for step in (2, 3):
        stop_after(other, spec, step)
    again = finish(other, spec)
    assert again.resumed_at == 3
    assert again.weights_sha256 == facts.weights_sha256
    assert (again.rollouts, again.optimizer_steps) == (facts.rollouts, facts.optimizer_steps)
    clock = ["time_ms", *(name for name in METRICS if name.startswith("seconds"))]
    undisturbed = read_table(stage.metrics, METRICS)
    assert read_table(other.metrics, METRICS).drop(clock).equals(undisturbed.drop(clock))
    assert undisturbed["step"].to_list() == [1, 2, 3, 4]
    assert undisturbed["eval_pass_at_1"].is_not_null().to_list() == [False, True, False, True]
    assert undisturbed["optimizer_steps"].max() <= 8
    assert other.rollouts.read_bytes() == stage.rollouts.read_bytes()


@pytest.mark.slow
def test_stored_groups_are_those_learned_from_and_change_no_bit(whole, tmp_path):
    """All groups of a batch have its whole gradient, fewer are the first of them, none no file."""
    stage, spec, facts = whole
    few = read_table(stage.rollouts, ROLLOUTS)
    assert few["step"].unique().to_list() == [2, 4] and few["group"].unique().to_list() == [
        0,
        1,
        2,
        3,
    ]
    others = {}
    for n in (0, 10_000):
        train = spec.as_kind(TrainStageSpec).point["train"] | {"stored_groups": n}
        point = spec.as_kind(TrainStageSpec).point | {"train": train}
        others[n] = StagePaths(tmp_path / str(n))
        done = finish(others[n], replace(spec.as_kind(TrainStageSpec), point=point))
        assert done.weights_sha256 == facts.weights_sha256
    assert not others[0].rollouts.exists()
    stored = read_table(others[10_000].rollouts, ROLLOUTS)
    assert stored.filter(pl.col("group") < 4).equals(few)
    metrics = read_table(stage.metrics, METRICS)
    gamma = spec.as_kind(TrainStageSpec).sweep_point.focal_gamma
    assert gamma > 0
    for (step,), batch in stored.group_by("step", maintain_order=True):
        row = metrics.row(by_predicate=pl.col("step") == step, named=True)
        right = batch["outcome"] == "correct"
        assert right.mean() == pytest.approx(row["success_rate"])
        assert batch["reward"].to_list() == right.cast(pl.Float64).to_list()
        assert batch["n_tokens"].mean() == pytest.approx(row["response_tokens"])
        cut = (batch["finish_reason"] == "length").mean()
        assert cut == pytest.approx(row["truncated_fraction"])
        assert batch["gradient_share"].sum() == pytest.approx(1.0)
        assert (batch["log_prob"] < 0).all()
        per_group = batch.with_columns(
            spread=(pl.col("reward") - pl.col("reward").mean().over("group"))
            / (pl.col("reward").std().over("group") + 1e-6),
            weight=(1 - pl.col("reward").mean().over("group")) ** gamma,
        )
        assert np.allclose(per_group["focal_weight"], per_group["weight"], atol=1e-6)
        wanted = per_group["spread"] * per_group["weight"]
        assert np.allclose(per_group["advantage"], wanted, atol=1e-5)
        sizes = per_group["advantage"].abs()
        assert np.allclose(per_group["gradient_share"], sizes / sizes.sum(), atol=1e-9)
    task = make_task(spec.as_kind(TrainStageSpec).sweep_point.train.task)
    prompts = {problem.prompt for problem in task.problems(list(range(task.n_train)))}
    assert set(stored["prompt"]) <= prompts


def test_random_rewards_teach_at_the_groups_own_rate_and_metrics_are_the_tasks(warmed, tmp_path):
    """Draws, grades and metrics are as without; what is learned from says nothing of a rollout, and
    another step, prompt or seed draws other rewards."""
    random = replace(algorithm_of("grpo"), random_rewards=True)
    plain, ours = learner(warmed, tmp_path), learner(warmed, tmp_path / "r", algorithm=random)
    batch, other = plain.rollouts(1)[0], ours.rollouts(1)[0]
    assert batch.random_rewards is None and other.random_rewards is not None
    for name in ("tokens", "correct", "rewards"):
        assert torch.equal(getattr(batch, name), getattr(other, name)), name
    drawn = other.random_rewards
    spread = drawn - drawn.mean(1, keepdim=True)
    wanted = spread / (drawn.std(1, keepdim=True) + 1e-6)
    assert torch.allclose(ours.advantages(other), wanted, atol=1e-6)
    before, after = (measure(b, ours.advantages(other), 0.0) for b in (batch, other))
    assert before == after
    problems = ours.task.problems(list(range(64)))
    batches = [ours.draw(problems, 32, f"rollout-{i}", 1) for i in range(2)]
    rewards = [each.random_rewards for each in batches]
    rates = [each.correct.mean(1) for each in batches]
    for reward, rate, correct in zip(rewards, rates, (b.correct for b in batches), strict=True):
        assert set(reward.unique().tolist()) == {0.0, 1.0}
        assert not reward[rate == 0].any()
        noise = (rate * (1 - rate) / reward.numel()).sum().sqrt() / len(rate) ** 0.5
        assert abs(float((reward.mean(1) - rate).mean())) < 4 * float(noise)
        centred = (reward - rate[:, None]) * (correct - rate[:, None])
        variance = float(((rate * (1 - rate)) ** 2).mean() * 32 * len(rate))
        assert abs(float(centred.sum())) < 5 * variance**0.5, "no more right where correct"
    assert not torch.equal(*rewards)
    assert ours.draw(problems, 2, "evaluate", 1).random_rewards is None


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"random_rewards": True}, {"advantage": "curverl"}])
def test_a_run_that_stops_goes_on_with_the_same_random_rewards_and_state(warmed, tmp_path, changes):
    plan, paths = warmed
    spec = read_spec(paths.point(plan.points[1].point_id)).as_kind(TrainStageSpec)
    algorithm = spec.point["algorithm"] | {"name": "changed"} | changes
    spec = replace(spec, point=spec.point | {"algorithm": algorithm})
    undisturbed = finish(StagePaths(tmp_path / "undisturbed"), spec)
    other = StagePaths(tmp_path / "stopped")
    for step in (1, 3):
        stop_after(other, spec, step)
        saved = max((load_file(other.state(i)) for i in (0, 1) if other.state(i).exists()),
                    key=lambda state: float(state["step"]))  # fmt: skip
        counts = saved.get("carried.counts", torch.zeros(0))
        assert int(counts.any(-1).sum()) == (step if "advantage" in changes else 0)
    again = finish(other, spec)
    assert again.resumed_at == 3 and again.optimizer_steps > 0
    assert again.weights_sha256 == undisturbed.weights_sha256


@pytest.mark.slow
def test_a_damaged_state_is_passed_over_and_the_end_is_the_same(whole, tmp_path, capsys):
    _, spec, facts = whole
    other = StagePaths(tmp_path)
    stop_after(other, spec, 3)
    newest = max((other.state(0), other.state(1)), key=lambda path: path.stat().st_mtime_ns)
    content = bytearray(newest.read_bytes())
    content[-5] ^= 0xFF
    newest.write_bytes(content)
    again = finish(other, spec)
    assert f"{newest} is damaged" in capsys.readouterr().out
    assert again.resumed_at == 2 and again.weights_sha256 == facts.weights_sha256
    assert not newest.exists()


@pytest.mark.slow
def test_a_state_whose_metrics_are_gone_is_not_used(whole, tmp_path, capsys):
    _, spec, _ = whole
    other = StagePaths(tmp_path)
    stop_after(other, spec, 3)
    other.metrics.unlink()
    assert finish(other, spec).resumed_at == 0
    assert "is past the metrics" in capsys.readouterr().out
    assert read_table(other.metrics, METRICS)["step"].to_list() == [1, 2, 3, 4]


@pytest.mark.parametrize("garbage", [b"", b"\x00" * 64, b"not a safetensors file at all"])
def test_a_state_that_is_garbage_means_a_fresh_start(warmed, tmp_path, garbage, capsys):
    stage = StagePaths(tmp_path)
    stage.state(0).parent.mkdir()
    stage.state(0).write_bytes(garbage)
    one = learner(warmed, tmp_path)
    assert one.session.counters.step == 0
    assert "is damaged" in capsys.readouterr().out


@pytest.mark.rare  # tests/test_loop.py kills the same commands
@pytest.mark.slow
def test_a_killed_command_goes_on_and_ends_with_the_same_weights(tmp_path):
    """The real command, killed with -9 when its first state is on disk, with an advantage that
    carries a state, which was saved, on random rewards, which are drawn again alike."""
    overrides = ["experiment.train.steps=80", "experiment.train.warmup.steps=150"]
    overrides += ["algorithms.grpo.random_rewards=true", "+algorithms.grpo.advantage=curverl"]
    plan, paths = freeze(tmp_path, *overrides)
    base, stage = paths.warmup(11), paths.point(plan.points[1].point_id)
    for kind, target, work in (("warmup", base, warm_up), ("train", stage, reinforce)):
        process = start(kind, target.folder, "--save-seconds", "0.3")
        deadline = time.monotonic() + 120
        while not target.state(0).exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
        process.communicate()
        assert not target.done.exists()
        process = start(kind, target.folder)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
        assert "resuming after step" in out
        undisturbed = StagePaths(target.folder.with_name(f"{target.folder.name}-undisturbed"))
        facts = work(read_spec(target), StageRun(undisturbed), "cpu")
        assert read_json(target.done)["weights_sha256"] == facts.weights_sha256
    assert target.rollouts.read_bytes() == undisturbed.rollouts.read_bytes()
    assert "rollouts.parquet" in read_json(target.done)["outputs"]


@pytest.mark.slow
@pytest.mark.rare  # disks are full on SLURM too
def test_a_disk_that_takes_no_more_fails_the_stage_by_name_and_loses_nothing(warmed, whole):
    """Writes past 300 kB fail, as on a full disk; with space again the same command goes on."""
    _, spec, facts = whole
    stage = StagePaths(warmed[1].folder / "full")
    write_json(stage.spec, spec.as_json())
    process = start("train", stage.folder, file_limit=300_000)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "cannot write" in out and "nothing was lost, free some space" in out, out
    assert not stage.done.exists() and not list(stage.folder.rglob("*.tmp"))
    process = start("train", stage.folder)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    assert read_json(stage.done)["weights_sha256"] == facts.weights_sha256


def test_the_marker_tells_the_compute_and_the_engine(whole):
    stage, _, facts = whole
    point = from_dict(SweepPoint, read_json(stage.spec)["point"])
    assert facts.rollouts == point.train.steps * (point.train.rollouts_per_step or 0)
    assert facts.engine["threads"] == 1 and facts.engine["torch"] == torch.__version__
    saved = sorted(path.name for path in (stage.folder / "checkpoints").iterdir())
    assert saved == ["step-00002", "step-00004"]
    metrics = read_table(stage.metrics, METRICS)
    assert metrics.select(pl.col("reward").is_between(0, 1).all()).item()
    unmeasured = {name for name in METRICS if metrics[name].is_null().all()}
    assert unmeasured == {"seconds_experience", "seconds_sync", "reference_kl"}
    progress, numbers = read_json(stage.progress), step_numbers(metrics.to_dicts())
    assert {name: progress.get(name) for name in numbers} == numbers
    assert numbers["tokens_per_second"] > 0


def exploding(monkeypatch, *, after: int) -> None:
    """The learning rate is 1e10 from the step after this one on."""
    usual = Learner._learning_rate
    monkeypatch.setattr(
        Learner,
        "_learning_rate",
        lambda one: 1e10 if one.session.counters.step >= after else usual(one),
    )


@pytest.mark.slow
def test_a_run_that_diverges_keeps_its_last_good_state_and_fails_there_again(
    warmed, whole, monkeypatch
):
    _, spec, _ = whole
    stage = StagePaths(warmed[1].folder / "diverged")
    write_json(stage.spec, spec.as_json())
    exploding(monkeypatch, after=2)
    for again in (False, True):
        with pytest.raises(
            FloatingPointError,
            match=r"^step 3: .* the state after step 2 is saved\. Lower the learning rate, in",
        ):
            reinforce(spec, StageRun(stage, save_seconds=0.0), "cpu")
        assert not stage.done.exists()
        assert read_table(stage.metrics, METRICS)["step"].to_list() == [1, 2], again
        states = [load_file(stage.state(slot)) for slot in (0, 1)]
        assert all(bool(value.isfinite().all()) for state in states for value in state.values())
    monkeypatch.undo()
    assert finish(stage, spec).resumed_at == 2


def test_groups_whose_loss_is_not_finite_are_named_and_nothing_is_learned(warmed, tmp_path):
    one = learner(warmed, tmp_path, updates_per_batch=1)
    batch, _ = one.rollouts(1)
    place = int(is_active(batch.rewards).nonzero()[1])
    log_probs = batch.log_probs.clone()
    log_probs[place, 0, 0] = torch.nan
    before = weights(one.policy)
    (named,) = one.tokenizer.decode(batch.prompts[[place]].numpy())
    with pytest.raises(FloatingPointError, match=f"^step 1: the loss of the group of {named} is"):
        one.learn(replace(batch, log_probs=log_probs))
    assert torch.equal(weights(one.policy), before)


def test_a_policy_that_gives_no_numbers_is_named_with_its_groups(warmed, tmp_path):
    one = learner(warmed, tmp_path)
    with torch.no_grad():
        next(one.policy.parameters())[:] = torch.nan
    with pytest.raises(
        FloatingPointError, match=r"log-probability of the groups of .* and 13 more"
    ):
        one.rollouts(1)
    with pytest.raises(FloatingPointError, match=r"log-probability of the group of "):
        one.check(1)


@pytest.mark.parametrize("where", ["gradient norm", "norm of the weights"])
def test_a_gradient_or_weights_that_are_not_finite_stop_the_step(warmed, tmp_path, where):
    one = learner(warmed, tmp_path)
    parameter = next(one.policy.parameters())
    if where == "gradient norm":
        parameter.register_hook(lambda grad: grad * torch.inf)
    batch, _ = one.rollouts(1)
    monkey = 1e-4 if where == "gradient norm" else torch.inf
    one._learning_rate = lambda: monkey
    with pytest.raises(FloatingPointError, match=f"^step 1: the {where} .* is not finite"):
        one.learn(batch)


def directional(one: Learner, value, size: float = 2e-3) -> tuple[float, float]:
    """Slope of a function of the learner's policy along its gradient: by the gradient, and by
    central differences."""
    one.policy.zero_grad(set_to_none=False)
    value().backward()
    parameters = list(one.policy.parameters())
    kept, gradients = [p.detach().clone() for p in parameters], [p.grad.clone() for p in parameters]
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    ends = []
    for at in (size, -size, 0.0):
        with torch.no_grad():
            for parameter, weight, gradient in zip(parameters, kept, gradients, strict=True):
                parameter.copy_(weight + at * gradient / norm)
        ends.append(value().item())
    return float(norm), (ends[0] - ends[1]) / (2 * size)


@pytest.mark.slow
@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean", "constant_length"])
@pytest.mark.parametrize("coefs", [{"entropy_coef": 0.5}, {"kl_coef": 0.5}])
def test_an_entropy_bonus_and_a_kl_term_are_means_of_tokens_as_the_loss_is(
    warmed, tmp_path, coefs, aggregation
):
    """Over every group, those without an advantage too; the gradient is that of the value, by
    finite differences and by autograd of a definition of its own."""
    _, paths = warmed
    algorithm = replace(algorithm_of("grpo"), loss_aggregation=aggregation, **coefs)
    one = learner(warmed, tmp_path, algorithm=algorithm)
    with torch.no_grad():  # away from the base model, where k3 has no slope
        generator = torch.Generator().manual_seed(3)
        for parameter in one.policy.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator)
    one.reference, _ = load_checkpoint(paths.warmup(11).checkpoint(0), "cpu", None)
    batch = one.rollouts(1)[0]
    batch = replace(batch, rewards=0 * batch.rewards)  # no advantage: the term stands alone
    advantages = one.advantages(batch)
    assert not has_signal(advantages).any()

    def ours():
        return sum(part.loss for part in one.losses(batch, advantages))

    def definition():
        tokens, mask = batch.tokens.flatten(0, 1), batch.mask.flatten(0, 1)
        p, q = (
            policy.completion_logits(batch.prompts, tokens).log_softmax(-1)
            for policy in (one.policy, one.reference)
        )
        if "entropy_coef" in coefs:
            values = 0.5 * (p.exp() * p).sum(-1)
        else:
            chosen = (q - p).gather(2, tokens[..., None])[..., 0]
            values = 0.5 * (chosen.exp() - 1 - chosen)
        if aggregation == "token_mean":
            return values[mask].mean()
        if aggregation == "sequence_mean":
            return ((values * mask).sum(1) / mask.sum(1)).mean()
        return (values * mask).sum() / mask.numel()

    assert ours().item() == pytest.approx(definition().item(), rel=1e-5)
    by_gradient, by_differences = directional(one, ours)
    assert by_differences == pytest.approx(by_gradient, rel=2e-2)
    assert directional(one, definition)[0] == pytest.approx(by_gradient, rel=1e-4)
    learned = one.learn(batch)
    assert learned["loss"] == 0 and learned["grad_norm"] > 0 and learned["rollout_kl"] is None
    assert learned["reference_kl"] > 0 and one.session.counters.optimizer_steps == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grpo-entropy", "grpo-kl"])
def test_a_control_runs_to_its_end_and_the_same_with_a_stop(warmed, tmp_path, name):
    plan, paths = warmed
    spec = read_spec(paths.point(plan.points[0].point_id)).as_kind(TrainStageSpec)
    algorithm = to_dict(loaded("gamma").algorithms[name])
    spec = replace(spec, point=spec.point | {"algorithm": algorithm})
    whole = finish(StagePaths(tmp_path / "whole"), spec)
    other = StagePaths(tmp_path / "stopped")
    stop_after(other, spec, 2)
    assert finish(other, spec).weights_sha256 == whole.weights_sha256
    divergences = read_table(other.metrics, METRICS)["reference_kl"].to_list()
    assert divergences == [None] * 4 if name == "grpo-entropy" else min(divergences) > 0


@pytest.mark.slow
@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean", "constant_length"])
def test_a_batch_in_parts_has_the_loss_and_gradient_of_the_whole(tmp_path, aggregation):
    gradients, sums = [], []
    for bound in (None, 2 * (136 + 4 * 32)):
        (first, *_) = make_plan(loaded("maze")).points
        point = replace(
            first,
            algorithm=replace(first.algorithm, loss_aggregation=aggregation),
            train=replace(first.train, max_batch_tokens=bound),
        )
        task = make_task(point.train.task)
        tokenizer = Tokenizer(task.vocabulary)
        policy = Policy(point.train.model, tokenizer.size, positions(point.train.model, task))
        policy.initialise(torch.Generator().manual_seed(0))
        one = learner_of(point, policy, tokenizer, tmp_path)
        batch = of_lengths(task, tokenizer)
        parts = list(one.losses(batch, one.advantages(batch)))
        assert len(parts) == (1 if bound is None else 3)
        for part in parts:
            part.loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in policy.parameters()]))
        sums.append((sum(p.loss.item() for p in parts), sum(p.active_tokens for p in parts)))
    assert sums[0] == pytest.approx(sums[1], rel=1e-4, abs=1e-6)
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-6, rtol=1e-3)
    assert gradients[0].abs().max() > 1e-5


def test_prompts_of_different_lengths_are_learned_from_as_each_group_alone(warmed, tmp_path):
    one = learner(warmed, tmp_path)
    batch, _ = one.rollouts(1)
    lengths = torch.tensor([4, 7, 2, 4, 7, 7])
    active = is_active(batch.rewards).nonzero()[: len(lengths), 0]
    batch = replace(batch.take(active), prompt_lengths=lengths)
    advantages = one.advantages(batch)
    parts = list(one.losses(batch, advantages))
    assert len(parts) == 3
    groups = [torch.tensor([i]) for i in range(6)]
    alone = [one._loss(batch.take(i), advantages[i], batch) for i in groups]
    sums = [
        [sum(p.loss for p in some), sum(p.rollout_gap for p in some)] for some in (parts, alone)
    ]
    assert sums[0][1] == pytest.approx(sums[1][1], rel=1e-4)
    gradients = [
        torch.cat([g.flatten() for g in torch.autograd.grad(x, list(one.policy.parameters()))])
        for x, _ in sums
    ]
    torch.testing.assert_close(*gradients, atol=1e-6, rtol=1e-3)
    assert gradients[0].abs().max() > 1e-5


def of_lengths(task, tokenizer) -> Rollouts:
    """Six groups of four answers that end at different places, within the first 17 of all."""
    prompts = tokenizer.encode([problem.prompt for problem in task.problems(range(6))])
    answers = torch.full((24, task.response_length + 1), PAD)
    generator = torch.Generator().manual_seed(0)
    for row in range(24):
        length = 4 + row % 13
        answers[row, :length] = torch.randint(2, 16, (length,), generator=generator)
        answers[row, length] = EOS
    shape = (6, 4, task.response_length + 1)
    return Rollouts(
        prompts=torch.from_numpy(np.stack(prompts)),
        prompt_lengths=torch.full((6,), task.prompt_length),
        tokens=answers.view(shape),
        log_probs=torch.full(shape, -2.0),
        entropies=torch.zeros(shape),
        rewards=(correct := torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 1.0, 0]] * 3)),
        correct=correct,
        unscored=torch.zeros(6, 4, dtype=torch.bool),
        solutions=torch.full((6, 4), -1),
    )


def test_a_constant_schedule_has_its_peak_at_every_step():
    warmup = loaded("maze", "experiment=maze").experiment.train.warmup
    assert {learning_rate(step, warmup) for step in (1, 700, 1500)} == {5e-4}
    assert learning_rate(1, replace(warmup, schedule=None)) < 5e-6


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("+experiment.train.model.n_positions=300", r"n_positions=300.*310.*436"),
        ("experiment.train.model.vocabulary_size=15", r"vocabulary_size=15.*16"),
        ("experiment.train.max_batch_tokens=1000", r"max_batch_tokens=1000.*group_size=8"),
    ],
)
def test_a_model_or_bound_that_does_not_fit_is_refused_by_the_plan(override, said):
    declared = loaded("maze", "experiment=maze", override)
    with pytest.raises(ValueError, match=said):
        make_plan(declared)
