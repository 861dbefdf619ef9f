"""A simulator of the device-management service: a fleet is a function of seed and time."""
