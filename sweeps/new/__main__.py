"""`fgrpo-bench new advantage mine`: a part of one's own that works, to be edited.

In: its name. Out: its file, its line in a table (or a package of its own), its test and a smoke
sweep, from the templates beside this file. Everything is checked before the first file is written,
and nothing that exists is written over. Next: sweeps.new.experiment, for a training run of one's
own model and data.
"""

from __future__ import annotations

import builtins
import json
import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fgrpo_bench.command import application
from fgrpo_bench.command.application import Application, refusals
from sweeps import REPOSITORY
from sweeps.new.changes import Changes, filled, quoted, with_sorted_imports
from sweeps.text import short_path

MODULE_NAME = re.compile(r"[a-z][a-z0-9_]{0,18}")
LEAST_POSITIONS, FOR_A_RESPONSE = 64, 16
"""Of the model of a benchmark's smoke sweep: its context, and the part that is for responses."""


app = Application(
    "Begin an experiment, or a part of your own, from an example that works.",
    "fgrpo-bench new experiment mine --model out/my-model --data train.jsonl",
    "fgrpo-bench new advantage gentle       # then: fgrpo-bench sweep run smoke-gentle",
    "fgrpo-bench new reward shorter --package ../fgrpo-shorter",
    "fgrpo-bench new benchmark capitals --data capitals.jsonl",
    "fgrpo-bench new task sums --dry-run    # what it would write",
    guard=refusals,
)
PARTS = """\
It writes the file, its line in a table, its test and a smoke sweep into the checkout; with
--package a folder of your own that `pip install -e` adds, and nothing into the checkout.
"""
Part = Annotated[
    str,
    typer.Argument(metavar="NAME", help="small letters, digits and _, e.g. gentle; a letter first"),
]
Package = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="write a package into this folder, which must not be there yet"
    ),
]
Data = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="problems with answers: .jsonl, .json, .csv, .tsv or .parquet"
    ),
]
Prompt = Annotated[str | None, typer.Option(metavar="COLUMN", help="where its name is not usual")]
Answer = Annotated[str | None, typer.Option(metavar="COLUMN", help="likewise")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="print what would be written")]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command to its exit code."""
    return application.run(app, argv, "python -m sweeps.new")


def _check_name(table: str, name: str) -> None:
    """ValueError for a name that cannot be a module's, or that a table has."""
    from fgrpo_bench.core import registry

    kind = table[:-1]
    is_word = keyword.iskeyword(name) or hasattr(builtins, name) or quoted(name) != name
    if not MODULE_NAME.fullmatch(name) or is_word:
        raise ValueError(
            f"{kind} {name!r}: a name becomes a module's, so it has small letters, digits and _, "
            "begins with a letter, is no word of Python or YAML and has at most 19 of them; e.g. "
            f"{re.sub('[^a-z0-9_]', '_', name.lower()).lstrip('_0123456789')[:19] or 'mine'}"
        )
    if name in registry.table(table):
        brought = registry.origin(table, name)
        whose = brought["package"] if brought else "this package"
        raise ValueError(f"{kind} {name!r} is {whose}'s already: choose another name")


@app.add(
    "experiment",
    "train your model on your problems with your reward, on GPUs",
    "fgrpo-bench new experiment mine --model out/my-model --data train.jsonl",
    "fgrpo-bench new experiment mine --model Qwen/Qwen2.5-7B --data train.jsonl "
    "--heldout test.jsonl --reward mypkg.grade:score@0.5",
    more="It writes conf/experiment/NAME.yaml, which says what differs from the paper's main\n"
    "experiment, and says what a sweep of it takes: memory, hours and disk.\n",
)
def experiment(
    name: Annotated[str, typer.Argument(metavar="NAME", help="of the experiment, e.g. mine")],
    model: Annotated[str, typer.Option(metavar="MODEL", help="its folder, or its id on the Hub")],
    data: Data,
    reward: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="what evaluate --grader takes: a grader's name, or module:function[@threshold]",
        ),
    ] = None,
    heldout: Annotated[
        Path | None, typer.Option(metavar="FILE", help="problems to evaluate on [default: math500]")
    ] = None,
    prompt: Prompt = None,
    answer: Answer = None,
    trust_remote_code: Annotated[
        bool,
        typer.Option("--trust-remote-code", help="let code that the model brings run (auto_map)"),
    ] = False,
    is_dry: DryRun = False,
) -> int:
    from fgrpo_bench.specs.base import check_name as check_folder_name
    from sweeps.new.experiment import begin

    check_folder_name("NAME", name)
    return begin(name, model=model, data=data, reward=reward, heldout=heldout, prompt=prompt,
                 answer=answer, trust_remote_code=trust_remote_code, is_dry=is_dry)  # fmt: skip


