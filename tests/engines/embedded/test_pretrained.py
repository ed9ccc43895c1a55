"""A base model of one's own: read as transformers reads it, trained, or refused in a sentence."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.seeds import draw_seeds
from fgrpo_bench.engines.embedded import pretrained
from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint, save_checkpoint
from fgrpo_bench.engines.embedded.sampling import encode_prompts, sample
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.graders import get_grader
from fgrpo_bench.stages.tables import METRICS, read_table
from fgrpo_bench.tasks import make_task
from sweeps.cli import main
from sweeps.plan import make_plan
from tests.evaluators.evaluations import strangers_model, untrained_model
from tests.support.plans import loaded

TEXTS = ["12=3:", "3256=24:", "What is 1 + 2? \\boxed{3}", "é"]
TASK = "experiment.train.task.n_digits=2"
PROBLEMS = [
    Problem(benchmark="x", problem_id=text, prompt=text, target="", grader="countdown")
    for text in TEXTS
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return strangers_model(tmp_path_factory.mktemp("model") / "stranger")


def overrides(folder: Path, **changes: object) -> list[str]:
    """What puts a folder's model into the place of the one that is warmed up."""
    named = changes or {"parameters": pretrained.n_parameters(folder)}
    fields = ", ".join(f"{name}: {value}" for name, value in named.items())
    return [
        "experiment.train.model=null",
        "experiment.train.warmup=null",
        f"+experiment.train.pretrained={{name: own, path: '{folder}', revision: null, {fields}}}",
        "+experiment.train.prompt_tokens=12",
        "+experiment.train.response_tokens=6",
    ]


def test_logits_gradients_and_tokens_are_those_of_transformers(folder, tmp_path):
    ours, tokenizer = load_checkpoint(folder, "cpu", None)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
    words = transformers.AutoTokenizer.from_pretrained(folder)
    for text, ids in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
        assert ids.tolist() == words(text)["input_ids"]
        assert tokenizer.decode(np.array([[*ids, tokenizer.eos, 9]])) == [text]
    ids = torch.randint(3, 271, (2, 9), generator=torch.Generator().manual_seed(0))
    assert ours.lm_head is not None
    for model in (ours, theirs):
        logits = model(ids) if model is ours else model(ids).logits
        F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
    known = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, known[name].grad, atol=1e-6, rtol=1e-3)
    torch.testing.assert_close(ours(ids), theirs(ids).logits, atol=1e-4, rtol=1e-4)
    saved = save_checkpoint(tmp_path / "step-00001", ours, tokenizer)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "step-00001")
    assert torch.equal(again(ids).logits, theirs(ids).logits)
    loaded, _ = load_checkpoint(tmp_path / "step-00001", "cpu", saved)
    assert torch.equal(loaded(ids), ours(ids))


def test_a_response_ends_at_the_end_token_of_the_folder_alone(folder):
    policy, tokenizer = load_checkpoint(folder, "cpu", None)
    with torch.no_grad():
        policy.lm_head.weight[tokenizer.eos] = 3 * policy.lm_head.weight[tokenizer.eos] + 0.01
    prompts, lengths = encode_prompts(tokenizer, PROBLEMS, 40)
    assert len(set(lengths.tolist())) > 2
    seeds = draw_seeds(0, TEXTS, np.arange(400))
    drawn = sample(policy, prompts, seeds, length=12, temperature=1.0, lengths=lengths)
    ended = (drawn.tokens == tokenizer.eos).cumsum(1)
    assert ended[:, -1].bool().any() and not ended[:, -1].bool().all()
    assert (drawn.tokens[ended > 0] == tokenizer.eos).all()
    assert (drawn.tokens == 1).any()  # what the folder pads with is a token as any other


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "changes", "said"),
    [
        ("config.json", {"model_type": "llama"}, "is a llama, no qwen2"),
        ("config.json", {"rms_norm_eps": 1e-5}, "has rms_norm_eps=1e-05"),
        ("config.json", {"use_sliding_window": True}, "has use_sliding_window"),
        ("config.json", {"rope_parameters": {"rope_type": "yarn"}}, "scales its positions"),
        ("config.json", {"head_dim": 32}, "has hidden_size=64, num_attention_heads=4"),
        ("config.json", {"auto_map": {"AutoModel": "x.y"}}, "brings code of its own"),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["x.y"]}}, "brings code of"),
        ("generation_config.json", {"eos_token_id": [0, 3]}, r"has the end tokens \[0, 3\], not"),
        ("config.json", {"vocab_size": 200}, r"tokenizer of \d+ tokens, more than vocab_size=200"),
        ("model.safetensors", None, "has no model.safetensors"),
        (None, {}, "has 108,992 parameters"),
    ],
)
def test_what_it_cannot_train_is_refused_in_a_sentence_that_names_openrlhf(
    folder, tmp_path, monkeypatch, file, changes, said
):
    copy = shutil.copytree(folder, tmp_path / "copy")
    if file is None:
        monkeypatch.setattr(pretrained, "MOST_PARAMETERS", 100_000)
    elif changes is None:
        (copy / file).rename(copy / f"part-of-{file}")
    else:
        (copy / file).write_text(json.dumps(read_json(copy / file) | changes))
    declared = loaded("smoke", *overrides(copy, parameters=108_992))
    with pytest.raises(ValueError, match=rf"{said}.*take an experiment of OpenRLHF, as conf/exp"):
        make_plan(declared)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("tokenizer.json", None, r"has no tokenizer \(tokenizer.json or .*; add what is missing"),
        ("config.json", "{", "holds no valid JSON .*: copy it again from where the model is from"),
        ("model.safetensors", "", "is damaged .*: copy it again from where the model is from"),
    ],
)
def test_a_folder_that_no_engine_can_read_says_what_is_wrong_with_it(
    folder, tmp_path, file, text, said
):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / file).unlink()
    if text is not None:
        (copy / file).write_text(text)
    with pytest.raises(ValueError, match=said):
        make_plan(loaded("smoke", *overrides(copy, parameters=108_992)))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("experiment.train.pretrained.parameters=9", "parameters=9, but .* have 108,992: set"),
        ("experiment.train.response_tokens=300", "312 together, but .* has 256 positions here"),
        ("experiment.train.response_tokens=null", "has pretrained, prompt_tokens: a base model"),
    ],
)
def test_settings_that_do_not_fit_the_folder_are_refused(folder, changed, said):
    with pytest.raises(ValueError, match=said):
        key = changed.partition("=")[0]
        kept = [given for given in overrides(folder) if given.lstrip("+").partition("=")[0] != key]
        make_plan(loaded("smoke", *kept, f"++{changed}"))


