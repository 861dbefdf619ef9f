"""The endpoint file that a probe proposes: what was seen, and in comments what is not known.

It has no value of a record, because that may be private. Names that come from the service are
quoted and bounded.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from fleetlake.decoding.field_kinds import Field, relationships, value_at
from fleetlake.decoding.values import read_value
from fleetlake.endpoints.columns import RESERVED, Kind
from fleetlake.endpoints.endpoint_files import NAME
from fleetlake.endpoints.model import Api, Walk
from fleetlake.endpoints.vocabulary import VOCABULARY, Meaning, Privacy
from fleetlake.reading.probe import CHANGES, ENDS, Filter, Learned
from fleetlake.text.plain import one_line
from fleetlake.text.wording import counted

FEW = 20
"""Fewer records than this prove nothing."""

_USUAL = {Walk.OFFSET: "offset", Walk.ID_AFTER: "id__gt", Walk.LINK: "page"}
"""The parameters that an endpoint file need not name."""


def proposed_file(learned: Learned, *, taken: Collection[str]) -> str:
    """Return the text of an endpoint file; `taken` are the names of other lists."""
    last = "".join(c if c.isalnum() else "_" for c in learned.path.rpartition("/")[2].lower())
    name = last if NAME.fullmatch(last) and last not in taken else f"own_{last}"[:48]
    columns, unused = _columns(learned, name)
    known = {f.name: known for f in columns if (known := _meaning(name, f))}
    key = proposed_key(learned, columns)
    lines = [
        *(f"# {line}" for line in _seen(learned, columns)),
        *(f"# not known: {line}" for line in _unknown(learned, columns, unused, key)),
        f"[{name}]",
        f'about = "Records of {learned.path}."',
        *([f'api = "{learned.api}"'] if learned.api is not Api.V2 else []),
        *([f'path = "{learned.path}"'] if learned.path != name else []),
        *_storing(learned, columns, key),
        *_walking(learned),
        "fields = [",
        *(_known_field(f, known[f.name]) for f in columns if f.name in known),
        "]",
        *_related(learned),
        *(_per(learned.required, name, columns) if learned.required else []),
    ]
    for field in columns:
        if field.name not in known:
            lines += _column(name, field)
    return "\n".join(lines) + "\n"


def proposed_key(learned: Learned, columns: Sequence[Field]) -> list[str] | None:
    """Return columns that identify each record that was seen, or None.

    UUIDs with a time are often unique for one device only, so its id belongs to the key.
    """
    if learned.api is Api.V3:
        return ["id"]
    kinds = {Kind.ID, Kind.TEXT, Kind.TIMEUUID}
    unique = [f for f in columns if f.is_unique and f.kind in kinds]
    names = [f.name for f in unique]
    first = next((name for name in ("id", "uuid") if name in names), None)
    timed = [f for f in unique if f.kind is Kind.TIMEUUID]
    named = [f for f in unique if f.name.endswith("id") or "." in f.name]
    if first or not (timed or named):
        return [first] if first else None
    key = (timed or named)[0].column
    per = learned.required
    return [key] if per is None else [_partition(per, columns), key]


def _columns(learned: Learned, name: str) -> tuple[list[Field], list[str]]:
    """Return the fields that can be columns, and the others in words."""
    found, unused = list[Field](), list[str]()
    fields, required = [*learned.fields], learned.required
    names = {f"{one}_ids" if many else f"{one}_id" for one, many in _relations(learned).items()}
    names |= {"id", "links_self"} if learned.api is Api.V3 else set()
    if required and required.field is None and learned.api is Api.V2:
        fields.insert(0, Field(name=required.thing, kind=Kind.RELATION))
    for seen in fields:
        known = _meaning(name, seen)
        field = replace(seen, kind=known.kind) if known else seen
        reason = "null in each record" if field.kind is None else ""
        if not NAME.fullmatch(field.column) or field.column in RESERVED:
            reason = "its name cannot be that of a column"
        elif field.column in names:
            reason = f"another field becomes the column {field.column}"
        if reason:
            unused.append(f"{one_line(field.name, 60)} ({reason})")
        else:
            found.append(field)
            names.add(field.column)
    return found, unused


def _meaning(name: str, field: Field) -> Meaning | None:
    """Return the vocabulary's entry of a field, if its values but a few are of that kind."""
    known = VOCABULARY.get(f"{name}.{field.name}") or VOCABULARY.get(field.name)
    if known and known.kind is Kind.TEXT and field.kind in {Kind.REAL, Kind.INTEGER, Kind.FLAG}:
        return None  # another field of that name: a text would take anything
    return known if known and _misfits(known, field) * 10 <= len(field.values) else None


def _misfits(known: Meaning, field: Field) -> int:
    count = 0
    for value in field.values:
        try:
            read_value(known.kind, value)
        except ValueError:
            count += 1
    return count


def _known_field(field: Field, known: Meaning) -> str:
    """Return the line of a field that the vocabulary knows."""
    odd = _misfits(known, field)
    note = f" {odd} of {len(field.values)} values are not of this kind." if odd else ""
    return f"  {json.dumps(field.name)},  # {known.meaning}{note}"


