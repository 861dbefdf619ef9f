"""Addresses of this machine itself, which only its own processes reach."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(url: str) -> bool:
    """Return whether an address is one of this machine's own.

    >>> is_loopback("http://[::1]:8700/api"), is_loopback("http://localhost.example/")
    (True, False)
    """
    return is_loopback_host(urlsplit(url).hostname or "")


def is_loopback_host(host: str) -> bool:
    """Return whether a name or an IP address is one of this machine's own.

    >>> is_loopback_host("127.0.0.2"), is_loopback_host("10.0.0.1")
    (True, False)
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def shows_keys(root: str) -> bool:
    """Return whether keys sent to this root could be read on the network.

    >>> shows_keys("http://service.example/"), shows_keys("https://service.example/")
    (True, False)
    """
    return urlsplit(root).scheme == "http" and not is_loopback(root)
