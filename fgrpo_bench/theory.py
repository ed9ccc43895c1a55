"""The paper's theory by its short name: formulas to import, and `python -m fgrpo_bench.theory`."""

from fgrpo_bench.paper.theory import active_probability as active_probability
from fgrpo_bench.paper.theory import epsilon_effect as epsilon_effect
from fgrpo_bench.paper.theory import expected_weight as expected_weight
from fgrpo_bench.paper.theory import low_lr_multiplier as low_lr_multiplier
from fgrpo_bench.paper.theory import most_dangerous_group_size as most_dangerous_group_size
from fgrpo_bench.paper.theory import tail_miss_probability as tail_miss_probability

if __name__ == "__main__":
    from fgrpo_bench.paper.theory.__main__ import main

    raise SystemExit(main())
