"""The remote service: one request, one checked response."""
