"""Refuse HDF5 files that refer to files outside their folder.

A link or a virtual dataset can name any file that the user may read. HDF5 follows it silently, so a file
from a stranger could place the content of another into an output. It returns fill values for parts of a
virtual dataset that are missing, which look like samples, so these are refused too.
"""

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py

from igbss_stream.errors import InputError, RecordingError
from igbss_stream.files.readers.hdf5.heap_references import check_heap_references

_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError)
_LINKS, _PARTS = "HDF5_EXT_PREFIX", "HDF5_VDS_PREFIX"


@dataclass(frozen=True)
class _Door:
    """Folders that a file may refer to, and what was checked of it.

    Parameters
    ----------
    folders : tuple of str
        Without symbolic links.
    checked : set of (path, dataset)
        Files, with an empty name, and datasets.
    """

    folders: tuple[str, ...]
    checked: set[tuple[str, str]] = field(default_factory=set)

    def resolve(self, name: str, holder: str, prefix: str, what: str) -> str | None:
        """Return the file that HDF5 opens for a name in another file; None if there is none.

        Raises
        ------
        InputError
            If it is outside the folders.
        """
        for candidate in _list_candidates(name, holder, os.environ.get(prefix, "")):
            if not os.path.exists(candidate):
                continue
            target = os.path.realpath(candidate)
            if not any(os.path.commonpath((folder, target)) == folder for folder in self.folders):
                raise InputError(
                    f"{what} refers to {target!r}, outside the folder {self.folders[0]!r} of the file, "
                    "which is refused because it can be any file; if you trust it, copy it into the folder "
                    "and refer to it there, or copy its data into the file"
                )
            if os.path.isfile(target) and h5py.is_hdf5(candidate):
                return candidate
        return None


def check_links(file: Any, path: Path) -> None:
    """Refuse a file with external links to files outside its folder, also by way of other files.

    Links to files that do not exist are not refused.

    Parameters
    ----------
    file : h5py.File
    path : Path

    Raises
    ------
    InputError
        If there is such a link.
    """
    _check_links(file, os.fspath(path), _make_door(path))


def check_parts(handle: Any, what: str) -> None:
    """Refuse a virtual dataset with parts that are outside the folder of its file, or missing.

    Parameters
    ----------
    handle : h5py.Dataset
    what : str
        Description of the dataset, for messages.

    Raises
    ------
    InputError
        If there is such a part.
    RecordingError
        If a part has external storage.
    """
    _check_storage(handle, what, _make_door(Path(handle.file.filename)))


def _make_door(path: Path) -> _Door:
    # HDF5 looks in the folder of the name by which a file was opened, then in that of the file itself.
    return _Door((os.path.realpath(path.parent), os.path.dirname(os.path.realpath(path))))


def _list_candidates(name: str, holder: str, prefixes: str) -> Iterator[str]:
    """Yield the paths at which HDF5 looks for a file that another refers to, in order."""
    folders = [os.path.dirname(os.path.abspath(holder)), os.path.dirname(os.path.realpath(holder))]
    prefixed = [p.replace("${ORIGIN}", folders[0]) for p in prefixes.split(":") if p]
    rest = name
    if os.path.isabs(name):
        yield name
        rest = os.path.basename(name)
    yield from (os.path.join(folder, rest) for folder in (*prefixed, folders[0]))
    yield rest  # relative to the working directory
    yield os.path.join(folders[1], rest)


def _check_links(file: Any, path: str, door: _Door) -> None:
    if (os.path.realpath(path), "") in door.checked:
        return
    door.checked.add((os.path.realpath(path), ""))
    found, objects = list[bytes](), set[int]()

    def note(name: bytes, info: Any) -> None:
        if info.type == h5py.h5l.TYPE_EXTERNAL:
            found.append(name)
        elif info.type == h5py.h5l.TYPE_HARD:
            objects.add(info.u)

    root = file["/"]  # its identifier becomes invalid with it
    links = root.id.links
    links.visit(note, info=True)
    objects.add(h5py.h5o.get_info(root.id).addr)  # no link leads to it
    check_heap_references(file, sorted(objects))
    for link in found:
        target = links.get_val(link)[0].decode("utf-8", "surrogateescape")
        what = f"link {link.decode('utf-8', 'replace')!r} in {path!r}"
        resolved = door.resolve(target, path, _LINKS, what)
        if resolved is not None:
            with _open(resolved, what) as other:
                _check_links(other, resolved, door)


