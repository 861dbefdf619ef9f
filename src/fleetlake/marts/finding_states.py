"""Findings: the rows of the mart `attention`, with the state that people have put them in. Pure.

Each step (acknowledge, snooze, assign, comment, reopen) is a row of `meta.findings`, or of a
published snapshot. The state of a finding follows from its steps and the mart:

- A step is about what was known when it was made (`seen_at`). A finding that began later is
  another one, and open.
- An acknowledged or snoozed finding is open again once it is more urgent than it was.
- A snooze ends by the time of the data, `as_of_at`.
- A step about an outage is one about its devices, too: the outage is dealt with once they all are,
  whatever it is called by then. A device that joins it is as dealt with as the outage.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from fleetlake.errors import UsageError

LONGEST_COMMENT = 2_000
LONGEST_NAME = 120
MOST_AT_ONCE = 5_000


class FindingStep(StrEnum):
    """What a person does about a finding."""

    ACKNOWLEDGE = "acknowledge"
    SNOOZE = "snooze"
    ASSIGN = "assign"
    COMMENT = "comment"
    REOPEN = "reopen"


class FindingState(StrEnum):
    """Whether a finding still needs a person."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"


STEP_COLUMNS = (
    *("finding_id", "step", "made_at", "actor", "seen_at", "severity_rank"),
    *("until_at", "assignee", "comment"),
)
"""The columns of `meta.findings` that a published snapshot carries."""


@dataclass(frozen=True, kw_only=True)
class NewStep:
    """A step to record about findings.

    `until` is when a snooze ends: an instant, or how long after the time of the data. An empty
    `assignee` takes an assignment back.

    Raises: UsageError for one that lacks what it is about, or holds more than it may.
    """

    finding_ids: frozenset[str]
    step: FindingStep
    actor: str
    comment: str | None = None
    assignee: str | None = None
    until: datetime | timedelta | None = None

    def __post_init__(self) -> None:
        """Check what was given."""
        if not self.finding_ids or len(self.finding_ids) > MOST_AT_ONCE:
            what = "At most" if self.finding_ids else "At least"
            count = f"{MOST_AT_ONCE:,} findings at once" if self.finding_ids else "one finding"
            raise UsageError(f"{what} {count}.", remedy="`fleetlake findings` lists them.")
        needed = {
            FindingStep.SNOOZE: ("end of the snooze", self.until),
            FindingStep.ASSIGN: ("person", self.assignee),
            FindingStep.COMMENT: ("comment", (self.comment or "").strip() or None),
        }
        if self.step in needed and needed[self.step][1] is None:
            raise UsageError(f"The {needed[self.step][0]} is missing.")
        texts = {
            "comment": (self.comment, LONGEST_COMMENT),
            "name of the person": (self.assignee, LONGEST_NAME),
            "name of who does it": (self.actor, LONGEST_NAME),
        }
        for id_ in self.finding_ids:
            _require_storable("ID", id_)
        for what, (text, most) in texts.items():
            _require_storable(what, text or "")
            if text is not None and len(text) > most:
                raise UsageError(f"The {what} has {len(text):,} characters; at most {most:,} fit.")


def _require_storable(what: str, text: str) -> None:
    """Raise UsageError for a text that no file or catalog can hold."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise UsageError(f"The {what} holds a character that is not text.")


def findings_sql(attention: str, steps: str) -> str:
    """Return the SQL of all findings with their state, from a mart and a table of steps.

    Columns: those of the mart, and `state`, `handled_at` and `handled_by` (of an acknowledged or
    snoozed one), `snoozed_until_at`, `assigned_to`, `comment` (the latest), `comments`.
    """
    return f"""
with about as (
    select s.*, a.severity_rank as rank_now
    from {attention} as a
    inner join {steps} as s
        on a.attention_id = s.finding_id and (a.since_at is null or a.since_at <= s.seen_at)
),
latest as (
    select
        finding_id,
        arg_max(
            {{'step': step, 'made_at': made_at, 'actor': actor, 'until_at': until_at,
              'is_worse': coalesce(rank_now < severity_rank, false)}}, made_at
        ) filter (step in ('acknowledge', 'snooze', 'reopen')) as handled,
        nullif(arg_max(assignee, made_at) filter (step = 'assign'), '') as assigned_to,
        arg_max(comment, made_at) as comment,
        count(comment) as comments
    from about
    group by finding_id
),
judged as (
    select a.*, l.handled, l.assigned_to, l.comment, coalesce(l.comments, 0) as comments,
        case
            when l.handled.is_worse then 'open'
            when l.handled.step = 'acknowledge' then 'acknowledged'
            when l.handled.step = 'snooze' and a.as_of_at < l.handled.until_at then 'snoozed'
            else 'open'
        end as state
    from {attention} as a
    left join latest as l on a.attention_id = l.finding_id
),
parts as (
    select parent_id,
        bool_and(state <> 'open') as are_done,
        arg_max(state, handled.made_at) as state,
        arg_max(handled, handled.made_at) as handled
    from judged where parent_id is not null group by parent_id
),
whole as (
    select j.* exclude (state, handled),
        if(j.state = 'open' and p.are_done, p.state, j.state) as state,
        if(j.state = 'open' and p.are_done, p.handled, j.handled) as handled
    from judged as j
    left join parts as p on j.attention_id = p.parent_id
)
select w.* exclude (handled, state), d.state,
    case when d.state <> 'open' then d.handled.made_at end as handled_at,
    case when d.state <> 'open' then d.handled.actor end as handled_by,
    case when d.state = 'snoozed' then d.handled.until_at end as snoozed_until_at
from whole as w
left join whole as outage on w.parent_id = outage.attention_id and w.state = 'open'
    and (w.handled is null or w.handled.made_at < outage.handled.made_at)
inner join whole as d on d.attention_id = coalesce(outage.attention_id, w.attention_id)"""
