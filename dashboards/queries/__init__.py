"""Queries over the stored files: what the pages show, before any layout. Nothing is written."""
