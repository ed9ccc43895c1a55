"""No test lets programs of this machine in that another machine may lack."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
INSTALLERS = {"install.py", "debian.py"}


def test_no_test_but_an_installer_names_a_folder_of_programs():
    folders = re.compile(r"/usr/(local/)?s?bin(?!/env)")
    sources = [path for path in TESTS.rglob("*.py") if path.name not in INSTALLERS]
    assert len(sources) > 100
    assert not [path for path in sources if folders.search(path.read_text(encoding="utf-8"))]
