"""Which packages the wheel has: the library, and below it the evaluators and what conf/ declares.

Both stand beside the library in a checkout. Every name below `fgrpo_bench` is this project's; at
the top of somebody's environment none but that is. The other settings are in pyproject.toml.
"""

from setuptools import find_namespace_packages, setup

BELOW = {"fgrpo_bench.evaluators": "evaluators", "fgrpo_bench.conf": "conf"}

setup(
    packages=[*find_namespace_packages(include=["fgrpo_bench*"]), *BELOW],
    package_dir=BELOW,
)