def _check_storage(handle: Any, what: str, door: _Door) -> None:
    plist = handle.id.get_create_plist()
    if plist.get_external_count():
        raise RecordingError(
            f"{what} has external storage, which is refused because it can name any file; rewrite the file "
            "with 'h5repack -l CONTI' if you trust it"
        )
    holder = handle.file.filename
    place = (os.path.realpath(holder), handle.name)
    if plist.get_layout() != h5py.h5d.VIRTUAL or place in door.checked:
        return
    door.checked.add(place)
    for part in handle.virtual_sources():
        if part.file_name == ".":
            _check_part(handle.file, part, what, door)
            continue
        for name in _expand(part.file_name, holder):
            path = door.resolve(name, holder, _PARTS, what)
            if path is None:
                raise InputError(
                    f"{what} is stored in parts, and the part {name!r} is missing; restore it next to "
                    f"{holder!r}, or create the file again"
                )
            with _open(path, what) as other:
                _check_links(other, path, door)
                _check_part(other, part, what, door)


def _check_part(file: Any, part: Any, what: str, door: _Door) -> None:
    """Check that a part of a virtual dataset is there, and of what it consists in turn."""
    if "%b" in part.dset_name:  # one dataset per block, of any number
        for name in list(file):
            if isinstance(file[name], h5py.Dataset):
                _check_storage(file[name], what, door)
        return
    found = file.get(part.dset_name)
    if not isinstance(found, h5py.Dataset):
        raise InputError(
            f"{what} is stored in parts, and {file.filename!r} has no dataset {part.dset_name!r}; restore "
            "that file, or create the file again"
        )
    _check_extent(part, found, what)
    _check_storage(found, what, door)


def _check_extent(part: Any, found: Any, what: str) -> None:
    """Check that a part has everything that is read of it: HDF5 fails, or fills in, where it has less."""
    source, has = part.src_space, tuple(map(int, found.shape))
    if _is_unlimited(part.vspace) or _is_unlimited(source):
        return  # grows with the part
    if source.get_select_type() == h5py.h5s.SEL_ALL:
        needs = _get_extent(part.vspace)
        is_there = [n for n in needs if n != 1] == [n for n in has if n != 1]
    elif source.get_select_type() == h5py.h5s.SEL_HYPERSLABS:
        needs = tuple(int(last) + 1 for last in source.get_select_bounds()[1])
        is_there = len(needs) == len(has) and all(a <= b for a, b in zip(needs, has, strict=True))
    else:
        return
    if not is_there:
        raise InputError(
            f"{what} is stored in parts and needs {' x '.join(map(str, needs))} of {found.name!r} in "
            f"{found.file.filename!r}, which has {' x '.join(map(str, has))}; restore that file, or create "
            "the virtual dataset again"
        )


def _get_extent(space: Any) -> tuple[int, ...]:
    """Return the shape of a selection."""
    if space.get_select_type() == h5py.h5s.SEL_HYPERSLABS and space.is_regular_hyperslab():
        _, _, count, block = space.get_regular_hyperslab()
        return tuple(int(n) * int(size) for n, size in zip(count, block, strict=True))
    return tuple(map(int, space.shape)) or (int(space.get_select_npoints()),)


def _is_unlimited(space: Any) -> bool:
    """Return whether a selection goes on without end."""
    is_regular = space.get_select_type() == h5py.h5s.SEL_HYPERSLABS and space.is_regular_hyperslab()
    return is_regular and any(h5py.h5s.UNLIMITED in each for each in space.get_regular_hyperslab()[2:])


def _expand(name: str, holder: str) -> list[str]:
    """Return the names of the existing files that a pattern stands for; a plain name as it is."""
    if "%b" not in name:
        return [name.replace("%%", "%")]
    folder = os.path.dirname(os.path.abspath(holder))
    pattern = "*".join(glob.escape(piece.replace("%%", "%")) for piece in name.split("%b"))
    return sorted(glob.glob(os.path.join(folder, pattern))) or [name]


def _open(path: str, what: str) -> Any:
    try:
        return h5py.File(path, "r")
    except _ERRORS as error:
        reason = " ".join(str(error).split())
        raise RecordingError(
            f"{what} refers to {path!r}, which cannot be opened: {reason}; restore it"
        ) from error
