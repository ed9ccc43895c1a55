"""What an installation for GPUs says of a machine, with fake programs where it asks real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fgrpo_bench.engines.openrlhf import compilation, installation, pip_check
from fgrpo_bench.engines.openrlhf.installation import Machine
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.stages.stage import StageRun
from tests.support.plans import loaded

REPOSITORY = Path(__file__).parents[3]
GPU_PINS = REPOSITORY / "requirements/openrlhf.txt"
NVCC = """nvcc: NVIDIA (R) Cuda compiler driver
Cuda compilation tools, release {}, V{}.88"""
WHOLE = Machine(
    gxx="12.2.0",
    nvcc=NVCC.format("13.0", "13.0"),
    driver="580.65.06\n580.65.06",
    cuda_home=Path("/cuda"),
)


def test_a_machine_that_has_everything_lacks_nothing() -> None:
    assert installation.obstacles(WHOLE, 13) == []
    assert installation.obstacles(replace(WHOLE, driver=None), 13) == []  # a login node
    assert installation.obstacles(replace(WHOLE, nvcc=NVCC.format("13.2", "13.2")), 13) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nvcc": None}, ("nvcc is missing", "/cuda/bin", "module load cuda/13.0")),
        ({"nvcc": None, "cuda_home": None}, ("nvcc is missing", "on the PATH", "CUDA_HOME=")),
        ({"nvcc": NVCC.format("12.4", "12.4")}, ("release 12.4", "CUDA 13", "module load")),
        ({"nvcc": "command moved"}, ("'command moved'", "CUDA 13", "module load")),
        ({"gxx": None}, ("g++ is missing", "apt-get install g++")),
        ({"gxx": "8.5.0"}, ("g++ is version 8.5.0", "10 or newer", "module load gcc")),
        ({"gxx": "9"}, ("g++ is version 9", "10 or newer")),
        ({"driver": "580.65.06\n570.86.10"}, ("570.86.10", "CUDA 13", "580", "update")),
        ({"missing_headers": ("cusparse.h",)}, ("/cuda/include", "cusparse.h", "CUDA_HOME=")),
        ({"python_headers": False}, ("Python.h", sys.executable, "python3-dev", "PYTHON=")),
    ],
)
def test_what_a_machine_lacks_is_said_with_value_rule_and_remedy(
    change: dict[str, object], words: tuple[str, ...]
) -> None:
    (reason,) = installation.obstacles(replace(WHOLE, **change), 13)  # type: ignore[arg-type]
    assert all(word in reason for word in words)


def test_all_that_a_machine_lacks_is_said_at_once() -> None:
    bare = Machine(gxx=None, nvcc=None, driver="570.1", cuda_home=None, python_headers=False)
    assert len(installation.obstacles(bare, 13)) == 4
    assert (
        len(installation.obstacles(bare, None)) == 2
    )  # processors need the compiler and its headers


def test_the_driver_that_the_pins_need_is_known() -> None:
    cuda = installation.cuda_major(GPU_PINS.read_text())
    assert cuda is not None and installation.DRIVERS[cuda] == 580
    processors = REPOSITORY / "requirements/openrlhf-cpu.txt"
    assert installation.cuda_major(processors.read_text()) is None


def program(folder: Path, name: str, *lines: str, shell: str = "/bin/sh") -> Path:
    """A script by that name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("\n".join([f"#!{shell}", *lines]))
    path.chmod(0o755)
    return path


