"""Servers that are down, die or never were; databases that are broken; and the command line."""

from __future__ import annotations

import dataclasses
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
from tests.tracking.conftest import TINY


@pytest.mark.slow
def test_a_server_gets_what_the_embedded_store_gets_until_it_dies(swept, tmp_path, monkeypatch):
    from mlflow import MlflowClient

    sync_run(swept.paths)
    with server(tmp_path / "server") as (uri, process):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        assert f", {uri})" in str(sync_run(swept.paths))
        assert sync_run(swept.paths).unchanged == 6
        embedded = contents(embedded_uri(swept.paths))
        assert without_files(contents(uri)) == without_files(embedded)
        client = MlflowClient(tracking_uri=uri)
        run = next(run.info.run_id for run in runs(uri) if run.data.tags["kind"] == "point")
        folder = client.download_artifacts(run, "countdown")
        passk = swept.points[0].evaluate.benchmark("countdown").passk
        assert Path(folder, "passk.parquet").read_bytes() == passk.read_bytes()

        client.delete_run(run)
        real = MlflowClient.log_batch

        def dying(client, *arguments, **named):
            stop(process)
            return real(client, *arguments, **named)

        monkeypatch.setattr(MlflowClient, "log_batch", dying)
        begun = time.monotonic()
        with pytest.raises(ConnectionError, match=f"MLflow at {uri} cannot be used"):
            sync_run(swept.paths)
        assert time.monotonic() - begun < 30
    assert contents(embedded_uri(swept.paths)) == embedded


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


@pytest.mark.parametrize("has_artifacts", [True, False], ids=["whole", "without artifacts"])
def test_a_root_that_was_copied_gets_a_store_of_its_own_with_the_same_contents(
    swept, tmp_path, has_artifacts
):
    old, new = tmp_path, tmp_path.with_name(f"{tmp_path.name} elsewhere")
    sync_run(swept.paths)
    before = held(swept)
    left = [] if has_artifacts else ["mlflow-artifacts"]
    shutil.copytree(old, new, ignore=shutil.ignore_patterns(*left))
    copied = dataclasses.replace(swept, paths=dataclasses.replace(swept.paths, root=new))
    assert sync_run(copied.paths).created == 6
    after = held(copied)
    for run in (*before.values(), *after.values()):
        run["tags"].pop(DIGEST)  # the folder is part of what a run is computed from
    assert repr(after).replace(str(new), str(old)) == repr(before)
    assert all(run["artifacts"] for run in after.values() if run["tags"]["kind"] != "cell")
    assert (new / "mlflow.db.old-1").exists()
    assert sync_run(copied.paths).unchanged == sync_run(swept.paths).unchanged == 6
    assert not (old / "mlflow.db.old-1").exists(), "nothing is done to the store of the old place"


def test_the_environment_names_the_store_and_an_argument_goes_first(swept, monkeypatch):
    assert find_store(swept.paths, None).uri == embedded_uri(swept.paths)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://environment")
    assert find_store(swept.paths, None).uri == "http://environment"
    assert find_store(swept.paths, "http://argument").uri == "http://argument"


def test_only_the_user_information_of_an_address_is_hidden():
    assert without_password("at http://me:a:b@host/x?y=z@w") == "at http://***@host/x?y=z@w"
    assert without_password("http://host:5000/a@b") == "http://host:5000/a@b"


def test_the_command_syncs_every_sweep_under_the_root_and_says_so(swept, capsys):
    alone = ["sweep.grid.focal_gamma=[1.0]", "sweep.family=null"]
    write_sweep(swept.paths.root, "gamma", overrides=[*TINY, *alone])
    assert main(["sync", "--root", str(swept.paths.root)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("MLflow gamma/countdown: ")
    assert second.startswith("MLflow groupsize/countdown: 6 created")


def test_the_command_names_the_sweeps_there_are_where_one_is_unknown(swept, capsys):
    assert main(["sync", "groupsiz", "--root", str(swept.paths.root)]) == 1
    assert "holds no sweep groupsiz (it holds: groupsize)" in capsys.readouterr().err


def test_a_damaged_sweep_does_not_keep_the_others_back(swept, capsys):
    gamma = write_sweep(swept.paths.root, "gamma", overrides=TINY)
    gamma.points[1].train.metrics.write_bytes(b"PAR1 half a file")
    assert main(["sync", "--root", str(swept.paths.root)]) == 1
    said = capsys.readouterr()
    assert "MLflow groupsize/countdown: 6 created" in said.out
    assert f"{gamma.paths.folder} is left out" in said.err
    assert "metrics.parquet is no readable Parquet file" in said.err