@app.add(
    "advantage",
    "a formula from the rewards of a group to its advantages: a variant of GRPO's to begin with",
    "fgrpo-bench new advantage gentle",
    "fgrpo-bench new advantage gentle --package ../fgrpo-gentle",
    more=PARTS,
)
def advantage(name: Part, package: Package = None, is_dry: DryRun = False) -> int:
    _check_name("advantages", name)
    text = filled("advantage.py", name=name)
    if package is not None:
        overrides = [f"+algorithms.grpo.advantage={name}"]
        text += f"\n\nADVANTAGES = {{{_key(name)}: {name}}}\n"
        return _package(package, "advantage", name, text, overrides, is_dry=is_dry)
    changes, objectives = Changes(), REPOSITORY / "fgrpo_bench" / "objectives"
    changes.write(objectives / f"{name}.py", text)
    changes.import_from(objectives / "advantages.py", f"fgrpo_bench.objectives.{name}", name)
    changes.add_entry(objectives / "advantages.py", "ADVANTAGES", f"{_key(name)}: {name}")
    algorithms = REPOSITORY / "conf" / "algorithms.yaml"
    if f"\n  {name}:" in changes.current_text(algorithms):
        raise ValueError(
            f"advantage {name!r}: conf/algorithms.yaml has such an algorithm: choose another name"
        )
    changes.insert(
        algorithms,
        len(changes.current_text(algorithms).splitlines()),
        f"  {name}: {{<<: *grpo, name: {name}, advantage: {name}}}",
    )
    return _in_checkout(changes, "advantage", name, "objectives", is_dry=is_dry)


@app.add(
    "reward",
    "what training learns from, for each response: partial credit on countdown to begin with",
    "fgrpo-bench new reward digits",
    "fgrpo-bench new reward digits --package ../fgrpo-digits",
    more=f"{PARTS}\n"
    "A reward of (response, answer) needs no file here: `experiment.train.reward` takes\n"
    "`module:function` (docs/guides/train.md).\n",
)
def reward(name: Part, package: Package = None, is_dry: DryRun = False) -> int:
    _check_name("graders", name)
    if package is not None:
        overrides = [f"experiment.train.reward={name}"]
        text = filled("reward.py", name=name, graders="PartialCredit, countdown")
        text += f"\n\nGRADERS = {{{_key(name)}: (1, PartialCredit(grade))}}\n"
        return _package(package, "reward", name, text, overrides, is_dry=is_dry)
    changes, text = Changes(), filled("reward.py", name=name, graders="countdown")
    changes.write(REPOSITORY / "fgrpo_bench" / "graders" / f"{name}.py", text)
    _add_grader(changes, name, gold="3256-24", entry=f"PartialCredit({name}_grade)")
    return _in_checkout(changes, "reward", name, "graders", is_dry=is_dry)