def machine(tmp_path: Path, *, nvcc: str = "13.0", driver: str = "580.65.06") -> dict[str, str]:
    """The environment of a process that finds a whole CUDA toolkit, g++ and one GPU."""
    home = tmp_path / "cuda"
    program(home / "bin", "nvcc", f"echo 'release {nvcc}, V{nvcc}.88'")
    program(tmp_path / "bin", "g++", "echo 12.2.0")
    asked = f'case "$1" in *compute_cap*) echo 9.0;; *) echo {driver};; esac'
    program(tmp_path / "bin", "nvidia-smi", asked)
    for name in installation.HEADERS:
        (home / "include").mkdir(exist_ok=True)
        (home / "include" / name).touch()
    return {"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(home)}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The file by its path, as the Makefile runs it, with the standard library alone."""
    command = [sys.executable, "-I", "-S", str(Path(installation.__file__)), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_a_machine_is_asked_through_its_programs(tmp_path: Path) -> None:
    headers = "Python.h"  # a Python without headers may run this test
    done = run(machine(tmp_path), str(GPU_PINS))
    assert done.returncode == 0 or headers in done.stderr, done.stderr
    done = run(machine(tmp_path, nvcc="12.8", driver="535.1"), str(GPU_PINS))
    assert done.returncode == 1
    assert "release 12.8" in done.stderr and "driver here is 535.1" in done.stderr
    done = run(machine(tmp_path) | {"TORCH_CUDA_ARCH_LIST": "7.5"}, str(GPU_PINS))
    assert done.returncode == 1 and "'7.5'" in done.stderr
    (tmp_path / "bin/nvidia-smi").unlink()
    done = run(machine(tmp_path) | {"CUDA_HOME": str(tmp_path)}, str(GPU_PINS))
    assert done.returncode == 1 and f"{tmp_path}/bin" in done.stderr


def test_what_compiles_gets_its_environment_and_its_exit_code_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (machine(tmp_path) | {"PYTHONPATH": "."}).items():
        monkeypatch.setenv(name, text)
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
    out = tmp_path / "out.json"
    lines = ["import json, os, sys", f"json.dump(dict(os.environ), open({str(out)!r}, 'w'))"]
    lines.append("sys.exit(len(sys.argv))")
    build = program(tmp_path / "venv/bin", "python", *lines, shell=sys.executable)
    assert compilation.main([str(build), "-m", "pip"]) == 3
    environment = json.loads(out.read_text())
    assert environment["TORCH_CUDA_ARCH_LIST"] == "9.0+PTX"  # of the GPU that is here
    assert environment["FLASH_ATTN_CUDA_ARCHS"] == "90"
    assert environment["PATH"].split(":")[0] == str(build.parent)  # for ninja
    assert int(environment["MAX_JOBS"]) >= 1
    assert "PYTHONPATH" not in environment
    assert "compute capability 9.0+PTX" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    assert compilation.main(["--setuptools", "tools", str(build)]) == 1
    assert json.loads(out.read_text())["PYTHONPATH"] == str(tmp_path / "tools")
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "7.0")
    with pytest.raises(SystemExit):
        compilation.main([str(build)])
    assert "'7.0'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("named", "gpus", "expected"),
    [
        ("", "", [(8, 0), (9, 0)]),
        (None, "9.0\n9.0", [(9, 0)]),
        ("10.0;8.6+PTX", "9.0", [(8, 6), (10, 0)]),
        ("9.0 8.0", None, [(8, 0), (9, 0)]),
    ],
)
def test_compute_capabilities(
    named: str | None, gpus: str | None, expected: list[tuple[int, int]]
) -> None:
    assert installation.architectures(named, gpus) == expected


@pytest.mark.parametrize("named", ["Hopper", "9.0a", "90", "7.5", "9.0;11.0"])
def test_a_compute_capability_without_flash_attn_is_refused(named: str) -> None:
    with pytest.raises(ValueError, match="flash-attn is compiled for") as refused:
        installation.architectures(named, None)
    assert repr(named.split(";")[-1]) in str(refused.value)
    assert "TORCH_CUDA_ARCH_LIST=" in str(refused.value)


def test_the_environment_of_what_compiles() -> None:
    environment = compilation.build_environment(
        [(8, 0), (8, 6), (9, 0)], Path("/cuda"), processors=64, memory_gib=100.0, jobs=None
    )
    assert environment["TORCH_CUDA_ARCH_LIST"] == "8.0;8.6;9.0+PTX"
    assert environment["FLASH_ATTN_CUDA_ARCHS"] == "80;90"
    assert environment["MAX_JOBS"] == "11"  # what the memory carries
    assert environment["CUDA_HOME"] == "/cuda"
    few = compilation.build_environment([(12, 0)], None, processors=1, memory_gib=2.0, jobs=None)
    assert few["MAX_JOBS"] == "1" and few["FLASH_ATTN_CUDA_ARCHS"] == "120"
    named = compilation.build_environment([(9, 0)], None, processors=8, memory_gib=99.0, jobs="3")
    assert named["MAX_JOBS"] == "3" and "CUDA_HOME" not in named


