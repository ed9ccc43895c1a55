"""`evaluate MODEL --data FILE`: what is looked up, what is refused, and what a first run gives."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from evaluators.__main__ import main
from evaluators.stored import find
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.stages.tables import DRAWS, read_table
from tests.evaluators.evaluations import strangers_model

SUMS = [
    {"question": "What is 1 + 1?", "answer": "2", "level": "easy"},
    {"question": "What is 2 + 3?", "answer": "5", "level": "easy"},
    {"question": "What is 7 - 3?", "answer": "4", "level": "hard"},
    {"question": "What is 3 * 3?", "answer": "9", "level": "hard"},
]
SHORT = ("--max-tokens", "8", "-n", "4")


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    return strangers_model(tmp_path_factory.mktemp("models") / "my-model")


@pytest.fixture
def mine(tmp_path: Path, root: Path, qwen: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, with a model and problems as a researcher has them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").symlink_to(qwen.parent)
    write("mine.jsonl", SUMS)
    pl.DataFrame(SUMS).write_csv("mine.csv")
    pl.DataFrame(SUMS).with_columns(pl.col("answer").cast(int)).write_parquet("mine.parquet")
    return tmp_path


def write(name: str, rows: list[dict[str, object]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def evaluated(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What the command prints, or where it refuses, what stands on stderr."""
    capsys.readouterr()
    try:
        exit_code = main(words)
    except SystemExit as error:
        exit_code = error.code
    shown = capsys.readouterr()
    assert exit_code == code, shown.err
    return shown.err if code else shown.out


@pytest.mark.slow
@pytest.mark.parametrize("file", ["mine.jsonl", "mine.csv", "mine.parquet"])
def test_columns_sampler_prompt_and_lengths_are_looked_up_and_said(mine, file, capsys):
    said = evaluated(capsys, "out/my-model", "--data", file, "--dry-run")
    assert f"problems: {file}, columns 'question' and 'answer', grader math, as mine-" in said
    assert "sampler: transformers, on the CPU (no GPU is here)" in said
    assert "prompt: the problem as it stands (no template), after each problem '\\n\\nPut " in said
    assert "length: prompts of up to 128 tokens, responses of up to 128\n" in said
    assert "4 problems x 16 draws; 0 are there, 64 to make" in said


@pytest.mark.slow
def test_a_chat_template_and_a_column_that_problems_share_are_used(mine, qwen, capsys):
    copy = shutil.copytree(qwen, mine / "chat")
    (copy / "chat_template.jinja").write_text("{{ messages[0].content }}")
    words = ("chat", "--data", "mine.csv", "--dry-run")
    assert "prompt: the tokenizer's chat template, system message 'Please reason" in evaluated(
        capsys, *words
    )
    asked = evaluated(capsys, *words, "--suffix", "Go.", "--cluster", "level", "--staged")
    assert "prompt: the tokenizer's chat template, after each problem 'Go.'\n" in asked
    assert "design: at most 16 draws per problem, in stages 1, 2, 4, 8 and 16; a problem" in asked
    (spec,) = {
        path
        for path in mine.glob("runs/evals/chat-*/eval/*/step-00000/spec.json")
        if "Go." in path.read_text()
    }
    (benchmark,) = read_json(spec)["evaluation"]["benchmarks"].values()
    assert benchmark["dataset"]["cluster"] == "level"


def test_rows_that_are_empty_or_copies_are_said(mine, capsys):
    wrong = SUMS[0] | {"answer": "3"}
    write("mine.jsonl", [*SUMS, SUMS[1], wrong, {"question": "And?", "answer": None}])
    said = evaluated(capsys, "out/my-model", "--data", "mine.jsonl", "--dry-run")
    assert "left out: 1 of 7 rows lack a problem or an answer" in said
    assert "copies: 2 of 6 problems have the text of another one" in said
    assert "different answers: 1 of these texts have several; keep the right one" in said


