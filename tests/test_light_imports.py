"""What a notebook pays for: the light parts load none of the heavy packages."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "mlflow", "hydra", "matplotlib", "transformers", "ray", "vllm", "submitit"}
HEAVY |= {"sympy", "math_verify", "huggingface_hub", "tokenizers", "lm_eval", "nltk"}


@pytest.mark.parametrize(
    "statement",
    [
        "import fgrpo_bench",
        "import fgrpo_bench.results, fgrpo_bench.graders, fgrpo_bench.tasks",
        "import fgrpo_bench.data.prepare",
    ],
)
def test_the_light_parts_import_nothing_heavy(statement):
    code = f"{statement}; import sys; print(*{{m.partition('.')[0] for m in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())


def test_the_top_of_the_package_needs_numpy_alone():
    code = "import fgrpo_bench, sys; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numpy" in done.stdout.split()
    assert not {"polars", "pydantic", "yaml"} & set(done.stdout.split())
