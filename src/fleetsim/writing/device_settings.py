"""Device settings in the service's format: a pair of updates and removed paths."""

from typing import Any

from fleetsim.ledger import Fields
from fleetsim.writing.readers import wrong
from fleetsim.writing.write_context import WriteContext

Path = list[str | int]


def settings_pair(_context: WriteContext, name: str, value: Any) -> list[Any]:
    """Read updates and removals; an object alone is updates without removals."""
    if isinstance(value, dict):
        return [value, []]
    if not isinstance(value, list) or [type(part) for part in value] != [dict, list]:
        raise wrong(name, value)
    if not all(_is_path(path) for path in value[1]):
        raise wrong(name, value)
    return value


def _is_path(path: Any) -> bool:
    """Return whether a value names a setting: keys, outermost first."""
    return isinstance(path, list) and path != [] and all(type(key) in (str, int) for key in path)


def merged(stored: list[Any], partial: list[Any]) -> list[Any]:
    """Return settings with a partial change applied (contract, PATCH).

    >>> merged([{"a": {"b": 1, "c": 2}}, []], [{"a": {"b": 3}}, [["a", "c"]]])
    [{'a': {'b': 3}}, [['a', 'c']]]
    """
    updates, removals = stored
    changes, gone = partial
    result = _merge(updates, changes)
    for path in gone:
        result = _without(result, path)
    kept = [path for path in removals if path not in gone and not _holds(changes, path)]
    return [result, [*kept, *gone]]


def _merge(stored: Fields, changes: Fields) -> Fields:
    """Return `stored` with `changes` applied; both arguments stay unchanged."""
    result = dict(stored)
    for key, value in changes.items():
        before = result.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            result[key] = _merge(before, value)
        else:
            result[key] = value
    return result


def _without(stored: Any, path: Path) -> Any:
    """Return an object without the setting that a path names."""
    key = str(path[0])
    if not isinstance(stored, dict) or key not in stored:
        return stored
    rest = {name: value for name, value in stored.items() if name != key}
    return rest if len(path) == 1 else {**rest, key: _without(stored[key], path[1:])}


def _holds(changes: Any, path: Path) -> bool:
    """Return whether an object sets the setting that a path names, or part of it."""
    for key in path:
        if not isinstance(changes, dict) or str(key) not in changes:
            return False
        changes = changes[str(key)]
    return True
