"""Backups of a lake: a copy of its catalog, and of every file that the copy names."""
