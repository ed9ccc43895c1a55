"""The files and commands that a private cluster starts from; cluster.py has their order."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.slurm import config
from tests.slurm.config import GPUS_PER_NODE, NODES, Settings
from tests.slurm.install import SEARCH_PATH
from tests.slurm.processes import wait_until


def write_files(settings: Settings) -> None:
    """Writes the configuration, the munge key, the devices and the folders; may be repeated."""
    folder = settings.folder
    for name in ("etc", "run", "log", "dev", "munge", "tmp", "state/slurmctld"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for node in NODES:
        (folder / "state" / node).mkdir(exist_ok=True)
    folder.chmod(0o755)  # munged refuses a socket that others cannot reach
    (folder / "munge").chmod(0o700)
    _write_private(folder / "munge" / "key", os.urandom(1024))
    etc = settings.slurm_conf.parent
    _write_private(etc / "slurmdbd.conf", config.slurmdbd_conf(settings).encode())
    (etc / "slurm.conf").write_text(config.slurm_conf(settings), encoding="utf-8")
    (etc / "gres.conf").write_text(config.gres_conf(_devices(folder)), encoding="utf-8")


def _write_private(path: Path, content: bytes) -> None:
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(content)


def _devices(folder: Path) -> list[Path]:
    """Stand-ins for a node's GPUs: twins of /dev/null, or plain files where that is forbidden.

    SLURM counts plain files, but sets CUDA_VISIBLE_DEVICES for devices only.
    """
    devices = [folder / "dev" / f"gpu{i}" for i in range(GPUS_PER_NODE)]
    null = Path("/dev/null").stat()
    for device in devices:
        try:
            if not device.exists():
                os.mknod(device, null.st_mode, null.st_rdev)
        except PermissionError:
            device.touch()
    return devices


def command(settings: Settings, name: str) -> list[str]:
    """The command that runs a daemon in the foreground, by its name or its node's."""
    folder = settings.folder
    match name:
        case "munged":
            return [
                "munged", "--foreground", "--force", f"--key-file={folder}/munge/key",
                f"--socket={settings.munge_socket}", f"--pid-file={folder}/run/munged.own-pid",
                f"--log-file={folder}/log/munged.log", f"--seed-file={folder}/munge/seed",
            ]  # fmt: skip
        case "mariadbd":
            return [
                "mariadbd", "--no-defaults", f"--user={config.user_name()}",
                f"--datadir={folder}/state/mariadb", f"--socket={settings.database_socket}",
                f"--port={settings.database_port}", "--bind-address=127.0.0.1", "--skip-log-bin",
                f"--pid-file={folder}/run/mariadbd.own-pid", "--innodb-lock-wait-timeout=900",
                f"--tmpdir={folder}/tmp",
                *_SMALL_DATABASE,
            ]  # fmt: skip
        case "slurmdbd":
            return ["slurmdbd", "-D"]
        case "slurmctld":
            return ["slurmctld", "-D"]
        case _:
            return ["slurmd", "-D", "-N", name]


# Nothing here outlives the cluster, so that nothing has to reach the disk. Each has a folder for
# temporary tables: one that starts deletes all that it finds in its own, of others too.
_SMALL_DATABASE = (
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=8M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
)


def install_database(settings: Settings) -> None:
    _run(
        "mariadb-install-db",
        "--no-defaults",
        f"--user={config.user_name()}",
        f"--datadir={settings.folder}/state/mariadb",
        "--auth-root-authentication-method=socket",
        f"--auth-root-socket-user={config.user_name()}",
        "--skip-test-db",
        *_SMALL_DATABASE,
        TMPDIR=f"{settings.folder}/tmp",
    )


def make_accounts(settings: Settings) -> None:
    """Waits for the database and makes slurmdbd's own in it."""
    wait_until(settings.database_socket.exists, what="the database's socket")
    _run(
        "mariadb",
        "--no-defaults",
        f"--socket={settings.database_socket}",
        f"--execute={config.database_setup()}",
    )


def _run(*arguments: str, **environment: str) -> None:
    environment = {**os.environ, "PATH": SEARCH_PATH} | environment
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{arguments[0]} failed:\n{done.stdout}{done.stderr}")


def last_words(folder: Path) -> str:
    """The last lines that each daemon printed."""
    logs = sorted((folder / "log").glob("*.out"))
    tails = [(log.name, log.read_text(errors="replace").splitlines()[-8:]) for log in logs]
    return "\n".join(f"{name}:\n  " + "\n  ".join(lines) for name, lines in tails if lines)
