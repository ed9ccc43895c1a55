"""`fgrpo-bench groups DUMP`: the groups of a training run's rollouts, and where each advantage
would have put its gradient on them.

In: rollouts that a trainer dumped (dumps.py reads them). Out: a summary as text, a page or JSON.
Nothing is trained: rewards go through the table of fgrpo_bench.objectives.advantages as they would
in training. Next: fgrpo_bench.analysis.rollouts has the records, fgrpo_bench.report.tables.rollouts
shows them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import inf, isclose, isfinite
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.analysis.rollouts import (
    BINS,
    GradientOfMethod,
    GroupCounts,
    GroupsOfCount,
    NearestMethod,
    RolloutSummary,
    success_rate_bin,
)
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.documents.html import html as html_page
from fgrpo_bench.documents.markdown import markdown
from fgrpo_bench.documents.table import Figure, conjoined
from fgrpo_bench.documents.terminal import terminal
from fgrpo_bench.files.whole import write_text
from fgrpo_bench.graders.recorded import USUAL
from fgrpo_bench.objectives.advantages import (
    carries_state,
    check_parameters,
    group_advantages,
    reads_log_probs,
    restricted,
)
from fgrpo_bench.paper.theory.weights import METHODS, Method
from fgrpo_bench.report.tables import rollouts as tables
from fgrpo_bench.stats.groups import uniform_groups

from .dumps import Dump, DumpedDraw, NamedColumns, open_dump
from .folders import files_at

Floats = NDArray[np.float64]
Step = int | None
FILTER = "dapo"
"""The method that is GRPO on the groups that DAPO's dynamic sampling keeps (arXiv 2503.14476)."""
SHOWN = (*METHODS[:3], FILTER, *METHODS[3:])
"""Methods where none is named."""
PRIME_RL = "**/train/all/traces.jsonl"
"""Where it writes the rollouts of a step; beside `all` it has some of them again."""
LISTED = 5
"""Most values that a refusal or a remark lists."""


# From rollouts to groups.


class Rollout(NamedTuple):
    """What is kept of one while a dump is read."""

    reward: float | None
    """What was trained on; None: it has none, as after an error."""
    is_correct: bool | None
    """By a verdict beside the reward; None: there is none."""
    response: bytes
    """Digest of its text."""
    advantage: float | None


class PlaceOfGroup(NamedTuple):
    """Where rollouts of one group stand together."""

    step: int | None
    file: int
    """Number of the file where it tells no step, else 0: some trainers write a step in parts."""
    name: str | bytes
    """The group's name in the dump, or the digest of its prompt."""


Group = tuple[Step, list[Rollout]]


@dataclass(frozen=True, kw_only=True)
class GroupsOfSize:
    """Groups of one size."""

    steps: tuple[Step, ...]
    """[groups]"""
    rewards: Floats
    """[groups, group_size], likewise the next."""
    correct: NDArray[np.bool_]
    dumped: Floats
    """The advantages that stand in the dump; nan where none do."""
    is_repeated: NDArray[np.bool_]
    """Whether all its responses are one text; [groups]."""

    @property
    def group_size(self) -> int:
        return int(self.rewards.shape[1])


@dataclass(frozen=True, kw_only=True)
class RolloutGroups:
    """The groups of a dump, and what is to be known of how they were read."""

    by_size: tuple[GroupsOfSize, ...]
    remarks: tuple[str, ...]

    @cached_property
    def are_binary(self) -> bool:
        """Whether every reward is 1 of a right rollout and 0 of another."""
        return all((groups.rewards == groups.correct).all() for groups in self.by_size)


def dump_files(place: Path) -> list[tuple[Step, Path]]:
    """The files of a dump by step, where their names say it: as `files_at` has them, of prime-rl
    the traces of all training rollouts. ValueError for a folder without any, or of several runs."""
    traces: dict[Step, Path] = {}
    for path in place.glob(PRIME_RL):
        match = re.fullmatch(r"step_(\d+)", path.absolute().parents[2].name)
        step = int(match[1]) if match else None
        if step in traces:
            raise ValueError(f"{place} holds several runs: name one, as {path.parents[3]}")
        traces[step] = path
    if traces:
        return sorted(traces.items(), key=lambda item: -1 if item[0] is None else item[0])
    files = [(step, file) for step, files in files_at(place).items() for file in files]
    if place.is_dir() and not files:
        raise ValueError(
            f"{place} has no file of rollouts: name one, or the folder that holds a file a step"
        )
    return files or [(None, place)]


