"""accounts, users, groups and products."""

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block
from fleetsim.definition import Resource
from fleetsim.identifiers import group_ids
from fleetsim.organisation import ACCOUNTS, PRODUCTS
from fleetsim.resource_columns import ANY_ID, EXACT, EXACT_IN, Read, constant
from fleetsim.units import NULL, Ints
from fleetsim.view import View

ACCOUNT_IDS: Ints = np.array([account.id for account in ACCOUNTS])
_RENAMED = "(pilot)"
PRODUCT_IDS: Ints = np.array([product.id for product in PRODUCTS])


def row_of(*pool: object, field: str) -> Read:
    """Return a reader of one attribute of the `pool` objects at a block's rows."""
    values = np.array([getattr(item, field) for item in pool], dtype=object)

    return lambda _view, block: values[block["row"]]


def account_rows(view: View) -> Block:
    """Return the caller's account and those nested in it."""
    return Block({"row": np.array(sorted(view.accounts), dtype=np.int64)})


def _parent(_view: View, block: Block) -> Ints:
    parents = [None if a.parent is None else ACCOUNTS[a.parent].id for a in ACCOUNTS]
    return np.array([NULL if parent is None else parent for parent in parents])[block["row"]]


ACCOUNT = Resource(
    name="accounts",
    rows=account_rows,
    order_by=("id", "name"),
    expands=("account",),
    columns=(
        column.relation("account", _parent, EXACT_IN, to="accounts"),
        column.id_("id", lambda _v, b: ACCOUNT_IDS[b["row"]], EXACT_IN),
        column.flag("is_disabled", constant(False)),
        column.text("name", row_of(*ACCOUNTS, field="name"), EXACT_IN),
        column.address("resource_url", lambda _v, b: ACCOUNT_IDS[b["row"]], to="accounts"),
    ),
)


def product_rows(_view: View) -> Block:
    """Return every product."""
    return Block({"row": np.arange(len(PRODUCTS))})


PRODUCT = Resource(
    name="products",
    rows=product_rows,
    order_by=("id", "name"),
    columns=(
        column.text("device_type", row_of(*PRODUCTS, field="device_type"), EXACT),
        column.id_("id", lambda _v, b: PRODUCT_IDS[b["row"]], EXACT_IN),
        column.text("name", row_of(*PRODUCTS, field="name"), EXACT_IN),
        column.address("resource_url", lambda _v, b: PRODUCT_IDS[b["row"]], to="products"),
        column.text("series", row_of(*PRODUCTS, field="series"), EXACT_IN),
    ),
)


def user_rows(view: View) -> Block:
    """Return the users of the caller's accounts."""
    own = [n for n, person in enumerate(view.world.people) if person.account in view.accounts]
    return Block({"row": np.array(own, dtype=np.int64)})


def _person(field: str) -> Read:
    def read(view: View, block: Block) -> object:
        values = [getattr(view.world.people[row], field) for row in block["row"].tolist()]
        return np.array(values, dtype=np.int64 if field in ("id", "account") else object)

    return read


USER = Resource(
    name="users",
    rows=user_rows,
    order_by=("id", "email", "username"),
    expands=("account",),
    columns=(
        column.relation(
            "account", lambda v, b: ACCOUNT_IDS[_person("account")(v, b)], EXACT_IN, to="accounts"
        ),
        column.text("email", _person("email"), EXACT_IN),
        column.text("first_name", _person("first_name"), EXACT_IN),
        column.id_("id", _person("id"), EXACT_IN),
        column.text("last_name", _person("last_name"), EXACT_IN),
        column.address("resource_url", _person("id"), to="users"),
        column.text("username", _person("email"), EXACT_IN),
    ),
)


def group_rows(view: View) -> Block:
    """Return the groups of the caller's accounts."""
    row = np.arange(view.world.fleet.groups)
    return Block({"row": row[np.isin(_group_account(view, row), list(view.accounts))]})


def _group_account(view: View, row: Ints) -> Ints:
    return np.asarray(row // (len(PRODUCTS) * view.world.fleet.group_splits))


def _group_product(view: View, row: Ints) -> Ints:
    return np.asarray(row // view.world.fleet.group_splits % len(PRODUCTS))


def account_ids(view: View, router: Ints) -> Ints:
    """Return the ids of the accounts that routers belong to now."""
    now = np.full(len(router), view.now)
    return ACCOUNT_IDS[view.world.fleet.belonging.account_at(router, now)]


def account_of(view: View, router: int) -> int:
    """Return the id of the account that a router belongs to now."""
    return int(account_ids(view, np.array([router]))[0])


def group_names(view: View, rows: Ints, instant: Ints) -> list[str | None]:
    """Return the names of groups at instants; None for -1 (no group)."""
    renamed = view.world.fleet.belonging.is_group_renamed(rows, instant)
    splits = view.world.fleet.group_splits
    names: list[str | None] = []
    for row, is_renamed in zip(rows.tolist(), renamed.tolist(), strict=True):
        account, product = divmod(row // splits, len(PRODUCTS))
        name = f"{PRODUCTS[product].series} {ACCOUNTS[account].name} {row % splits + 1}"
        name = f"{name} {_RENAMED}" if is_renamed else name
        names.append(None if row < 0 else name)
    return names


GROUP = Resource(
    name="groups",
    rows=group_rows,
    id_paging=True,
    order_by=("id", "name"),
    expands=("account", "product"),
    columns=(
        column.relation(
            "account",
            lambda v, b: ACCOUNT_IDS[_group_account(v, b["row"])],
            EXACT_IN,
            to="accounts",
        ),
        column.json("configuration", lambda _v, b: [[{}, []] for _ in range(len(b))]),
        column.text(
            "device_type",
            lambda v, b: [PRODUCTS[p].device_type for p in _group_product(v, b["row"]).tolist()],
            EXACT,
        ),
        column.id_("id", lambda _v, b: group_ids(b["row"]), ANY_ID),
        column.text(
            "name", lambda v, b: group_names(v, b["row"], np.full(len(b), v.now)), EXACT_IN
        ),
        column.relation(
            "product",
            lambda v, b: PRODUCT_IDS[_group_product(v, b["row"])],
            EXACT_IN,
            to="products",
        ),
        column.address("resource_url", lambda _v, b: group_ids(b["row"]), to="groups"),
        column.relation(
            "target_firmware",
            lambda v, b: 9001 + _group_product(v, b["row"]) * 10 + 2,
            EXACT_IN,
            to="firmwares",
        ),
    ),
)
