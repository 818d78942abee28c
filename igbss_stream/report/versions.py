"""Which model made which samples, and where each is from."""

from igbss_stream.report.contents import Contents
from igbss_stream.report.markup import duration, number, table, text


def versions(contents: Contents) -> str:
    """Return a table of the models of an output of `batch`: there is one.

    Parameters
    ----------
    contents : Contents
    """
    rate, n = contents.sources.rate, contents.n_indices
    unit = "s" if rate else "samples"
    periods = "" if contents.model.mixing.ndim == 2 else f", of {len(contents.model.mixing)} periods"
    row = (
        f"1{periods}",
        number(0.0),
        duration(n / rate) if rate else f"{n:,} samples",
        f"{contents.sources.n_samples:,}",
        _origin(contents),
    )
    return "<h3>Versions of the model</h3><p>One model holds for all samples.</p>" + table(
        ("version", f"from ({unit})", "for", "samples", "where it is from"), [row], (0, 1, 2, 3)
    )


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
