"""Python imports this when a process starts whose PYTHONPATH holds this folder.

Only the driver puts it there, and only for a run on CPU: it is how the stand-ins reach
Ray's workers and the processes that vLLM starts by itself.
"""

from fgrpo_bench.engines.openrlhf import rehearsal

rehearsal.set_up()
