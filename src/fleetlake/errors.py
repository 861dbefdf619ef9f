"""Every error a caller may meet, grouped by what the caller may do.

FleetlakeError                    exit code
├── UsageError                     2   mend the command
├── SettingsError                  3   mend the settings
├── ServiceError
│   ├── CredentialsRefused         4   mend the keys (401)
│   ├── EndpointUnavailable        4   this account may not read it (403, 404, 405)
│   ├── Unreachable                5   try again later: nobody answered, or not in full
│   │   └── Throttled              5   likewise: 429, with the wait that was asked for
│   ├── BudgetSpent                5   try again tomorrow: the day's calls are used
│   ├── RequestRejected            6   a bug or a changed service: 400, 409 with errors
│   ├── ClockRefused               6   correct a clock: the service's and ours differ by a day
│   ├── PageUnreadable             6   an answer that is no page; never read as an empty one
│   ├── CursorStuck                6   the service repeats a page position
│   └── ListShrank                 6   much of a list is gone: check, then accept it or not
├── LakeError                      7   mend the disk, the folder or the catalog
│   ├── StreamBusy                 0   another process is loading it: skipped, not failed
│   └── CommitUnknown              7   settle by looking for the load id
├── BuildFailed                    8   a model or a data test failed
├── RecordsMissing                 9   the lake lacks what the service has, or had
├── ExportFailed                  10   a target refused, or could not be reached
├── StreamFailed                   1   a stream ended by an error nobody foresaw: a bug
├── OutputLost                   11   free some space, or choose another file
└── Interrupted                  130   Ctrl-C or SIGTERM; all that was committed stays
"""

from datetime import timedelta
from errno import EACCES, EDQUOT, EMFILE, ENFILE, ENOSPC, EPERM, EROFS

from fleetlake.text.plain import plain_lines


class FleetlakeError(Exception):
    """Says what was wrong, where, and what to do about it."""

    exit_code = 1

    def __init__(self, what: str, *, remedy: str = "") -> None:
        self.what = plain_lines(what)  # it may quote the service, a file or SQL
        self.remedy = plain_lines(remedy)
        super().__init__(self.what)

    def __str__(self) -> str:
        """One paragraph for people."""
        return f"{self.what} {self.remedy}".strip()


class UsageError(FleetlakeError):
    """The command names something that does not exist."""

    exit_code = 2


class SettingsError(FleetlakeError):
    """A setting is missing or cannot be used."""

    exit_code = 3


class ServiceError(FleetlakeError):
    """The service did not give what was asked for."""

    exit_code = 6


class CredentialsRefused(ServiceError):
    """The service does not accept the keys (401)."""

    exit_code = 4


class EndpointUnavailable(ServiceError):
    """This account may not read the endpoint (403, 404, 405)."""

    exit_code = 4


class Unreachable(ServiceError):
    """No whole answer arrived; worth a retry."""

    exit_code = 5


class Throttled(Unreachable):
    """The call limit was met; worth a retry after `wait`."""

    def __init__(self, what: str, *, remedy: str = "", wait: timedelta | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.wait = wait


class BudgetSpent(ServiceError):
    """The calls of this day are used; what was read so far is kept."""

    exit_code = 5


class RequestRejected(ServiceError):
    """The service found the request wrong (400, or 409 with errors)."""


class ClockRefused(ServiceError):
    """The service's clock and this machine's differ too much to load anything."""


class PageUnreadable(ServiceError):
    """The answer is not a page of records; worth a retry, never an empty page."""


class CursorStuck(ServiceError):
    """The walk does not move on."""


class ListShrank(ServiceError):
    """A list read whole lacks so much of what it held that nothing of it is closed."""


class LakeError(FleetlakeError):
    """The lake cannot be opened, read or written."""

    exit_code = 7


class StreamBusy(LakeError):
    """Another process is loading the stream."""

    exit_code = 0


class CommitUnknown(LakeError):
    """It is not known whether a commit took place."""


class BuildFailed(FleetlakeError):
    """A model or a data test of the SQL project failed."""

    exit_code = 8


class RecordsMissing(FleetlakeError):
    """The lake lacks records of the service, for now or for ever."""

    exit_code = 9


class ExportFailed(FleetlakeError):
    """An export target refused its rows, or could not be reached."""

    exit_code = 10


class StreamFailed(FleetlakeError):
    """The load of a stream ended by an error that nobody foresaw; the other streams went on."""


class OutputLost(FleetlakeError):
    """What a command printed was not written."""

    exit_code = 11


class Interrupted(FleetlakeError):
    """The run was stopped from outside; what was committed stays."""

    exit_code = 130


def of_system(error: OSError) -> FleetlakeError | None:
    """Return what the system refuses in words, where people can mend it; None for a bug."""
    if error.errno in {EMFILE, ENFILE}:
        return SettingsError(
            "The system lets this process open no more files.",
            remedy="Raise the limit, for example by `ulimit -n 1024`, and run again.",
        )
    if error.errno not in {ENOSPC, EDQUOT, EROFS, EACCES, EPERM}:
        return None
    place = f" {error.filename!r}" if error.filename else ""
    return LakeError(
        f"The system refuses to write or read{place}: {error.strerror}.",
        remedy="Make it accessible for this user, or free some space; what was committed is whole.",
    )
