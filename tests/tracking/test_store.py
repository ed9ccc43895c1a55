"""Servers that are down, die or never were; databases that are broken, were copied or are made anew
from the files; and the command line."""

from __future__ import annotations

import dataclasses
import re
import shutil
import time
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.tracking.__main__ import main
from fgrpo_bench.tracking.sync import DIGEST, embedded_uri, find_store, sync_run, without_password
from tests.support.mlflow_store import contents, held, runs, server, without_files
from tests.support.servers import free_port, stop
from tests.support.synthetic import write_sweep
from tests.tracking.conftest import TINY, finish, hold_back


@pytest.mark.slow
def test_a_server_gets_what_the_embedded_store_gets_until_it_dies(synced, tmp_path, monkeypatch):
    from mlflow import MlflowClient

    with server(tmp_path / "server") as (uri, process):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        assert f", {uri})" in str(sync_run(synced.paths))
        assert sync_run(synced.paths).unchanged == 6
        embedded = contents(embedded_uri(synced.paths))
        assert without_files(contents(uri)) == without_files(embedded)
        client = MlflowClient(tracking_uri=uri)
        run = next(run.info.run_id for run in runs(uri) if run.data.tags["kind"] == "point")
        folder = client.download_artifacts(run, "countdown")
        passk = synced.points[0].evaluate.benchmark("countdown").passk()
        assert Path(folder, "passk.parquet").read_bytes() == passk.read_bytes()

        client.delete_run(run)
        real = MlflowClient.log_batch

        def dying(client, *arguments, **named):
            stop(process)
            return real(client, *arguments, **named)

        monkeypatch.setattr(MlflowClient, "log_batch", dying)
        begun = time.monotonic()
        with pytest.raises(ConnectionError, match=f"MLflow at {uri} cannot be used"):
            sync_run(synced.paths)
        assert time.monotonic() - begun < 30
    assert contents(embedded_uri(synced.paths)) == embedded


@pytest.mark.parametrize("mark", ["?", "%"])
def test_a_root_that_mlflow_would_read_as_an_address_is_refused_and_nothing_is_written(
    tmp_path, mark
):
    paths = RunPaths(root=tmp_path / f"a{mark}b", sweep="s", experiment="e", version="v1")
    with pytest.raises(ConnectionError, match=f"holds \\{mark}, which MLflow does not take"):
        find_store(paths, None)
    assert find_store(paths, "http://127.0.0.1:5000").artifacts is None
    assert not list(tmp_path.iterdir())


def test_a_closed_port_is_said_at_once_with_the_remedy(swept):
    uri = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionError) as caught:
        sync_run(swept.paths, tracking_uri=uri)
    assert f"MLflow at {uri} cannot be used" in str(caught.value)
    assert "Nothing is lost" in str(caught.value)
    assert "fgrpo-bench tracking sync" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("nonsense://x", "Can't load plugin"),
        ("./mlruns", "Could not parse"),
        ("sqlite:////proc/none/x.db", "unable to open database file"),
        ("http://user:secret@127.0.0.1:9", r"http://\*\*\*@127.0.0.1:9"),
    ],
)
def test_a_broken_address_is_refused_without_its_password(swept, uri, reason):
    with pytest.raises(ConnectionError, match=reason) as caught:
        sync_run(swept.paths, tracking_uri=uri)
    assert "secret" not in str(caught.value)


def test_a_damaged_database_is_named_and_made_again_once_it_is_deleted(swept):
    swept.paths.mlflow_db.write_bytes(b"no database" * 1000)
    with pytest.raises(ConnectionError, match="file is not a database") as caught:
        sync_run(swept.paths)
    assert str(swept.paths.mlflow_db) in str(caught.value)
    assert "delete mlflow.db" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "has_artifacts",
    [
        pytest.param(True, id="whole"),
        pytest.param(False, marks=pytest.mark.slow, id="without artifacts"),
    ],
)
def test_a_root_that_was_copied_gets_a_store_of_its_own_with_the_same_contents(
    synced, tmp_path, has_artifacts
):
    old, new = synced.paths.root, tmp_path / "else where"
    before = held(synced)
    left = [] if has_artifacts else ["mlflow-artifacts"]
    shutil.copytree(old, new, ignore=shutil.ignore_patterns(*left))
    copied = dataclasses.replace(synced, paths=dataclasses.replace(synced.paths, root=new))
    assert sync_run(copied.paths).created == 6
    after = held(copied)
    for run in (*before.values(), *after.values()):
        run["tags"].pop(DIGEST)  # the folder is part of what a run is computed from
    assert repr(after).replace(str(new), str(old)) == repr(before)
    assert all(run["artifacts"] for run in after.values() if run["tags"]["kind"] != "cell")
    assert (new / "mlflow.db.old-1").exists()
    assert sync_run(copied.paths).unchanged == sync_run(synced.paths).unchanged == 6
    assert not (old / "mlflow.db.old-1").exists(), "nothing is done to the store of the old place"


