"""Nothing that was typed is dropped: every option of every command changes what is done, or is
refused. Options are those that the commands themselves have, so that a new one is looked at too."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_command

from evaluators import cli, compare
from evaluators.__main__ import main
from fgrpo_bench.__main__ import COMMANDS
from fgrpo_bench.__main__ import main as program
from fgrpo_bench.command.application import commands
from fgrpo_bench.graders import STRICT
from fgrpo_bench.specs import config

VALUES = {
    "data": "other.jsonl",
    "prompt": "wording",
    "answer": "right",
    "cluster": "level",
    "grader": "math-tolerance",
    "sampler": "embedded",
    "name": "zz",
    "device": "cuda",
    "placement": "{}",
    "temperature": "0.5",
    "suffix": "Go.",
    "system": "Think.",
    "benchmark": "math500",
    "root": "elsewhere",
}
"""What is given to options, where a number will not do."""
SAME = {("run", "--bar"), ("run", "--dry-run")}
"""Of a model: its bar is shown anyway, and everything here is planned alone."""
MODEL: dict[str, Any] = {
    "config.json": {"architectures": ["Qwen2ForCausalLM"], "max_position_embeddings": 256},
    "tokenizer.json": {},
    "tokenizer_config.json": {},
    "model.safetensors": {},
}
"""What of a model is looked at before it is loaded."""
ROW = {"question": "1 + 1?", "wording": "1 + 1", "answer": "2", "right": "3", "level": "easy"}


@pytest.fixture
def here(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The present folder with a model, problems and a stage; and what commands hand on, in place of
    drawing, grading and comparing."""
    handed: list[Any] = []

    def hands_on(result: Any) -> Callable[..., Any]:
        def called(*values: Any, **named: Any) -> Any:
            handed.append((values, named))
            return result

        return called

    # the same words are composed again and again
    composed = functools.cache(config.compose)
    monkeypatch.setattr(
        config, "compose", lambda words, **named: deepcopy(composed(tuple(words), **named))
    )
    monkeypatch.setitem(STRICT, "math", "math-tolerance")
    monkeypatch.chdir(tmp_path)
    Path("out/my-model").mkdir(parents=True)
    for name, content in MODEL.items():
        Path("out/my-model", name).write_text(json.dumps(content))
    for name in ("mine.jsonl", "other.jsonl"):
        Path(name).write_text(json.dumps(ROW | {"file": name}) + "\n")
    Path("stage").mkdir()
    Path("stage/spec.json").write_text("{}")
    compared = SimpleNamespace(rows=[])
    for place, result in {
        "evaluators.standalone.expected_draws": "planned",
        "evaluators.standalone.freeze": None,
        "evaluators.cli._run": {},
        "evaluators.stored.find": [
            SimpleNamespace(benchmark=SimpleNamespace(name="b", grader="math"))
        ],
        "evaluators.stored.regrade": "",
        "evaluators.stored.closing_table": "",
        "evaluators.audit.audit": [SimpleNamespace(as_json=dict)],
        "evaluators.audit.render": "",
        "evaluators.interchange.take_in": ("stored", ""),
        "evaluators.compare.compare": compared,
        "evaluators.compare.worse_at": [],
        "evaluators.compare.write": "written",
    }.items():
        monkeypatch.setattr(place, hands_on(result))
    monkeypatch.setattr(cli, "run_stage", lambda paths, work: work("spec", "stage") or 0)
    return handed


