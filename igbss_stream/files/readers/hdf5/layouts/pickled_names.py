"""Names in a pickled attribute, read without unpickling.

pandas and PyTables store the names of columns as a pickled list. Unpickling runs whatever code the file
asks for. Here the pickle is only taken apart: if it holds anything but a list of texts and whole
numbers, it has no names.
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


def pickled_names(value: Any) -> tuple[str, ...]:
    """Return the texts of a pickled flat list; nothing if the pickle is anything else.

    Parameters
    ----------
    value : bytes or anything
        The attribute.

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
    except Exception:  # pickletools raises whatever a broken pickle makes it stumble over
        return ()
    return tuple(names) if n_lists == 1 else ()
