"""Training: group advantages, objectives and engines. The only part that imports torch."""
