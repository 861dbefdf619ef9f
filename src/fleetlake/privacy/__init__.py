"""Erasing a device, a person or an account from a lake and from everything made of it."""
