"""The report of `fleetlake prefect-setup` on the service's keys: where workers find them."""

from collections.abc import Iterator, Sequence

BLOCK_PREFIX = "fleetlake-"
"""Prefix of our Secret blocks' names; flows/credentials.py looks for it."""


def key_report(stored: Sequence[str], *, blocks: Sequence[str], is_open: bool) -> Iterator[str]:
    """Yield lines that say where workers find the service's keys.

    `stored` names the blocks that this set-up wrote, `blocks` all Secret blocks on the server,
    including those of other programs. `is_open` means that the server does not require a password.

    >>> list(key_report([], blocks=["of-others"], is_open=False))
    ['Service keys: none stored; workers read them from their own environment.']
    """
    kept = sorted(name for name in blocks if name.startswith(BLOCK_PREFIX))
    if stored:
        yield f"Secret blocks: {', '.join(stored)}."
    else:
        yield "Service keys: none stored; workers read them from their own environment."
    if left := [name for name in kept if name not in stored]:
        yield (
            f"Secret blocks of an earlier set-up: {', '.join(left)}. "
            "Workers use them for keys that their environment lacks."
        )
        example = left[0] if len(left) == 1 else "NAME"
        yield f"Remove each with: prefect --no-prompt block delete secret/{example}"
    if is_open:
        more = " and read the keys in its Secret blocks" if kept else ""
        yield (
            "Warning: this server does not require a password. Anyone who can reach it can run "
            f"code on the workers{more}. Start it with `fleetlake prefect-server`, or set "
            "PREFECT_SERVER_API_AUTH_STRING in its environment."
        )


def accepts_anonymous(url: str) -> bool:
    """Return whether a Prefect server answers requests without a password."""
    import httpx

    try:
        return httpx.get(f"{url.rstrip('/')}/admin/version").is_success
    except httpx.HTTPError:
        return False
