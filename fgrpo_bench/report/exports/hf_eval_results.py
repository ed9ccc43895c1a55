"""Hugging Face's `.eval_results/<benchmark>.yaml`, for the repository of a model.

The format has one value: pass@1. Further k, the interval and how draws were made stand in its
notes. Only for benchmarks that are datasets of the Hub.
"""

from __future__ import annotations

from pathlib import Path

from fgrpo_bench.files.whole import write_text
from fgrpo_bench.report.exports.evaluated import Evaluated


def write(evaluated: Evaluated, folder: Path, *, draws: bool) -> list[Path]:
    """<model>/.eval_results/<benchmark>.yaml. ValueError for a benchmark that is no dataset of the
    Hub, without pass@1, and with draws, for which there is no place."""
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    if draws:
        raise ValueError("--draws: hf-eval-results holds one value a benchmark; leave --draws out")
    dataset = evaluated.spec.dataset
    if dataset is None or dataset.repository is None:
        raise ValueError(
            f"benchmark {evaluated.benchmark} is no dataset of the Hub, and hf-eval-results names "
            "one: export the others with --benchmark, or take --to every-eval-ever"
        )
    by_k = {row.k: row for row in evaluated.estimates if row.mean is not None}
    if 1 not in by_k:
        raise ValueError(
            f"{evaluated.label} on {evaluated.benchmark} has no pass@1, which is the value of "
            "hf-eval-results: add 1 to experiment.evaluation.ks and run the sweep again"
        )
    notes = [
        f"pass@{k} = {row.mean:.2%}"
        + (f" [{row.low:.2%}, {row.high:.2%}]" if row.low is not None else "")
        for k, row in by_k.items()
    ]
    unscored = f"; {evaluated.unscored:,} draws could not be judged" if evaluated.unscored else ""
    entry = EvalResultEntry(
        dataset_id=dataset.repository,
        task_id=evaluated.benchmark,
        dataset_revision=dataset.revision,
        value=round(100 * float(by_k[1].mean or 0.0), 4),
        date=evaluated.finished.isoformat(),
        notes=f"{', '.join(notes)} (95% intervals over problems); {evaluated.words}{unscored}; "
        f"temperature {evaluated.settings['temperature']:g}; {evaluated.grader}",
    )
    path = folder / evaluated.model / ".eval_results" / f"{evaluated.benchmark}.yaml"
    text = yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False, allow_unicode=True)
    write_text(path, text)
    return [path]
