"""From bytes to values to Arrow. Pure."""
