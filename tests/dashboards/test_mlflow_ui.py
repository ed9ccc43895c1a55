"""The MLflow UI over a run root: what is served, to whom, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from dashboards.__main__ import main
from dashboards.mlflow_ui import Shown, pages, server_command
from fgrpo_bench.tracking.sync import find_store
from tests.support.servers import free_port, stop, wait_for
from tests.support.synthetic import SMALL, write_sweep

ONE = [*SMALL, "sweep.grid.seed=[11]", "sweep.grid.group_size=[2]", "sweep.cells=[]"]
ONE += ["sweep.family=null"]
KINDS = ("cell", "point")


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read()


def listening(port: int) -> set[str]:
    """Local addresses on which somebody listens at a port, as the kernel writes them."""
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    rows = [line.split() for table in tables for line in table.read_text().splitlines()[1:]]
    return {
        row[1].split(":")[0] for row in rows if row[3] == "0A" and row[1].endswith(f"{port:04X}")
    }


@pytest.mark.slow
def test_the_ui_shows_runs_and_artifacts_on_loopback_alone_and_ends_with_ctrl_c(tmp_path):
    root, port = tmp_path / "a folder", free_port()
    write_sweep(root, overrides=ONE)
    command = [sys.executable, "-m", "dashboards", "mlflow", "--root", root, "--port", str(port)]
    environment = os.environ | {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"}
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        base = f"http://127.0.0.1:{port}"
        wait_for(f"{base}/health", process)
        assert listening(port) == {"0100007F"}
        assert b"<title>MLflow</title>" in get(base)
        said = (tmp_path / "output").read_text()
        assert len(said.splitlines()) == 11, f"more than summary, addresses, MLflow's word: {said}"
        address = next(word for word in said.split() if word.startswith(f"{base}/#/experiments/"))
        experiment = address.split("/")[5]
        search = urllib.request.Request(
            f"{base}/ajax-api/2.0/mlflow/runs/search",
            json.dumps({"experiment_ids": [experiment]}).encode(),
            {"Content-Type": "application/json"},
        )
        runs = json.loads(get(search))["runs"]
        ids = {run["info"]["run_name"]: run["info"]["run_id"] for run in runs}
        assert set(ids) == {"Base", "Base, seed 11", "GRPO N=2", "GRPO N=2, seed 11"}
        query = urllib.parse.urlencode(
            {"path": "countdown/pass_at_k.json", "run_uuid": ids["GRPO N=2, seed 11"]}
        )
        assert get(f"{base}/get-artifact?{query}").startswith(b'{"columns":["k","pass_at_k",')
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(600) == 0
    finally:
        stop(process)
    assert "Traceback" not in (tmp_path / "output").read_text()
    assert not listening(port)


def test_showing_a_store_that_was_never_synced_is_refused(tmp_path, capsys):
    write_sweep(tmp_path, overrides=ONE)
    assert main(["mlflow", "--root", str(tmp_path), "--no-sync"]) == 1
    assert "leave out --no-sync" in capsys.readouterr().err


def test_the_server_is_told_absolute_paths_and_takes_no_uploads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = write_sweep(Path("runs"), overrides=ONE)
    store = find_store(results.paths, None)
    command = server_command(store, host="127.0.0.1", port=5000)
    assert f"sqlite:///{tmp_path}/runs/mlflow.db" in command
    assert f"file://{tmp_path}/runs/mlflow-artifacts" in command
    assert "--no-serve-artifacts" in command


def shown(name, **changed):
    of = {"experiment_id": "7", "kinds": (), "report": None, "views": (), "changed": 1}
    return Shown(name=name, **of | changed)


def test_the_first_line_is_the_answer_and_no_address_is_of_a_page_without_runs():
    whole = shown("groupsize/countdown", kinds=("report", *KINDS), report="ab", views=KINDS)
    alone = shown("evaluations", kinds=("evaluation",), experiment_id="8")
    at, other = (f"http://127.0.0.1:5000/#/experiments/{n}/runs" for n in (7, 8))
    workflow = "?workflowType=machine_learning"
    cells, points, evaluations = (
        f"{workflow}&searchFilter=tags.kind%20%3D%20%27{kind}%27" for kind in (*KINDS, "evaluation")
    )
    assert pages("http://127.0.0.1:5000", [whole, alone]).splitlines() == [
        f"Open {at}/ab/artifacts/answer.html{workflow}",
        "",
        "MLflow groupsize/countdown",
        f"  answer       {at}/ab/artifacts/answer.html{workflow}",
        f"  table        {at}/ab/artifacts/pass_at_k.json{workflow}",
        f"  cells        {at}{workflow}&viewStateShareKey=cell&compareRunsMode=TABLE",
        f"  charts       {at}{cells}&compareRunsMode=CHART",
        f"  points       {at}{workflow}&viewStateShareKey=point&compareRunsMode=TABLE",
        f"  training     {at}{points}&compareRunsMode=CHART",
        "MLflow evaluations",
        f"  evaluations  {other}{evaluations}&compareRunsMode=TABLE",
        f"  curves       {other}{evaluations}&compareRunsMode=CHART",
    ]
