"""A model that brings code: refused unasked, whatever stands on standard input; run where allowed,
and then said in every report."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from evaluators.__main__ import main
from evaluators.transformers import load_whole
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report.__main__ import main as report
from tests.evaluators.evaluations import strangers_model
from tests.evaluators.test_asked import SHORT, SUMS, write

CODE = """
from pathlib import Path
from transformers import Qwen2Config, Qwen2ForCausalLM

Path("ran").write_text("")


class MineConfig(Qwen2Config):
    model_type = "mine"


class MineForCausalLM(Qwen2ForCausalLM):
    config_class = MineConfig
"""


@pytest.fixture
def hostile(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of an architecture of its own, whose code leaves a file `ran`; problems beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "hf"))
    write("mine.jsonl", SUMS)
    folder = strangers_model(tmp_path / "hostile")
    names = {
        "AutoConfig": "own_code.MineConfig",
        "AutoModelForCausalLM": "own_code.MineForCausalLM",
    }
    (folder / "own_code.py").write_text(CODE)
    changes = {"model_type": "mine", "architectures": ["MineForCausalLM"], "auto_map": names}
    write_json(folder / "config.json", read_json(folder / "config.json") | changes)
    return folder


@pytest.mark.slow
def test_code_of_a_model_is_refused_before_anything_is_drawn(hostile: Path, root: Path, capsys):
    for words in ((), ("--dry-run",), ("--sampler", "transformers")):
        assert main(["hostile", "--data", "mine.jsonl", *SHORT, *words]) == 1
        said = capsys.readouterr()
        assert "config.json brings code of its own (auto_map)" in said.err, said
        assert said.err.count("\n") == 1 and "give --trust-remote-code where you trust" in said.err
    with pytest.raises(ValueError, match="cannot load"):
        load_whole(hostile, "float32")
    assert not Path("ran").exists() and not list(root.glob("evals/*"))


@pytest.mark.slow
def test_code_that_was_allowed_runs_and_every_report_says_so(hostile: Path, root: Path, capsys):
    words = ["hostile", "--data", "mine.jsonl", *SHORT, "--sampler", "transformers"]
    assert main([*words, "--trust-remote-code", "--name", "mine"]) == 0
    assert Path("ran").exists()
    (spec,) = root.glob("evals/mine/eval/*/*/spec.json")
    stored = read_json(spec)
    assert stored["trust_remote_code"] is True and stored["identity"]["remote_code"]
    capsys.readouterr()
    assert report(["evals/mine", "--root", str(root), "--format", "md,csv"]) == 0
    sentence = "Code of the model's own ran (trust_remote_code): "
    assert sentence in capsys.readouterr().out
    (written,) = root.glob("evals/**/report.md")
    assert written.read_text().count(sentence) == 2
    assert read_json(written.with_name("provenance.json"))["remote_code"]


def test_an_evaluation_that_is_a_link_elsewhere_is_not_written_to(
    hostile: Path, root: Path, tmp_path: Path, capsys
):
    shutil.rmtree(hostile)
    strangers_model(hostile)
    (tmp_path / "etc").mkdir()
    (root / "evals" / "mine").symlink_to(tmp_path / "etc")
    assert main(["hostile", "--data", "mine.jsonl", *SHORT, "--name", "mine"]) == 1
    said = capsys.readouterr().err
    assert f"mine is a link to {tmp_path / 'etc'}, outside of " in said
    assert "remove the link" in said and not any((tmp_path / "etc").iterdir())
