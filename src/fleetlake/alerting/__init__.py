"""Alert rules and push destinations at the service: reading, changing and setting them up."""
