"""pass@k and its statistics: pure functions of counts, nothing here reads a file."""
