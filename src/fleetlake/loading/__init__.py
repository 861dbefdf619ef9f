"""A load: what is read, written and proven, stream by stream."""
