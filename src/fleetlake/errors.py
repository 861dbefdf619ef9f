"""Every error that fleetlake raises, grouped by what the caller can do about it.

FleetlakeError                    exit code
├── UsageError                     2   fix the command
├── SettingsError                  3   fix the settings
├── ServiceError
│   ├── CredentialsRefused         4   fix the keys (401)
│   ├── EndpointUnavailable        4   this account may not read it (403, 404, 405)
│   ├── Unreachable                5   try again later: no response, or an incomplete one
│   │   └── Throttled              5   the same: 429, with the requested wait
│   ├── WriteUnknown               5   check the list: the change may or may not have been made
│   ├── PushTestFailed             5   start the receiver, or correct its address or secret
│   ├── BudgetSpent                5   try again tomorrow: the day's calls are used up
│   ├── RequestRejected            6   a bug or a changed service: 400, 409 with errors
│   ├── ClockRefused               6   correct a clock: the service's or this machine's
│   ├── PageUnreadable             6   a response that is not a page; never read as an empty page
│   ├── CursorStuck                6   the service repeats a page position
│   └── ListShrank                 6   a list lost many records: check, then accept the loss or not
├── LakeError                      7   fix the disk, the folder or the catalog
│   ├── LakeBusy                  12   another command uses the lake: run again when it has ended
│   │   └── StreamBusy            12   the same; a load only skips the stream
│   └── CommitUnknown              7   look for the load id to learn the outcome
├── BuildFailed                    8   a model or a data test failed
├── RecordsMissing                 9   records of the service are missing from the lake
├── MessageNotSent                 5   check the address; the next run sends the message again
├── ExportFailed                  10   a target refused the rows, or could not be reached
├── StreamFailed                   1   a stream ended with an unexpected error: a bug
├── OutputLost                   11   free some space, or choose another file
└── Interrupted                  130   Ctrl-C or SIGTERM; committed data stays
"""

from datetime import timedelta

from fleetlake.text.plain import plain_lines


class FleetlakeError(Exception):
    """An error that says what happened, where, and what to do about it."""

    exit_code = 1
    is_transient = False
    """True if the same action may succeed later without any change, so a retry makes sense."""

    def __init__(self, what: str, *, remedy: str = "") -> None:
        self.what = plain_lines(what)  # the text may quote the service, a file or SQL
        self.remedy = plain_lines(remedy)
        super().__init__(self.what)

    def __str__(self) -> str:
        """Return one paragraph: what happened, then what to do."""
        return f"{self.what} {self.remedy}".strip()


class UsageError(FleetlakeError):
    """The command names something that does not exist."""

    exit_code = 2


class SettingsError(FleetlakeError):
    """A setting is missing or invalid."""

    exit_code = 3


class ServiceError(FleetlakeError):
    """The service did not return the requested records."""

    exit_code = 6


class CredentialsRefused(ServiceError):
    """The service does not accept the keys (401)."""

    exit_code = 4


class EndpointUnavailable(ServiceError):
    """This account may not read the endpoint (403, 404, 405)."""

    exit_code = 4


class Unreachable(ServiceError):
    """No complete response arrived."""

    exit_code = 5
    is_transient = True


class Throttled(Unreachable):
    """The call limit was reached; retry after `wait`, if the service sent one."""

    def __init__(self, what: str, *, remedy: str = "", wait: timedelta | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.wait = wait


class WriteUnknown(ServiceError):
    """A change was sent, and no response says whether it was made.

    `was_answered` is True if there was a response, so that it will not be made later.
    """

    exit_code = 5

    def __init__(self, what: str, *, remedy: str = "", was_answered: bool = False) -> None:
        super().__init__(what, remedy=remedy)
        self.was_answered = was_answered


class PushTestFailed(ServiceError):
    """The service could not deliver a test message to a push destination."""

    exit_code = 5


class BudgetSpent(ServiceError):
    """The day's calls are used up; what was read so far is kept."""

    exit_code = 5


class RequestRejected(ServiceError):
    """The service rejected the request as invalid (400, or 409 with errors)."""


class ClockRefused(ServiceError):
    """The clocks of the service and this machine differ too much to load anything."""


class PageUnreadable(ServiceError):
    """The response is not a page of records. It is never read as an empty page."""

    is_transient = True


class CursorStuck(ServiceError):
    """The service returned a page position that does not advance."""


class ListShrank(ServiceError):
    """A list lost so many records that none of them is marked as gone."""


class LakeError(FleetlakeError):
    """The lake cannot be opened, read or written."""

    exit_code = 7
    is_transient = True


class LakeBusy(LakeError):
    """Another process uses what this one needs for itself alone, and used it for too long."""

    exit_code = 12


class StreamBusy(LakeBusy):
    """Another process is loading the stream."""


class CommitUnknown(LakeError):
    """The outcome of a commit is unknown."""


class BuildFailed(FleetlakeError):
    """A model or a data test of the SQL project failed.

    `is_partial` is True if the marts that do not depend on it have changed.
    """

    exit_code = 8

    def __init__(self, what: str, *, remedy: str = "", is_partial: bool = False) -> None:
        super().__init__(what, remedy=remedy)
        self.is_partial = is_partial


class RecordsMissing(FleetlakeError):
    """Records of the service are missing from the lake, temporarily or permanently."""

    exit_code = 9


class MessageNotSent(FleetlakeError):
    """A place for messages about findings could not be reached, or refused the message."""

    exit_code = 5


class ExportFailed(FleetlakeError):
    """An export target refused the rows, or could not be reached."""

    exit_code = 10


class StreamFailed(FleetlakeError):
    """The load of a stream ended with an unexpected error; the other streams continued."""


class OutputLost(FleetlakeError):
    """The output of a command could not be written."""

    exit_code = 11


class Interrupted(FleetlakeError):
    """The run was stopped from outside; committed data stays."""

    exit_code = 130