@app.add(
    "benchmark",
    "a file of problems with answers, to evaluate on",
    "fgrpo-bench new benchmark capitals --data capitals.jsonl",
    "fgrpo-bench new benchmark capitals --data capitals.csv --prompt text --grader pkg.grade:grade",
    more=PARTS,
)
def benchmark(
    name: Part,
    data: Data,
    prompt: Prompt = None,
    answer: Answer = None,
    grader: Annotated[
        str,
        typer.Option(metavar="NAME", help="of docs/reference/grading.md, or module:function"),
    ] = "math",
    package: Package = None,
    is_dry: DryRun = False,
) -> int:
    from fgrpo_bench.graders import BOXED
    from sweeps.new.experiment import check_grader, options_line, read_problems

    _check_name("benchmarks", name)
    problems = read_problems(data, prompt, answer, grader)
    check_grader(problems, is_reward=False)
    dataset = problems.dataset
    print(f"problems: {problems.rows:,} of {data}, {problems.summary}")
    is_exact = grader in BOXED | {"choice"}  # others may want more than an answer alone
    values = {
        "rows": problems.rows,
        "grader": quoted(grader),
        "path": quoted(dataset.path),
        "prompt": quoted(dataset.prompt_key),
        "answer": quoted(dataset.answer_key),
        "options": options_line(dataset, 2),
        "positions": max(problems.longest + FOR_A_RESPONSE, LEAST_POSITIONS),
        "response": 'f"\\\\boxed{{{answer}}}"' if grader in BOXED else "answer",
        "judged": "graded_correct" if is_exact else "judged",
        "outcome": '== "correct"' if is_exact else '!= "unscored"',
    }
    if package is None:
        changes = Changes()
        file = REPOSITORY / "conf" / "benchmark" / f"{name}.yaml"
        changes.write(file, filled("benchmark.yaml", name=name, **values))
        values |= {
            "benchmark": f'config.load_benchmark("{name}")',
            "imported": "from fgrpo_bench.specs import config",
        }
        return _in_checkout(changes, "benchmark", name, "data", is_dry=is_dry, **values)
    values |= {
        "benchmark": f'from_dict(BenchmarkSpec, BENCHMARKS["{name}"])',
        "imported": "from fgrpo_bench.specs import BenchmarkSpec, from_dict\n"
        f"from fgrpo_{name} import BENCHMARKS",
    }
    evaluation = "experiment.evaluation"
    overrides = [
        f"+benchmark@{evaluation}.benchmarks.{name}={name}",
        f"{evaluation}.benchmarks.{name}.prompt=plain",
        f"{evaluation}.benchmarks.countdown.prompt=plain",
        f"+{evaluation}.prompts.plain={{chat_template: false, system: null, thinking: null}}",
        f"{evaluation}.sampler=transformers",
        f"+experiment.train.model.n_positions={values['positions']}",
    ]
    source = Path(dataset.path)
    copied = package / f"{name}{source.suffix}"
    literals = {
        "key": json.dumps(dataset.prompt_key),
        "gold": json.dumps(dataset.answer_key),
        "judge": json.dumps(grader),
        "options": repr(dataset.options),
    }
    text = filled("benchmark.py", name=name, file=copied.name, rows=problems.rows, **literals)
    copies = {copied: source}
    return _package(
        package, "benchmark", name, text, overrides, is_dry=is_dry, copied=copies, **values
    )


@app.add(
    "task",
    "generated problems with a split and demonstrations: sums of two numbers to begin with",
    "fgrpo-bench new task sums",
    "fgrpo-bench new task sums --package ../fgrpo-sums",
    more=PARTS,
)
def task(name: Part, package: Package = None, is_dry: DryRun = False) -> int:
    for table in ("tasks", "graders", "benchmarks"):  # it adds to each of these
        _check_name(table, name)
    title, grade = "".join(map(str.capitalize, name.split("_"))), filled("task_grade.py")
    values = {"name": name, "title": title}
    if package is not None:
        imported = {"problems": "Grade, Problem", "task_module": ""}
        text = "\n\n".join(
            [filled("task.py", **values, **imported), grade, filled("task_tables.py", **values)]
        )
        overrides = [
            "~experiment.train.task",
            f"+experiment.train.task={{name: {name}, seed: 4, largest: 20}}",
            "~experiment.evaluation.benchmarks.countdown",
            f"+benchmark@experiment.evaluation.benchmarks.{name}={name}",
        ]
        module = f"fgrpo_{name}"
        return _package(
            package, "task", name, text, overrides, is_dry=is_dry, title=title, grader_module=module
        )
    changes, conf = Changes(), REPOSITORY / "conf"
    tasks, graders = (REPOSITORY / "fgrpo_bench" / folder for folder in ("tasks", "graders"))
    changes.write(
        tasks / f"{name}.py", filled("task.py", **values, problems="Problem", task_module=".task")
    )
    changes.write(graders / f"{name}.py", filled("task_grader.py", name=name) + grade)
    changes.write(conf / "benchmark" / f"{name}.yaml", filled("task_benchmark.yaml", name=name))
    changes.write(conf / "experiment" / f"{name}.yaml", filled("task_experiment.yaml", name=name))
    changes.import_from(tasks / "__init__.py", f"fgrpo_bench.tasks.{name}", title)
    changes.add_entry(tasks / "__init__.py", "TASKS", f"{_key(name)}: {title}")
    _add_grader(changes, name, gold="42", entry=f"{name}_grade")
    module = f"fgrpo_bench.graders.{name}"
    return _in_checkout(
        changes, "task", name, "tasks", is_dry=is_dry, title=title, grader_module=module
    )


