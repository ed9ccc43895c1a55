"""Does an installed environment fit together? `pip check`, but for what a file allows.

`python -m fgrpo_bench.engines.openrlhf.pip_check [<file>]` asks the pip of its own Python.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def unexpected(checked: str, allowed: str) -> list[str]:
    """Lines of `pip check` that are not allowed.

    allowed: lines of the form `<what pip check says>  # <reason>`; blank lines and comments count
    for nothing. Raises ValueError for a line without a reason.
    """
    permitted = set()
    for line in allowed.splitlines():
        if line.strip() and not line.startswith("#"):
            complaint, _, reason = line.partition("  # ")
            if not reason.strip():
                raise ValueError(f"{line!r} gives no reason: write `{complaint}  # <reason>`")
            permitted.add(complaint.strip())
    return [line for line in checked.splitlines() if line.strip() and line not in permitted]


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 where pip says what is not allowed, with that on stderr."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("allowed", type=Path, nargs="?", help="what pip may say, with reasons")
    options = parser.parse_args(argv)
    allowed = options.allowed.read_text(encoding="utf-8") if options.allowed else ""
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    if done.returncode == 0:
        return 0
    lines = unexpected(done.stdout or done.stderr, allowed)
    for line in lines:
        print(f"error: pip check: {line}", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
