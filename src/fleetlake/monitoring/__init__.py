"""The state of an installation: its streams, its health and its file permissions."""