def read_groups(
    files: Sequence[tuple[Step, Path]],
    named: NamedColumns | None = None,
    *,
    added: Sequence[str] = (),
    group_size: int | None = None,
    threshold: float | None = None,
) -> RolloutGroups:
    """The groups of the rollouts in files, by their order. files: as `dump_files` gives them.

    A group is what the dump names as one, else the rollouts of a step with the same prompt, in
    parts of group_size where that is given. added: further columns of rewards, which are added to
    the named one. threshold: a rollout is right from this reward on; None: the dump's verdict or
    rewards of 0 and 1, or of -1 and 1, say it. ValueError where groups, or what is right, cannot be
    told, and for a dump without a group of at least two; errors of `open_dump` too.
    """
    groups: dict[PlaceOfGroup, dict[str | int, Rollout]] = defaultdict(dict)
    remarks, n_earlier = list[str](), 0
    if group_size is not None and group_size < 2:
        raise ValueError(f"--group-size {group_size}: a group has at least 2 rollouts")
    for number, (of_file, file) in enumerate(files):
        dump = _opened(file, named or NamedColumns(), added, remarks)
        for draw in dump.draws:
            step = of_file if draw.step is None else draw.step
            name = draw.group or (draw.problem and _digest(draw.problem))
            if not name:
                raise ValueError(
                    f"{file}, line {draw.line} has neither a group nor a prompt, so which rollouts "
                    "are one group is not told: name the column of the prompts with --prompt"
                )
            place = PlaceOfGroup(step, number if step is None else 0, name)
            key = _session(draw) or len(groups[place])
            n_earlier += key in groups[place]
            groups[place][key] = _rollout(draw, dump.columns["score"], added)
        remarks += dump.notices
    if n_earlier:
        remarks.append(f"Of several outputs of a rollout the last counts ({n_earlier:,} left out).")
    in_order = {place: list(rollouts.values()) for place, rollouts in groups.items()}
    return _grouped(in_order, list(dict.fromkeys(remarks)), group_size, threshold)


def _opened(file: Path, named: NamedColumns, added: Sequence[str], remarks: list[str]) -> Dump:
    """With a column of rewards, that of the format or the named one; ValueError without any."""
    dump = open_dump(file, named, kept=added)
    numbers = ", ".join(dump.further) or "no column"
    if "score" not in dump.columns:
        raise ValueError(
            f"{file} does not say which of its columns are rewards: name one, or several that are "
            f"added, with --score; there are numbers in {numbers}"
        )
    for column in added:
        if column not in dump.further:
            raise ValueError(
                f"--score {column}{suggestion(column, dump.further)}: {file} has further numbers "
                f"in {numbers}"
            )
    if named.score is not None:
        others = [column for column in dump.further if column not in added]
        left_out = f"; further numbers are not added: {', '.join(others)}" if others else ""
        remarks.append(f"Rewards are {' + '.join((named.score, *added))}{left_out}.")
    return dump


def _rollout(draw: DumpedDraw, column: str, added: Sequence[str]) -> Rollout:
    """column: of the score. verl's dump may have beside the reward that it trains on, `score`, a
    verdict `acc`, which the reader takes for an import."""
    reward, is_correct = draw.score, None
    trained_on = draw.row.get("score")
    if column == "acc" and "acc" in draw.row and isinstance(trained_on, int | float):
        reward, is_correct = float(trained_on), draw.score == 1
    for other in added:
        # as TRL, a reward function that does not score a completion adds nothing
        value = draw.row[other]
        if isinstance(value, int | float) and isfinite(value):
            reward = value + (reward or 0.0)
    return Rollout(reward, is_correct, _digest(draw.response or ""), draw.advantage)


