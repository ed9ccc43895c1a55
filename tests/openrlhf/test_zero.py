"""DeepSpeed itself over two ranks: every gradient counts, and a kill in a save costs only time."""

import json
import signal

import pytest
import torch

from tests.openrlhf import zero_updates
from tests.openrlhf.zero_updates import run_ranks

pytestmark = pytest.mark.openrlhf
SLOW = pytest.mark.slow


def expected():
    """Weights after each update with the sum of the gradients of all micro-batches."""
    model, rows = zero_updates.network(), []
    for update in range(zero_updates.UPDATES):
        model.zero_grad()
        for rank, updates in enumerate(zero_updates.MICRO_BATCHES):
            for micro_batch in range(len(updates[update])):
                zero_updates.loss(model, rank, update, micro_batch).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= zero_updates.RATE * parameter.grad
        rows.append({n: p.detach().clone() for n, p in model.named_parameters()})
    return rows


RARE = ((0, False), (1, False), (2, False), (2, True), (3, True))


@pytest.mark.parametrize(
    ("stage", "offload"),
    [(3, False), *(pytest.param(*layout, marks=SLOW) for layout in RARE)],
)
def test_an_update_has_the_gradients_of_all_its_micro_batches(stage, offload, tmp_path):
    path, log = tmp_path / "weights.json", tmp_path / "log"
    ended = run_ranks(zero_updates.updates, log, stage, offload, path)
    assert ended == [0, 0], log.read_text()[-4000:]
    for row, wanted in zip(json.loads(path.read_text()), expected(), strict=True):
        for name, value in wanted.items():
            got = torch.tensor(row[name])
            torch.testing.assert_close(got, value, atol=1e-5, rtol=1e-5, msg=name)


@pytest.mark.parametrize("stage", [pytest.param(2, marks=SLOW), 3])
def test_a_run_that_is_killed_in_its_saves_goes_on_from_the_newest_whole_state(stage, tmp_path):
    log = tmp_path / "log"

    def run(name, kill=None):
        """(exit codes, what was said, the last weights)."""
        log.unlink(missing_ok=True)
        path = tmp_path / f"{name}.json"
        states = tmp_path / ("undisturbed" if name == "undisturbed" else "states")
        ended = run_ranks(zero_updates.saved_updates, log, stage, states, kill, path)
        said = log.read_text(errors="replace")
        return ended, said, path.read_text() if path.exists() else None

    ended, said, undisturbed = run("undisturbed")
    assert ended == [0, 0], said[-4000:]
    first, last = 0, zero_updates.UPDATES - 1
    for kill, goes_on_after in (  # (rank, step, file)
        ((1, 1, 0), first),
        ((0, 3, 1), first),
        ((0, 3, None), last),
    ):
        ended, said, _ = run("killed", kill)
        assert ended[kill[0]] == -signal.SIGKILL, said[-4000:]
        assert f"begins after step {goes_on_after}\n" in said
    ended, said, weights = run("disturbed")
    assert ended == [0, 0] and f"begins after step {last}\n" in said, said[-4000:]
    assert "the state of step 3 was cut short" in said
    assert weights == undisturbed
