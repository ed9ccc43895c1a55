"""What docs/developers/openrlhf-upstream.md says of OpenRLHF holds of the installed one."""

import ast
import inspect
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import openrlhf
import pytest

from fgrpo_bench.engines import openrlhf as ours
from fgrpo_bench.engines.openrlhf import guards

pytestmark = pytest.mark.openrlhf

PAGE = Path(__file__).parents[2] / "docs" / "developers" / "openrlhf-upstream.md"
PATCH = PAGE.with_name(f"openrlhf-{guards.TESTED['openrlhf']}.patch")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
RUN_ALL = """
import openrlhf, sys
print("with", openrlhf.__path__[0])
for example in sys.argv[1:]:
    try:
        exec(compile(example, "example", "exec"), {"__name__": "example"})
        print("ended well")
    except AssertionError as error:
        print("failed:", error)
"""


def ends(folder):
    """How the examples end, a line each, with the package in a folder."""
    command = [sys.executable, "-c", RUN_ALL, *EXAMPLES]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert f"with {folder / 'openrlhf'}" in lines
    return [line for line in lines if line.startswith(("ended well", "failed:"))]


@pytest.mark.slow  # OpenRLHF is pinned
def test_the_examples_fail_with_openrlhf_and_end_well_with_the_patch(tmp_path):
    shutil.copytree(openrlhf.__path__[0], tmp_path / "openrlhf")
    assert ends(tmp_path) == [
        "failed: the first step has samples of prompts [0.0, 1.0, 0.0, 1.0] with "
        "[8, 1, 7, 2, 6, 3, 5, 4]",
        "failed: gradients 1 and 2 moved the weight by -2.0",
        "failed: 3 prompts were sent with 3 tokenizers",
    ]
    subprocess.run(["patch", "-p1", "-i", PATCH], cwd=tmp_path, check=True, capture_output=True)
    assert ends(tmp_path) == ["ended well"] * 3


def names_set():
    """module:name of OpenRLHF's that a line of ours sets."""
    for path in Path(ours.__path__[0]).glob("*.py"):
        tree = ast.parse(path.read_text())
        modules = {
            alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("openrlhf.")
            for alias in node.names
        }
        for node in ast.walk(tree):
            for target in node.targets if isinstance(node, ast.Assign) else ():
                module, _, name = ast.unparse(target).rpartition(".")
                if module in modules:
                    yield f"{modules[module]}:{name}"


def named(place):
    module, _, name = place.partition(":")
    value = getattr(import_module(module), name)
    return guards.actor_class(value) if hasattr(value, "__ray_metadata__") else value


def test_the_table_of_replacements_is_what_the_code_replaces():
    rows = dict(
        re.findall(r"^\| `(\w+:\w+)` \| `([\w.]+:\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    )
    assert sorted(rows.values()) == sorted(set(names_set()))
    further = dict(
        re.findall(r"`(\w+:\w+)`[^`]*`[\w.-]+`,\s+in\s+the\s+place\s+of\s+`([\w.]+:\w+)`",
                   PAGE.read_text())
    )  # fmt: skip
    assert further.keys() == {
        *("policy:ObjectiveLoss", "reward:AgentExecutor", "rollout:QuietWorker")
    }
    for name, theirs in (rows | further).items():
        mine, replaced = named(f"{ours.__name__}.{name}"), named(theirs)
        if inspect.isclass(mine):
            assert issubclass(mine, replaced), name
