"""Which objects belong to something: names by key, so that thousands of jobs cost no scan."""

from __future__ import annotations

__all__ = ["Index"]


class Index:
    """Names under keys; a name may stand under several, and stays where it first stood while its keys are the same."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}
        self._keys: dict[str, frozenset[str]] = {}

    def put(self, name: str, keys: frozenset[str]) -> None:
        """The name stands under these keys from now on, and under no other."""
        if self._keys.get(name, frozenset()) == keys:
            return
        self.remove(name)
        if keys:
            self._keys[name] = keys
        for key in keys:
            self._names.setdefault(key, {})[name] = None

    def remove(self, name: str) -> None:
        """The name stands nowhere any more."""
        for key in self._keys.pop(name, ()):
            names = self._names[key]
            del names[name]
            if not names:
                del self._names[key]

    def under(self, key: str) -> tuple[str, ...]:
        """The names that stand under a key."""
        return tuple(self._names.get(key, ()))

    @property
    def keys(self) -> frozenset[str]:
        """The keys under which any name stands."""
        return frozenset(self._names)
