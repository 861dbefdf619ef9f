"""Bytes to values to Arrow. Pure."""
