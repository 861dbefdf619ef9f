"""What the simulator serves and what the commands print, recorded for tests to compare."""