def done(handed: list[Any], capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """What a command printed and handed on, and what it refused."""
    handed.clear()
    capsys.readouterr()
    try:
        code = main(words)
    except SystemExit as error:
        code = error.code
    shown = capsys.readouterr()
    return ("", shown.err) if code else (f"{shown.out}{handed}", "")


OF_MODEL = ("out/my-model", "--data", "mine.jsonl")
BASES = {
    "a model": ("plan", *OF_MODEL),
    "a checkpoint": ("plan", "checkpoint=out/my-model", "benchmarks=[math500]"),
    "a stage": ("run", "stage"),
    "grade": ("grade", "mine"),
    "audit": ("audit", "mine"),
    "import": ("import", "mine.jsonl", "--data", "mine.jsonl", "--name", "mine"),
    "compare": ("compare", "a", "mine.jsonl", "--data", "mine.jsonl"),
}
OPTIONS = {
    (base, param.opts[0]): param
    for base, words in BASES.items()
    for param in commands(cli.app)[words[0]].params
    if param.opts[0].startswith("-") and (base, param.opts[0]) != ("a stage", "--dry-run")
}


def test_every_option_changes_what_is_done_or_is_refused(
    here: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    plain = {base: done(here, capsys, *words) for base, words in BASES.items()}
    assert not any(refused for _, refused in plain.values()), plain
    for (base, option), param in OPTIONS.items():
        if base in ("a model", "a checkpoint") and ("run", option) in SAME:
            continue
        value = [] if param.is_flag else [VALUES.get(param.name, "3")]
        work, refused = done(here, capsys, *BASES[base], option, *value)
        near = option.lstrip("-").replace("-", "_")
        assert refused or work != plain[base][0], f"{option} changes nothing of {base}"
        assert not refused or near in refused.replace("-", "_"), f"{option} of {base}: {refused}"


def test_the_same_setting_as_an_option_and_as_an_override_is_one_request(
    here: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for base in ("a model", "a checkpoint"):
        by_option = done(here, capsys, *BASES[base], "-n", "4", "--temperature", "0.5")
        assert by_option == done(here, capsys, *BASES[base], "n_samples=4", "temperature=0.5")
        assert "n_samples=4" in by_option[0] and "temperature=0.5" in by_option[0]
    named = done(here, capsys, "plan", "checkpoint=out/my-model", *OF_MODEL[1:])
    assert named == done(here, capsys, "plan", *OF_MODEL) and named[0]
    assert named == done(here, capsys, "run", *OF_MODEL, "--dry-run")


@pytest.mark.parametrize("place", ["out/lr=1e-6,seed=1", "./epoch=3", "n_samples=4", "a'b[0]"])
def test_a_word_that_is_a_path_here_is_one_whatever_it_holds(
    place: str, here: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree("out/my-model", place)
    shutil.copy("mine.jsonl", Path(place, "mine.jsonl"))
    data = ("--data", f"{place}/mine.jsonl")
    planned, _ = done(here, capsys, "plan", place, *data, f"run_root={place}")
    assert f"checkpoint={place!r}," in planned and f"run_root={place!r}," in planned
    assert f"problems: {Path(place, 'mine.jsonl')}, " in planned
    assert (
        planned == done(here, capsys, "plan", f"checkpoint={place}", *data, f"run_root={place}")[0]
    )
    for listed in (place, f"{place},out/my-model", f"out/my-model,{place},other"):
        assert ",".join(compare._separate(listed)) == listed and place in compare._separate(listed)


EXTRA: dict[tuple[str, str], tuple[str, str]] = {
    ("evaluate", "run"): ("out/my-model other --data mine.jsonl", "'other' after 'out/my-model'"),
    ("evaluate", "plan"): ("out/my-model --data mine.jsonl other", "--data other"),
    ("evaluate", "import"): ("a.jsonl other --data b --name n", "'other' after 'a.jsonl'"),
    ("evaluate", "export-lm-eval"): ("math500 other=1 --to x", "dataset.other"),
    ("evaluate", "fetch"): ("math500 other=1", "dataset.other"),
    ("sweep", "plan"): ("smoke other", "'other' is no override"),
    ("sweep", "run"): ("smoke other", "'other' is no override"),
    ("sweep", "rehearse"): ("rehearsal other", "'other' is no override"),
    ("sweep", "status"): ("smoke other", "'other' says nothing here"),
    ("sweep", "check"): ("smoke other", "'other' says nothing here"),
    ("sweep", "cancel"): ("smoke other", "'other' says nothing here"),
    ("sweep", "tick"): ("smoke other", "'other' says nothing here"),
    ("sweep", "follow"): ("smoke other", "'other' says nothing here"),
    ("sweep", "retry"): ("smoke other more", "'more' says nothing here"),
    ("sweep", "tune"): ("smoke other", "'other' says nothing here"),
    ("sweep", "logs"): ("smoke base-s11 other", "'other' says nothing here"),
    ("theory", ""): ("other --success-rate 0.3", "'other': methods are for --weights"),
    ("tracking", "sync"): ("other", "holds no sweep other"),
}
"""By command that takes as many words as are typed: words of which one means nothing, and what is
said of it."""


def taking_many() -> Iterator[tuple[str, str]]:
    for name, (place, _) in COMMANDS.items():
        module, _, only = place.partition(":")
        if not only:
            app = get_command(import_module(module).app)
            for command, of_app in getattr(app, "commands", {"": app}).items():
                if any(param.nargs == -1 for param in of_app.params):
                    yield name, command


def test_a_word_that_means_nothing_is_refused_by_every_command_that_takes_many(
    here: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(taking_many()) - {("evaluate", "compare")} == set(EXTRA)  # its words are places
    for (name, command), (words, said) in EXTRA.items():
        capsys.readouterr()
        try:
            code = program([name, *filter(None, [command]), *words.split()])
        except SystemExit as error:
            code = error.code
        assert code and said in capsys.readouterr().err, f"{name} {command} {words}"


BESIDE = {
    "report groupsize --regrade": "--regrade is of --verify",
    "report --verify x --format md": "--format is not asked with --verify",
    "report --verify x --select paper": "--select is not asked with --verify",
    "theory --success-rate 0.3 --group-size 8": "--group-size is of --weights",
    "theory --success-rate 0.3 --figure": "--figure is of --weights",
    "theory --weights --over grpo": "--over is of --figure",
    "theory --weights --tail-share 0.1": "--tail-share is not asked with --weights",
    "sweep plan smoke --config --json": "--json is not asked with --config",
    "power --k 8 --seeds 3 --seed-sd 0.1 --from x": "--seed-sd beside --from",
}


@pytest.mark.parametrize("words", BESIDE)
def test_an_option_that_would_say_nothing_beside_another_is_refused(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        program(words.split())
    assert BESIDE[words] in capsys.readouterr().err
