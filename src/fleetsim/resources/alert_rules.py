"""alert_rules and alert_push_destinations, which exist only in the ledger."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block
from fleetsim.definition import Resource, Series, SeriesRead
from fleetsim.ledger import Fields
from fleetsim.organisation import ACCOUNTS
from fleetsim.resource_columns import Read, values
from fleetsim.rules import DESTINATIONS, RULES
from fleetsim.timeuuids import order_key
from fleetsim.units import NULL
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

    def series(view: View, _read: SeriesRead) -> Iterator[Block]:
        # Always one small block.
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
        column.relation("account", _rule("account"), to="accounts"),
        column.uuid("alert_config_id", values("time"), _KEY_OPS),
        column.json("associated_accounts", _rule("associated_accounts")),
        column.json("associated_groups", _rule("associated_groups")),
        column.json("email_destinations", _rule("email_destinations")),
        column.json("external_rules", lambda _v, b: [None] * len(b)),
        column.json("filter_criteria", _rule("filter_criteria")),
        column.json("http_destinations", _rule("http_destinations")),
        column.time("last_summary_ts", _rule("last_summary_ts")),
        column.text("schedule", _rule("schedule")),
        column.json("settings", _rule("settings")),
        column.time("updated_at", _rule("updated_at")),
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
        column.relation("account", _destination("account"), to="accounts"),
        column.json("authentication", _hidden_secret),
        column.uuid("destination_config_id", values("time"), _KEY_OPS),
        column.flag("enabled", _destination("enabled")),
        column.json("endpoint", _destination("endpoint")),
        column.time("last_error_at", _destination("last_error_at")),
        column.text("last_error_text", _destination("last_error_text")),
        column.text("name", _destination("name")),
        column.flag("suspended", _destination("suspended")),
        column.time("updated_at", _destination("updated_at")),
    ),
)