def _session(draw: DumpedDraw) -> str | None:
    """What the outputs of one rollout share: verl calls them <sample>_<rollout>_<output>, in this
    order, and its groups are of the last ones (compute_advantage_for_multi_trajectories). None for
    a rollout that is one output."""
    uid = draw.row.get("uid")
    return None if draw.group is None or not isinstance(uid, str) else uid.rpartition("_")[0]


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _grouped(
    by_place: Mapping[PlaceOfGroup, list[Rollout]],
    remarks: list[str],
    group_size: int | None,
    threshold: float | None,
) -> RolloutGroups:
    groups: list[Group] = [
        (place.step, rollouts)
        for place, rollouts in by_place.items()
        if isinstance(place.name, str)
    ]
    if groups and group_size is not None:
        raise ValueError(f"--group-size {group_size}: the dump names its groups; leave it out")
    by_prompt = [(p.step, of) for p, of in by_place.items() if not isinstance(p.name, str)]
    groups += _split(by_prompt, group_size, remarks)
    scored = [(step, [r for r in group if r.reward is not None]) for step, group in groups]
    if n_lost := sum(map(_size, groups)) - sum(map(_size, scored)):
        remarks.append(f"Left out of their groups: rollouts without a reward ({n_lost:,}).")
    if n_alone := sum(_size(group) < 2 for group in scored):
        remarks.append(f"Left out: groups of less than two rollouts ({n_alone:,}).")
    by_size: dict[int, list[Group]] = defaultdict(list)
    for group in scored:
        if _size(group) > 1:
            by_size[_size(group)].append(group)
    if not by_size:
        raise ValueError(
            "the dump has no group: a group is two or more rollouts of one prompt in one step, "
            "with a reward each (--score names their column)"
        )
    kept = [rollout for groups in by_size.values() for _, group in groups for rollout in group]
    is_correct, how = _rule(kept, threshold)
    return RolloutGroups(
        by_size=tuple(_size_table(by_size[size], is_correct) for size in sorted(by_size)),
        remarks=(*remarks, how),
    )


def _size(group: Group) -> int:
    return len(group[1])


def _split(
    by_prompt: Sequence[Group], group_size: int | None, remarks: list[str]
) -> Iterator[Group]:
    """The groups of rollouts that share step and prompt; says in the remarks how they were told."""
    if not by_prompt:
        return
    sizes = Counter(map(_size, by_prompt))
    if group_size is not None and all(rows % group_size for rows in sizes):
        raise ValueError(
            f"--group-size {group_size}: no prompt has a multiple of it in a step, but "
            f"{_listed(sizes)} rollouts"
        )
    size = group_size or _usual_size(sizes)
    remarks.append("Groups are the rollouts of a step with the same prompt.")
    if repeated := sum(n for rows, n in sizes.items() if rows > size and rows % size == 0):
        remarks.append(
            f"Prompts with a multiple of {size} rollouts in a step ({repeated:,}) are split into "
            f"groups of {size} in the order of the dump."
        )
    if odd := {rows: n for rows, n in sizes.items() if rows % size}:
        n_rows = sum(rows * n for rows, n in odd.items())
        remarks.append(
            f"Left out: prompts whose rollouts in a step are no multiple of {size} "
            f"({sum(odd.values()):,}, with {n_rows:,} rollouts)."
        )
    for step, rollouts in by_prompt:
        if len(rollouts) % size == 0:
            yield from ((step, rollouts[i : i + size]) for i in range(0, len(rollouts), size))


def _usual_size(sizes: Counter[int]) -> int:
    """The number of rows that most prompts have, where every other is a multiple of it; ValueError
    elsewhere. sizes: prompts by their number of rows in a step."""
    size = min(sizes)
    if size > 1 and all(rows % size == 0 for rows in sizes) and sizes[size] == max(sizes.values()):
        return size
    if len(sizes) == 1:
        raise ValueError(
            "every prompt stands in a step once, so these are no groups: give the dump of training "
            "with several rollouts of a prompt"
        )
    raise ValueError(
        "which rows are one group cannot be told: by step and prompt there are "
        f"{_listed(sizes)} rollouts. Say the size of a group with "
        "--group-size N: prompts with a multiple of N rows are split into groups of N, others are "
        "left out and counted"
    )


def _listed(sizes: Counter[int]) -> str:
    """Numbers of prompts by their number of rollouts, the most common first."""
    listed = ", ".join(f"{n:,} with {rows}" for rows, n in sizes.most_common(LISTED))
    return listed + (" ..." if len(sizes) > LISTED else "")


