"""`fgrpo-bench new`: what it writes passes its tests at once, what it refuses, and its guides."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fgrpo_bench.data.published import read_published
from fgrpo_bench.specs import config
from sweeps import REPOSITORY
from sweeps.new.__main__ import main
from tests.evaluators.evaluations import strangers_model
from tests.pages.blocks import assert_printed, blocks
from tests.plugin.test_extending import follow

NEW = ("experiment", "task", "advantage", "reward", "benchmark")
QWEN = "Qwen/Qwen2.5-7B"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sixteen sums as a researcher has them, in the folder of all commands."""
    monkeypatch.chdir(tmp_path)
    rows = (
        {"question": f"What is {a} + {b}?", "answer": str(a + b)}
        for a in range(4)
        for b in range(4)
    )
    path = tmp_path / "sums.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def words_of(kind: str, name: str, data: Path) -> list[str]:
    further = {
        "experiment": ["--model", QWEN, "--data", str(data)],
        "benchmark": ["--data", str(data)],
    }
    return [kind, name, *further.get(kind, [])]


def copied(folder: Path, *names: str) -> Path:
    """A checkout with these folders and files of this one."""
    unused = shutil.ignore_patterns("__pycache__", "node_modules", "examples")
    for name in names:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=unused)
        else:
            shutil.copy(source, folder)
    return folder


