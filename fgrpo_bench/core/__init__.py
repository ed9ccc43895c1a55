"""What every package stands on and that stands on nothing: problems and grades, the tables that
plug-ins add to, seeds, and what a command line needs before any other package is there."""
