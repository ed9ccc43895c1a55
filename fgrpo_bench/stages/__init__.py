"""What a stage is on disk: spec.json, its files, locks, owner, marker and state."""
