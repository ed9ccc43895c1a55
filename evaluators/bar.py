"""A progress bar: draws, tokens a second, pass@1 so far and the time that is left."""

from __future__ import annotations

import sys
from typing import Any


class Bar:
    """One bar after another, a benchmark each, on standard error; nothing where that is no
    terminal."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._bar: Any = None

    @property
    def shown(self) -> bool:
        """Whether somebody can see it."""
        return sys.stderr.isatty()

    def __call__(self, name: str, done: int, of: int, numbers: dict[str, float]) -> None:
        """Say how many draws of a benchmark are made."""
        from tqdm import tqdm

        if name != self._name:
            self.close()
            self._name = name
            self._bar = tqdm(
                total=of, initial=done, desc=name, unit="draw", dynamic_ncols=True, disable=None
            )
        self._bar.update(done - self._bar.n)
        shown = {"tok/s": f"{numbers['tokens_per_second']:,.0f}"}
        if "pass_at_1" in numbers:
            shown["pass@1"] = f"{100 * numbers['pass_at_1']:.1f}"
        self._bar.set_postfix(shown, refresh=False)
        if done >= of:
            self.close()

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.close()
            self._bar = self._name = None
