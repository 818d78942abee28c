"""Mutations of an HDF5 file with a model: of its length, its datasets, its attributes and their JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

from igbss_stream.files.checksum import write_checksum

_HUGE = 1 << 40
_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 3, 1 << 70, 1e308, float("nan"), float("inf"), "", "x", "learned", [], [1.0], {}, {"a": 1}
)  # fmt: skip
_ATTRIBUTES: tuple[Any, ...] = (
    0, -1, 1 << 62, float("nan"), float("inf"), "", "{}", "[]", "null", "[" * 50_000, '{"a": 1e999}', b"\xff\xfe",
    ["a", "b"], [1.5, 2.5], np.zeros((2, 2)), np.bytes_(b"\xff"), h5py.Empty("f8"),
)  # fmt: skip


def mutate(path: Path, content: bytes, rng: Random) -> str:
    """Write a mutated copy of a file, and return what was changed."""
    if rng.random() < 0.1:
        path.write_bytes(content[: rng.randrange(len(content))])
        return "truncated"
    path.write_bytes(content)
    with h5py.File(path, "r+") as file:
        change = str(rng.choice((_change_dataset, _change_attribute, _change_json))(file, rng))
    with open(path, "r+b") as file:
        write_checksum(file)  # else the content is not looked at
    return change


def _change_dataset(file: Any, rng: Random) -> str:
    name = rng.choice(sorted(file))
    values, attrs = file[name][()], dict(file[name].attrs)
    del file[name]
    change = rng.choice(("remove", "group", "link", "huge", "shape", "type", "value"))
    if change == "group":
        file.create_group(name)
    elif change == "link":
        file[name] = h5py.SoftLink(rng.choice((f"/{name}", "/missing", "/mixing")))
    elif change == "huge":
        shape = tuple(_HUGE // 8**i for i in range(values.ndim))
        file.create_dataset(name, shape, values.dtype, chunks=(16,) * values.ndim)
    elif change != "remove":
        changed = _CHANGES[change](values, rng)
        file[name] = changed
    if change in ("huge", *_CHANGES) and rng.random() < 0.9:
        file[name].attrs.update(attrs)
    return f"{change} of {name}"


def _change_shape(values: Any, rng: Random) -> Any:
    return rng.choice((values.T, values[None], values[:1], values[1:], values[:0], values.reshape(-1)))


def _change_type(values: Any, rng: Random) -> Any:
    if values.dtype.names is not None:
        return np.zeros(len(values))
    kind = rng.choice(("i8", "u1", "f2", "f4", ">f8", "?", "c16", "S3", [("a", "f8")]))
    return np.zeros(values.shape, kind) if isinstance(kind, list) else values.astype(kind)


def _change_value(values: Any, rng: Random) -> Any:
    if values.dtype.names is not None:
        out = np.array(values)
        for field in values.dtype.names:
            if out.dtype[field].kind in "if":
                out[field] = rng.choice((-1, 1000, 2**60))
        return out
    out = values.astype(np.float64)
    where = rng.randrange(out.size) if out.size and rng.random() < 0.7 else slice(None)
    out.reshape(-1)[where] = rng.choice((np.nan, np.inf, -np.inf, 0.0, 1e300, 1e-300, -7.0, 2.0**60))
    return out


_CHANGES: dict[str, Callable[[Any, Random], Any]] = {
    "shape": _change_shape, "type": _change_type, "value": _change_value
}  # fmt: skip


def _change_attribute(file: Any, rng: Random) -> str:
    holder = rng.choice((file, file, *(file[name] for name in sorted(file) if len(file[name].attrs))))
    name = rng.choice(sorted(holder.attrs))
    del holder.attrs[name]
    if rng.random() < 0.85:
        holder.attrs[name] = rng.choice(_ATTRIBUTES)
    return f"attribute {name} of {holder.name}"


def _change_json(file: Any, rng: Random) -> str:
    """Change, remove or add a value somewhere in an attribute that contains JSON."""
    names = [name for name, value in file.attrs.items() if isinstance(value, str) and value.startswith("{")]
    name = rng.choice(sorted(names))
    tree = json.loads(file.attrs[name])
    node = tree
    while True:
        key = rng.choice(sorted(node) or ["x"]) if isinstance(node, dict) else rng.randrange(len(node))
        below = node.get(key) if isinstance(node, dict) else node[key]
        if not (isinstance(below, dict | list) and below and rng.random() < 0.7):
            break
        node = below
    change = rng.choice(("set", "set", "set", "remove", "add"))
    if change == "remove" and isinstance(node, dict):
        node.pop(key, None)
    elif change == "add" and isinstance(node, dict):
        node["unknown"] = rng.choice(_VALUES)
    else:
        node[key] = rng.choice(_VALUES)
    file.attrs[name] = json.dumps(tree)
    return f"{change} {key} in {name}"
