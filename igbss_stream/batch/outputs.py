"""Where the sources of each recording go, by a template; what cannot be is refused beforehand."""

import os
from collections.abc import Sequence
from pathlib import Path
from string import Formatter

from igbss_stream.batch.inputs import Found
from igbss_stream.errors import ParameterError

FIELDS = ("stem", "name", "parent", "path", "index")
_LISTED = "{" + "}, {".join(FIELDS) + "}"
_DEFAULT = "{stem}.h5"
_NOT_HDF5 = {".edf", ".bdf", ".vhdr", ".fif", ".set", ".csv", ".tsv", ".txt", ".npy", ".html"}


def is_template(output: str) -> bool:
    """Return whether an output names a folder, by a slash at its end, or has fields."""
    return "{" in output or "}" in output or (output.endswith("/") and output.strip("/") != "")


def place_all(output: str, found: Sequence[Found], model: Path | None = None) -> list[Path]:
    """Return where the sources of each recording go.

    Parameters
    ----------
    output : str
        A folder, which stands for ``FOLDER/{stem}.h5``; a template; or a plain name for a single recording.
    found : sequence of Found
    model : Path, optional
        A file that is read for all of them.

    Returns
    -------
    list of Path

    Raises
    ------
    ParameterError
        If the template cannot be used, two recordings would share an output, or one is the output of
        another.
    """
    template = output
    if not is_template(output):
        if os.path.isdir(output):
            template = f"{_literal(output)}/{_DEFAULT}"
        elif len(found) > 1:
            raise ParameterError(
                f"--output '{output}' is one file for {len(found)} recordings; end it with / for a folder, "
                f"or give a template such as 'out/{_DEFAULT}'. Fields: {_LISTED}"
            )
        else:
            template = _literal(output)
    elif output.endswith("/"):
        template = output + _DEFAULT
    _check(template)
    places = [_filled(template, item, n) for n, item in enumerate(found, 1)]
    _check_places(places, found)
    for place in places:
        check_ending(place)
    if model is not None and os.path.realpath(model) in map(os.path.realpath, places):
        raise ParameterError(f"the output '{model}' is --model itself; choose another --output")
    return places


def check_ending(place: Path) -> None:
    """Refuse a name that is of another format than what is written.

    Parameters
    ----------
    place : Path

    Raises
    ------
    ParameterError
        If it ends as a file of another format does.
    """
    if place.suffix.lower() in _NOT_HDF5:
        called = place.with_suffix(".h5")
        raise ParameterError(
            f"--output '{place}' ends in {place.suffix}, but batch writes HDF5: call it '{called}'. "
            "`igbss-stream export` makes EDF, BDF and BrainVision of it, and --report a page"
        )


def folder_of(output: str) -> Path:
    """Return the folder that all outputs lie in or below, whichever they are.

    Parameters
    ----------
    output : str
        As in `place_all`.

    Returns
    -------
    Path
    """
    if not is_template(output):
        return Path(output) if os.path.isdir(output) else Path(output).parent
    fixed = next(iter(Formatter().parse(output)))[0]
    return Path(fixed) if fixed.endswith("/") else Path(fixed).parent


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _check(template: str) -> None:
    """Refuse fields that there are not."""
    try:
        fields = [part[1:] for part in Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        raise ParameterError(f"--output '{template}' is no template: {error}. Fields: {_LISTED}") from None
    for name, form, conversion in fields:
        if name not in FIELDS or conversion or (form and name != "index"):
            shown = f"{{{name}{'!' + conversion if conversion else ''}{':' + form if form else ''}}}"
            raise ParameterError(
                f"--output '{template}' has the field {shown}; there are {_LISTED}, and index may have a "
                "width, as in {index:03d}. Double the braces to have them in the name."
            )


def _filled(template: str, item: Found, index: int) -> Path:
    absolute = Path(os.path.abspath(item.path))
    try:
        text = template.format(
            stem=item.path.stem,
            name=item.path.name,
            parent=absolute.parent.name,
            path=item.relative.with_suffix(""),
            index=index,
        )
    except (ValueError, KeyError, IndexError) as error:
        raise ParameterError(f"--output '{template}' cannot be filled in: {error}") from None
    return Path(text)


def _check_places(places: Sequence[Path], found: Sequence[Found]) -> None:
    inputs = {os.path.realpath(item.path): item.path for item in found}
    taken: dict[str, Path] = {}
    for place, item in zip(places, found, strict=True):
        at = os.path.realpath(place)
        if at in taken:
            other = taken[at]
            apart = (
                "{name} or {index}" if other.parent == item.path.parent else "{path}, {parent} or {index}"
            )
            raise ParameterError(
                f"'{other}' and '{item.path}' would both be written to '{place}'; tell them apart in "
                f"--output by {apart}"
            )
        if at in inputs:
            raise ParameterError(
                f"the output '{place}' of '{item.path}' is one of the recordings, '{inputs[at]}', which "
                "are never overwritten; choose another --output, or name folders and quoted globs, which "
                "leave out what batch wrote"
            )
        taken[at] = item.path
