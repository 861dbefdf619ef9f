"""Alert rules and push destinations at the service; new alerts of the lake; how often to poll."""