def _rule(
    rollouts: Sequence[Rollout], threshold: float | None
) -> tuple[Callable[[Rollout], bool], str]:
    """Which rollouts are right, and the rule in words."""
    if threshold is None and all(rollout.is_correct is not None for rollout in rollouts):
        return lambda rollout: bool(rollout.is_correct), "Right is what the dump's verdict says."
    if threshold is not None and not isfinite(threshold):
        raise ValueError(f"--threshold {threshold}: must be a finite number")
    rewards = {rollout.reward for rollout in rollouts if rollout.reward is not None}
    if threshold is None and not (rewards <= {0, 1} or rewards <= {-1, 1}):
        listed = ", ".join(f"{reward:g}" for reward in sorted(rewards)[:LISTED])
        raise ValueError(
            f"rewards are {listed}{' ...' if len(rewards) > LISTED else ''}, neither 0 and 1 nor "
            "-1 and 1, so which rollouts are right is not told: --threshold R counts a reward of "
            "at least R as right, e.g. --threshold 1"
        )
    at = USUAL if threshold is None else threshold
    return (
        lambda rollout: (rollout.reward or 0.0) >= at,
        f"Right is a rollout with a reward of at least {at:g}.",
    )


def _size_table(groups: Sequence[Group], is_correct: Callable[[Rollout], bool]) -> GroupsOfSize:
    def values(name: str) -> Floats:
        lists = [[getattr(rollout, name) for rollout in group] for _, group in groups]
        return np.array(lists, dtype=np.float64)  # None becomes nan

    return GroupsOfSize(
        steps=tuple(step for step, _ in groups),
        rewards=values("reward"),
        correct=np.array([[is_correct(rollout) for rollout in group] for _, group in groups]),
        dumped=values("advantage"),
        is_repeated=np.array([len({r.response for r in group}) == 1 for _, group in groups]),
    )


# What each method would have done with them.


@dataclass(frozen=True, kw_only=True)
class TrainingMethod:
    """An advantage with its parameters and focal weight, and whether groups are filtered first."""

    text: str
    method: Method
    is_filtered: bool

    @classmethod
    def parse(cls, text: str) -> TrainingMethod:
        """As Method.parse, and `dapo[@focal_gamma]`; ValueError for what a dump cannot show."""
        name, at, gamma = text.partition("@")
        is_filtered = name.partition(":")[0] == FILTER
        if is_filtered and name != FILTER:
            raise ValueError(
                f"method {text!r}: {FILTER} has no parameters; write {FILTER}{at}{gamma}"
            )
        method = Method.parse(f"grpo{at}{gamma}" if is_filtered else text)
        if not 0 <= method.focal_gamma < inf:
            raise ValueError(f"method {text!r}: a focal_gamma is a number of at least 0")
        if reads_log_probs(method.advantage):
            raise ValueError(
                f"method {text!r}: it reads log-probabilities, which no dump has; leave it out"
            )
        if carries_state(method.advantage):
            raise ValueError(
                f"method {text!r}: it learns from the steps before too, and a dump may lack some; "
                "leave it out"
            )
        return cls(text=text, method=method, is_filtered=is_filtered)

    @property
    def label(self) -> str:
        """e.g. `F-GRPO gamma=0.5`, `GRPO with DAPO's filter`."""
        return self.method.label + (" with DAPO's filter" if self.is_filtered else "")

    def reads_rewards(self, groups: RolloutGroups) -> bool:
        """Whether its formula has a meaning for the rewards of the dump as they are."""
        rule = restricted(self.method.advantage)
        return rule is None or all(rule.allowed(part.rewards).all() for part in groups.by_size)

    def advantages(self, groups: GroupsOfSize, *, by_rewards: bool) -> Floats:
        """[groups, group_size]; nan for groups that it does not train on. by_rewards: of the
        rewards as they are, else of right and wrong. ValueError where they are not defined."""
        check_parameters(self.method.advantage, groups.group_size, self.method.parameters)
        correct = groups.correct.astype(np.float64)
        with np.errstate(all="ignore"):  # what is not finite is said below
            values: Floats = group_advantages(
                groups.rewards if by_rewards else correct,
                self.method.focal_gamma,
                self.method.advantage,
                self.method.parameters,
                correct=correct,
            )
        if not np.isfinite(values).all():
            raise ValueError("its advantages of these rewards are not finite")
        if self.is_filtered:
            is_mixed = (groups.correct != groups.correct[:, :1]).any(1)
            values = np.where(is_mixed[:, None], values, np.nan)
        return values