@pytest.mark.slow
def test_the_environment_names_the_store_and_an_argument_goes_first(swept, monkeypatch):
    assert find_store(swept.paths, None).uri == embedded_uri(swept.paths)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://environment")
    assert find_store(swept.paths, None).uri == "http://environment"
    assert find_store(swept.paths, "http://argument").uri == "http://argument"


def test_only_the_user_information_of_an_address_is_hidden():
    assert without_password("at http://me:a:b@host/x?y=z@w") == "at http://***@host/x?y=z@w"
    assert without_password("http://host:5000/a@b") == "http://host:5000/a@b"


@pytest.mark.slow
def test_the_command_syncs_every_sweep_under_the_root_also_beside_a_damaged_one(synced, capsys):
    root = synced.paths.root
    alone = ["sweep.grid.focal_gamma=[1.0]", "sweep.cells=[]", "sweep.family=null"]
    gamma = write_sweep(root, "gamma", overrides=[*TINY, *alone])
    metrics = gamma.points[1].train.metrics
    whole = metrics.read_bytes()
    metrics.write_bytes(b"PAR1 half a file")
    assert main(["sync", "--root", str(root)]) == 1
    said = capsys.readouterr()
    assert "MLflow groupsize/countdown: 6 unchanged (" in said.out
    assert f"{gamma.paths.folder} is left out" in said.err
    assert "metrics.parquet is no readable Parquet file" in said.err
    metrics.write_bytes(whole)
    assert main(["sync", "--root", str(root)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert re.match(r"MLflow gamma/countdown: \d+ created, 0 unchanged \(", first)
    assert second.startswith("MLflow groupsize/countdown: 6 unchanged (")
    assert second.endswith(f"sqlite:///{root}/mlflow.db)")


def test_the_command_names_the_sweeps_there_are_where_one_is_unknown(swept, capsys):
    assert main(["sync", "groupsiz", "--root", str(swept.paths.root)]) == 1
    assert "holds no sweep groupsiz (it holds: groupsize)" in capsys.readouterr().err


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
@pytest.mark.rare
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
@pytest.mark.rare
def test_a_store_that_is_not_beside_the_runs_is_emptied_of_them_only_when_that_is_agreed(
    grown, capsys
):
    from mlflow import MlflowClient

    other = f"sqlite:///{grown.paths.root / 'other.db'}"
    command = ["rebuild", "--root", str(grown.paths.root), "--tracking-uri", other]
    assert main(command) == 0, "an empty one needs no word"
    before = contents(other)
    ids = {run.info.run_id for run in runs(other)}
    client = MlflowClient(tracking_uri=other)
    experiment = client.get_experiment_by_name("groupsize/countdown").experiment_id
    theirs = client.create_run(experiment, run_name="theirs").info.run_id
    assert main(command) == 1
    said = capsys.readouterr().err
    assert f"holds {len(before)} runs of these sweeps" in said
    assert "--yes" in said
    assert {run.info.run_id for run in runs(other)} == ids | {theirs}
    assert main([*command, "--yes"]) == 0
    assert client.get_run(theirs).info.lifecycle_stage == "active"
    client.delete_run(theirs)
    assert contents(other) == before
    assert not ids & {run.info.run_id for run in runs(other)}


def test_a_root_without_sweeps_is_said_and_nothing_is_moved(tmp_path, capsys):
    (tmp_path / "mlflow.db").write_bytes(b"somebody's")
    assert main(["rebuild", "--root", str(tmp_path)]) == 1
    assert "holds no sweep at all" in capsys.readouterr().err
    assert (tmp_path / "mlflow.db").read_bytes() == b"somebody's"


@pytest.mark.rare  # the sync that breaks off at any call is completed by the next too
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
