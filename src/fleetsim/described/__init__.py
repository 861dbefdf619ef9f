"""Lists that files describe: what `endpoints/*.toml` say, and records made from that."""

from fleetsim.described.described_lists import served_lists

__all__ = ["served_lists"]