@dataclass(frozen=True, kw_only=True)
class MethodOnGroups:
    """What a method would have done with all groups."""

    method: TrainingMethod
    by_rewards: bool
    """Whether it reads the rewards as they are, else right and wrong."""
    advantages: tuple[Floats, ...]
    """By size, each [groups, group_size]; nan for groups that it does not train on."""

    @cached_property
    def sums(self) -> Floats:
        """Sum of |A|, [groups]."""
        return np.concatenate([np.abs(values).sum(1) for values in self.advantages])


def _on_groups(
    groups: RolloutGroups, methods: Sequence[str] | None, remarks: list[str]
) -> Iterator[MethodOnGroups]:
    """methods: as of `summary`; says in the remarks where some are not defined."""
    undefined = defaultdict[str, list[str]](list)
    for method in map(TrainingMethod.parse, dict.fromkeys(methods or SHOWN)):
        by_rewards = method.reads_rewards(groups)
        values, reasons, n_groups = list[Floats](), list[str](), 0
        for part in groups.by_size:
            try:
                values.append(method.advantages(part, by_rewards=by_rewards))
            except ValueError as error:
                values.append(np.full_like(part.rewards, np.nan))
                reasons.append(str(error))
                n_groups += len(part.steps)
        is_defined = len(reasons) < len(values)
        if methods and not is_defined:
            raise ValueError(f"method {method.text!r}: {reasons[0]}")
        if reasons:
            which = f"{n_groups:,} of the groups" if is_defined else "the groups"
            undefined[which].append(f"{method.label} ({reasons[0]})")
        if is_defined:
            yield MethodOnGroups(method=method, by_rewards=by_rewards, advantages=tuple(values))
    for which, faults in undefined.items():
        remarks.append(f"Not defined for {which}: {'; '.join(faults)}.")


def summary(
    groups: RolloutGroups, source: str, methods: Sequence[str] | None = None
) -> RolloutSummary:
    """Everything that is shown. methods: as TrainingMethod.parse takes them, None is SHOWN;
    ValueError for one that is not defined for any group of the dump, but of SHOWN it is left out
    and said."""
    by_size, remarks = groups.by_size, list(groups.remarks)
    on_groups = list(_on_groups(groups, methods, remarks))
    remarks += [] if groups.are_binary else _reading(on_groups)
    steps = [step for part in by_size for step in part.steps]
    sizes = np.array([part.group_size for part in by_size for _ in part.steps])
    n_correct = np.concatenate([part.correct.sum(1) for part in by_size])
    bins = success_rate_bin(n_correct, sizes)
    is_repeated = np.concatenate([part.is_repeated for part in by_size])
    uniform = uniform_groups(n_correct, sizes, is_repeated)
    is_uniform = np.concatenate([(p.rewards == p.rewards[:, :1]).all(1) for p in by_size])

    def counts(step: Step, chosen: NDArray[np.bool_]) -> GroupCounts:
        def n(mask: NDArray[np.bool_]) -> int:
            return int((mask & chosen).sum())

        return GroupCounts(
            step=step,
            n_groups=int(chosen.sum()),
            n_rollouts=int(sizes[chosen].sum()),
            n_correct=int(n_correct[chosen].sum()),
            wrong_repeated=n(uniform["wrong_repeated"]),
            wrong_different=n(uniform["wrong_different"]),
            right_repeated=n(uniform["right_repeated"]),
            right_different=n(uniform["right_different"]),
            without_gradient=n(is_uniform),
        )

    numbered_steps = sorted({step for step in steps if step is not None})
    group_steps = np.array([-1 if step is None else step for step in steps])
    return RolloutSummary(
        source=source,
        remarks=tuple(remarks),
        group_sizes={str(size): int(n) for size, n in sorted(Counter(sizes.tolist()).items())},
        bins=BINS,
        in_bins=tuple(np.bincount(bins, minlength=len(BINS)).tolist()),
        total=counts(None, np.ones(len(steps), np.bool_)),
        steps=tuple(counts(step, group_steps == step) for step in numbered_steps),
        methods=tuple(_gradient(of, sizes, bins) for of in on_groups),
        by_count=tuple(_by_count({of.method.text: of.sums for of in on_groups}, sizes, n_correct)),
        nearest=_nearest(by_size, on_groups),
    )


