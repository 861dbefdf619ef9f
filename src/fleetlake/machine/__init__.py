"""This machine: who owns its files, who else may read them, and what its processes are given."""
