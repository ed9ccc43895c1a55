"""The table of advantages in other people's trainers; each module needs the package of its name."""
