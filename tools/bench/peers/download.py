"""Download every page with httpx, and keep nothing."""

import json
import sys
from collections.abc import Iterator

import httpx

from tools.bench.peers import KEYS


def bodies(url: str, resource: str, **bounds: str) -> Iterator[bytes]:
    """Yield the bodies of all pages within the bounds, newest records first."""
    query = httpx.QueryParams(limit=500, **bounds)
    link: str | None = f"{url}/api/v2/{resource}/?{query}"
    with httpx.Client(headers=dict.fromkeys(KEYS, "bench")) as client:
        while link:
            body = client.get(link).content
            yield body
            link = json.loads(b"{" + body[body.rindex(b'"meta":') : -1] + b"}")["meta"]["next"]


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"bytes": sum(map(len, bodies(*sys.argv[1:3])))}))
