"""Stored files: where each one lies, whole writes, appended lines, and one record a file."""
