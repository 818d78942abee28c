"""Outputs of earlier runs: which may be kept as they are, and folders for those to come."""

from pathlib import Path

from igbss_stream.batch.fingerprint import Fingerprint, differences
from igbss_stream.errors import RecordingError
from igbss_stream.files.results.output import OutputFacts, facts_of
from igbss_stream.files.writers.locking import partial_of, remove_left_over


def kept(output: Path, now: Fingerprint, *, overwrite: bool) -> OutputFacts | None:
    """Return what an output that exists says of itself, if it is what would be made now.

    Parameters
    ----------
    output : Path
    now : dict
        The fingerprint of what is to be made.
    overwrite : bool
        Whether it may be replaced if it is another.

    Returns
    -------
    OutputFacts or None
        None if it is to be replaced.

    Raises
    ------
    RecordingError
        If it is another, and may not be replaced.
    """
    try:
        earlier = facts_of(output)
        differs = "it does not say what it was made from"
        if earlier.job is not None:
            differs = differences(earlier.job, now)
    except RecordingError as error:
        differs = str(error)
    if not differs:
        remove_left_over(partial_of(output))
        return earlier
    if overwrite:
        return None
    raise RecordingError(
        f"'{output}' exists and is not what would be made now: {differs}; pass --overwrite to replace it "
        "or choose another output"
    )


def make_folder(output: Path) -> None:
    """Make the folder of an output, where it is missing.

    Parameters
    ----------
    output : Path

    Raises
    ------
    RecordingError
        If it cannot be made.
    """
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordingError(
            f"'{output}' cannot be written: its folder cannot be made ({error.strerror}); choose another "
            "output"
        ) from error
