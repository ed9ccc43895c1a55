"""The installer's line: it moves with what pip looks at, and nothing of pip is lost."""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PROGRAM = REPOSITORY / "requirements/install.py"
spec = importlib.util.spec_from_file_location("install", PROGRAM)
install = importlib.util.module_from_spec(spec)
spec.loader.exec_module(install)

FAKE = """\
import sys
print("Looking in links: x")
print("Collecting one==1 (from -r x)")
print("WARNING: Location 'x' is ignored", file=sys.stderr)
print("Requirement already satisfied: two==2 in y")
print("Installing collected packages: one, two")
sys.exit(int("missing==1" in sys.argv))
"""


def run(folder: Path, *options: str, **how) -> subprocess.CompletedProcess[str]:
    """With a pip that says what pip says and installs nothing."""
    (folder / "pip.py").write_text(FAKE)
    command = [sys.executable, str(PROGRAM), str(folder / "log"), "install", *options]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(command, env=environment, **how)


def test_the_line_counts_what_pip_looks_at_out_of_the_pins() -> None:
    said = [
        *("Collecting one==1", "WARNING: x", "Requirement already satisfied: two==2"),
        *("Collecting one", "Downloading two-2.whl (3 MB)", "Installing collected packages: a"),
    ]
    assert list(install.shown(iter(said), 4)) == [
        f"[{'######'.ljust(24)}] 1/4  one",
        f"[{'############'.ljust(24)}] 2/4  two",
        f"[{'############'.ljust(24)}] 2/4  one",
        f"[{'############'.ljust(24)}] 2/4  two-2.whl",
        f"[{'############'.ljust(24)}] 2/4  installing 4 packages",
    ]


def test_a_log_gets_nothing_and_warnings_go_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "pins.txt").write_text("# made\none==1\ntwo==2\n")
    done = run(tmp_path, "-r", str(tmp_path / "pins.txt"), capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "WARNING: Location" in (tmp_path / "log").read_text()


def test_a_failure_shows_what_pip_said_last(tmp_path: Path) -> None:
    done = run(tmp_path, "missing==1", capture_output=True, text=True)
    assert done.returncode == 1
    assert "Collecting one==1" in done.stderr
    assert done.stderr.endswith(f"pip failed; all that it said: {tmp_path / 'log'}\n")


def test_a_terminal_has_one_line_that_is_gone_at_the_end(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    assert run(tmp_path, "one==1", "two==2", stdout=theirs).returncode == 0
    os.close(theirs)
    told = os.read(ours, 65536).decode()
    os.close(ours)
    assert "1/2  one" in told and "2/2  installing 2 packages" in told
    assert "\n" not in told and "WARNING" not in told
    assert told.endswith("\r\033[K")


INSTALLERS = {"install.py", "debian.py"}
"""Of tests, which alone may name a folder of programs that another machine may lack."""


def test_no_test_but_an_installer_names_a_folder_of_programs():
    folders = re.compile(r"/usr/(local/)?s?bin(?!/env)")
    sources = [path for path in (REPOSITORY / "tests").rglob("*.py") if path.name not in INSTALLERS]
    assert len(sources) > 100
    assert not [path for path in sources if folders.search(path.read_text(encoding="utf-8"))]
