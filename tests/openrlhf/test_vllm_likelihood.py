"""Likelihoods of given answers by the real vLLM."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.openrlhf


def test_vllm_gives_what_the_embedded_engine_gives(model, tmp_path):
    out = tmp_path / "out.json"
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("FGRPO_", "VLLM_"))}
    done = subprocess.run(
        [sys.executable, "-m", "tests.openrlhf.vllm_likelihoods", str(model), str(out)],
        env=inherited | {"PYTHONPATH": ".", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(out.read_text())
    assert found["vllm"] == pytest.approx(found["embedded"], rel=1e-4)
    assert min(found["vllm"]) > 0
