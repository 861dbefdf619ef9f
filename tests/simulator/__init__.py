"""Tests that compare the simulated service with the service contract."""
