"""This machine: file ownership and permissions, locks, and the environment of child processes."""
