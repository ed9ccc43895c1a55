"""OpenRLHF as the training engine: Ray, DeepSpeed and vLLM, with the focal weight and CISPO.

`driver` starts OpenRLHF's own command line unmodified, after putting subclasses of its trainer
(`trainer`, `experience`) and of its policy actor (`policy`) in their place. Everything
else is OpenRLHF's. What runs here needs the environments of `make setup-openrlhf` or
`make setup-openrlhf-cpu`; what `engine` tells the rest does not.

A file for each thing of OpenRLHF's that is replaced or asked for, hence so many. Before a run:
engine, arguments, fit, tiny. Installing: installation, compilation, pip_check, flags. The stage's
process: stage, states, prompts, metrics, and over several nodes cluster. In the driver and in Ray's
processes: the others. `rehearsal/` stands in for GPUs.
"""
