"""Writes: what clients may create, change and delete, and the traces it leaves."""

from fleetsim.writing.dispatch import answer_write

__all__ = ["answer_write"]
