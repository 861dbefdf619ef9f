"""Ranges proven and still to be read, their division into shards, and their retention. Pure."""
