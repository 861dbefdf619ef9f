"""`fleetlake alerts drain`: pushed messages from the journal into the lake, once."""

from typing import TYPE_CHECKING

from fleetlake.cli.screen import console
from fleetlake.text.wording import counted

if TYPE_CHECKING:
    from fleetlake.receiving.drain import Drained


def drain() -> None:
    """Bring the pushed messages that wait in FLEETLAKE_PUSH_JOURNAL into the lake, and end.

    For a receiver that runs with --no-drain; run it as often as you like, or beside a receiver
    that drains. If another process keeps writing pushed alerts, or keeps the lake quiet for a
    repair, for half a minute, it says so; the messages stay in the journal.
    """
    from fleetlake.receiving.drain import Drained, drain_batches
    from fleetlake.settings import load_settings

    settings = load_settings()
    total = Drained()
    try:
        for batch in drain_batches(settings.lake, settings.push_journal, profile=settings.profile):
            total += batch
    except BaseException:
        if not total.is_nothing:  # every batch is committed, whatever stopped the next one
            console().print(in_words(total))
        raise
    nothing = f"Nothing waits in {settings.push_journal}."
    console().print(nothing if total.is_nothing else in_words(total))


def in_words(drained: "Drained") -> str:
    """Return what became of the messages.

    >>> from fleetlake.receiving.drain import Drained
    >>> in_words(Drained(messages=3, alerts=1, dead_letters=1, tests=1))
    '3 messages drained: 1 new alert, 1 in quarantine, 1 test message.'
    """
    parts = [counted(drained.alerts, "new alert"), f"{drained.dead_letters:,} in quarantine"]
    if drained.tests:
        parts.append(counted(drained.tests, "test message"))
    if drained.losses:
        parts.append(
            f"{counted(drained.losses, 'fault')} of the journal (`fleetlake records events list`)"
        )
    return f"{counted(drained.messages, 'message')} drained: {', '.join(parts)}."
