"""A plug-in adds to the tables in this environment too, and in the processes that a run starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fgrpo_bench.core import registry
from fgrpo_bench.engines.openrlhf.driver import PASSED_ON

pytestmark = pytest.mark.openrlhf
MODULE = "tests.plugin.fgrpo_parity"
CODE = (
    "from fgrpo_bench.core import registry; print(*[registry.origin(t, n) for t, n in %r.items()])"
)


def test_a_plugin_adds_to_the_tables_that_a_run_reads():
    names = {"objectives": "plain", "advantages": "centred", "graders": "parity"}
    assert registry.VARIABLE.startswith(PASSED_ON)
    done = subprocess.run(
        [sys.executable, "-c", CODE % names],
        cwd=Path(__file__).parents[2],
        env=os.environ | {registry.VARIABLE: MODULE},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count(MODULE) == len(names)
