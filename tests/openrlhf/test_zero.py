"""Every gradient counts: DeepSpeed itself over two ranks, with dynamic batches as OpenRLHF's."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support import zero_updates

pytestmark = pytest.mark.openrlhf

REPOSITORY = Path(__file__).parents[2]


def expected():
    """Weights after each update with the sum of the gradients of all micro-batches."""
    model, rows = zero_updates.network(), []
    for update in range(len(zero_updates.MICRO_BATCHES[0])):
        model.zero_grad()
        for rank, updates in enumerate(zero_updates.MICRO_BATCHES):
            for micro_batch in range(len(updates[update])):
                zero_updates.loss(model, rank, update, micro_batch).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= zero_updates.RATE * parameter.grad
        rows.append({n: p.detach().clone() for n, p in model.named_parameters()})
    return rows


@pytest.mark.parametrize(
    ("stage", "offload"),
    [(0, "keep"), (1, "keep"), (2, "keep"), (2, "offload"), (3, "keep"), (3, "offload")],
)
def test_an_update_has_the_gradients_of_all_its_micro_batches(stage, offload, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "DS_ACCELERATOR": "cpu",
    }
    path, program = tmp_path / "weights.json", zero_updates.__name__
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", program, str(rank), str(stage), offload, str(path)],
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(len(zero_updates.MICRO_BATCHES))
    ]
    said = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(said)[-4000:]
    for row, wanted in zip(json.loads(path.read_text()), expected(), strict=True):
        for name, value in wanted.items():
            got = torch.tensor(row[name])
            torch.testing.assert_close(got, value, atol=1e-5, rtol=1e-5, msg=name)
