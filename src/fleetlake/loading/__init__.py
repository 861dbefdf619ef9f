"""Loading streams: planning what to read, reading it and committing it."""
