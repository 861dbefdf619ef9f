"""The remote service: one request, one checked answer."""
