"""Whether a lake is whole: find damage, forget what is lost, build a lost catalog anew."""
