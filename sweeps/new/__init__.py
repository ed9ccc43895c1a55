"""`fgrpo-bench new`: an experiment, or a part of the package, from a template."""