def run(checkout: Path, *words: str) -> str:
    """By Python there."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", NEW)
def test_a_dry_run_says_what_it_would_write_and_writes_nothing(
    kind: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words_of(kind, "mine", data), "--dry-run"]) == 0
    said = capsys.readouterr().out
    files = [Path(line.split()[2]) for line in said.splitlines() if line.startswith("would write")]
    assert files and not any(file.exists() for file in files)
    assert any(f"{REPOSITORY}/" in str(file) for file in files)


@pytest.mark.slow
def test_an_experiment_is_written_and_planned_with_memory_hours_and_disk(
    data: Path, tmp_path: Path
) -> None:
    checkout = copied(tmp_path / "checkout", "conf", "fgrpo_bench", "sweeps")
    heldout = data.with_name("test.csv")
    heldout.write_text("question,answer\nWhat is 5 + 5?,10\n")
    words = [*words_of("experiment", "mine", data), "--heldout", str(heldout), "--reward", "math"]
    said = run(checkout, "sweeps.new", *words)
    assert "problems: 16 of " in said and "columns 'question' and 'answer', judged by math" in said
    assert "model: Qwen/Qwen2.5-7B, 7,615,616,512 parameters, as conf/experiment has it" in said
    for line in ("as transfer with profile=slurm-8gpu, 6 runs:", " GPU-hours (", " disk: ",
                 "GiB of a GPU's 80 by grpo: ", "make rehearse EXPERIMENT=mine"):  # fmt: skip
        assert line in said
    declared = config.load("transfer", ["experiment=mine"], conf=checkout / "conf").experiment
    train, (benchmark,) = declared.train, declared.evaluation.benchmarks.values()
    assert (train.reward, train.dataset.path, benchmark.dataset.path) == (
        *("math", str(data), str(heldout)),
    )
    assert (train.prompts_per_step, train.epochs, train.steps, benchmark.n_problems) == (
        16,
        10,
        10,
        1,
    )
    assert train.eval_dataset == benchmark.dataset
    text = (checkout / "conf" / "experiment" / "mine.yaml").read_text()
    assert len(text.splitlines()) < 60


@pytest.mark.parametrize(
    "kind",
    [
        "task",  # which adds to three tables; the others to one each
        *(
            pytest.param(kind, marks=pytest.mark.rare)
            for kind in ("advantage", "reward", "benchmark")
        ),
    ],
)
@pytest.mark.slow
def test_a_package_passes_its_test_at_once(kind: str, data: Path, tmp_path: Path) -> None:
    package = tmp_path / "package"
    assert main([*words_of(kind, "mine", data), "--package", str(package)]) == 0
    assert {"pyproject.toml", "smoke.sh", "fgrpo_mine.py", "test_fgrpo_mine.py"} <= {
        file.name for file in package.iterdir()
    }
    assert " passed" in run(REPOSITORY, "pytest", "-q", str(package))


@pytest.mark.slow
@pytest.mark.rare
def test_all_five_pass_what_make_test_asks_of_them_at_once(data: Path, tmp_path: Path) -> None:
    checkout = copied(
        tmp_path / "checkout",
        *("conf", "dashboards", "docs", "evaluators", "fgrpo_bench", "sweeps", "tests"),
        *("pyproject.toml", "README.md", "AGENTS.md", "CHANGELOG.md"),
    )
    for kind in NEW:
        run(checkout, "sweeps.new", *words_of(kind, f"my_{kind}", data))
    written = ("tasks", "objectives", "graders", "data")
    generated = [
        str(path) for folder in written for path in checkout.glob(f"tests/{folder}/*_my_*")
    ]
    assert len(generated) == 4
    about = ["tests/sweeps/test_shipped.py", "tests/objectives/test_advantages.py",
             "tests/graders/test_linear_time.py", "tests/data/test_layouts.py",
             "tests/paper/test_theory.py", "tests/analysis/test_question.py"]  # fmt: skip
    chosen = "my_ or shipped or shown or every or new_wrote or declare"
    assert "[100%]" in run(checkout, "pytest", "-q", "-n", "0", *generated, *about, "-k", chosen)
    run(checkout, "ruff", "check", "-q", ".")
    run(checkout, "ruff", "format", "-q", "--check", "fgrpo_bench", *generated)


def commands_of(guide: str) -> list[list[str]]:
    page = REPOSITORY / "docs" / "guides" / guide
    return [shlex.split(line, comments=True) for line in "".join(blocks(page, "bash")).splitlines()]


@pytest.mark.slow
def test_the_guide_to_training_is_followed_up_to_a_rehearsals_plan(
    data: Path, tmp_path: Path
) -> None:
    page = REPOSITORY / "docs" / "guides" / "train.md"
    checkout = copied(tmp_path / "checkout", "conf", "fgrpo_bench", "sweeps")
    (checkout / "mypkg").mkdir()
    (checkout / "mypkg" / "grade.py").write_text(*blocks(page, "python"))
    rows = data.read_text()
    asked = ("What is", "How much is", "Compute", "Add")
    (checkout / "train.jsonl").write_text("".join(rows.replace("What is", say) for say in asked))
    (checkout / "test.jsonl").write_text("".join(rows.splitlines(keepends=True)[:8]))
    strangers_model(checkout / "out" / "my-model")
    new, plan, rehearse, sweep = commands_of("train.md")
    said = run(checkout, "fgrpo_bench", *new[1:])
    shown = next(text for text in blocks(page, "") if text.startswith("problems: "))
    assert_printed(shown, said)
    planned = run(checkout, "fgrpo_bench", *plan[1:])
    assert "to run" in planned and "plus downloads" not in planned
    assert rehearse == ["make", "rehearse", "EXPERIMENT=mine"] and sweep[2] == "EXPERIMENT=mine"
    said = run(checkout, "sweeps", "rehearse", "mine", "--dry-run")
    assert (
        "rehearsal of mine, with its problems, prompt, reward and evaluation, but a model " in said
    )
    (tiny,) = (checkout / "runs" / "_tiny").iterdir()
    assert (tiny / "tokenizer.json").read_text() == (
        checkout / "out" / "my-model" / "tokenizer.json"
    ).read_text()


@pytest.mark.slow
def test_the_guide_to_an_advantage_is_followed(tmp_path: Path) -> None:
    page = REPOSITORY / "docs" / "guides" / "advantage.md"
    checkout = copied(tmp_path / "checkout", "conf", "fgrpo_bench", "sweeps", "dashboards")
    new, smoke, compared, package = commands_of("advantage.md")
    run(checkout, "fgrpo_bench", *new[1:])
    assert follow(checkout, *blocks(page, "diff")) == ["fgrpo_bench/objectives/gentle.py"]
    assert "gentle-n4-g0-s11" in run(checkout, "fgrpo_bench", *smoke[1:], "--dry-run")
    assert "gentle-n8-g0-s11" in run(checkout, "fgrpo_bench", *compared[1:])
    run(checkout, "fgrpo_bench", *package[1:])
    assert (checkout / "fgrpo-gentler" / "smoke.sh").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("advantage grpo", "advantage 'grpo' is this package's already: choose another name"),
        ("advantage dapo", "conf/algorithms.yaml has such an algorithm: choose another name"),
        ("advantage My-Own", "small letters, digits and _, begins with a letter, is no word of"),
        ("advantage class", "is no word of Python"),
        ("advantage max", "is no word of Python"),
        ("task yes", "is no word of Python or YAML"),
        ("advantage registry", "advantages.py has something else that is named registry: choose"),
        ("task problem", "tasks/problem.py has something else that is named Problem: choose"),
        ("reward bench --package x", "reward 'bench': there is a package fgrpo_bench: choose"),
        ("advantage advantages", "fgrpo_bench/objectives/advantages.py exists, and is not written"),
        ("task countdown", "task 'countdown' is this package's already"),
        ("reward math", "grader 'math' is this package's already"),
        ("benchmark x --data nope.jsonl", "nope.jsonl is no file"),
        (
            "benchmark x --data sums.jsonl --prompt text",
            "--prompt text: sums.jsonl has the columns",
        ),
        ("benchmark x --data sums.jsonl --grader mth", "unknown grader 'mth' (did you mean math?)"),
        (
            "benchmark x --data sums.jsonl --grader choice",
            "row 0 of dataset sums, column answer: the answer is a number, but the problem lists",
        ),
        ("advantage x --package .", "--package . exists: name a folder that is not there yet"),
        (f"experiment rehearsal --model {QWEN} --data sums.jsonl", "rehearsal.yaml exists"),
        (f"experiment x --model {QWEN} --data sums.jsonl --reward a:b", "there is no a.py here"),
        ("experiment x --model nope --data sums.jsonl", "--model nope is no folder here and no id"),
        (f"experiment x --model {QWEN} --data sums.jsonl --heldout sums.jsonl", "is the file of"),
        (f"experiment ../x --model {QWEN} --data sums.jsonl", "NAME '../x': string should match"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_line(
    words: str, said: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "--dry-run"]) == 1  # what is accepted is written nowhere
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_model_that_is_not_reached_has_the_size_of_its_name_or_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreached(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreached)
    model = read_published("org/some-1.5B-model")
    assert (model.spec.parameters, model.source) == (1_500_000_000, "by its name alone")
    assert "was not reached" in model.unknown and "or give a folder" in model.unknown
    with pytest.raises(ValueError, match="its name says no number of parameters: run this where"):
        read_published("org/some-model")


def test_a_model_of_the_hub_is_read_without_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99}
    (tmp_path / "config.json").write_text(json.dumps(shape | {"max_position_embeddings": 512}))
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    files = [SimpleNamespace(rfilename=file.name) for file in tmp_path.iterdir()]
    weights = SimpleNamespace(total=123_456)
    info = SimpleNamespace(safetensors=weights, siblings=files, id="org/model")
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_, **__: info)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda _, file: str(tmp_path / file))
    model = read_published("org/model")
    assert (model.spec.path, model.spec.parameters) == ("org/model", 123_456)
    assert model.spec.shape.n_layers == 2 and model.spec.shape.head_dim == 16
    assert (model.chat_template, model.context, model.unknown) == (True, 512, None)


@pytest.mark.slow
def test_a_model_that_brings_code_is_refused_until_an_option_trusts_it(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = strangers_model(tmp_path / "mine")
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "modeling.Mine"}
    (folder / "config.json").write_text(json.dumps(config))
    words = ["experiment", "x", "--model", str(folder), "--data", str(data), "--dry-run"]
    capsys.readouterr()
    assert main(words) == 1
    assert "brings code of its own (auto_map)" in (said := capsys.readouterr().err)
    assert "give --trust-remote-code" in said and said.count("\n") == 1
    assert main([*words, "--trust-remote-code"]) == 0
    assert "\n      trust_remote_code: true\n" in capsys.readouterr().out
