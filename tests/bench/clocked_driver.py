"""The driver with clocks around its hooks; see tests.bench.hooks, which starts it."""

import sys
from pathlib import Path

from fgrpo_bench.engines.openrlhf import driver, rehearsal


def main() -> int:
    driver.prepare_environment()
    rehearsal.set_up()
    from fgrpo_bench.engines.openrlhf import policy, reward, trainer
    from tests.bench import clocked

    trainer.FocalTrainerActor = clocked.ClockedTrainerActor
    policy.PolicyActorRemote = clocked.ClockedPolicyActor
    reward.__file__ = str(Path(__file__).with_name("clocked_reward.py"))
    return driver.main()


if __name__ == "__main__":
    sys.exit(main())
