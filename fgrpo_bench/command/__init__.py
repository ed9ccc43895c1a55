"""What every command is made of, and the run that its words name."""