def _add_grader(changes: Changes, name: str, *, gold: str, entry: str) -> None:
    """A grader's line in its table, and in that of the texts that would hurt it most."""
    table = REPOSITORY / "fgrpo_bench" / "graders" / "__init__.py"
    changes.import_from(table, f"fgrpo_bench.graders.{name}", f"grade as {name}_grade")
    changes.add_entry(table, "GRADERS", f"{_key(name)}: (1, {entry})")
    changes.add_entry(
        REPOSITORY / "tests" / "graders" / "test_linear_time.py",
        "GRADED",
        f"{_key(name)}: (({_key(gold)},), EXPRESSIONS)",
    )


def _key(name: str) -> str:
    return f'"{name}"'


def _in_checkout(
    changes: Changes, kind: str, name: str, folder: str, *, is_dry: bool, **values: object
) -> int:
    """With its test and its smoke sweep; values: what their templates name further."""
    file = next(iter(changes.written))
    values |= {"name": name, "module": f"fgrpo_bench.{folder}.{name}"}
    test = REPOSITORY / "tests" / folder / f"test_{name}.py"
    changes.write(test, with_sorted_imports(filled(f"{kind}_test.py", **values)))
    sweep = REPOSITORY / "conf" / "sweep" / f"smoke-{name}.yaml"
    changes.write(sweep, filled(f"{kind}_smoke.yaml", **values))
    steps = [
        f"edit {short_path(file)}, and {short_path(test)}",
        f"make test ARGS={short_path(test)}",
        f"fgrpo-bench sweep run smoke-{name}",
    ]
    return changes.conclude(steps, is_dry=is_dry)


def _package(
    folder: Path,
    kind: str,
    name: str,
    text: str,
    overrides: Sequence[str],
    *,
    is_dry: bool,
    copied: Mapping[Path, Path] | None = None,
    **values: object,
) -> int:
    """A package that adds by an entry point, with its test and a smoke sweep as a command.

    text: of its module, with the table that it adds. overrides: those of the sweep smoke. copied:
    further files, and where they come from.
    """
    if folder.exists():
        raise FileExistsError(f"--package {folder} exists: name a folder that is not there yet")
    module, changes = f"fgrpo_{name}", Changes(copied=dict(copied or {}))
    if find_spec(module) is not None:
        raise ValueError(f"{kind} {name!r}: there is a package {module}: choose another name")
    values |= {
        "name": name,
        "module": module,
        "words": " ".join(f"'{word}'" for word in [f"plugins=[{module}]", *overrides]),
    }
    version = '\n\n__version__ = "0.1"\n"""Raised with every change of what it computes."""\n'
    file, test = folder / f"{module}.py", folder / f"test_{module}.py"
    changes.write(file, text.rstrip() + version)
    tests = filled(f"{kind}_test.py", **values).rstrip(), filled("package_test.py", **values)
    changes.write(test, "\n\n\n".join(tests))
    changes.write(folder / "pyproject.toml", filled("pyproject.toml", **values))
    changes.write(folder / "smoke.sh", filled("smoke.sh", **values))
    steps = [
        f"edit {short_path(file)}, and {short_path(test)}",
        f"cd {REPOSITORY} && make test ARGS={folder.absolute()}",
        f"pip install -e {folder} && sh {folder / 'smoke.sh'}   # the smoke sweep",
    ]
    return changes.conclude(steps, is_dry=is_dry)


if __name__ == "__main__":
    sys.exit(main())
