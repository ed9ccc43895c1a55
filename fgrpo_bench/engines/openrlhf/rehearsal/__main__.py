"""Compile what DeepSpeed would compile in the first run; `make setup-openrlhf-cpu` does."""

from fgrpo_bench.engines.openrlhf.rehearsal import set_environment, set_up


def main() -> None:
    """Into TORCH_EXTENSIONS_DIR."""
    set_environment()
    set_up()
    from deepspeed.accelerator import get_accelerator

    for name in ("FusedAdamBuilder", "ShareMemCommBuilder"):
        get_accelerator().create_op_builder(name).load(verbose=False)


if __name__ == "__main__":
    main()
