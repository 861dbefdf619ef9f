"""What `fleetlake prefect-setup` says of the service's keys: where they are, and who gets them."""

from collections.abc import Iterator, Sequence

BLOCK_PREFIX = "fleetlake-"
"""How the names of our Secret blocks begin: flows/credentials.py looks for them."""


def key_report(stored: Sequence[str], *, kept: Sequence[str], is_open: bool) -> Iterator[str]:
    """Yield where workers find the service's keys, in lines.

    `stored` are the blocks that this set-up wrote, `kept` all of ours that the server has.
    `is_open` says that the server asks nobody for a password.

    >>> list(key_report([], kept=[], is_open=False))
    ['Service keys: none stored; workers read them from their own environment.']
    """
    if stored:
        yield f"Secret blocks: {', '.join(stored)}."
    else:
        yield "Service keys: none stored; workers read them from their own environment."
    if left := [name for name in kept if name not in stored]:
        yield (
            f"Secret blocks left from before: {', '.join(left)}. "
            "Workers read them where their environment has no such key."
        )
        example = left[0] if len(left) == 1 else "NAME"
        yield f"Remove each with: prefect --no-prompt block delete secret/{example}"
    if is_open:
        more = " and read the keys in its Secret blocks" if kept else ""
        yield (
            "Warning: this server asks for no password. Whoever reaches it can run code on the "
            f"workers{more}. Start it with `fleetlake prefect-server`, or set "
            "PREFECT_SERVER_API_AUTH_STRING for it."
        )


def takes_anybody(url: str) -> bool:
    """Return whether a Prefect server answers somebody who has no password."""
    import httpx

    try:
        return httpx.get(f"{url.rstrip('/')}/admin/version").is_success
    except httpx.HTTPError:
        return False
