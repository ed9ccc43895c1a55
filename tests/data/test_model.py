"""The fetch stage of a published model: a folder of yours, and what a folder may lack."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fgrpo_bench.data.__main__ import main
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.kinds.fetch import model_stage
from fgrpo_bench.specs import PretrainedSpec
from fgrpo_bench.stages.digests import sha256_file

FILES = {
    "config.json": "{}",
    "tokenizer.json": "{}",
    "tokenizer_config.json": json.dumps({"chat_template": "{{ messages }}"}),
    "model.safetensors": "weights",
}


def model(folder: Path, **changes: str | None) -> Path:
    """A model's folder; None leaves a file out."""
    folder.mkdir(parents=True)
    for name, text in (FILES | changes).items():
        if text is not None:
            (folder / name).write_text(text)
    return folder


def stage(
    folder: Path, path: Path | str, *, chat_template: bool = True, trust_remote_code: bool = False
) -> StagePaths:
    spec = PretrainedSpec(
        name="mine",
        path=str(path),
        revision=None,
        parameters=1,
        trust_remote_code=trust_remote_code,
    )
    paths = StagePaths(folder)
    planned = model_stage("_base/mine", spec, chat_template=chat_template)
    write_json(paths.spec, planned.spec.as_json())
    return paths


@pytest.mark.parametrize("scratch", ["runs", "a/deeper/disk"])
def test_a_folder_of_yours_becomes_checkpoint_0_without_a_copy(
    scratch: str, tmp_path: Path
) -> None:
    folder = model(tmp_path / "models" / "mine")
    (tmp_path / scratch).mkdir(parents=True)
    if scratch != "runs":
        (tmp_path / "runs").symlink_to(tmp_path / scratch)
    paths = stage(tmp_path / "runs" / "_base" / "mine", folder)
    assert main([str(paths.folder)]) == 0
    assert paths.checkpoint(0).resolve() == folder
    marker = read_json(paths.done)
    assert marker["weights_sha256"] == sha256_file(folder / "model.safetensors")
    assert (marker["step"], marker["path"]) == (0, str(folder))
    assert main([str(paths.folder)]) == 0  # done before


def test_a_link_that_is_there_already_is_replaced(tmp_path: Path) -> None:
    first, second = (model(tmp_path / name) for name in ("first", "second"))
    for folder in (first, second):
        paths = stage(tmp_path / "run", folder)
        paths.done.unlink(missing_ok=True)
        assert main([str(paths.folder)]) == 0
        assert paths.checkpoint(0).resolve() == folder


@pytest.mark.parametrize(
    ("missing", "rule"),
    [
        ("config.json", r"has no config \(config\.json\): a model is a folder with config, tok"),
        ("tokenizer.json", r"has no tokenizer \(tokenizer\.json or tokenizer\.model or vocab"),
        ("model.safetensors", r"has no weights \(\*\.safetensors\)"),
        ("tokenizer_config.json", r"no chat template .*prompt\.chat_template=false"),
    ],
)
def test_what_a_folder_lacks_is_named_with_the_remedy(
    missing: str, rule: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = stage(tmp_path / "run", model(tmp_path / "mine", **{missing: None}))
    assert main([str(paths.folder)]) not in (0, 75)
    said = capfd.readouterr()
    assert re.search(rule, said.out + said.err), said
    assert not paths.done.exists()


CODE = json.dumps({"auto_map": {"AutoModelForCausalLM": "modeling.Mine"}})
INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        (
            "config.json",
            CODE,
            r"config\.json brings code of its own \(auto_map\).*trust_remote_code=",
        ),
        (
            "tokenizer_config.json",
            json.dumps({"chat_template": "x", "auto_map": {"AutoTokenizer": ["t.T", None]}}),
            r"tokenizer_config\.json brings code of its own",
        ),
        ("processor_config.json", CODE, r"processor_config\.json brings code of its own"),
        (INDEX, "../other/model.safetensors", "no file of .*: weights lie beside their index"),
        (INDEX, "/etc/passwd", "names the weights '/etc/passwd', which are no file of "),
        (INDEX, "below/model.safetensors", "no file of "),
        (INDEX, "linked.safetensors", "names the weights 'linked.safetensors', which are no file"),
    ],
)
def test_code_of_a_model_and_weights_outside_its_folder_are_refused(
    name: str, text: str, rule: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = model(tmp_path / "other") / "model.safetensors"
    if name == INDEX:
        text = json.dumps({"weight_map": {"a": "model.safetensors", "b": text}})
    folder = model(tmp_path / "mine", **{name: text})
    (folder / "linked.safetensors").symlink_to(other)
    (folder / "below").mkdir()
    (folder / "below" / other.name).write_bytes(other.read_bytes())
    paths = stage(tmp_path / "run", folder)
    assert main([str(paths.folder)]) not in (0, 75)
    said = capfd.readouterr()
    assert re.search(rule, said.out + said.err), said
    assert not paths.done.exists()


def test_a_model_is_trusted_by_a_key_alone_and_its_code_is_among_what_was_fetched(
    tmp_path: Path,
) -> None:
    folder = model(tmp_path / "mine", **{"config.json": CODE, "modeling.py": "raise SystemExit"})
    trusted = stage(tmp_path / "run", folder, trust_remote_code=True)
    assert main([str(trusted.folder)]) == 0  # nothing is loaded to fetch it
    assert any(name.endswith("/modeling.py") for name in read_json(trusted.done)["outputs"])
    asked = stage(tmp_path / "other", folder)
    assert read_json(asked.spec)["fingerprint"] != read_json(trusted.spec)["fingerprint"]


def test_a_chat_template_is_asked_for_only_where_it_is_applied(tmp_path: Path) -> None:
    bare = model(tmp_path / "bare", **{"tokenizer_config.json": "{}"})
    assert main([str(stage(tmp_path / "plain", bare, chat_template=False).folder)]) == 0
    assert main([str(stage(tmp_path / "chat", bare).folder)]) != 0
    (bare / "chat_template.jinja").write_text("{{ messages }}")
    assert main([str(stage(tmp_path / "chat", bare).folder)]) == 0


def test_a_publisher_that_cannot_be_reached_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    paths = stage(tmp_path / "run", "org/nowhere")
    assert main([str(paths.folder)]) not in (0, 75)
    said = capfd.readouterr().err
    assert "cannot fetch model org/nowhere" in said and "HF_ENDPOINT names a mirror" in said
