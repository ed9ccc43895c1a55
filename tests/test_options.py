"""Nothing that was typed is dropped: every option of every command changes what is done, or is
refused. Options are those that the commands themselves have, so that a new one is looked at too."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_command

from evaluators import cli, compare_places
from fgrpo_bench.__main__ import COMMANDS
from fgrpo_bench.__main__ import main as program
from fgrpo_bench.analysis import power
from fgrpo_bench.command import application
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.graders import STRICT
from fgrpo_bench.report.exports.command import FORMATS
from fgrpo_bench.specs import config

VALUES = {
    "data": "other.jsonl",
    "prompt": "wording",
    "answer": "right",
    "cluster": "level",
    "by": "level",
    "also": "maj@k",
    "grader": "math-tolerance",
    "sampler": "embedded",
    "name": "zz",
    "device": "cuda",
    "placement": "{}",
    "temperature": "0.5",
    "top_p": "0.9",
    "stop": "Q:",
    "prefix": "So",
    "few_shot": "other.jsonl",
    "dtype": "float16",
    "suffix": "Go.",
    "system": "Think.",
    "benchmark": "math500",
    "root": "elsewhere",
    "out": "other.jsonl",
    "rule": "literal",
    "page": "mine.md",
    "formats": "csv",
    "frame": "estimates",
    "difference": "0.03",
    "seed_sd": "0.02",
    "half_width": "0.02",
    "beta": "0.3 0.4",
    "n_samples": "32",
    "success_rate": "0.2",
    "tail_share": "0.1",
    "group_size": "16",
    ("export", "to"): "lm-eval",
    "install": "skills",
}
"""What is given to options, where a number will not do: by parameter, or also by command."""
SAME = {("evaluate plan", name) for name in ("--bar", "--dry-run", "--also")}
"""Of a model: its bar is shown anyway, what is planned is planned, and nothing is drawn of which
there would be other readings."""
MODEL: dict[str, Any] = {
    "config.json": {"architectures": ["Qwen2ForCausalLM"], "max_position_embeddings": 256},
    "tokenizer.json": {},
    "tokenizer_config.json": {"chat_template": "{{ messages }}"},
    "model.safetensors": {},
}
"""What of a model is looked at before it is loaded."""
ROW = {"question": "1 + 1?", "wording": "1 + 1", "answer": "2", "right": "3", "level": "easy"}
OF_MODEL = ("out/my-model", "--data", "mine.jsonl")
BASES = {
    "evaluate plan": [
        "out/my-model --data mine.jsonl",
        "checkpoint=out/my-model benchmarks=[math500]",
    ],
    "evaluate run": ["stage"],
    "evaluate grade": ["mine"],
    "evaluate audit": ["mine"],
    "evaluate import": ["mine.jsonl --data mine.jsonl --name mine"],
    "evaluate export-lm-eval": ["math500 --to tasks"],
    "compare": ["a b", "a mine.jsonl --data mine.jsonl"],
    "groups": ["mine.jsonl", "mine.jsonl --name mine"],
    "data": ["math500"],
    "sweep plan": ["smoke"],
    "sweep run": ["smoke"],
    "sweep rehearse": ["rehearsal"],
    "sweep status": ["smoke"],
    "sweep cancel": ["smoke"],
    "sweep tick": ["smoke"],
    "sweep follow": ["smoke"],
    "sweep retry": ["smoke"],
    "sweep tune": ["smoke"],
    "sweep logs": ["smoke base-s11"],
    "check": ["smoke"],
    "new experiment": ["mine --model my/model --data mine.jsonl"],
    "new advantage": ["mine"],
    "new reward": ["mine"],
    "new task": ["mine"],
    "new benchmark": ["mine --data mine.jsonl"],
    "report": ["groupsize", "--verify out"],
    "dashboard serve": [""],
    "mlflow": [""],
    "export": ["groupsize --to inspect"],
    "bundle": ["groupsize --out mine.jsonl"],
    "leaderboard": ["groupsize"],
    "power": [
        "--k 8 --seeds 3",
        "--k 8 --seeds 3 --from groupsize",
        "--k 8 --n-samples 64 --problems 100",
        "--k 8 --problems 100 --half-width 0.01 --design",
    ],
    "theory": [
        "--success-rate 0.3",
        "--success-rate 0.3 --to out",
        "--from-sweep groupsize",
        "--weights",
        "--weights --figure",
        "--weights --figure --to out",
    ],
    "conform": ["verl", "--function mine:grpo --advantage grpo"],
    "analysis": ["groupsize", "groupsize --frame cells"],
    "simulation": ["--workers 2", "--workers 2 --dry-run"],
    "tracking sync": [""],
    "tracking rebuild": [""],
    "skill": [""],
}
"""By command: words that it takes, beside which each of its options is tried."""


class Anything(dict[Any, Any]):
    """A module, a function or a result in whose place nothing is done but noting what is asked."""

    def __init__(self, place: str, noted: list[Any], result: Any = None) -> None:
        super().__init__()
        self.__dict__.update(place=place, noted=noted, result=result)

    def __getattr__(self, name: str) -> Any:
        return Anything(f"{self.place}.{name}", self.noted)

    def __call__(self, *values: Any, **named: Any) -> Any:
        self.noted.append((self.place, values, named))
        if isinstance(self.result, SystemExit):
            raise self.result
        return Anything(self.place, self.noted) if self.result is None else self.result

    def __repr__(self) -> str:
        return str(self.place)

    def __bool__(self) -> bool:
        return True

    def __int__(self) -> int:
        return 0

    def __getitem__(self, name: Any) -> Any:
        return Anything(f"{self.place}[{name}]", self.noted)

    def __truediv__(self, name: str) -> Any:
        return Anything(f"{self.place}/{name}", self.noted)

    def __enter__(self) -> Anything:
        return self

    def __exit__(self, *_: object) -> None:
        pass


STORED = SimpleNamespace(benchmark=SimpleNamespace(name="b", grader="math"))
RUN = RunPaths(root=Path("runs"), sweep="smoke", experiment="countdown-tiny", version="v1")
WORK: dict[str, Any] = {
    "evaluators.standalone.planned": SimpleNamespace(as_json=dict),
    "evaluators.standalone.freeze": None,
    "evaluators.standalone.check_column": None,
    "evaluators.cli._run": {},
    "evaluators.cli.read_spec": SimpleNamespace(kind="evaluate"),
    "evaluators.stored.find": [STORED],
    "evaluators.stored.named_value_partitions": None,
    "evaluators.stored.regrade": "",
    "evaluators.cli.print_scores": None,
    "evaluators.cli_stored.print_scores": None,
    "evaluators.audit.audit": [SimpleNamespace(as_json=dict)],
    "evaluators.audit.render": "",
    "evaluators.interchange.import_and_grade": ("stored", ""),
    "evaluators.lm_eval_tasks.export": None,
    "evaluators.compare.compare": SimpleNamespace(rows=[]),
    "evaluators.compare.worse_at": [],
    "evaluators.compare_output.as_json": {},
    "evaluators.compare_output.write": "",
    "evaluators.compare_output.text": "",
    "evaluators.groups.read_groups": None,
    "evaluators.groups.summary": None,
    "evaluators.groups.write": "written",
    "fgrpo_bench.analysis.rollouts.store_groups": None,
    "evaluators.fetch.fetch_command": None,
    "evaluators.fetch.overview": [],
    "sweeps.cli._show_plan": None,
    "sweeps.cli._start": None,
    "sweeps.cli.find_run": None,
    "sweeps.freeze.plan_over": (),
    "sweeps.rehearse.rehearsed": None,
    "sweeps.rehearse.summary": None,
    "sweeps.tuning.tuned": None,
    "sweeps.check.check": SimpleNamespace(faults=()),
    "sweeps.check.findings": None,
    "sweeps.check.render": None,
    "sweeps.check.fix": None,
    "fgrpo_bench.stages.plan.check_format": None,
    "sweeps.status": None,
    "sweeps.slurm.drive": None,
    "sweeps.local.pool": None,
    "sweeps.new.experiment.begin": None,
    "sweeps.new.__main__._in_checkout": None,
    "sweeps.new.__main__._package": None,
    "fgrpo_bench.report.__main__.find_results": None,
    "fgrpo_bench.report.__main__.analysed": None,
    "fgrpo_bench.report.build.render": "",
    "fgrpo_bench.report.build.page": "",
    "fgrpo_bench.report.build.as_json": {},
    "fgrpo_bench.report.__main__.write_report": None,
    "fgrpo_bench.report.verify.verify": SimpleNamespace(differences=(), unseen=()),
    "fgrpo_bench.report.exports.command.find_results": None,
    "fgrpo_bench.report.exports.command.analysed": None,
    "fgrpo_bench.report.exports.command.evaluations": ["evaluated"],
    "fgrpo_bench.report.exports.bundle.choose_run": RUN,
    "fgrpo_bench.report.exports.bundle.load_results": None,
    "fgrpo_bench.report.exports.bundle.write_report": None,
    "fgrpo_bench.report.exports.bundle.analysed": None,
    "fgrpo_bench.report.exports.bundle.pack": (),
    "fgrpo_bench.report.leaderboard.choose_run": RUN,
    "fgrpo_bench.report.leaderboard.load_results": None,
    "fgrpo_bench.report.leaderboard.analysed": None,
    "fgrpo_bench.report.leaderboard.entries": [],
    "fgrpo_bench.report.leaderboard.put": [],
    "fgrpo_bench.analysis.__main__.find_results": None,
    "fgrpo_bench.analysis.__main__.analysed": None,
    "fgrpo_bench.analysis.__main__.frames_folder": None,
    "fgrpo_bench.analysis.__main__.csv": "",
    "fgrpo_bench.analysis.power._spread": power.ASSUMED,
    "fgrpo_bench.analysis.power.design_advice": None,
    "fgrpo_bench.paper.theory.__main__._measured": None,
    "fgrpo_bench.paper.theory.__main__.summary_text": None,
    "fgrpo_bench.paper.theory.__main__.numbers": {},
    "fgrpo_bench.paper.theory.__main__._draw": None,
    "fgrpo_bench.paper.theory.weights.draw": None,
    "fgrpo_bench.conformance.__main__._check_trainer": ("verl", []),
    "fgrpo_bench.conformance.__main__._check_function": [],
    "fgrpo_bench.conformance.__main__._write_junit": None,
    "fgrpo_bench.paper.simulation.__main__.make": None,
    "fgrpo_bench.paper.simulation.__main__.frame": None,
    "fgrpo_bench.paper.simulation.__main__.ends": None,
    "fgrpo_bench.paper.simulation.__main__.write_report": (),
    "fgrpo_bench.paper.simulation.__main__.summary_paragraphs": (),
    "fgrpo_bench.paper.simulation.__main__.tables": (),
    "fgrpo_bench.tracking.__main__.tracked": [RUN],
    "fgrpo_bench.tracking.sync.sync_all": [RUN],
    "fgrpo_bench.tracking.sync.rebuild": [RUN],
    "dashboards.app": None,
    "dashboards.mlflow_ui.serve": SystemExit(0),  # the process becomes the server
}
"""What commands hand on to, in whose place nothing is done, and its result; None is anything."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The present folder with a model, problems and a stage."""
    # the same words are composed again and again
    composed = functools.cache(config.compose)
    monkeypatch.setattr(
        config, "compose", lambda words, **named: deepcopy(composed(tuple(words), **named))
    )
    monkeypatch.setitem(STRICT, "math", "math-tolerance")
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path / "runs"))
    monkeypatch.delenv("FGRPO_VERDICTS", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("out/my-model").mkdir(parents=True)
    for name, content in MODEL.items():
        Path("out/my-model", name).write_text(json.dumps(content))
    for name in ("mine.jsonl", "other.jsonl"):
        Path(name).write_text(json.dumps(ROW | {"file": name}) + "\n")
    Path("stage").mkdir()
    Path("stage/spec.json").write_text("{}")


@pytest.fixture
def here(folder: None, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What commands hand on there, in place of drawing, grading and comparing."""
    handed: list[Any] = []
    for place in WORK:  # what is imported later would take the place again
        resolve_name(place)
    for place, result in WORK.items():
        monkeypatch.setattr(place, Anything(place, handed, result))
    for name in FORMATS:
        monkeypatch.setitem(FORMATS, name, Anything(name, handed))
    monkeypatch.setattr(cli, "run_stage", lambda paths, work: work("spec", "stage") or 0)
    return handed


def done(handed: list[Any], capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """What a command printed and handed on, and what it refused."""
    handed.clear()
    capsys.readouterr()
    try:
        code = program(words)
    except SystemExit as error:
        code = error.code
    shown = capsys.readouterr()
    if code and shown.err:
        return "", shown.err
    return f"{shown.out}{handed}{code}", ""


def walked() -> Iterator[tuple[str, Any]]:
    """Every command of the program by its words."""
    program = get_command(
        application.program({name: place for name, (place, _) in COMMANDS.items()})
    )
    for name in COMMANDS:
        app = program.get_command(None, name)
        of_app = {"": app} if not hasattr(app, "commands") else app.commands
        for command, of in of_app.items():
            yield f"{name} {command}".strip(), of


def options_of(command: Any) -> Iterator[Any]:
    return (param for param in command.params if param.opts[0].startswith("-"))


def with_option(words: list[str], option: str, value: list[str]) -> list[str]:
    """Words with an option, in place of the value that they give it."""
    if option in words and value:
        at = words.index(option)
        return [*words[: at + 1], *value, *words[at + 2 :]]
    return [*words, option, *value]


@pytest.mark.slow
def test_every_option_of_every_command_changes_what_is_done_or_is_refused(
    here: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    every = dict(walked())
    assert every.keys() == BASES.keys()
    for name, words in ((name, words) for name, of in BASES.items() for words in of):
        base = [*name.split(), *words.split()]
        plain, refused = done(here, capsys, *base)
        assert not refused, f"{base}: {refused}"
        for param in options_of(every[name]):
            option = param.opts[0]
            if (name, option) in SAME:
                continue
            text = VALUES.get((name, param.name), VALUES.get(param.name, "5"))
            value = [] if param.is_flag else text.split(" ")[: 1 if param.multiple else None]
            if option in words.split() and not value:
                continue  # a flag that the words have
            work, refused = done(here, capsys, *with_option(base, option, value))
            near = option.lstrip("-").replace("-", "_")
            assert refused or work != plain, f"{option} changes nothing of {base}"
            assert not refused or near in refused.replace("-", "_"), f"{option} {base}: {refused}"


@pytest.mark.slow
def test_an_option_of_one_value_is_refused_with_a_second_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, command in walked():
        for param in options_of(command):
            if param.is_flag or param.multiple:
                continue
            first, second = (" ".join([digit] * param.nargs) for digit in "34")
            option, last = param.opts[0], param.opts[-1]
            with pytest.raises(SystemExit, match="2"):
                program([*name.split(), *f"{option} {first} {last} {second}".split()])
            assert f"{option} {first} beside {option} {second}" in capsys.readouterr().err


TWICE = {
    "evaluate plan out/my-model --data mine.jsonl": ("seed=1", "evaluation.seed=2"),
    "evaluate run out/my-model --data mine.jsonl": ("seed=1", "seed=2"),
    "evaluate import a.jsonl --benchmark math500 --name x": ("limit=3", "limit=4"),
    "evaluate export-lm-eval math500 --to x": ("limit=3", "limit=4"),
    "data math500": ("path=a", "path=b"),
    "sweep plan smoke": ("seed=1", "sweep.grid.seed=[2]"),
    "sweep run smoke": ("version=v1", "version=v2"),
    "sweep rehearse rehearsal": ("algorithm=dapo", "algorithm=grpo"),
    **{
        f"{command} smoke": ("version=v1", "version=v2")
        for command in ("check", "sweep status", "sweep cancel", "sweep tick",
                        "sweep follow", "sweep retry", "sweep tune")
    },
    "sweep logs smoke base-s11": ("run_root=a", "run_root=b"),
}  # fmt: skip
"""By words of each command that takes key=value: two of these that set one key."""


@pytest.mark.slow
def test_a_key_is_refused_with_a_second_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taking = {
        name
        for name, command in walked()
        if any("key=value" in str(param.metavar) for param in command.params)
    }
    assert taking == {name for words in TWICE for name in BASES if words.startswith(f"{name} ")}
    monkeypatch.chdir(tmp_path)
    for words, pair in TWICE.items():
        try:
            code = program([*words.split(), *pair])
        except SystemExit as error:
            code = error.code
        assert code and f"{pair[0]} beside {pair[1]}" in capsys.readouterr().err, words


@pytest.mark.slow
def test_the_same_setting_as_an_option_and_as_an_override_is_one_request(
    here: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for words in BASES["evaluate plan"]:
        base = ["evaluate", "plan", *words.split()]
        by_option = done(here, capsys, *base, "-n", "4", "--temperature", "0.5")
        assert by_option == done(here, capsys, *base, "n_samples=4", "temperature=0.5")
        assert "n_samples=4" in by_option[0] and "temperature=0.5" in by_option[0]
    named = done(here, capsys, "evaluate", "plan", "checkpoint=out/my-model", *OF_MODEL[1:])
    assert named == done(here, capsys, "evaluate", "plan", *OF_MODEL) and named[0]
    assert named == done(here, capsys, "evaluate", "run", *OF_MODEL, "--dry-run")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["out/lr=1e-6,seed=1", "./epoch=3", "n_samples=4", "a'b[0]"])
def test_a_word_that_is_a_path_here_is_one_whatever_it_holds(
    place: str, here: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree("out/my-model", place)
    shutil.copy("mine.jsonl", Path(place, "mine.jsonl"))
    data = ("--data", f"{place}/mine.jsonl")
    planned, _ = done(here, capsys, "evaluate", "plan", place, *data, f"run_root={place}")
    assert f"checkpoint={place!r}," in planned and f"run_root={place!r}," in planned
    assert f"problems: {Path(place, 'mine.jsonl')}, " in planned
    assert (
        planned
        == done(
            here, capsys, "evaluate", "plan", f"checkpoint={place}", *data, f"run_root={place}"
        )[0]
    )
    for listed in (place, f"{place},out/my-model", f"out/my-model,{place},other"):
        assert ",".join(
            compare_places._separate(listed)
        ) == listed and place in compare_places._separate(listed)


EXTRA = {
    "evaluate run": ("out/my-model other --data mine.jsonl", "'other' after 'out/my-model'"),
    "evaluate plan": ("out/my-model --data mine.jsonl other", "--data other"),
    "evaluate import": ("mine.jsonl other --name n", "other is no file"),
    "evaluate export-lm-eval": ("math500 other=1 --to x", "dataset.other"),
    "sweep plan": ("smoke other", "'other' is no override"),
    "sweep run": ("smoke other", "'other' is no override"),
    "sweep rehearse": ("rehearsal other", "'other' is no override"),
    "sweep status": ("smoke other", "'other' says nothing here"),
    "sweep cancel": ("smoke other", "'other' says nothing here"),
    "sweep tick": ("smoke other", "'other' says nothing here"),
    "sweep follow": ("smoke other", "'other' says nothing here"),
    "sweep retry": ("smoke other more", "'more' says nothing here"),
    "sweep tune": ("smoke other", "'other' says nothing here"),
    "sweep logs": ("smoke base-s11 other", "'other' says nothing here"),
    "check": ("smoke other", "'other' says nothing here"),
    "data": ("math500 other=1", "dataset.other"),
    "theory": ("other --success-rate 0.3", "'other': methods are for --weights"),
    "tracking sync": ("other", "holds no sweep other"),
}
"""By command that takes as many words as are typed: words of which one means nothing, and what is
said of it."""


@pytest.mark.slow
def test_a_word_that_means_nothing_is_refused_by_every_command_that_takes_many(
    folder: None, capsys: pytest.CaptureFixture[str]
) -> None:
    many = {name for name, of in walked() if any(param.nargs == -1 for param in of.params)}
    of_places = {"compare", "groups"}
    assert many - of_places == set(EXTRA)
    for name, (words, said) in EXTRA.items():
        capsys.readouterr()
        try:
            code = program([*name.split(), *words.split()])
        except SystemExit as error:
            code = error.code
        assert code and said in capsys.readouterr().err, f"{name} {words}"


BESIDE = {
    "report groupsize --regrade": "--regrade is of --verify",
    "report --verify x --format md": "--format is not asked with --verify",
    "report groupsize --html x.html --format csv": "--format is not asked with --html",
    "report groupsize --html x.html --json": "--html is not asked with --json",
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
