"""The v3 API (beta): bearer token, JSON:API, pages by cursor, no trailing slash."""

from fleetsim.v3.serving import serve_v3

__all__ = ["serve_v3"]
