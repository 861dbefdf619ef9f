"""Writes: what clients may create, change and delete, with the log entries and alerts."""

from fleetsim.writing.dispatch import answer_write

__all__ = ["answer_write"]
