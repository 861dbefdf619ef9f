"""httpx's client without cookies.

The service has no sessions. A cookie that a proxy or another server sets would be sent with every
later request, together with the keys. To look for cookies, httpx makes three objects for each
response, which took 3 % of a whole load's CPU time.
"""

import httpx


class _NoCookies(httpx.Cookies):
    def extract_cookies(self, response: httpx.Response) -> None:
        """Keep none."""


_NO_COOKIES = _NoCookies()


class CookielessClient(httpx.AsyncClient):
    """httpx's asynchronous client, but it keeps no cookies and sends none."""

    @property
    def cookies(self) -> httpx.Cookies:
        """Always empty."""
        return _NO_COOKIES

    @cookies.setter
    def cookies(self, _: object) -> None:
        raise TypeError("this client keeps no cookies")