def tree(root: Path, files: dict[str, str]) -> Path:
    """A root with files of proc/ and sys/."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


MEMINFO = "MemTotal: 2113929216 kB\nMemAvailable:   2097152000 kB"  # 2,000 GiB
V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"
JOB = "system.slice/slurmstepd.scope/job_7"
NO_LIMIT = str(2**63 - 4096)


@pytest.mark.parametrize(
    ("group", "limits", "environment", "expected"),
    [
        ("0::/", {}, {}, 2000),
        (f"0::/{JOB}/step_0", {f"{V2}/{JOB}/memory.max": "max"}, {}, 2000),
        (  # a job's limit, above its step's
            f"0::/{JOB}/step_0",
            {
                f"{V2}/{JOB}/step_0/memory.max": str(2**40),
                f"{V2}/{JOB}/memory.max": str(64 * 2**30),
            },
            {},
            64,
        ),
        ("0::/not/seen/from/here", {f"{V2}/memory.max": str(32 * 2**30)}, {}, 32),  # a container
        (
            "4:memory:/slurm/uid_0/job_7\n1:cpu,cpuacct:/\n0::/",
            {
                f"{V1}/slurm/uid_0/job_7/memory.limit_in_bytes": NO_LIMIT,
                f"{V1}/slurm/uid_0/memory.limit_in_bytes": str(48 * 2**30),
                f"{V1}/memory.limit_in_bytes": NO_LIMIT,
            },
            {},
            48,
        ),
        ("0::/", {}, {"SLURM_MEM_PER_NODE": "65536"}, 64),
        ("0::/", {}, {"SLURM_MEM_PER_NODE": "0"}, 2000),  # all of the node
        ("0::/", {}, {"SLURM_MEM_PER_NODE": "300G"}, 300),  # as srun takes it
        ("0::/", {}, {"SLURM_MEM_PER_CPU": "4096"}, 4 * 32),
        ("0::/", {}, {"SLURM_MEM_PER_CPU": "4096", "SLURM_CPUS_ON_NODE": "8"}, 4 * 8),
        ("0::/", {f"{V2}/memory.max": str(32 * 2**30)}, {"SLURM_MEM_PER_NODE": "65536"}, 32),
    ],
)
def test_a_build_counts_the_memory_that_it_may_have(
    tmp_path: Path,
    group: str,
    limits: dict[str, str],
    environment: dict[str, str],
    expected: float,
) -> None:
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": group} | limits
    root = tree(tmp_path, files)
    assert compilation.available_gib(environment, processors=32, root=root) == expected


def test_pip_check_may_say_what_is_allowed_and_nothing_else() -> None:
    allowed = "# heading\n\na 1 requires b, which is not installed.  # for pictures\n"
    said = "a 1 requires b, which is not installed.\n"
    assert pip_check.unexpected(said, allowed) == []
    wrong = "torch 2.13.0 has requirement triton==3.7.1, but you have triton 3.9.0."
    assert pip_check.unexpected(f"{said}{wrong}\n", allowed) == [wrong]
    assert pip_check.unexpected(said.replace("a 1", "a 2"), allowed)
    for line in ("a 1 requires b.", "a 1 requires b.  # "):
        with pytest.raises(ValueError, match="gives no reason"):
            pip_check.unexpected("", line)


def test_pip_check_is_asked_of_the_python_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    says = "import sys\nassert sys.argv[1:] == ['check']\nprint({!r})\nsys.exit({})\n"
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip/__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pip, allowed = tmp_path / "pip/__main__.py", tmp_path / "allowed"
    allowed.write_text("a 1 requires b.  # for pictures\n")
    pip.write_text(says.format("No broken requirements found.", 0))
    assert pip_check.main([]) == 0
    pip.write_text(says.format("a 1 requires b.", 1))
    assert pip_check.main([str(allowed)]) == 0
    assert pip_check.main([]) == 1
    assert "pip check: a 1 requires b." in capsys.readouterr().err


@pytest.mark.parametrize(("cuda", "driver"), [("13.0.96", "570.86.10"), ("12.8.90", "470.57.02")])
def test_a_job_refuses_a_driver_that_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuda: str, driver: str
) -> None:
    monkeypatch.setenv("PATH", machine(tmp_path, driver=driver)["PATH"])
    monkeypatch.setattr(installation, "version", {"nvidia-cuda-runtime": cuda}.__getitem__)
    with pytest.raises(ValueError, match=f"driver here is {driver}"):
        installation.check_machine_driver()
    machine(tmp_path, driver="580.65.06")
    installation.check_machine_driver()
    (tmp_path / "bin/nvidia-smi").unlink()
    installation.check_machine_driver()


@pytest.mark.slow
def test_training_and_sampling_ask_for_the_driver_before_they_load_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evaluators import vllm
    from fgrpo_bench.engines.openrlhf import stage

    monkeypatch.setenv("PATH", machine(tmp_path, driver="570.86.10")["PATH"])
    monkeypatch.setattr(installation, "version", {"nvidia-cuda-runtime": "13.0.96"}.__getitem__)
    nothing: Any = None
    with pytest.raises(ValueError, match="driver here is 570"):
        stage.train(nothing, nothing, nothing, device="cuda", step=None)
    evaluation = loaded("smoke").experiment.evaluation
    target: Any = SimpleNamespace(device="cuda", evaluation=evaluation)
    with pytest.raises(ValueError, match="driver here is 570"):
        vllm.start(target, max_model_len=1)
    spec = StageSpec(kind="train", fingerprint="f", target={})
    with pytest.raises(ValueError, match="point is missing"):  # it went on
        stage.train(spec, StageRun(StagePaths(tmp_path)), nothing, device="cpu", step=None)
