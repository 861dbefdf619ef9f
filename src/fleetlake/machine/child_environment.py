"""The environment of a child process: what the process needs, without the service's keys.

A process exposes its environment to the programs it runs, to crash reports and to plugins. So a
child gets only the variables on an allowlist.
"""

import os

from fleetlake.lake_address import LakeAddress, SharedLake
from fleetlake.machine.umask import VARIABLE as UMASK

_PLAIN = frozenset(
    {
        *("HOME", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER"),
        *("LANG", "LANGUAGE", "NO_COLOR", "FORCE_COLOR", "COLUMNS"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "MALLOC_ARENA_MAX"),
        *("VIRTUAL_ENV", "DO_NOT_TRACK", UMASK),
    }
)
_PLAIN_PREFIXES = ("LC_", "PYTHON", "XDG_", "OMP_", "OPENBLAS_")
_NETWORK = frozenset(
    {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
_KERBEROS = frozenset({"KRB5CCNAME", "KRB5_CONFIG"})
_JAVA = frozenset({"JAVA_HOME"})
_ENGINE_PREFIXES = ("SPARK_", "DBT_", "DATABRICKS_")
_STORE_PREFIX = "AWS_"
_DATABASE_PREFIX = "PG"
_SERVER_PREFIX = "PREFECT_"


def plain_environment() -> dict[str, str]:
    """Return the variables that every process needs: paths, language, Python's own."""
    return _chosen(_PLAIN, _PLAIN_PREFIXES)


def lake_access(lake: LakeAddress) -> dict[str, str]:
    """Return the variables that a process needs to reach the catalog and files of a lake.

    A lake in a folder needs none. A shared lake needs libpq's variables. An object store needs the
    keys that its own tools read.
    """
    if not isinstance(lake, SharedLake):
        return {}
    found = _chosen(_KERBEROS, (_DATABASE_PREFIX,))
    if "://" in lake.files:
        found |= _chosen(_NETWORK, (_STORE_PREFIX,))
    return found


def engine_access() -> dict[str, str]:
    """Return the variables with which dbt reaches an engine: Spark's, and dbt's for profiles."""
    return _chosen(_NETWORK | _KERBEROS | _JAVA, _ENGINE_PREFIXES)


def server_access() -> dict[str, str]:
    """Return the variables that Prefect's server and its clients need."""
    return _chosen(_NETWORK, (_SERVER_PREFIX,))


def _chosen(names: frozenset[str], prefixes: tuple[str, ...]) -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name.upper() in names or name.startswith(prefixes)
    }
