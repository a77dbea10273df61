"""Server-side apply: who set which field, kept in a side table and never shown.

A field is a path of names; an element of a list that is merged by key is named by that key, so ``("spec",
"containers", ("name", "node"), "image")`` is one field. Lists without a key are one field as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.objects import Object, clone
from airflow_dispatch.localcluster.apiserver.patch import MERGE_KEYS, SET_FIELDS

__all__ = ["FieldOwners"]

Step = str | tuple[str, Any]
Path = tuple[Step, ...]
Owner = tuple[str, bool]
"""A field manager, and whether it owns by apply (else by any other write): the two are told apart."""

_APPLY_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    **MERGE_KEYS,
    "jobsStatus": ("name",),
    "replicatedJobs": ("name",),
    "replicatedJobsStatus": ("name",),
    "runtimePatches": ("manager",),
}

_MISSING: Final = object()
_NOT_OWNED: Final = frozenset({"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation"})


class FieldOwners:
    """The owners of one object's fields."""

    def __init__(self) -> None:
        self._owned: dict[Owner, set[Path]] = {}

    def written(self, manager: str, old: Object, new: Object) -> None:
        """Notes an ordinary write: what changed is the writer's, what vanished is nobody's."""
        before, after = _fields(old), _fields(new)
        changed = {path for path, value in after.items() if before.get(path, _MISSING) != value}
        vanished = set(before) - set(after)
        for owner in list(self._owned):
            self._owned[owner] -= changed | vanished
        if changed:
            self._owned.setdefault((manager, False), set()).update(changed)
        self._forget_the_empty()

    def applied(self, manager: str, live: Object, config: Object, *, force: bool) -> Object:
        """The live object with the manager's whole wish applied; notes the manager as the owner of it.

        Fields that the manager applied before and no longer names are removed unless someone else owns them too.

        Raises:
            ApiError: 409 when another manager owns a field with another value and ``force`` is not set.
        """
        wish, present = _fields(config), _fields(live)
        me: Owner = (manager, True)
        disputed = {path: value for path, value in wish.items() if present.get(path, _MISSING) != value}
        conflicts = [
            (owner, path) for owner, paths in self._owned.items() if owner != me for path in disputed if path in paths
        ]
        if conflicts and not force:
            raise _conflict(conflicts, config.get("apiVersion", ""))
        for owner, path in conflicts:
            self._owned[owner].discard(path)
        result: Object = clone(live)
        dropped = self._owned.get(me, set()) - set(wish)
        for path in sorted(dropped, key=len):
            if not _is_key(path) and not self._others_own(me, path):
                _remove(result, path)
        self._owned[me] = set(wish)
        self._forget_the_empty()
        return _merged("", result, config)  # type: ignore[no-any-return]

    def copy(self) -> FieldOwners:
        """An independent copy, for writes that may yet be refused."""
        other = FieldOwners()
        other._owned = {owner: set(paths) for owner, paths in self._owned.items()}
        return other

    def _others_own(self, me: Owner, path: Path) -> bool:
        return any(known[: len(path)] == path for owner, paths in self._owned.items() if owner != me for known in paths)

    def _forget_the_empty(self) -> None:
        self._owned = {owner: paths for owner, paths in self._owned.items() if paths}


def _conflict(conflicts: list[tuple[Owner, Path]], api_version: str) -> ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{owner[0]}" using {api_version}',
            "field": _text(path),
        }
        for owner, path in sorted(conflicts, key=lambda entry: (entry[0], _text(entry[1])))
    ]
    number = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    if len(causes) == 1:
        text = f"{causes[0]['message']}: {causes[0]['field']}"
    else:
        text = "\n".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    return ApiError(409, "Conflict", f"Apply failed with {number}: {text}", {"causes": causes})


def _text(path: Path) -> str:
    """The path as the real server prints it: ``.spec.containers[name="node"].image``."""
    return "".join(f".{step}" if isinstance(step, str) else f'[{step[0]}="{step[1]}"]' for step in path)


def _identity(field: str, item: Any) -> tuple[str, Any] | None:
    if not isinstance(item, dict):
        return None
    return next(((key, item[key]) for key in _APPLY_KEYS.get(field, ()) if key in item), None)


def _keyed(field: str, items: list[Any]) -> bool:
    return bool(items) and field in _APPLY_KEYS and all(_identity(field, item) for item in items)


def _fields(obj: Object) -> dict[Path, Any]:
    """Every field that can have an owner, with its value; a keyed element counts as a field of its own."""
    found: dict[Path, Any] = {}
    for key, value in obj.items():
        if key in ("apiVersion", "kind"):
            continue
        if key == "metadata":
            for name, part in value.items():
                if name not in _NOT_OWNED:
                    _collect((key, name), name, part, found)
        else:
            _collect((key,), key, value, found)
    return found


def _collect(path: Path, field: str, value: Any, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value:
        for key, part in value.items():
            _collect((*path, key), key, part, found)
    elif isinstance(value, list) and field in SET_FIELDS:
        for item in value:
            found[*path, ("", item)] = item
    elif isinstance(value, list) and _keyed(field, value):
        for item in value:
            identity = _identity(field, item)
            if identity is not None:
                found[*path, identity] = True
                for key, part in item.items():
                    _collect((*path, identity, key), key, part, found)
    else:
        found[path] = value


def _is_key(path: Path) -> bool:
    """Whether the field is what its list element is named by: it goes with the element, never alone."""
    return len(path) > 1 and isinstance(path[-2], tuple) and path[-2][0] == path[-1]


def _remove(obj: Object, path: Path) -> None:
    """Takes one field out, and the containers that this leaves empty."""
    trail: list[tuple[Any, Step]] = []
    node: Any = obj
    for step in path:
        child = _child(node, step)
        if child is _MISSING:
            return
        trail.append((node, step))
        node = child
    for depth, (holder, step) in enumerate(reversed(trail)):
        if depth and _child(holder, step) not in ({}, []):
            return
        if isinstance(step, str):
            del holder[step]
        else:
            holder.remove(_child(holder, step))


def _child(node: Any, step: Step) -> Any:
    if isinstance(step, str):
        return node.get(step, _MISSING) if isinstance(node, dict) else _MISSING
    if not isinstance(node, list):
        return _MISSING
    key, value = step
    return next(
        (item for item in node if (item == value if not key else isinstance(item, dict) and item.get(key) == value)),
        _MISSING,
    )


def _merged(field: str, live: Any, wish: Any) -> Any:
    if isinstance(wish, dict) and isinstance(live, dict):
        return live | {key: _merged(key, live.get(key), value) for key, value in wish.items()}
    if isinstance(wish, list) and isinstance(live, list):
        if field in SET_FIELDS:
            return live + [item for item in wish if item not in live]
        if _keyed(field, wish) and (not live or _keyed(field, live)):
            result = list(live)
            for item in wish:
                identity = _identity(field, item)
                index = next((n for n, known in enumerate(result) if _identity(field, known) == identity), None)
                if index is None:
                    result.append(clone(item))
                else:
                    result[index] = _merged("", result[index], item)
            return result
    return clone(wish)
