"""A store made anew from the files equals the one that grew with them; and outages lose nothing."""

from __future__ import annotations

import pytest

from fgrpo_bench.tracking.__main__ import main
from fgrpo_bench.tracking.sync import embedded_uri, sync_run
from tests.support.mlflow_store import contents, held, runs, server, without_files
from tests.support.servers import free_port
from tests.support.synthetic import write_sweep
from tests.tracking.conftest import TINY, finish, hold_back


@pytest.fixture
def grown(swept):
    """A store that was synced amid the sweep and after it, with a report and a second version."""
    aside = hold_back(swept)
    sync_run(swept.paths)
    finish(swept, aside)
    sync_run(swept.paths)
    every = ["version=v2", "experiment.checkpoints=every", "experiment.train.save_every=10"]
    sync_run(write_sweep(swept.paths.root, overrides=[*TINY, *every]).paths)
    return swept


@pytest.mark.slow
def test_a_rebuilt_store_equals_the_old_one_but_for_ids(grown, capsys):
    before = held(grown)
    ids = {run.info.run_id for run in runs(embedded_uri(grown.paths))}
    root = grown.paths.root
    assert main(["rebuild", "--root", str(root)]) == 0
    assert f"moved {root}/mlflow.db to {root}/mlflow.db.old-1" in capsys.readouterr().out
    assert held(grown) == before
    assert not ids & {run.info.run_id for run in runs(embedded_uri(grown.paths))}
    assert contents(f"sqlite:///{root}/mlflow.db.old-1").keys() == before.keys()
    kinds = {run["tags"]["kind"] for run in before.values()}
    assert kinds == {"cell", "point", "report"}


@pytest.mark.slow
def test_a_store_that_is_not_beside_the_runs_is_emptied_only_when_that_is_agreed(grown, capsys):
    other = f"sqlite:///{grown.paths.root / 'other.db'}"
    command = ["rebuild", "--root", str(grown.paths.root), "--tracking-uri", other]
    assert main(command) == 0, "an empty one needs no word"
    before = contents(other)
    ids = {run.info.run_id for run in runs(other)}
    assert main(command) == 1
    said = capsys.readouterr().err
    assert f"holds {len(before)} runs of these sweeps" in said
    assert "--yes" in said
    assert {run.info.run_id for run in runs(other)} == ids
    assert main([*command, "--yes"]) == 0
    assert contents(other) == before
    assert not ids & {run.info.run_id for run in runs(other)}


@pytest.mark.slow
def test_rebuilding_leaves_the_runs_of_others_alone(swept):
    from mlflow import MlflowClient

    other = f"sqlite:///{swept.paths.root / 'other.db'}"
    sync_run(swept.paths, tracking_uri=other)
    client = MlflowClient(tracking_uri=other)
    experiment = client.get_experiment_by_name("groupsize/countdown").experiment_id
    theirs = client.create_run(experiment, run_name="theirs").info.run_id
    command = ["rebuild", "--root", str(swept.paths.root), "--tracking-uri", other, "--yes"]
    assert main(command) == 0
    assert client.get_run(theirs).info.lifecycle_stage == "active"


def test_a_root_without_sweeps_is_said_and_nothing_is_moved(tmp_path, capsys):
    (tmp_path / "mlflow.db").write_bytes(b"somebody's")
    assert main(["rebuild", "--root", str(tmp_path)]) == 1
    assert "holds no sweep at all" in capsys.readouterr().err
    assert (tmp_path / "mlflow.db").read_bytes() == b"somebody's"


@pytest.mark.slow
def test_what_is_finished_while_a_server_is_away_is_there_once_it_is_back(swept, tmp_path):
    port, folder = free_port(), tmp_path / "server"
    aside = hold_back(swept)
    with server(folder, port) as (uri, _):
        sync_run(swept.paths, tracking_uri=uri)
    finish(swept, aside)
    with pytest.raises(ConnectionError, match="Nothing is lost"):
        sync_run(swept.paths, tracking_uri=uri)
    sync_run(swept.paths)
    with server(folder, port):
        caught_up = sync_run(swept.paths, tracking_uri=uri)
        assert (caught_up.created, caught_up.updated) == (1, 4), "the report; points and cells"
        assert without_files(contents(uri)) == without_files(held(swept))
