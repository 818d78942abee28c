"""Write the labels of sources: in the table of sources, and in the section of each."""

from igbss_stream.labels.labelling import OTHER, Labelling
from igbss_stream.labels.scores import LABELS
from igbss_stream.pages.markup import escape

_SHOWN = 0.2  # least score of a label that is listed besides the first


def format_label(labels: Labelling, source: int) -> str:
    """Return the label of a source and its score, as HTML.

    Parameters
    ----------
    labels : Labelling
    source : int
    """
    name = labels.labels[source]
    return escape(name if name == OTHER else f"{name} {labels.top_scores[source]:.2f}")


def describe_label(labels: Labelling, source: int) -> str:
    """Return the label of a source with its reason, and the next labels, as HTML.

    Parameters
    ----------
    labels : Labelling
    source : int
    """
    scores = sorted(zip(labels.scores[source].tolist(), LABELS, strict=True), reverse=True)
    others = [
        f"{name} {score:.2f}" for score, name in scores if score >= _SHOWN and name != labels.labels[source]
    ]
    more = f" Other scores: {escape(', '.join(others))}." if others else ""
    return (
        f'<p class="why">Label: <b>{format_label(labels, source)}</b>, because: '
        f"{escape(labels.reasons[source])}.{more}</p>"
    )


def explain_labels(labels: Labelling) -> str:
    """Return what labels are, and what could not be judged, as HTML.

    Parameters
    ----------
    labels : Labelling
    """
    notes = "".join(f" Note: {escape(note)}." for note in labels.notes)
    return (
        " Labels follow from the map, the spectrum and the course of a source; scores are from 0 to 1. "
        "To remove sources by label, run <code>batch --exclude-labelled eye,heart</code>." + notes
    )