@pytest.mark.slow
def test_a_run_is_known_by_its_models_weights_and_not_by_where_they_are(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")

    def fingerprints() -> list[str]:
        plan = make_plan(loaded("smoke", *overrides(copy)))
        return [stage.fingerprint for stage in plan.stages]

    before = make_plan(loaded("smoke", *overrides(folder))).stages
    assert [stage.kind for stage in before].count("warmup") == 0
    assert fingerprints() == [stage.fingerprint for stage in before]
    content = bytearray((copy / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (copy / "model.safetensors").write_bytes(content)
    changed = fingerprints()
    assert not set(changed) & {stage.fingerprint for stage in before}


def trained(folder: Path) -> Path:
    """A Qwen2 of four million parameters with tokens of several characters, trained from nothing on
    demonstrations of countdown for some seconds."""
    task = make_task(loaded("smoke", TASK).experiment.train.task)
    prompts = [problem.prompt for problem in task.problems(range(task.n_train))]
    model = untrained_model(
        folder,
        prompts,
        special_tokens=["<eos>"],
        vocab_size=320,  # more than there are tokens, as many published ones have
        hidden_size=256,
        intermediate_size=960,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
    words = transformers.AutoTokenizer.from_pretrained(folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)
    for _ in range(60):
        some = rng.integers(task.n_train, size=64).tolist()
        shown = task.demonstrations(some, rng)
        rows = [
            (words(prompts[i])["input_ids"], [*words(text)["input_ids"], 0])
            for i, text in zip(some, shown, strict=True)
        ]
        longest = max(len(a) + len(b) for a, b in rows)
        ids = torch.tensor([[*a, *b] + [0] * (longest - len(a) - len(b)) for a, b in rows])
        labels = torch.tensor(
            [[-100] * len(a) + b + [-100] * (longest - len(a) - len(b)) for a, b in rows]
        )
        optimizer.zero_grad()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    return folder


@pytest.mark.rare
@pytest.mark.slow
def test_a_model_of_four_million_parameters_learns_and_its_plan_says_for_how_long(tmp_path, capsys):
    folder = trained(tmp_path / "own")
    assert 4_000_000 < pretrained.n_parameters(folder) < 4_600_000
    words = [
        "smoke",
        TASK,
        f"run_root={tmp_path}/runs",
        "experiment.train.steps=8",
        "experiment.train.save_every=8",
        "experiment.train.eval_every=0",
        "experiment.evaluation.n_samples=16",
        *overrides(folder),
    ]
    assert main(["plan", *words]) == 0
    said = capsys.readouterr().out
    assert "estimated cost: " in said and "warm-up" not in said.split("estimated")[1]
    assert main(["run", *words]) == 0
    root = tmp_path / "runs" / "smoke" / "countdown-tiny" / "v1"
    marker = read_json(root / "_base" / "own" / "DONE.json")
    assert marker["weights_sha256"] == pretrained.digests(folder)["weights_sha256"]
    stage = StagePaths(root / "grpo-n4-g0-s11")
    metrics = read_table(stage.metrics, METRICS)
    assert metrics["success_rate"].max() > 0 and metrics["grad_norm"].max() > 0
    last = stage.checkpoint(8)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(last)
    problem = make_task(loaded("smoke", TASK).experiment.train.task).problem(0)
    ids = transformers.AutoTokenizer.from_pretrained(last)(problem.prompt, return_tensors="pt")
    said = theirs.generate(**ids, do_sample=True, num_return_sequences=64, max_new_tokens=6)
    texts = transformers.AutoTokenizer.from_pretrained(last).batch_decode(
        said[:, ids["input_ids"].shape[1] :], skip_special_tokens=True
    )
    grade = get_grader("countdown")
    assert {grade(problem, text).outcome for text in texts} <= {"correct", "incorrect"}
    assert "| Base |" in (root / "report" / "report.md").read_text()