REFUSED = {
    "--data nowhere.csv": "nowhere.csv is no file: give the path of a dataset",
    "--data math50": "--data math50 (did you mean math500?): it is no file (.json, .jsonl,",
    "--data empty.jsonl": "empty.jsonl holds no rows: give a file with a problem a row",
    "--data binary.jsonl": "binary.jsonl is no text in UTF-8 (byte 0)",
    "--data broken.jsonl": "broken.jsonl, line 2, is no JSON (",
    "--data blank.jsonl": "none of the 1 rows of",
    "--data two.jsonl": "of which question and prompt may be meant: name one with --prompt",
    "--data mine.csv --prompt quest": "--prompt quest (did you mean question?): mine.csv has the "
    "columns question, answer, level",
    "--data mine.csv --answer question": "--prompt and --answer are both 'question'",
    "--data mine.csv --cluster levels": "--cluster levels (did you mean level?)",
    "--data mine.csv --grader maths": "--grader maths (did you mean math?): there are choice,",
    "--data mine.csv -n 0": "-n 0: give a number of at least 1",
    "--data mine.csv --limit 0": "--limit 0: give a number of at least 1",
    "--data mine.csv --max-tokens 256": "prompts and responses of 256 tokens: the context of",
    "--data mine.csv --temperature -1": "--temperature -1.0: input should be greater than or equal "
    "to 0; give --temperature another value. It is: Sampling temperature; 0 is greedy",
    "--data mine.csv temperature=0.001": "must be 0, which is greedy, or at least 0.01",
    "--data mine.csv --temperature 0 -n 4": "temperature=0 with n_samples=4: all greedy draws",
    "--data mine.csv temperature=0 n_samples=2": "set n_samples=1 and design=null, or a",
    "--data mine.csv --temperature 0 --staged": "--staged beside temperature 0: greedy draws",
    "--data mine.csv n_samples=4 -n 4": "-n 4 beside n_samples=4: give one of the two",
    "--data mine.csv n_samples=4 n_samples=8": "n_samples=4 beside n_samples=8: give one of the",
    "--data mine.csv checkpoint=x": "out/my-model beside checkpoint=x: name one model at a time",
    "--data mine.csv benchmarks=[math500]": "benchmarks=[math500] beside --data, which names what",
    "--data mine.csv --staged design=staged": "--staged beside design=staged: both say",
    "--data mine.csv --top-p 0": "--top-p 0.0: input should be greater than 0; give --top-p",
    "--data mine.csv --top-k 0": "--top-k 0: give a number of at least 1",
    "--data mine.csv --batch-size 0": "--batch-size 0: give a number of at least 1",
    "--data mine.csv --dtype int8": "--dtype 'int8': input should be 'float32', 'bfloat16' or",
    "--data mine.csv --stop A stop=[B]": "beside stop=[B]: give one of the two",
    "--data mine.csv --few-shot nowhere.csv": "nowhere.csv is no file: give the path of a dataset",
    "--data mine.csv --few-shot blank.jsonl": "holds 0 problems with answers: give a file of 1 to",
    "--data mine.csv --few-shot same.jsonl": "solved example 2 (--few-shot) is problem mine-",
    "--data mine.csv --sampler embedded --prefix So": "sampler=embedded with prefix: the embedded",
    "--data mine.csv --sampler embedded --top-p 0.9": "sampler=embedded with top_p: the embedded",
    "--data mine.csv --sampler embedded --peft lora": "lora with sampler=embedded: an adapter is",
    "--data mine.csv --peft lora": "needs the package peft here: run `pip install peft`",
    "--data mine.csv --peft nowhere": "has no adapter_config.json: give the folder that PeftModel",
    "--data mine.csv --model policy": "out/my-model beside --model policy: name one model at a",
    "--data mine.csv revision=main": "revision=main is of a model on the Hub, but out/my-model",
    "--data mine.csv out/seed=7": "out/seed=7 is no file or folder here, and no override",
    "--data cd.jsonl --strict --grader countdown": "--strict: grader countdown of cd-",
    "benchmarks=[math500] --answer gold": "--answer gold says something about --data, and no",
    "benchmarks=[math500] --limit 4": "--limit 4 says something about --data, and no --data is",
    "--data mine.csv --system hello": "has no chat template, which alone has a place for it",
    "--data mine.csv --sampler vlm": "input should be 'embedded', 'transformers', 'vllm' or 'end",
    "--data mine.csv --sampler endpoint": "with sampler=endpoint: a server has chosen its own",
    "--data mine.csv --name ../up": "--name '../up': string should match pattern",
    "--data math500 --prompt question": "is for a file; math500 has its own columns",
    "--data math500 --grader choice": "--grader choice: math500 has math; grade its draws by",
}


