"""Tests of the simulated service, which hold it against the service contract."""
