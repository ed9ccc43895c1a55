"""OpenRLHF as the training engine: Ray, DeepSpeed and vLLM, with the focal weight and CISPO.

`driver` starts OpenRLHF's own command line unmodified, after putting subclasses of its trainer
(`trainer`, `samples`, `experience`) and of its policy actor (`policy`) in their place. Everything
else is OpenRLHF's. What runs here needs the environments of `make setup-openrlhf` or
`make setup-openrlhf-cpu`; what `engine` tells the rest does not.
"""
