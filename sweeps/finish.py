"""What follows when every stage is done: the report is written and MLflow is synced.

Both are views of the stored files and can be made again at any time, so that a server that is down
loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fgrpo_bench.stages.paths import RunPaths, default_root


def finish(paths: RunPaths, say: Callable[[str], None]) -> None:
    """Report, sync (MLflow shows the report's files), and say the table and how to see more."""
    from fgrpo_bench.report.build import write_report
    from fgrpo_bench.results import load_results

    written = write_report(load_results(paths))
    sync(paths, say)
    print(f"\n{written.text}\n", flush=True)
    for path in written.files:
        print(shown(path))
    print(f"\nMLflow: {_show_mlflow(paths)}", flush=True)


def sync(paths: RunPaths, say: Callable[[str], None]) -> None:
    """Bring MLflow up to date with the files; a warning where it cannot be reached."""
    say("syncing to MLflow")
    try:
        from fgrpo_bench.tracking.sync import sync_run

        say(str(sync_run(paths)))
    except Exception as error:  # whatever a server or its client may raise
        say(not_synced(paths, error))


def not_synced(paths: RunPaths, error: Exception) -> str:
    """The warning that MLflow could not be synced."""
    return (
        f"warning: MLflow was not synced ({type(error).__name__}: {error}); the results are "
        f"safe in their files, and `{_show_mlflow(paths)}` syncs again"
    )


def _show_mlflow(paths: RunPaths) -> str:
    here = paths.root == default_root().absolute()
    return "make mlflow-ui" + ("" if here else f" ARGS='--root {paths.root}'")


def shown(path: Path) -> str:
    """A path as short as it can be said from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
