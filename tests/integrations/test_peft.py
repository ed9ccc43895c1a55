"""An adapter that peft has saved: draws are those of peft's own model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from evaluators.__main__ import main
from evaluators.adapter import adapted
from evaluators.stored import find
from evaluators.transformers import load_whole
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.stages.tables import DRAWS, read_table
from tests.evaluators.evaluations import strangers_model

TOKENS = torch.arange(10, 20)[None]


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the present folder, beside the model that it is over and problems."""
    from peft import LoraConfig, get_peft_model

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FGRPO_RUN_ROOT", "runs")
    strangers_model(Path("out/my-model"))
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    torch.manual_seed(1)
    get_peft_model(model(), config).save_pretrained("out/lora")
    Path("mine.jsonl").write_text(json.dumps({"question": "What is 1 + 1?", "answer": "2"}))
    return Path("out/lora")


def model() -> Any:
    return load_whole(Path("out/my-model"), "float32").eval()


def logits(of: Any) -> torch.Tensor:
    with torch.inference_mode():
        return of(TOKENS).logits


def test_a_model_with_an_adapter_is_the_one_that_peft_makes(adapter: Path) -> None:
    from peft import PeftModel

    ours = model()
    adapted(ours, adapter)
    assert torch.equal(logits(ours), logits(PeftModel.from_pretrained(model(), adapter).eval()))
    assert not torch.allclose(logits(ours), logits(model()))


def test_an_adapter_of_another_model_is_refused(adapter: Path) -> None:
    weights = load_file(adapter / "adapter_model.safetensors")
    first, *_ = weights
    weights[first.replace("layers.0", "layers.9")] = weights.pop(first)
    save_file(weights, adapter / "adapter_model.safetensors")
    with pytest.raises(ValueError, match="does not fit this model: 2 of its weights have no"):
        adapted(model(), adapter)


def test_it_is_evaluated_beside_its_model(
    adapter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["out/my-model", "--data", "mine.jsonl", "-n", "8", "--max-tokens", "8"]
    assert main(words) == 0
    assert main([*words, "--peft", "out/lora"]) == 0
    names = sorted(path.name for path in Path("runs/evals").iterdir())
    base, tuned = names[0], names[1]
    assert tuned.startswith("my-model-lora-") and base.startswith("my-model-")
    draws = [read_table(find(name)[0].paths.draws, DRAWS) for name in (base, tuned)]
    assert draws[0]["seed"].equals(draws[1]["seed"])
    assert not draws[0]["response"].equals(draws[1]["response"])
    (facts,) = read_json(find(tuned)[0].paths.manifest)["engines"]
    assert facts["peft"] and facts["engine"] == "transformers"
    capsys.readouterr()
    # an adapter with other weights is another model
    weights = load_file(adapter / "adapter_model.safetensors")
    save_file(
        {name: 2 * each for name, each in weights.items()}, adapter / "adapter_model.safetensors"
    )
    assert main([*words, "--peft", "out/lora", "--name", tuned]) == 1
    assert "give it another name=" in capsys.readouterr().err
