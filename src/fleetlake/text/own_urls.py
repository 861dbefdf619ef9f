"""URLs of the service itself, whose hosts vary by regional shard. Pure.

The same record comes with another host at the next read. So where content is compared, the hosts
of these URLs are left out. What is stored is the text that the service sent.
"""

import re

ROOT = re.compile(rb"/api/v[23]/")
"""What each of the service's URLs contains, in bytes."""

_HOST = re.compile(r'https?://[^/?#\s"\\]+(?=/api/v[23]/)', re.IGNORECASE)


def without_hosts(text: str) -> str:
    """Return a text, or JSON text, without the hosts of the service's own URLs in it.

    >>> without_hosts('{"self":"https://us0.example/api/v3/users/7"}')
    '{"self":"/api/v3/users/7"}'
    >>> without_hosts("https://other.example/page")
    'https://other.example/page'
    """
    return _HOST.sub("", text)
