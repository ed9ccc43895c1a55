"""The embedded engine: model, sampler, warm-up and reinforcement learning in one process."""
