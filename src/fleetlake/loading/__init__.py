"""Loading: what to read of each stream, how to read it, and how to commit it."""
