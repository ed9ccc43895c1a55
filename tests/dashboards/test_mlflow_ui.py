"""The MLflow UI over a run root: what is served, and where to look first. A browser looks at it in
tests/browser."""

from __future__ import annotations

from pathlib import Path

from dashboards.__main__ import main
from dashboards.mlflow_ui import Shown, pages, server_command
from fgrpo_bench.tracking.sync import find_store
from tests.support.synthetic import SMALL, write_sweep

ONE = [*SMALL, "sweep.grid.seed=[11]", "sweep.grid.group_size=[2]", "sweep.cells=[]"]
ONE += ["sweep.family=null"]
KINDS = ("cell", "point")


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
    evaluations = f"{workflow}&searchFilter=tags.kind%20%3D%20%27evaluation%27"
    assert pages("http://127.0.0.1:5000", [whole, alone]).splitlines() == [
        f"Open {at}/ab/artifacts/answer.html{workflow}",
        "",
        "MLflow groupsize/countdown",
        f"  answer       {at}/ab/artifacts/answer.html{workflow}",
        f"  table        {at}/ab/artifacts/pass_at_k.json{workflow}",
        f"  cells        {at}{workflow}&viewStateShareKey=cell&compareRunsMode=TABLE",
        f"  charts       {at}{workflow}&viewStateShareKey=cell&compareRunsMode=CHART",
        f"  points       {at}{workflow}&viewStateShareKey=point&compareRunsMode=TABLE",
        f"  training     {at}{workflow}&viewStateShareKey=point&compareRunsMode=CHART",
        "MLflow evaluations",
        f"  evaluations  {other}{evaluations}&compareRunsMode=TABLE",
        f"  curves       {other}{evaluations}&compareRunsMode=CHART",
    ]
