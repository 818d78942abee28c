"""Plan the output path of each recording from a template, and refuse conflicts before anything runs."""

import os
from collections.abc import Sequence
from pathlib import Path
from string import Formatter

from igbss_stream.batch.inputs import FoundRecording
from igbss_stream.errors import ParameterError

FIELDS = ("stem", "name", "parent", "path", "index")
_LISTED = "{" + "}, {".join(FIELDS) + "}"
_DEFAULT = "{stem}.h5"
_NOT_HDF5 = {".edf", ".bdf", ".vhdr", ".fif", ".set", ".csv", ".tsv", ".txt", ".npy", ".html"}


def is_template(output: str) -> bool:
    """Return whether an output has fields, or names a folder by a trailing slash."""
    return "{" in output or "}" in output or (output.endswith("/") and output.strip("/") != "")


def plan_outputs(output: str, found: Sequence[FoundRecording], model: Path | None = None) -> list[Path]:
    """Return the output path of each recording.

    Parameters
    ----------
    output : str
        A folder (short for ``FOLDER/{stem}.h5``), a template, or a file name for a single recording.
    found : sequence of Found
    model : Path, optional
        Model file that is read for all of them.

    Returns
    -------
    list of Path

    Raises
    ------
    ParameterError
        If the template is invalid, two recordings share an output, or an output is a recording.
    """
    template = output
    if not is_template(output):
        if os.path.isdir(output):
            template = f"{_escape_braces(output)}/{_DEFAULT}"
        elif len(found) > 1:
            raise ParameterError(
                f"--output '{output}' is one file for {len(found)} recordings; end it with / for a folder, "
                f"or give a template such as 'out/{_DEFAULT}'. Fields: {_LISTED}"
            )
        else:
            template = _escape_braces(output)
    elif output.endswith("/"):
        template = output + _DEFAULT
    _check(template)
    places = [_fill_template(template, item, n) for n, item in enumerate(found, 1)]
    _check_places(places, found)
    for place in places:
        check_ending(place)
    if model is not None and os.path.realpath(model) in map(os.path.realpath, places):
        raise ParameterError(f"the output '{model}' is --model itself; choose another --output")
    return places


def check_ending(place: Path) -> None:
    """Check that a path does not have the extension of another format.

    Parameters
    ----------
    place : Path

    Raises
    ------
    ParameterError
        If it has the extension of another format.
    """
    if place.suffix.lower() in _NOT_HDF5:
        renamed = place.with_suffix(".h5")
        raise ParameterError(
            f"--output '{place}' ends in {place.suffix}, but batch writes HDF5; pass '{renamed}'. "
            "`igbss-stream export` converts it to EDF, BDF or BrainVision, and --report writes a page"
        )


def get_output_folder(output: str) -> Path:
    """Return the folder that contains all outputs, directly or in subfolders.

    Parameters
    ----------
    output : str
        See `plan_outputs`.

    Returns
    -------
    Path
    """
    if not is_template(output):
        return Path(output) if os.path.isdir(output) else Path(output).parent
    fixed = next(iter(Formatter().parse(output)))[0]
    return Path(fixed) if fixed.endswith("/") else Path(fixed).parent


def _escape_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _check(template: str) -> None:
    """Check the fields of a template."""
    try:
        fields = [part[1:] for part in Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        raise ParameterError(
            f"--output '{template}' is not a valid template: {error}. Fields: {_LISTED}"
        ) from None
    for name, form, conversion in fields:
        if name not in FIELDS or conversion or (form and name != "index"):
            shown = f"{{{name}{'!' + conversion if conversion else ''}{':' + form if form else ''}}}"
            raise ParameterError(
                f"--output '{template}' has the field {shown}. The fields are {_LISTED}; index may have "
                "a width, as in {index:03d}. Double the braces for literal ones."
            )


def _fill_template(template: str, item: FoundRecording, index: int) -> Path:
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


def _check_places(places: Sequence[Path], found: Sequence[FoundRecording]) -> None:
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
                f"'{other}' and '{item.path}' would both be written to '{place}'; distinguish "
                f"them in --output by {apart}"
            )
        if at in inputs:
            raise ParameterError(
                f"the output '{place}' of '{item.path}' is one of the recordings, '{inputs[at]}', which "
                "are never overwritten; choose another --output, or name folders or quoted globs, which "
                "skip outputs of batch"
            )
        taken[at] = item.path
