"""What is said of a stream, how it is shown, and what is kept of it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from igbss_stream._util.signals import StopSignal
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import RecordingError
from igbss_stream.events import Event, Events
from igbss_stream.feeds.encoder import Encoder
from igbss_stream.feeds.model_facts import LearningFacts
from igbss_stream.feeds.wire import MetaMessage, decode
from igbss_stream.playback.listen import DeferredRecorder
from igbss_stream.playback.monitoring import Monitor, Report
from igbss_stream.playback.pacing import Item
from igbss_stream.playback.render import format_line, format_screen, list_figures, open_display
from tests.recordings import noise

STREAM = Stream("eeg", 100.0, ("a", "b", "c", "d"), "uV", np.dtype(np.float64), 5000.0)


def watched(*arrivals: tuple[float, list[Item]], stream: Stream | None = STREAM) -> Monitor:
    """Return a monitor, begun at 0, that took items at these times; the time of day is 5000 s more."""
    monitor = Monitor(0.0)
    for now, items in arrivals:
        monitor.take(items, stream, now, 5000.0 + now)
    return monitor


def test_size_is_that_of_the_samples_since_the_report_before_less_their_mean() -> None:
    x = noise(60) * [1.0, 2.0, 3.0, 0.0] + [0.0, 4000.0, -50.0, 7.0]
    monitor = watched((0.1, [Chunk(x[:10], 0)]), (0.2, [Chunk(x[10:35], 10)]))
    assert monitor.report(0.3).rms == pytest.approx(dict(zip("abcd", x[:35].std(axis=0), strict=True)))
    assert monitor.report(0.4).rms == dict.fromkeys("abcd")
    monitor.take([Chunk(x[35:], 35)], STREAM, 0.5, 5000.5)
    assert monitor.report(0.6).rms == pytest.approx(dict(zip("abcd", x[35:].std(axis=0), strict=True)))
    assert monitor.report(0.7).samples == 60


def test_rate_is_measured_from_arrivals_of_the_last_ten_seconds() -> None:
    arrivals: list[tuple[float, list[Item]]] = [
        (0.25 * i, [Chunk(noise(25), 25 * i)]) for i in range(1, 40)
    ]
    assert watched(arrivals[0]).report(0.3).rate is None
    assert watched(*arrivals).report(10.0).rate == pytest.approx(100.0)
    slower: list[tuple[float, list[Item]]] = [
        (10.0 + i, [Chunk(noise(50), 1000 + 50 * i)]) for i in range(1, 14)
    ]
    assert watched(*arrivals, *slower).report(23.1).rate == pytest.approx(50.0)
    silent = watched(*arrivals).report(20.0)
    assert (silent.rate, silent.silence) == (None, 20.0 - 39 * 0.25)


def test_delay_is_the_age_of_the_last_sample_when_it_came() -> None:
    monitor = watched((1.0, [Chunk(noise(50), 0)]))
    assert monitor.report(3.0).delay == pytest.approx(1.0 - 0.49)
    untimed = replace(STREAM, t0=None)
    assert watched((1.0, [Chunk(noise(50), 0)]), stream=untimed).report(1.0).delay is None
    again = watched((1.0, [Chunk(noise(50), 0), Gap(50, 0, "restart"), Chunk(noise(50), 50)]))
    assert again.report(1.0).delay is None
    assert again.report(1.0).restarts == 1


def test_gaps_of_the_publisher_and_of_the_way_are_told_apart() -> None:
    items: list[Item] = [
        Gap(0, 5, "lost"), Chunk(noise(10), 5, 3), Gap(15, 7, "dropped"), Gap(22, 0, "loop"), Gap(22, 4, "dropped"),
    ]  # fmt: skip
    report = watched((1.0, items)).report(1.0)
    assert (report.gaps, report.samples_lost, report.drops, report.samples_dropped) == (2, 5, 2, 11)
    assert (report.index, report.samples, report.model) == (26, 10, 3)
    assert report.samples + report.samples_lost + report.samples_dropped == report.index


def test_learning_is_not_counted_with_samples_that_never_arrived() -> None:
    items: list[Item] = [
        Gap(0, 400, "learning"), Gap(400, 5, "lost"), Gap(405, 30, "learning"), Gap(435, 7, "range"), Chunk(noise(10), 442),
    ]  # fmt: skip
    report = watched((1.0, items)).report(1.0)
    assert (report.samples_lost, report.samples_learning, report.samples_never_received) == (442, 430, 5)
    pytest.importorskip("bokeh")
    from igbss_stream.pages.view.status import list_figures

    shown = {figure.name: figure.value for figure in list_figures(report, None)}
    assert [shown[name] for name in ("learning", "missing", "lost")] == ["430", "7", "5"]


def test_a_gap_in_many_messages_is_one_gap() -> None:
    learning: list[tuple[float, list[Item]]] = [(i / 10, [Gap(5 * i, 5, "learning")]) for i in range(1, 8)]
    after: list[Item] = [
        Gap(40, 5, "bad"), Gap(45, 5, "bad"), Gap(50, 0, "bad"), Gap(50, 4, "dropped"), Gap(54, 6, "dropped"),
        Chunk(noise(10), 60), Gap(70, 2, "dropped"), Gap(72, 0, "restart"), Gap(72, 0, "restart"),
    ]  # fmt: skip
    assert watched(*learning).report(1.0).gaps == 1
    report = watched(*learning, (1.0, after)).report(1.0)
    assert (report.gaps, report.samples_lost) == (3, 35 + 10)  # learning, bad, and a break of no samples
    assert (report.drops, report.samples_dropped, report.restarts) == (2, 12, 2)


def test_why_samples_are_missing_is_told_while_they_are() -> None:
    monitor = watched((0.1, [Chunk(noise(10), 0), Gap(10, 5, "learning")]), (0.2, [Gap(15, 5, "learning")]))
    report = monitor.report(0.3)
    assert dict(list_figures(report))["missing"] == report.missing == "learning"
    monitor.take([Chunk(noise(10), 20)], STREAM, 0.4, 5000.4)
    report = monitor.report(0.5)
    assert report.missing == ""
    assert "missing" not in dict(list_figures(report))
    monitor.take([Gap(30, 0, "restart")], STREAM, 0.6, 5000.6)
    assert monitor.report(0.7).missing == ""


def test_a_stream_that_nobody_described_has_numbers_for_names() -> None:
    report = watched((1.0, [Chunk(noise(), 0)]), stream=None).report(1.0)
    assert (report.stream, report.nominal_rate, report.unit, report.delay) == (None, None, None, None)
    assert list(report.rms) == ["0", "1", "2", "3"]
    assert "stream not described" in format_line(report)


def report(**changes: object) -> Report:
    base = watched((1.0, [Chunk(noise(), 0, 2)]), (1.5, [Chunk(noise(), 60, 2)])).report(2.0)
    return replace(base, **changes)  # type: ignore[arg-type]


def test_a_line_says_what_there_is() -> None:
    text = format_line(report(delay=0.0123, gaps=2, samples_lost=9))
    for words in (
        "stream eeg", "index 120", "rate 120 of 100 Hz", "delay 12 ms", "model 2", "gaps 2 (9 samples)",
        "drops 0 (0 samples)", "restarts 0", "rms a ", " uV",
    ):  # fmt: skip
        assert words in text
    assert "\n" not in text
    assert format_line(Monitor(0.0).report(3.2)) == "waiting 3 s"
    assert "ended yes" in format_line(report(ended=True, silence=9.0))
    assert "silent 9 s" in format_line(report(silence=9.0))
    many = format_line(report(rms={f"s{i}": None for i in range(20)}))
    assert "s7 - and 12 more" in many
    assert "rate - of 100 Hz" in format_line(report(rate=None))


def test_names_from_the_network_do_not_steer_the_terminal() -> None:
    evil = report(stream="[red]x\x1b[2J\n", rms={"[bold]a\x1b]0;b\x07": 1.0}, unit="\x1bc")
    out = StringIO()
    Console(file=out, width=200, force_terminal=False).print(format_screen(evil, 200, 40))
    for text in (format_line(evil), out.getvalue()):
        assert "\x1b" not in text
        assert "[bold]a\\x1b" in text
    assert "\n" not in format_line(evil)


def test_a_table_has_a_row_for_each_source() -> None:
    out = StringIO()
    Console(file=out, width=200, force_terminal=False).print(format_screen(report(), 200, 40))
    rows = [text.split() for text in out.getvalue().splitlines()]
    assert [row[0] for row in rows[-4:]] == ["a", "b", "c", "d"]
    sizes = report().rms
    assert [float(row[1]) for row in rows[-4:]] == pytest.approx(list(sizes.values()), rel=1e-3)
    assert ("model", "2") in list_figures(report())
    assert len(rows) == 6, "what holds for all stands in one line, however narrow the table below"


def test_a_small_terminal_has_sources_side_by_side() -> None:
    """All that holds for the stream and all sources are seen at once, each source once."""
    out, many = StringIO(), {f"s{i}": float(i) for i in range(30)}
    Console(file=out, width=60, height=24, force_terminal=False).print(
        format_screen(report(rms=many), 60, 24)
    )
    lines = out.getvalue().splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 60
    assert " ".join(" ".join(lines).split()).startswith("stream ")
    words = out.getvalue().split()
    assert all(
        words.count(name) == 1 and float(words[words.index(name) + 1]) == many[name] for name in many
    )


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with open_display(quiet=True, as_json=True) as show:  # it was asked for
        show(report(rms={"a": float("nan"), "b": 1.5}))
        show(report(ended=True))
    first, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["rms"] == {"a": None, "b": 1.5}
    assert (first["ended"], last["ended"], last["index"]) == (False, True, 120)


def test_names_of_a_sender_control_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """In lines, and in JSON, where they stay what they are."""
    name = "a\x1b[2J\nb\x9b\u202e\U000e0001é"
    for as_json in False, True:
        with open_display(quiet=False, as_json=as_json) as show:
            show(report(stream=name, rms={name: 1.0}))
        (line,) = capsys.readouterr().out.splitlines()
        assert line.isprintable()
        if as_json:
            assert (json.loads(line)["stream"], json.loads(line)["rms"]) == (name, {name: 1.0})


def test_quiet_is_quiet_and_text_is_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with open_display(quiet=True, as_json=False) as show:
        show(report())
    assert capsys.readouterr().out == ""
    with open_display(quiet=False, as_json=False) as show:
        show(report())
    assert capsys.readouterr().out == format_line(report()) + "\n"


@dataclass
class Kept:
    """A recorder in memory."""

    streams: list[Stream] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    learnings: list[LearningFacts | None] = field(default_factory=list)
    events: list[tuple[Event, int]] = field(default_factory=list)

    def start(self, stream: Stream, extra: Mapping[str, Any] | None = None) -> None:
        assert extra == {"note": 1}
        self.streams.append(stream)

    def set_learning(self, learning: LearningFacts | None) -> None:
        self.learnings.append(learning)

    def write(self, item: Item) -> None:
        assert self.streams
        self.items.append(item)

    def write_events(self, events: Events) -> None:
        assert self.streams
        self.events += [(event, len(self.items)) for event in events]

    def serve(self) -> None:
        assert self.streams


def described(stream: Stream = STREAM) -> MetaMessage:
    meta = decode([bytes(frame) for frame in Encoder(stream, 1, {"note": 1}).encode_meta()])
    assert isinstance(meta, MetaMessage)
    return meta


def test_a_tape_keeps_what_comes_before_the_description() -> None:
    kept = Kept()
    items: list[Item] = [Chunk(noise(), 0), Gap(60, 4, "lost"), Chunk(noise(), 64)]
    tape = DeferredRecorder(kept)
    tape.take([items[0]], None, 0.0)
    tape.take([items[1]], None, 9.0)
    assert (kept.streams, kept.items) == ([], [])
    tape.take([], described(), 9.5)
    assert kept.items == items[:2]
    tape.take([items[2]], described(), 90.0)
    assert kept.items == items
    assert kept.streams == [STREAM]


def test_a_tape_writes_events_after_their_samples() -> None:
    """Those without a description, those ahead of their samples, and those at the end wait."""
    kept = Kept()
    tape = DeferredRecorder(kept)
    tape.take([Chunk(noise(), 0)], None, 0.0, events=Events([3.0, 70.0, 200.0], ["a", "c", "e"]))
    tape.take([Gap(60, 4, "lost"), Chunk(noise(), 64)], described(), 1.0, events=Events([61.5], ["b"]))
    tape.take([], described(), 2.0, events=Events([5.0], ["late"]))
    tape.finish()
    assert [(event.label, n_items) for event, n_items in kept.events] == [
        ("a", 1),
        ("b", 2),
        ("c", 3),
        ("late", 3),
        ("e", 3),
    ]


def test_a_tape_does_not_keep_for_ever() -> None:
    tape = DeferredRecorder(Kept())
    tape.take([], None, 0.0)
    tape.take([Chunk(noise(), 0)], None, 100.0)
    with pytest.raises(RecordingError, match="has sent no description for 10 s"):
        tape.take([Chunk(noise(), 60)], None, 110.5)


def test_a_tape_starts_again_for_another_layout() -> None:
    """Samples with other channels wait for their description; times follow from the index of the publisher."""
    kept = Kept()
    tape = DeferredRecorder(kept)
    tape.take([Chunk(noise(), 0)], described(), 0.0)
    changed = replace(STREAM, rate=500.0, channels=("a", "b"), t0=2e9)
    tape.take([Chunk(noise(), 60), Gap(120, 0, "restart"), Chunk(noise(60, 2), 120)], described(), 1.0)
    assert [item.start for item in kept.items] == [0, 60, 120]
    assert kept.streams == [STREAM]
    tape.take([], described(changed), 2.0, 120)
    assert [item.start for item in kept.items] == [0, 60, 120, 120]
    assert kept.streams == [STREAM, replace(changed, t0=2e9 - 120 / 500)]
    tape.take([Chunk(noise(60, 2), 180)], described(changed), 3.0, 120)
    assert len(kept.streams) == 2
    tape.take([Chunk(noise(), 240)], described(changed), 4.0, 120)
    with pytest.raises(RecordingError, match="has sent no description for 10 s"):
        tape.take([], described(changed), 15.0, 120)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_and_ends_a_wait(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopSignal() as stop:
        assert not stop.wait(0.0)
        assert (stop.requested, stop.exit_code) == (False, 0)
        os.kill(os.getpid(), number)
        assert stop.wait(60.0)
        assert (stop.requested, stop.exit_code) == (True, 128 + number)
        assert signal.getsignal(number) is before
    assert signal.getsignal(number) is before


def test_a_wait_lasts_as_long_as_it_should() -> None:
    with StopSignal() as stop:
        began = time.monotonic()
        assert not stop.wait(0.05)
        assert time.monotonic() - began >= 0.05
        assert not stop.wait(-1.0)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    code = (
        "import os, signal\n"
        "from igbss_stream._util.signals import StopSignal\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "with StopSignal() as stop:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    print(stop.wait(0.0))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
