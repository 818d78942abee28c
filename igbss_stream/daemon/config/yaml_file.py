"""Read a YAML file: plain values, and the line of each.

Scalars are read as in YAML 1.2, where ``on``, ``no`` and ``12:30`` are text and ``1e-6`` is a number; in
the older version, which PyYAML follows unless told otherwise, it is the other way round. Nothing is
executed, no key may come twice, and the file and what it unfolds to are bounded.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from igbss_stream.errors import ConfigError

MAX_BYTES = 1 << 20
_MAX_VALUES = 100_000  # aliases of aliases can unfold to any number

_EXCERPT = re.compile(
    r"'(?!<|\\t')[^']{2,}'"
)  # all that is quoted, but for single characters and '<tokens>'

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """What a YAML file holds.

    Parameters
    ----------
    path : Path
        The file.
    tree : object
        Its content: dict, list, str, int, float, bool and None.
    lines : dict
        The line, from 1, of each value, by its keys and indices from the root.
    """

    path: Path
    tree: Any
    lines: dict[KeyPath, int]

    def place(self, keys: KeyPath) -> str:
        """Return file and line of a value, or of what it is missing from."""
        while keys not in self.lines:
            keys = keys[:-1]
        return f"{self.path}:{self.lines[keys]}"


def read_yaml(path: Path) -> Document:
    """Read a YAML file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Document

    Raises
    ------
    ConfigError
        If the file cannot be read, or is not one YAML document that this package takes.
    """
    text = _text(path)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise ConfigError(f"{path} is empty; `igbss-stream init` writes a file to start from")
        lines: dict[KeyPath, int] = {}
        tree = loader.construct_document(node)
        _note_lines(node, _line(node), (), lines)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_in_one_line(error, path)) from None
    except yaml.YAMLError:
        raise ConfigError(f"{path} holds characters that are not text; save it as UTF-8") from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply to be a configuration") from None
    return Document(path, tree, lines)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_BYTES} bytes, and so no configuration")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"{path} does not exist; `igbss-stream init {path}` writes one to start from"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None


def _in_one_line(error: yaml.MarkedYAMLError, path: Path) -> str:
    """Return what is wrong, without the excerpts of the file: they might show a secret."""
    mark = error.problem_mark or error.context_mark
    line = f":{mark.line + 1}" if mark else ""
    problem = _EXCERPT.sub("(...)", error.problem or "it cannot be read")
    remedy = f" ({error.context})" if error.context else ""
    return f"{path}{line}: {problem}{remedy}"


class _Loader(yaml.SafeLoader):
    """The safe loader, with the scalars of YAML 1.2, and without what a configuration does not need."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as the parent

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a value, and refuse tags."""
        event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it out
        if getattr(event, "tag", None):
            raise _problem("tags, which begin with !, are not taken; write a text in quotes", event)
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping, and refuse keys that come twice or are not text."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag != _TEXT:
                raise _problem("a key is not text; write it in quotes", key)
            if key.value in seen:
                raise _problem(f"{key.value} is given already on line {seen[key.value]}", key)
            seen[key.value] = _line(key)
        return node


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _problem(text: str, where: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=text, problem_mark=where.start_mark)


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    number = float(node.value)
    if not math.isfinite(number):
        raise _problem("a number is too large", node)
    return number


def _int(loader: _Loader, node: yaml.ScalarNode) -> int:
    return int(node.value)


_TEXT = "tag:yaml.org,2002:str"
_BOOL, _INT, _FLOAT, _NULL = (f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float", "null"))
for _tag, _pattern, _first in (
    (_BOOL, r"true|True|TRUE|false|False|FALSE", "tTfF"),
    (_INT, r"[-+]?[0-9]{1,18}", "-+0123456789"),
    (_FLOAT, r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor(_FLOAT, _float)
_Loader.add_constructor(_INT, _int)


def _note_lines(node: yaml.Node, line: int, keys: KeyPath, lines: dict[KeyPath, int]) -> None:
    """Note the line of a value, which is that of its key, and the lines of all within."""
    if len(lines) >= _MAX_VALUES:
        raise _problem("this unfolds to too many values", node)
    lines[keys] = line
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _note_lines(value, _line(key), (*keys, key.value), lines)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            _note_lines(value, _line(value), (*keys, i), lines)