def _seen(learned: Learned, columns: Iterable[Field]) -> Iterator[str]:
    whole = "the whole list" if learned.is_whole else "the list goes on"
    pages = counted(learned.pages, "page")
    yield f"Proposed from {counted(len(learned.records), 'record')} on {pages}; {whole}."
    yield f"Change: {learned.again}."
    for field in columns:
        if field.kind is Kind.TIME and CHANGES.search(field.name) and any(field.values):
            times = [read_value(Kind.TIME, one)[:16] for one in field.values if one is not None]
            yield f"  {field.name}: from {min(times)} to {max(times)} UTC."
    if whole_numbers := [f.column for f in columns if f.kind is Kind.INTEGER]:
        yield "Whole in each record; make it `real` if it may have a fraction:"
        yield f"  {', '.join(whole_numbers)}."


def _unknown(
    learned: Learned, columns: Sequence[Field], unused: Sequence[str], key: object
) -> list[str]:
    """Return what the probe could not learn, and what to do about it."""
    required, unanswered = learned.required, counted(learned.unanswered, "trial")
    has_end = any(ENDS.search(f.name) for f in columns)
    remarks: list[tuple[object, str]] = [
        (True, "what the records are; say it in `about`."),
        (True, "how long the service keeps them; if it deletes old ones, add `retention_days`."),
        (learned.unanswered, f"what {unanswered} without an answer would show: probe again."),
        (
            len(learned.records) < FEW,
            "more than these few records show: the key, the kinds and the cursor are guesses.",
        ),
        (
            key is None,
            "the key. No single field was different in each record; name its columns in `key`.",
        ),
        (
            learned.cursor is None,
            "how to page. No cursor worked, or there are too few records to see it.",
        ),
        (
            learned.window is None,
            'whether each version matters. If only the newest does, write kind = "latest".',
        ),
        (
            learned.window and not has_end,
            'whether records change. If so, they need kind = "upsert" and `changes_until`.',
        ),
        (required, f"whether `{required and required.source}` lists all ids that have records."),
        (
            required and required.takes_many and not learned.is_whole,
            "how many ids a call may have; 100 is the most (`ids_per_call`).",
        ),
        (
            unused,
            f"fields without a column, kept in `_extra`: {one_line(', '.join(unused), 1000)}.",
        ),
    ]
    return [text for applies, text in remarks if applies]


def _storing(learned: Learned, columns: Sequence[Field], key: list[str] | None) -> Iterator[str]:
    ends = [f.name for f in columns if f.kind is Kind.TIME and ENDS.search(f.name)]
    if learned.event_time and learned.window:
        yield f'kind = "{"upsert" if ends else "append"}"'
        yield f'event_time = "{learned.event_time.column}"'
        yield f"window = {json.dumps(learned.window)}"
        if ends:
            yield f'changes_until = "{ends[0]}"'
    if key != ["id"]:
        yield f"key = {json.dumps(key or [])}"


def _walking(learned: Learned) -> Iterator[str]:
    walk, parameter = learned.cursor or (Walk.OFFSET, "offset")
    if walk not in {Walk.OFFSET, Walk.LINK}:
        yield f'cursor = "{walk}"'
    if _USUAL.get(walk) != parameter:
        yield f'cursor_parameter = "{parameter}"'
    if learned.order_by:
        yield f'parameters = {{ order_by = "{learned.order_by}" }}'
    if learned.page_size:
        yield f"page_size = {learned.page_size}"


def _relations(learned: Learned) -> dict[str, bool]:
    """Return the relationships of JSON:API records, and whether they are to-many."""
    if learned.api is not Api.V3:
        return {}
    found = {name: bool(is_many) for name, is_many in relationships(learned.records)}
    if learned.required and not learned.required.field:
        found[learned.required.thing] = False
    return {name: is_many for name, is_many in found.items() if NAME.fullmatch(name)}


def _related(learned: Learned) -> Iterator[str]:
    found = _relations(learned)
    for key, wanted in (("related", False), ("related_many", True)):
        if names := [name for name, is_many in found.items() if is_many is wanted]:
            yield f"{key} = {json.dumps(names)}"
    types = {str(value_at(record, "type")) for record in learned.records}
    if learned.api is Api.V3 and len(types) > 1:
        yield "typed = true"


def _per(required: Filter, name: str, columns: Sequence[Field]) -> Iterator[str]:
    yield from ("", f"[{name}.per]", f"parameter = {json.dumps(required.parameter)}")
    yield f'source = "{required.source}"'
    yield f'partition = "{_partition(required, columns)}"'
    if not required.takes_many:
        yield "ids_per_call = 1"
    if required.field is None:
        yield "stamped = true"


def _partition(required: Filter, columns: Sequence[Field]) -> str:
    """Return the column that holds the id of the required filter."""
    name = (required.field or "").removeprefix("attributes.")
    own = next((f.column for f in columns if f.name == name), None)
    return own or f"{required.thing}_id"


def _column(name: str, field: Field) -> Iterator[str]:
    yield from ("", f"[{name}.columns.{_quoted(field.name)}]  # {field.in_words}")
    yield f'kind = "{field.kind}"'
    yield f'meaning = "{field.name}, as the service sends it."'
    if privacy := _privacy(field.name):
        yield f'privacy = "{privacy}"'


def _privacy(name: str) -> Privacy | None:
    """Return what a field may reveal, judged by the words of its name.

    >>> str(_privacy("detected_imei")), _privacy("device_status")
    ('identifier', None)
    """
    known = (VOCABULARY.get(word) for word in name.replace(".", "_").split("_"))
    return next((one.privacy for one in known if one and one.privacy), None)


def _quoted(name: str) -> str:
    return name if NAME.fullmatch(name) else json.dumps(name)
