"""Which model made which samples, from when on, and where it is from."""

from collections.abc import Iterator
from datetime import timedelta

import numpy as np

from igbss_stream.files.results.stream_recording import ModelChange
from igbss_stream.pages.report.contents import Contents
from igbss_stream.pages.report.excerpt import indices
from igbss_stream.pages.report.markup import duration, number, table, text

_MOST_VERSIONS = 30  # that a table lists


def versions(contents: Contents) -> str:
    """Return a table of the models of an output of `batch`: there is one.

    Parameters
    ----------
    contents : Contents
    """
    periods = "" if contents.model.mixing.ndim == 2 else f", of {len(contents.model.mixing)} periods"
    row = (
        f"1{periods}",
        number(0.0),
        _length(contents, contents.n_indices),
        f"{contents.sources.n_samples:,}",
        _origin(contents),
    )
    header = ("version", f"from ({_unit(contents)})", "for", "samples", "where it is from")
    return "<h3>Versions of the model</h3><p>One model holds for all samples.</p>" + table(
        header, [row], (0, 1, 2, 3)
    )


def versions_of_stream(contents: Contents) -> str:
    """Return the section on the models that made a stream.

    Parameters
    ----------
    contents : Contents
        Of a stream.
    """
    assert contents.stream is not None
    changes = contents.stream.changes
    n = len({change.version for change in changes if change.version})
    words = {0: "No model made these samples.", 1: "One model made all that it made."}.get(
        n,
        f"{n} versions of the model, one after the other. Dashed lines in the traces say where a new one "
        "took force.",
    )
    header = ["version", f"from ({_unit(contents)})", "for", "samples", "what happened"]
    if contents.stream.began is not None:
        header.insert(2, "at (UTC)")
    more = len(changes) - _MOST_VERSIONS
    return (
        f'<section id="method"><h2>Which models made it</h2><p>{words}</p>'
        + (table(header, _rows(contents), range(len(header) - 1)) if changes else "")
        + (f"<p>{more} more are in <code>/models</code> of the recording.</p>" if more > 0 else "")
        + "<p>The recording keeps which model made which samples, not the models: their settings are in "
        "the configuration of the daemon, and its log tells of each.</p></section>"
    )


def model_marks(contents: Contents) -> list[tuple[float, str]]:
    """Return when a new model took force, after the first one, and its name.

    Parameters
    ----------
    contents : Contents
    """
    changes = () if contents.stream is None else contents.stream.changes
    new = [change for i, change in enumerate(changes) if i and change.version != changes[i - 1].version]
    at = indices(contents, np.array([change.row for change in new], np.int64))
    rate = contents.sources.rate or 1.0
    names = [f"model {change.version}" if change.version else "no model" for change in new]
    return list(zip((at / rate).tolist(), names, strict=True))


def _rows(contents: Contents) -> Iterator[list[str]]:
    stream, n = contents.stream, contents.sources.n_samples
    assert stream is not None
    rows = np.array([*(change.row for change in stream.changes), n], np.int64)
    at = np.append(indices(contents, rows[:-1]), contents.n_indices)
    rate = contents.sources.rate
    for i, change in enumerate(stream.changes[:_MOST_VERSIONS]):
        row = [
            f"{change.version}" if change.version else "none",
            number(at[i] / (rate or 1.0), 7),
            _length(contents, int(at[i + 1] - at[i])),
            f"{rows[i + 1] - rows[i]:,}",
            _event(stream.changes, i),
        ]
        if stream.began is not None and rate:
            row.insert(2, f"{stream.began + timedelta(seconds=at[i] / rate):%Y-%m-%d %H:%M:%S}")
        yield row


def _event(changes: tuple[ModelChange, ...], i: int) -> str:
    if i == 0:
        return "the first samples"
    if changes[i].version == changes[i - 1].version:
        return "another run goes on with it"
    return "took force" if changes[i].version else "no model made them"


def _unit(contents: Contents) -> str:
    return "s" if contents.sources.rate else "samples"


def _length(contents: Contents, n_indices: int) -> str:
    rate = contents.sources.rate
    return duration(n_indices / rate) if rate else f"{n_indices:,} samples"


def _origin(contents: Contents) -> str:
    model, told = contents.model, contents.attributes.get("model")
    is_learned = model.settings.get("structure") == "learned"
    steps = f" in {len(model.losses)} steps" if model.losses else ""
    how = f"learned{steps}" if is_learned else "fixed beforehand"
    if told is None and (contents.facts.job or {}).get("model") is None:
        return f"{how}, {'from this recording' if is_learned else 'by the settings'}"
    if told is None:
        return f"{how}; read from an earlier output (<code>--model</code>)"
    names = ", ".join(text(name) for name in model.origin.recordings if name)
    more = model.origin.n_recordings - len(model.origin.recordings)
    others = f" and {more} more" if more > 0 else ""
    of = f", from {names}{others}" if names and is_learned else ""
    return f"{how}{of}; read from <code>{text(told.get('file', ''))}</code>"
