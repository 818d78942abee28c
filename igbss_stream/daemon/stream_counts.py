"""Count what one stream of the daemon received, published and went through."""

from dataclasses import fields
from typing import Any

from igbss_stream.daemon.stream_runner import StreamRunner


def collect_counts(runner: StreamRunner) -> dict[str, int]:
    """Return the counters of a stream, its source, stages and sinks by name. Any thread may call this.

    Parameters
    ----------
    runner : StreamRunner
    """
    counts = {**runner.source.get_counts(), **runner.bad_channels.get_counts(), "failures": runner.failures}
    relay = runner.events
    counts |= {"events_in": relay.n_in, "events_out": relay.n_out, "events_dropped": relay.n_dropped}
    counts["sink_failures"] = sum(sink.failures for sink in runner.sinks)
    if runner.is_refused:
        counts["rejected_description"] = counts.get("rejected_description", 0) + 1
    for sink in runner.sinks:
        for name, count in sink.get_counts().items():
            counts[name] = counts.get(name, 0) + count
    repair, pipeline = runner.repair, runner.pipeline  # which a failure may remove meanwhile
    if repair is not None:
        counts |= {f"repair_{name}": count for name, count in _get_whole_numbers(repair.counts).items()}
    if pipeline is not None and pipeline.learner is not None:
        learned = _get_whole_numbers(pipeline.learner.counts)
        counts |= {f"models_{name}": count for name, count in learned.items()}
    return counts


def summarize(runner: StreamRunner) -> str:
    """Return the number of samples, models and failures of sinks in one line, for the log.

    Parameters
    ----------
    runner : StreamRunner
    """
    failures = sum(sink.failures for sink in runner.sinks)
    return (
        f"{runner.samples_in} samples in, {runner.samples_out} out, {runner.samples_gap} in gaps; "
        f"model {0 if runner.model is None else runner.model.version}; {failures} failures of sinks"
    )


def _get_whole_numbers(counts: Any) -> dict[str, int]:
    """Return the counters of a dataclass that are whole numbers."""
    values = {field.name: getattr(counts, field.name) for field in fields(counts)}
    return {name: count for name, count in values.items() if isinstance(count, int)}
