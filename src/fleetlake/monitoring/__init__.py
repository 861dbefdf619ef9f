"""What is known about an installation: its streams, its health, its permissions."""
