"""Write the section on the method: settings, versions of the model, convergence."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np

from igbss_stream.files.results.stream_recording import ModelChange
from igbss_stream.pages.markup import escape, format_duration, format_number, render_facts, render_table
from igbss_stream.pages.plotting.scales import format_unit
from igbss_stream.pages.report.convergence import write_convergence
from igbss_stream.pages.report.data import ReportData
from igbss_stream.pages.report.traces import compute_indices

_MAX_VERSIONS = 30  # rows of the table
_DEPENDENT_OPTIONS = ("filter_order", "notch_width")  # without effect unless a filter is set


def write_method(data: ReportData) -> str:
    """Return the section on settings, model and convergence."""
    return (
        '<section id="method"><h2>Method</h2>'
        + render_facts(_list_method_facts(data))
        + write_versions(data)
        + write_convergence(data)
        + "<details><summary>All settings</summary>"
        + render_table(("setting", "value"), _list_settings(data))
        + "</details></section>"
    )


def write_versions(data: ReportData) -> str:
    """Return a table with the model of an output of `batch`.

    Parameters
    ----------
    data : ReportData
    """
    periods = "" if data.model.mixing.ndim == 2 else f", of {len(data.model.mixing)} periods"
    row = (
        f"1{periods}",
        format_number(0.0),
        _format_time(data, data.n_indices),
        f"{data.sources.n_samples:,}",
        _describe_origin(data),
    )
    header = ("version", f"from ({_get_time_unit(data)})", "for", "samples", "origin")
    return "<h3>Versions of the model</h3><p>One model was used for all samples.</p>" + render_table(
        header, [row], (0, 1, 2, 3)
    )


def write_stream_versions(data: ReportData) -> str:
    """Return the section on the models of a recorded stream.

    Parameters
    ----------
    data : ReportData
        Of a stream.
    """
    assert data.stream is not None
    changes = data.stream.changes
    n = len({change.version for change in changes if change.version})
    words = {0: "The samples were produced without a model.", 1: "One model produced the samples."}.get(
        n,
        f"{n} versions of the model produced the samples. Dashed lines in the traces mark the start of a "
        "new version.",
    )
    header = ["version", f"from ({_get_time_unit(data)})", "for", "samples", "event"]
    if data.stream.began is not None:
        header.insert(2, "at (UTC)")
    n_numbers = len(header) - 1
    if data.learned:
        header.append("learned from")
    more = len(changes) - _MAX_VERSIONS
    return (
        f'<section id="method"><h2>Models</h2><p>{words}</p>'
        + (render_table(header, _list_rows(data), range(n_numbers)) if changes else "")
        + (f"<p>{more} more are in <code>/models</code> of the recording.</p>" if more > 0 else "")
        + "<p>The recording contains the version of the model of each sample, but not the models. Their "
        "settings are in the configuration of the daemon, and its log reports each model.</p></section>"
    )


def find_model_changes(data: ReportData) -> list[tuple[float, str]]:
    """Return the start and the name of each model after the first one.

    Parameters
    ----------
    data : ReportData
    """
    changes = () if data.stream is None else data.stream.changes
    new = [change for i, change in enumerate(changes) if i and change.version != changes[i - 1].version]
    at = compute_indices(data, np.array([change.row for change in new], np.int64))
    rate = data.sources.rate or 1.0
    names = [f"model {change.version}" if change.version else "no model" for change in new]
    return list(zip((at / rate).tolist(), names, strict=True))


def _list_rows(data: ReportData) -> Iterator[list[str]]:
    stream, n = data.stream, data.sources.n_samples
    assert stream is not None
    rows = np.array([*(change.row for change in stream.changes), n], np.int64)
    at = np.append(compute_indices(data, rows[:-1]), data.n_indices)
    rate = data.sources.rate
    places = np.searchsorted(rows, [model.row for model in data.learned], side="right") - 1
    learned = {i: model.learning for i, model in zip(places.tolist(), data.learned, strict=True)}
    for i, change in enumerate(stream.changes[:_MAX_VERSIONS]):
        row = [
            f"{change.version}" if change.version else "none",
            format_number(at[i] / (rate or 1.0), 7),
            _format_time(data, int(at[i + 1] - at[i])),
            f"{rows[i + 1] - rows[i]:,}",
            _describe_event(stream.changes, i),
        ]
        if stream.began is not None and rate:
            row.insert(2, f"{stream.began + timedelta(seconds=at[i] / rate):%Y-%m-%d %H:%M:%S}")
        if data.learned:
            row.append(f"{learned[i]}" if i in learned else "")
        yield row


def _describe_event(changes: tuple[ModelChange, ...], i: int) -> str:
    if i == 0:
        return "the first samples"
    if changes[i].version == changes[i - 1].version:
        return "continued by another run"
    return "new model" if changes[i].version else "no model"


def _get_time_unit(data: ReportData) -> str:
    return "s" if data.sources.rate else "samples"


def _format_time(data: ReportData, n_indices: int) -> str:
    rate = data.sources.rate
    return format_duration(n_indices / rate) if rate else f"{n_indices:,} samples"


def _describe_origin(data: ReportData) -> str:
    model, stored = data.model, data.attributes.get("model")
    is_learned = model.settings.get("structure") == "learned"
    steps = f" in {len(model.learning.losses)} steps" if model.learning else ""
    how = f"learned{steps}" if is_learned else "fixed beforehand"
    if stored is None and (data.facts.job or {}).get("model") is None:
        return f"{how}, {'from this recording' if is_learned else 'by the settings'}"
    if stored is None:
        return f"{how}; read from an earlier output (<code>--model</code>)"
    names = ", ".join(escape(name) for name in model.origin.recordings if name)
    more = model.origin.n_recordings - len(model.origin.recordings)
    others = f" and {more} more" if more > 0 else ""
    of = f", from {names}{others}" if names and is_learned else ""
    return f"{how}{of}; read from <code>{escape(stored.get('file', ''))}</code>"


def _list_method_facts(data: ReportData) -> Iterator[tuple[str, str]]:
    settings, stored = data.model.settings, data.attributes
    yield "sources", f"{data.sources.n_channels} from {len(data.model.channels)} channels"
    yield "structure", escape(_format_value(settings.get("structure", "unknown")))
    if data.model.learning is not None:
        yield "learning", escape(data.model.learning)
    yield "order of interaction", escape(settings.get("order", 1))
    yield "transform", escape(data.model.transform.get("name", "unknown"))
    yield "solver", escape(data.facts.solver)
    yield "unit of the sources", escape(format_unit(data.sources.unit)) or _describe_missing_unit(data)
    yield "preparation", _format_preparation(data.model.preparation)
    yield "cleaning", "none" if data.cleaned is None else "yes, see below"
    yield "made by", f"igbss_stream {escape(stored.get('igbss_stream_version', ''))}"


def _describe_missing_unit(data: ReportData) -> str:
    learned = data.model.settings.get("structure") == "learned"
    return "standard deviations (SD)" if learned and data.model.mean is not None else "unknown"


def get_unit(data: ReportData) -> str:
    """Return the unit of the sources for plots."""
    return format_unit(data.sources.unit) or ("SD" if "(SD)" in _describe_missing_unit(data) else "1")


def _format_preparation(preparation: dict[str, Any]) -> str:
    used = {
        name: value
        for name, value in preparation.items()
        if value not in (None, [], "") and name not in _DEPENDENT_OPTIONS
    }
    return (
        "; ".join(f"{escape(name)} {escape(_format_value(value))}" for name, value in used.items())
        or "as recorded"
    )


def _list_settings(data: ReportData) -> Iterator[tuple[str, str]]:
    for group in ("settings", "preparation", "cleaning"):
        for name, value in (data.attributes.get(group) or {}).items():
            yield f"{group}: {escape(name)}", f"<code>{escape(_format_value(value))}</code>"
    job = (data.facts.job or {}).get("settings") or {}
    for name in ("window", "drop_flat", "bad_channels", "keep_bad", "compression"):
        if name in job:
            yield f"batch: {name}", f"<code>{escape(_format_value(job[name]))}</code>"


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