def _reading(on_groups: Sequence[MethodOnGroups]) -> Iterator[str]:
    """Which methods read the rewards, and which right and wrong."""
    by_rewards = [of.method.label for of in on_groups if of.by_rewards]
    by_outcome = [of.method.label for of in on_groups if not of.by_rewards]
    if by_rewards:
        yield f"The rewards as they are: {conjoined(by_rewards)}."
    if by_outcome:
        yield f"Right and wrong as 1 and 0, which their formulas need: {conjoined(by_outcome)}."


def _nearest(
    by_size: Sequence[GroupsOfSize], on_groups: Sequence[MethodOnGroups]
) -> NearestMethod | None:
    """The methods that come nearest to the advantages of the dump, of those that have one for each
    of them; None without any."""
    of_dump = np.concatenate([part.dumped.ravel() for part in by_size])
    is_known = ~np.isnan(of_dump)
    if not is_known.any():
        return None
    differences = {}
    for of in on_groups:
        ours = np.concatenate([values.ravel() for values in of.advantages])[is_known]
        if not np.isnan(ours).any():
            differences[of.method.label] = float(np.abs(ours - of_dump[is_known]).max())
    smallest = min(differences.values(), default=None)
    if smallest is None:
        return None
    return NearestMethod(
        labels=tuple(name for name, d in differences.items() if isclose(d, smallest, abs_tol=1e-9)),
        largest_difference=smallest,
        largest_advantage=float(np.abs(of_dump[is_known]).max()),
    )


def _gradient(
    groups: MethodOnGroups, sizes: NDArray[np.int64], bins: NDArray[np.int64]
) -> GradientOfMethod:
    is_trained = ~np.isnan(groups.sums)
    sums = groups.sums[is_trained]
    by_bin = np.bincount(bins[is_trained], weights=sums, minlength=len(BINS))
    return GradientOfMethod(
        method=groups.method.text,
        label=groups.method.label,
        reads="rewards" if groups.by_rewards else "right and wrong",
        n_groups=int(is_trained.sum()),
        n_rollouts=int(sizes[is_trained].sum()),
        with_gradient=int((sums > 0).sum()),
        by_bin=tuple(by_bin.tolist()),
    )


def _by_count(
    sums: Mapping[str, Floats], sizes: NDArray[np.int64], n_correct: NDArray[np.int64]
) -> Iterator[GroupsOfCount]:
    for size, right in sorted(set(zip(sizes.tolist(), n_correct.tolist(), strict=True))):
        chosen = (sizes == size) & (n_correct == right)
        of_method = {name: values[chosen & ~np.isnan(values)] for name, values in sums.items()}
        yield GroupsOfCount(
            group_size=size,
            n_correct=right,
            n_groups=int(chosen.sum()),
            sums={name: float(values.sum()) for name, values in of_method.items() if len(values)},
        )


# What a person reads.


def text(groups: RolloutSummary) -> str:
    """For a terminal."""
    return terminal(tables.heading(groups), tables.blocks(groups))


def page(groups: RolloutSummary) -> str:
    """One file of HTML, with figures."""
    from fgrpo_bench.documents.style import drawings  # matplotlib is slow to import
    from fgrpo_bench.report.figures.rollouts import pictures

    shown, drawn = list[Figure](), dict[str, str]()
    for picture in pictures(groups):
        shown.append(Figure(name=picture.name, caption=picture.caption))
        for name, draw in picture.versions.items():
            drawn[name] = drawings(draw, ["svg"])["svg"].decode()
    return html_page(tables.heading(groups), tables.blocks(groups, shown), drawn)


def write(groups: RolloutSummary, *, html: Path | None, md: Path | None) -> str:
    """Write what has a place; returns the lines that say so, empty without any."""
    files: dict[Path, str] = {}
    if html is not None:
        files[html] = page(groups)
    if md is not None:
        files[md] = markdown(tables.heading(groups), tables.blocks(groups))
    for path, content in files.items():
        write_text(path, content)
    return "\n".join(map(str, files))
