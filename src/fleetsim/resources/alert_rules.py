"""alert_rules and alert_push_destinations, which exist only in the ledger."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fleetsim.blocks import Block
from fleetsim.definition import Resource, Series
from fleetsim.ledger import Fields
from fleetsim.organisation import ACCOUNTS
from fleetsim.resource_columns import ColumnKind, Read, column, values
from fleetsim.rules import DESTINATIONS, RULES
from fleetsim.timeuuids import order_key
from fleetsim.units import NULL, Ints
from fleetsim.view import View

_KEY_OPS = frozenset({"exact", "in", "gt", "lt"})


def sees_account(view: View, account_id: int) -> bool:
    """Return whether an account in the caller's tree, created ones included, has this id."""
    if any(ACCOUNTS[row].id == account_id for row in view.accounts):
        return True
    created = view.ledger.writes_to("accounts").created.get(account_id)
    return created is not None and sees_account(view, created["account"])


def _ledger_series(name: str) -> Series:
    """Return a series of the ledger's records, in the order of their time-based ids."""

    def series(
        view: View,
        _devices: Ints | None,
        _since: int,
        _until: int,
        /,
        *,
        newest_first: bool,
        want: int,
    ) -> Iterator[Block]:
        del newest_first, want  # always one small block
        created = view.ledger.writes_to(name).created
        seen = [(n, r) for n, r in created.items() if sees_account(view, r["account"])]
        time = np.array([record["created_at"] for _, record in seen], dtype=np.int64)
        tail = np.array([record["tail"] for _, record in seen], dtype=np.uint64)
        number = np.array([n for n, _ in seen], dtype=np.int64)
        order = np.lexsort((order_key(tail), time))
        yield Block({"time": time[order], "tail": tail[order], "record": number[order]})

    return series


def _records(name: str, view: View, block: Block) -> list[Fields]:
    created = view.ledger.writes_to(name).created
    return [created[number] for number in block["record"].tolist()]


def _reader(name: str) -> Callable[[str], Read]:
    """Return a function that makes readers of a resource's raw fields."""

    def of(field: str) -> Read:
        def read(view: View, block: Block) -> Any:
            found = [record[field] for record in _records(name, view, block)]
            if field in ("account", "updated_at", "last_error_at", "last_summary_ts"):
                return np.array([NULL if v is None else v for v in found], dtype=np.int64)
            return found

        return read

    return of


_rule, _destination = _reader(RULES), _reader(DESTINATIONS)


def _hidden_secret(_view: View, block: Block) -> list[dict[str, str]]:
    """Return what a read shows of secrets (service contract, alert_push_destinations)."""
    return [{"secret": "*"} for _ in range(len(block))]


ALERT_RULES = Resource(
    name=RULES,
    series=_ledger_series(RULES),
    lags=False,
    key="alert_config_id",
    cursor="alert_config_id",
    ascending=True,
    expands=("account",),
    columns=(
        column("account", ColumnKind.RELATION, _rule("account"), to="accounts"),
        column("alert_config_id", ColumnKind.UUID, values("time"), _KEY_OPS),
        column("associated_accounts", ColumnKind.JSON, _rule("associated_accounts")),
        column("associated_groups", ColumnKind.JSON, _rule("associated_groups")),
        column("email_destinations", ColumnKind.JSON, _rule("email_destinations")),
        column("external_rules", ColumnKind.JSON, lambda _v, b: [None] * len(b)),
        column("filter_criteria", ColumnKind.JSON, _rule("filter_criteria")),
        column("http_destinations", ColumnKind.JSON, _rule("http_destinations")),
        column("last_summary_ts", ColumnKind.TIME, _rule("last_summary_ts")),
        column("schedule", ColumnKind.TEXT, _rule("schedule")),
        column("settings", ColumnKind.JSON, _rule("settings")),
        column("updated_at", ColumnKind.TIME, _rule("updated_at")),
    ),
)

PUSH_DESTINATIONS = Resource(
    name=DESTINATIONS,
    series=_ledger_series(DESTINATIONS),
    lags=False,
    key="destination_config_id",
    cursor="destination_config_id",
    ascending=True,
    expands=("account",),
    columns=(
        column("account", ColumnKind.RELATION, _destination("account"), to="accounts"),
        column("authentication", ColumnKind.JSON, _hidden_secret),
        column("destination_config_id", ColumnKind.UUID, values("time"), _KEY_OPS),
        column("enabled", ColumnKind.FLAG, _destination("enabled")),
        column("endpoint", ColumnKind.JSON, _destination("endpoint")),
        column("last_error_at", ColumnKind.TIME, _destination("last_error_at")),
        column("last_error_text", ColumnKind.TEXT, _destination("last_error_text")),
        column("name", ColumnKind.TEXT, _destination("name")),
        column("suspended", ColumnKind.FLAG, _destination("suspended")),
        column("updated_at", ColumnKind.TIME, _destination("updated_at")),
    ),
)