@pytest.mark.slow
@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_meant_is_refused_in_a_line_before_a_model_is_loaded(
    mine, words, monkeypatch, capsys
):
    monkeypatch.setattr("evaluators.adapter.find_spec", lambda name: None)
    Path("lora").mkdir()
    Path("lora/adapter_config.json").write_text("{}")
    Path("lora/adapter_model.safetensors").touch()
    Path("empty.jsonl").touch()
    Path("binary.jsonl").write_bytes(b"\xff\xfe\x00")
    Path("broken.jsonl").write_text('{"question": "a", "answer": "b"}\n{"question":\n')
    write("cd.jsonl", [{"question": "a", "answer": "3256-24"}])
    write("blank.jsonl", [{"question": "a", "answer": ""}])
    write(
        "same.jsonl", [{"question": "a", "answer": "b"}, SUMS[2] | {"question": "what IS  7 - 3?"}]
    )
    write("two.jsonl", [{"question": "a", "prompt": "b", "answer": "c"}])
    said = evaluated(capsys, "out/my-model", *words.split(), code=1)
    assert said.startswith("error: ") and REFUSED[words] in said
    assert not list(mine.glob("runs/evals/*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("grde mine", "unknown command or folder 'grde' (did you mean grade?)"),
        ("out/my-model", "--data is missing: name a file of problems with answers"),
        ("out/my-model temperature=0.5", "--data is missing: name a file of problems"),
        ("out/my-model out/my-model --data mine.csv", "name one model, or one stage, at a time"),
        ("out/my-model --data mine.csv --placement {}", "is for a stage's folder; write"),
        ("--data mine.csv", "no model is named: write its folder or id first"),
    ],
)
def test_words_that_make_no_command_are_refused(mine, words, said, capsys):
    assert said in evaluated(capsys, *words.split(), code=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("architecture", "(The checkpoint you are trying to load has model type `great`"),
        ("weights", "copy the checkpoint again where a file is damaged"),
        ("config", "has no config (config.json): a model is a folder with config,"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_refused_in_a_line(mine, qwen, damage, said, capsys):
    copy = shutil.copytree(qwen, mine / "bad")
    if damage == "architecture":
        config = read_json(copy / "config.json") | {"model_type": "great"}
        (copy / "config.json").write_text(json.dumps(config))
    elif damage == "weights":
        (copy / "model.safetensors").write_bytes(b"\0" * 100)
    else:
        (copy / "config.json").unlink()
    shown = evaluated(capsys, "bad", "--data", "mine.csv", *SHORT, code=1)
    assert said in shown and "Traceback" not in shown


@pytest.mark.slow
def test_a_model_is_evaluated_resumed_and_extended_by_one_command(mine, qwen, capsys):
    words = ("out/my-model", "--data", "mine.jsonl", "--max-tokens", "8")
    said = evaluated(capsys, *words, "-n", "4")
    assert "pass@k in percent [95% interval over problems]" in said
    assert ", 16 draws: " in said and "% cut off\n" in said and "  cut off: mine-" in said
    folder = next((mine / "runs" / "evals").glob("my-model-*")).name
    assert f"next: fgrpo-bench evaluate audit {folder} " in said
    (stored,) = find(folder)
    first = read_table(stored.paths.draws, DRAWS)
    assert len(first) == 16
    assert "already done" in evaluated(capsys, *words, "-n", "4")
    evaluated(capsys, *words, "-n", "8")
    extended = read_table(stored.paths.draws, DRAWS)
    assert len(extended) == 32 and extended.filter(pl.col("draw") < 4).equals(first)


@pytest.mark.slow
def test_a_model_of_the_hubs_cache_is_found_without_a_network(mine, qwen, monkeypatch, capsys):
    kept = mine / "hub" / "models--lab--my-model"
    snapshot = kept / "snapshots" / "0123"
    blobs = shutil.copytree(qwen, kept / "blobs")
    snapshot.mkdir(parents=True)
    for blob in blobs.iterdir():
        (snapshot / blob.name).symlink_to(Path("../../blobs") / blob.name)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("0123")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(kept.parent))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    said = evaluated(capsys, "lab/my-model", "--data", "mine.jsonl", *SHORT)
    assert ", 16 draws: " in said
