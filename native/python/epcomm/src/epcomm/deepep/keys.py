"""Numbers for the arguments that a call must share with the calls of the other ranks."""

import hashlib
import json


class Keys:
    """Knows the key of every (call, shape, facts) that a rank has made. Ranks with the same have the
    same key."""

    def __init__(self):
        self._known = {}

    def of(self, op, shape, facts):
        """(key, whether it is new). A new one stays new until shared says that the ranks compared it."""
        key = self._known.get((op, shape, *facts.values()))
        if key is not None:
            return key, False
        text = json.dumps([op, shape, facts])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1 | 1, True

    def shared(self, op, shape, facts):
        self._known[(op, shape, *facts.values())] = self.of(op, shape, facts)[0]
