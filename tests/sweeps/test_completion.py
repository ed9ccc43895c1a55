"""The Tab key: what a line can go on with, and what bash makes of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from fgrpo_bench.__main__ import main
from fgrpo_bench.specs import config
from fgrpo_bench.specs.config import as_overrides
from sweeps import REPOSITORY
from tests.support.terminal import Terminal, with_command


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("groupsize/countdown/v1", "gamma/countdown-prompts/v2"):
        (tmp_path / address).mkdir(parents=True)
        (tmp_path / address / "plan.json").touch()
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path))


@pytest.fixture
def asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """What bash is told for a line whose words, the last one begun, stand behind fgrpo-bench."""

    def call(*words: str) -> list[str]:
        monkeypatch.setenv("_FGRPO_BENCH_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(["fgrpo-bench", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with suppress(SystemExit):
            main([])
        said = capsys.readouterr()
        assert said.err == ""
        return said.out.split("\n")[:-1]

    return call


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("sw", ["sweep"]),
        ("sweep ru", ["run"]),
        ("evaluate export", ["export-lm-eval"]),
        ("sweep plan transfer-q", ["transfer-qwen3-4b-base"]),
        ("sweep plan groupsize/countdown-t", ["groupsize/countdown-tiny"]),
        ("sweep run gamma/countdown-prompts/", ["gamma/countdown-prompts/v2"]),
        ("sweep plan groupsize --c", ["--config"]),
        ("sweep plan groupsize profile=slurm-", [
            *("profile=slurm-8gpu", "profile=slurm-multinode", "profile=slurm-rehearsal"),
        ]),
        ("sweep plan groupsize experiment = countdown-t", ["countdown-tiny"]),  # as bash cuts it
        ("sweep plan groupsize see", ["seed=[11,12,13]"]),
        ("sweep plan groupsize experiment.train.steps", ["experiment.train.steps=300"]),
        ("sweep plan smoke experiment.train.steps=", ["experiment.train.steps=12"]),
        ("sweep plan nonsense experiment.train.steps=", [""]),
        ("sweep status g", ["gamma", "groupsize"]),
        ("sweep status gamma/", ["gamma/countdown-prompts/v2"]),
        ("report gr", ["groupsize"]),
        ("power --from ga", ["gamma"]),
        ("export groupsize --to ins", ["inspect"]),
    ],
)  # fmt: skip
def test_a_line_goes_on_with_what_there_is(
    asked: Callable[..., list[str]], line: str, answers: list[str]
) -> None:
    assert asked(*line.split()) == answers


@pytest.mark.slow
def test_every_key_of_the_configuration_is_offered(asked: Callable[..., list[str]]) -> None:
    chosen = ["profile=slurm-8gpu", "experiment=qwen2.5-7b"]
    lines = as_overrides(config.compose(["sweep=groupsize", *chosen]))
    numbers = [line for line in lines if line.rpartition("=")[2].isdecimal()]
    assert len(numbers) > 40
    assert set(numbers) <= set(asked("sweep", "plan", "groupsize", *chosen, ""))


@pytest.mark.slow
def test_bash_completes_on_a_terminal(tmp_path: Path) -> None:
    bash = Terminal(REPOSITORY, "bash", "--norc", "--noprofile", "-i", PATH=with_command(tmp_path))
    try:
        bash.run("source <(fgrpo-bench --show-completion)")
        bash.tab(
            "fgrpo-bench sweep plan groupsize experiment=countdown-t", becomes="=countdown-tiny "
        )
        bash.tab("fgrpo-bench report groupsize/", becomes="groupsize/countdown/v1 ")
    finally:
        bash.close()
