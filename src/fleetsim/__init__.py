"""The device-management service, simulated: a whole fleet as a function of seed and time."""
