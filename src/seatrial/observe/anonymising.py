"""Names in a recording: as they are, or replaced by a keyed hash before anything is written.

The salt is kept out of the recording: without it nobody can try names until one fits. The same name gets the same hash within a
recording, so who submitted what together can still be seen.
"""

from __future__ import annotations

import hashlib

NAME_BYTES, UID_BYTES = 6, 16  # 2^48: two of 10,000 names have the same hash once in 5 million recordings


class NameHider:
    """Replaces names if there is a salt."""

    def __init__(self, salt: bytes = b"") -> None:
        self._salt = salt
        self._known: dict[tuple[str, str], str] = {}

    @property
    def hides(self) -> bool:
        """Whether names are replaced."""
        return bool(self._salt)

    def name(self, what: str, text: str) -> str:
        """`user-3f9a…` for a user's name. Empty names stay empty."""
        if not self._salt or not text:
            return text
        known = self._known.get((what, text))
        if known is None:
            known = self._known[what, text] = f"{what}-{self._hash(text, NAME_BYTES)}"
        return known

    def once(self, what: str, text: str) -> str:
        """The same for a name that will not come again: not remembered."""
        return f"{what}-{self._hash(text, NAME_BYTES)}" if self._salt and text else text

    def uid(self, uid: str) -> str:
        """What stands for a uid."""
        return self._hash(uid, UID_BYTES) if self._salt and uid else uid

    def _hash(self, text: str, size: int) -> str:
        return hashlib.blake2b(text.encode(), digest_size=size, key=self._salt).hexdigest()
