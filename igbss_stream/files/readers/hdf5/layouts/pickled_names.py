"""Read names from a pickled attribute without unpickling it.

pandas and PyTables store column names as a pickled list. Unpickling can run arbitrary code, so the pickle
is only parsed; one with anything but a list of texts and integers yields no names.
"""

import pickletools
from typing import Any

_TEXTS = {"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "STRING", "SHORT_BINSTRING"}
_NUMBERS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1"}
_MARKS = {
    *("PROTO", "FRAME", "MARK", "LIST", "EMPTY_LIST", "APPEND", "APPENDS", "STOP"),
    *("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"),
}
_LONGEST = 1 << 22  # bytes


def read_pickled_names(value: Any) -> tuple[str, ...]:
    """Return the texts of a pickled flat list; empty if the pickle is anything else.

    Parameters
    ----------
    value : bytes or anything
        Value of the attribute.

    Returns
    -------
    tuple of str
    """
    if not isinstance(value, bytes) or len(value) > _LONGEST:
        return ()
    names, n_lists = [], 0
    try:
        for opcode, argument, _ in pickletools.genops(value):
            if opcode.name in _TEXTS or opcode.name in _NUMBERS:
                names.append(str(argument))
            elif opcode.name not in _MARKS:
                return ()
            n_lists += opcode.name in ("LIST", "EMPTY_LIST")
    except Exception:  # the type depends on the damage
        return ()
    return tuple(names) if n_lists == 1 else ()
