import hashlib
import json


class Keys:
    """The keys of calls. A key is a number that all ranks compute from a call's name, its shape and its other
    arguments (facts)."""

    def __init__(self):
        self._known = {}

    def of(self, op, shape, facts):
        """Returns (key, whether it is new). A key is new until shared() is called."""
        key = self._known.get((op, shape, *facts.values()))
        if key is not None:
            return key, False
        text = json.dumps([op, shape, facts])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1 | 1, True

    def shared(self, op, shape, facts):
        self._known[(op, shape, *facts.values())] = self.of(op, shape, facts)[0]
