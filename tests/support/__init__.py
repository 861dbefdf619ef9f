"""What tests and tools of several folders share."""
