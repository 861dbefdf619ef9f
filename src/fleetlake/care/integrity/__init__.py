"""Whether a lake is intact: find damage, forget what is lost, rebuild a lost catalog."""
