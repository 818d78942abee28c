"""Filling, outliers and flat channels, compared with naive twins that process sample by sample."""

import io
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import InputError, ParameterError
from igbss_stream.preparation.repair.gap_filler import POLICIES
from igbss_stream.preparation.repair.stage import ChannelEvent, RepairSettings, RepairStage

Item = Chunk | Gap
Array = NDArray[Any]

RATE = 100.0
N_FILL, CELL, PATIENCE, FLAT_AFTER = 5, 40, 4, 20  # samples
TIMES = {"max_fill": 0.05, "outlier_window": 0.4, "accept_after": 0.04, "flat_after": 0.2}
NAN = float("nan")


def stream(n_channels: int = 3, dtype: str = "float32", rate: float = RATE) -> Stream:
    return Stream("s", rate, tuple(f"c{i}" for i in range(n_channels)), dtype=np.dtype(dtype))


def settings(gap: str, outlier: float | None = None) -> RepairSettings:
    return RepairSettings(gap=gap, outlier=outlier, **TIMES)


def feed(rng: np.random.Generator, dtype: str, unit: float, n_sections: int = 8) -> list[Item]:
    """Return sections with bad samples, outliers, steps and flat runs, separated by gaps."""
    items: list[Item] = []
    start = int(rng.integers(0, 100))
    for _ in range(n_sections):
        x = rng.normal(size=(int(rng.integers(1, 90)), 3)) + 5.0
        for fault in rng.integers(0, 7, int(rng.integers(0, 5))):
            first, channel = int(rng.integers(len(x))), int(rng.integers(3))
            where = slice(first, first + int(rng.integers(1, 9)))
            if fault < 4:
                x[where, channel] = [np.nan, np.inf, -np.inf, 7e5][fault]
            elif fault == 4:
                x[where, channel] = rng.choice([7e5, np.nan, 5.0], len(x[where]))
            elif fault == 5:
                x[first:, channel] += 3e4
            else:
                x[first : first + 60, channel] = 6.0
        with np.errstate(over="ignore"):
            samples = (x * unit).astype(dtype)
        samples.flags.writeable = False
        items.append(Chunk(samples, start, int(rng.integers(0, 2))))
        start += len(x)
        if rng.random() < 0.6:
            n_missing = int(rng.choice([0, 1, 2, 3, 5, 6, 30, 200]))
            items.append(Gap(start, n_missing, str(rng.choice(["lost", "off"]))))
            start += n_missing
    return items


def cut(items: Iterable[Item], rng: np.random.Generator, longest: int) -> list[Item]:
    """Return the same items in smaller chunks, some of them empty."""
    out: list[Item] = []
    for item in items:
        if isinstance(item, Gap):
            out.append(item)
            continue
        at = 0
        while at < len(item.data):
            stop = at + int(rng.integers(0 if longest > 1 else 1, longest + 1))
            out.append(Chunk(item.data[at:stop], item.start + at, item.model_version))
            at = stop
    return out


def outcome(repair: RepairStage, items: Iterable[Item]) -> list[Item]:
    """Push all items, check the counts after each, and return the output."""
    out: list[Item] = []
    first = stop = None
    counts = repair.counts
    for item in items:
        first = item.start if first is None else first
        out += repair.push(item)
        stop = item.stop
        assert repair.samples_waiting <= repair.delay
        came = counts.samples_in + counts.missing_in
        left = counts.samples_out + counts.samples_lost + counts.samples_discarded
        assert came == left + repair.samples_waiting == stop - (first or 0)
    out += repair.flush()
    assert repair.samples_waiting == 0
    for before, after in itertools.pairwise(out):
        assert after.start == before.stop
    if out:
        assert (out[0].start, out[-1].stop) == (first, stop)
    chunks = [item for item in out if isinstance(item, Chunk)]
    assert all(len(chunk.data) for chunk in chunks)
    assert counts.samples_out == sum(len(chunk.data) for chunk in chunks)
    assert counts.samples_lost + counts.samples_discarded == sum(
        item.n_samples for item in out if isinstance(item, Gap)
    )
    return out


def rows(items: Iterable[Item]) -> list[tuple[Any, ...]]:
    """Return one entry per sample, with its bytes, independent of the chunks."""
    table: list[tuple[Any, ...]] = []
    for item in items:
        if isinstance(item, Chunk):
            table += [
                (item.start + i, item.model_version, row.tobytes()) for i, row in enumerate(item.data)
            ]
        else:
            table += [(i, item.reason) for i in range(item.start, item.stop)] or [(item.start, "break")]
    return table


def parts(items: Iterable[Item]) -> list[tuple[Any, ...]]:
    return [
        (item.start, item.data[:, 0].tolist())
        if isinstance(item, Chunk)
        else (item.start, item.n_samples, item.reason)
        for item in items
    ]


@dataclass
class Section:
    """Rows between two gaps that are not filled; a row of a filled gap has a reason."""

    start: int
    values: list[Array] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def twin(items: Iterable[Item], policy: str) -> list[tuple[Any, ...]]:
    """Return (index, row) or (index, reason), computed offline, one channel and one run at a time."""
    n_fill = 0 if policy == "reset" else N_FILL
    table: list[tuple[Any, ...]] = []
    section = Section(0)
    for item in items:
        if not section.values:
            section.start = item.start
        if isinstance(item, Chunk):
            section.values += list(item.data)
            section.reasons += [""] * len(item.data)
        elif 0 < item.n_samples <= n_fill:
            section.values += [np.full(3, np.nan)] * item.n_samples
            section.reasons += [item.reason] * item.n_samples
        else:
            table += twin_section(section, policy, n_fill)
            table += [(i, item.reason) for i in range(item.start, item.stop)] or [(item.start, "break")]
            section = Section(0)
    return table + twin_section(section, policy, n_fill)


def twin_section(section: Section, policy: str, n_fill: int) -> list[tuple[Any, ...]]:
    if not section.values:
        return []
    x = np.array(section.values, dtype=np.float64)
    good = np.isfinite(x)
    usable = np.ones(len(x), bool)
    blank = np.zeros(len(x), bool)
    for channel in range(3):
        at = 0
        while at < len(x):
            if good[at, channel]:
                at += 1
                continue
            stop = at
            while stop < len(x) and not good[stop, channel]:
                stop += 1
            for i in range(at, stop):
                if policy == "interpolate":
                    if at == 0 or stop == len(x) or stop - at > n_fill:
                        usable[i] = False
                    else:
                        ends = [x[at - 1, channel], x[stop, channel]]
                        x[i, channel] = np.interp(i, [at - 1, stop], ends)
                elif i - at >= n_fill or (policy == "hold" and at == 0):
                    usable[i] = False
                elif policy == "hold":
                    x[i, channel] = x[at - 1, channel]
                blank[i] = True
            at = stop
    if policy == "nan":
        x[blank] = np.nan
    return [(section.start + i, x[i] if usable[i] else section.reasons[i] or "bad") for i in range(len(x))]


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(POLICIES),
    st.sampled_from([("float32", 1.0), ("float64", 1e-19)]),
)
def test_samples_are_filled_like_by_the_twin(seed: int, policy: str, kind: tuple[str, float]) -> None:
    rng = np.random.default_rng(seed)
    items = feed(rng, *kind)
    out = outcome(RepairStage(stream(dtype=kind[0]), settings(policy)), cut(items, rng, 12))
    got: list[tuple[Any, ...]] = []
    for item in out:
        if isinstance(item, Chunk):
            assert item.data.dtype == kind[0]
            got += [(item.start + i, row) for i, row in enumerate(item.data)]
        else:
            got += [(i, item.reason) for i in range(item.start, item.stop)] or [(item.start, "break")]
    want = twin(items, policy)
    assert [index for index, _ in got] == [index for index, _ in want]
    for (_, mine), (_, theirs) in zip(got, want, strict=True):
        if isinstance(mine, str) or isinstance(theirs, str):
            assert isinstance(mine, str)
            assert mine == theirs
        elif policy == "interpolate":
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-5 * kind[1])
        else:
            np.testing.assert_array_equal(mine, theirs)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(POLICIES),
    st.sampled_from([None, 50.0]),
    st.sampled_from([("float32", 1.0), ("float32", 1e-6), ("float64", 1e-19)]),
    st.sampled_from([1, 3, 20, 200]),
)
def test_cuts_change_no_bit(
    seed: int, policy: str, outlier: float | None, kind: tuple[str, float], longest: int
) -> None:
    rng = np.random.default_rng(seed)
    items = feed(rng, *kind)
    chosen = settings(policy, outlier)
    whole, pieces = RepairStage(stream(dtype=kind[0]), chosen), RepairStage(stream(dtype=kind[0]), chosen)
    expected = outcome(whole, items)
    out = outcome(pieces, cut(items, rng, longest))
    assert rows(out) == rows(expected)
    assert pieces.pop_events() == whole.pop_events()
    assert pieces.counts == whole.counts
    np.testing.assert_array_equal(pieces.bad_by_channel, whole.bad_by_channel)
    for name, array in pieces.state.items():
        np.testing.assert_array_equal(array, whole.state[name], err_msg=name)
    for item in out:
        if isinstance(item, Chunk):
            finite = np.isfinite(item.data)
            assert (finite.all(axis=1) | ((policy == "nan") & np.isnan(item.data).all(axis=1))).all()


@given(st.integers(0, 2**32 - 1), st.sampled_from(POLICIES), st.sampled_from([None, 50.0]))
def test_a_saved_state_continues_bit_for_bit(seed: int, policy: str, outlier: float | None) -> None:
    rng = np.random.default_rng(seed)
    items = cut(feed(rng, "float32", 1.0), rng, 6)
    chosen = settings(policy, outlier)
    first = RepairStage(stream(), chosen)
    half = int(rng.integers(len(items) + 1))
    out = [item for each in items[:half] for item in first.push(each)]
    file = io.BytesIO()
    np.savez(file, **first.state)  # type: ignore[arg-type]  # a name may be one of its options
    file.seek(0)
    second = RepairStage(stream(), chosen)
    with np.load(file, allow_pickle=False) as state:
        second.restore(state)
    first.pop_events()
    rest = [
        [item for each in items[half:] for item in one.push(each)] + one.flush() for one in (first, second)
    ]
    assert rows(out + rest[0]) == rows(out + rest[1])
    assert first.pop_events() == second.pop_events()
    assert first.counts == second.counts
    np.testing.assert_array_equal(first.flat, second.flat)


def test_good_samples_are_passed_on_without_a_copy() -> None:
    repair = RepairStage(stream(), settings("interpolate", 50.0))
    x = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    x.flags.writeable = False
    chunk = Chunk(x, 7, 4)
    assert repair.push(chunk)[0] is chunk
    assert repair.push(Chunk(x[:0], 37)) == []
    (after,) = repair.push(Chunk(x, 37, 5))
    assert isinstance(after, Chunk)
    assert after.data is x


@pytest.mark.parametrize("policy", POLICIES)
def test_received_samples_are_not_modified(policy: str) -> None:
    x = np.ones((10, 3), np.float32)
    x[4, 1] = np.nan
    given = x.copy()
    outcome(RepairStage(stream(), settings(policy)), [Chunk(x, 0)])
    np.testing.assert_array_equal(x, given)


def test_a_caller_may_reuse_its_memory_while_samples_wait() -> None:
    repair = RepairStage(stream(2, "float64"), settings("interpolate"))
    buffer = np.array([[1.0, 1.0], [2.0, np.nan]])
    repair.push(Chunk(buffer, 0))
    buffer[:] = 99.0
    (chunk,) = repair.push(Chunk(np.array([[3.0, 3.0]]), 2))
    assert isinstance(chunk, Chunk)
    assert chunk.data.tolist() == [[2.0, 2.0], [3.0, 3.0]]


def column(*values: float) -> Array:
    return np.array(values, np.float64)[:, None]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("reset", [(0, [1.0]), (1, 2, "lost"), (3, [4.0]), (4, 1, "bad"), (5, [8.0])]),
        ("hold", [(0, [1.0]), (1, [1.0, 1.0]), (3, [4.0, 4.0, 8.0])]),
        ("interpolate", [(0, [1.0]), (1, [2.0, 3.0, 4.0]), (4, [6.0, 8.0])]),
        ("nan", [(0, [1.0]), (1, [NAN, NAN]), (3, [4.0, NAN, 8.0])]),
    ],
)
def test_the_output_of_each_policy(policy: str, expected: list[tuple[Any, ...]]) -> None:
    repair = RepairStage(stream(1, "float64"), settings(policy))
    items: list[Item] = [
        Chunk(column(1), 0),
        Gap(1, 2, "lost"),
        Chunk(column(4, np.inf), 3),
        Chunk(column(8), 5),
    ]
    got = outcome(repair, items)
    flat = [value for part in got if isinstance(part, Chunk) for value in part.data[:, 0]]
    want = [value for part in expected if isinstance(part[1], list) for value in part[1]]
    np.testing.assert_array_equal(flat, want)
    gaps = [part for part in parts(got) if len(part) == 3]
    assert gaps == [part for part in expected if len(part) == 3]
    counts = repair.counts
    assert (counts.samples_in, counts.missing_in, counts.bad) == (4, 2, 1)
    filled = policy != "reset"
    assert (counts.samples_filled, counts.samples_lost) == ((2, 0) if filled else (0, 2))
    assert (counts.samples_repaired, counts.samples_discarded) == ((1, 0) if filled else (0, 1))


@pytest.mark.parametrize("policy", POLICIES)
def test_long_gaps_and_restarts_are_never_filled(policy: str) -> None:
    repair = RepairStage(stream(1, "float64"), settings(policy))
    gaps = [Gap(1, 10**12, "lost"), Gap(10**12 + 2, 0, "restart"), Gap(10**12 + 3, N_FILL + 1, "off")]
    chunks = [Chunk(column(1), 0), Chunk(column(2), 10**12 + 1), Chunk(column(3), 10**12 + 2)]
    items: list[Item] = [chunks[0], gaps[0], chunks[1], gaps[1], chunks[2], gaps[2]]
    out = outcome(repair, items)
    assert [item for item in out if isinstance(item, Gap)] == gaps
    assert repair.counts.samples_filled == 0


def test_rows_of_a_failed_channel_become_a_gap_and_it_is_reported() -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    x[10:30, 1] = np.nan
    repair = RepairStage(stream(dtype="float64"), settings("hold"))
    out = outcome(repair, [Chunk(x, 0)])
    assert [(item.start, item.stop) for item in out] == [(0, 15), (15, 30), (30, 40)]
    assert out[1] == Gap(15, 15, "bad")
    assert repair.pop_events() == [ChannelEvent(15, "c1", "failed"), ChannelEvent(30, "c1", "recovered")]
    assert repair.pop_events() == []
    assert repair.counts.failed == 1
    assert repair.bad_by_channel.tolist() == [0, 20, 0]


def test_interpolation_waits_no_longer_than_its_delay() -> None:
    repair = RepairStage(stream(1, "float64"), settings("interpolate"))
    repair.push(Chunk(column(0), 0))
    for i in range(1, N_FILL + 1):
        assert repair.push(Chunk(column(np.nan), i)) == []
        assert repair.samples_waiting == i <= repair.delay == N_FILL
    assert parts(repair.push(Chunk(column(6), N_FILL + 1))) == [(1, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]
    for i in range(N_FILL + 2, 2 * N_FILL + 2):
        assert repair.push(Chunk(column(np.nan), i)) == []
    assert parts(repair.push(Chunk(column(np.nan), 2 * N_FILL + 2))) == [(N_FILL + 2, N_FILL + 1, "bad")]
    assert parts(repair.push(Chunk(column(np.nan), 2 * N_FILL + 3))) == [(2 * N_FILL + 3, 1, "bad")]


def twin_outliers(x: Array, threshold: float) -> tuple[Array, list[tuple[int, int]]]:
    """Return outliers and steps of rows from index 0 on, sample by sample; CELL < 256 uses all rows."""
    outliers = np.zeros(x.shape, bool)
    steps = []
    for channel in range(x.shape[1]):
        center, limit, out = 0.0, np.inf, 0
        cell: list[float] = []
        for i, value in enumerate(x[:, channel].tolist()):
            cell.append(value)
            if np.isfinite(value):
                outlier = abs(value - center) > limit
                out = out + 1 if outlier else 0
                if out > PATIENCE:
                    steps.append((i, channel))
                    limit, out = np.inf, 0
                    cell = [value]
                elif outlier:
                    outliers[i, channel] = True
            if (i + 1) % CELL == 0:
                kept = sorted(value for value in cell if np.isfinite(value))
                limit = np.inf
                if 2 * len(kept) >= CELL:
                    center = kept[(len(kept) - 1) // 2]
                    deviation = sorted(abs(value - center) for value in kept)[(len(kept) - 1) // 2]
                    if deviation > 4 * np.finfo(np.float32).eps * abs(center):
                        limit = threshold * 1.4826 * deviation
                cell = []
    return outliers, sorted(steps)


@given(st.integers(0, 2**32 - 1))
def test_outliers_equal_those_of_the_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = [item for item in feed(rng, "float32", 1.0, 12) if isinstance(item, Chunk)]
    x = np.concatenate([item.data for item in items])
    outliers, steps = twin_outliers(x, 30.0)
    repair = RepairStage(stream(), settings("nan", 30.0))
    outcome(repair, cut([Chunk(x, 0)], rng, 17))
    assert repair.counts.outliers == outliers.sum()
    assert repair.bad_by_channel.tolist() == (outliers | ~np.isfinite(x)).sum(axis=0).tolist()
    reported = [
        (event.index, int(event.channel[1:])) for event in repair.pop_events() if event.kind == "step"
    ]
    assert reported == steps
    assert repair.counts.steps == len(steps)


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e-19])
def test_an_extreme_sample_is_replaced_and_does_not_affect_the_threshold(unit: float) -> None:
    x = np.random.default_rng(0).normal(0.0, 20.0, (400, 2)) + 4000.0
    clean = x.copy()
    for at in (5, 150, 151, 300):
        x[at, 0] = 7e5
    x[350, 0] = 9000.0  # 250 deviations; not detected if the others had affected the deviation
    repair = RepairStage(stream(2, "float64"), settings("interpolate", 100.0))
    out = np.concatenate(
        [item.data for item in outcome(repair, [Chunk(x * unit, 0)]) if isinstance(item, Chunk)]
    )
    assert repair.counts.outliers == 4  # not the one at 5, in the first cell
    late = out[CELL:] / unit
    assert np.abs(late - 4000.0).max() < 150.0
    others = np.setdiff1d(np.arange(400), [5, 150, 151, 300, 350])
    np.testing.assert_array_equal(out[others], clean[others] * unit)


def test_a_step_is_accepted_and_learned_again() -> None:
    x = np.random.default_rng(0).normal(size=(400, 2))
    x[150:, 1] += 1e4
    x[380, 1] += 1e4
    repair = RepairStage(stream(2, "float64"), settings("hold", 100.0))
    out = outcome(repair, [Chunk(x, 0)])
    assert [type(item) for item in out] == [Chunk]
    assert isinstance(out[0], Chunk)
    assert repair.pop_events() == [ChannelEvent(150 + PATIENCE, "c1", "step")]
    assert (out[0].data[150 : 150 + PATIENCE, 1] == x[149, 1]).all()
    np.testing.assert_array_equal(out[0].data[150 + PATIENCE : 380], x[150 + PATIENCE : 380])
    assert out[0].data[380, 1] == x[379, 1]


def test_a_trigger_has_no_outliers() -> None:
    x = np.zeros((1000, 1))
    x[::20] = 255.0
    repair = RepairStage(stream(1, "float64"), settings("hold", 10.0))
    outcome(repair, [Chunk(x, 0)])
    assert repair.counts.outliers == 0


def test_hum_in_phase_with_the_window_is_learned_at_all_phases() -> None:
    """Every 20th sample of 50 Hz at 1 kHz has the same phase; their deviation would be far too small."""
    t = np.arange(20_000) / 1000.0
    x = 1000.0 * np.sin(2 * np.pi * 50.0 * t)[:, None] + np.random.default_rng(0).normal(size=(20_000, 1))
    chosen = RepairSettings(gap="hold", outlier=5.0, outlier_window=20 * 256 / 1000)
    repair = RepairStage(stream(1, "float64", 1000.0), chosen)
    outcome(repair, [Chunk(x, 0)])
    assert repair.counts.outliers == 0


def test_channels_are_learned_again_after_a_restart() -> None:
    rng = np.random.default_rng(0)
    repair = RepairStage(stream(1, "float64"), settings("hold", 10.0))
    outcome(
        repair,
        [
            Chunk(rng.normal(size=(200, 1)), 0),
            Gap(200, 0, "restart"),
            Chunk(rng.normal(size=(200, 1)) + 1e5, 200),
        ],
    )
    assert (repair.counts.outliers, repair.counts.steps) == (0, 0)


@pytest.mark.parametrize(("n_before", "n_missing", "n_steps"), [(205, 10, 1), (205, 100, 0), (235, 60, 0)])
def test_a_long_gap_resets_the_threshold(n_before: int, n_missing: int, n_steps: int) -> None:
    rng = np.random.default_rng(0)
    repair = RepairStage(stream(1, "float64"), settings("hold", 10.0))
    outcome(
        repair,
        [
            Chunk(rng.normal(size=(n_before, 1)), 0),
            Gap(n_before, n_missing, "lost"),
            Chunk(rng.normal(size=(200, 1)) + 1e5, n_before + n_missing),
        ],
    )
    assert repair.counts.steps == n_steps


@pytest.mark.parametrize("unit", [1.0, 1e-19])
def test_flat_channels_are_reported_until_they_move(unit: float) -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(300, 3)) + 1000.0).astype(np.float32)
    x[103:200, 1] = 1000.0
    x[110:200:2, 1] = np.nextafter(np.float32(1000.0), np.float32(2000.0))  # rounding is no movement
    x[:, 2] = np.linspace(1000.0, 1000.5, 300)  # slow, but moving
    repair = RepairStage(stream(), settings("hold"))
    for start in range(0, 300, 10):
        repair.push(Chunk((x[start : start + 10] * np.float32(unit)), start))
        stop = start + 10
        assert repair.flat.tolist() == [False, 130 <= stop <= 200, False]
    assert repair.pop_events() == [ChannelEvent(124, "c1", "flat"), ChannelEvent(200, "c1", "moving")]
    assert repair.counts.flat == 1


@given(st.integers(0, 2**32 - 1), st.integers(1, 33))
def test_a_channel_is_flat_only_if_it_is_constant_long_enough(seed: int, flat_after: int) -> None:
    """A channel that is constant between known indices."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, 1))
    first, length = int(rng.integers(0, 200)), int(rng.integers(0, 150))
    x[first : first + length] = 3.0
    chosen = replace(settings("hold"), flat_after=flat_after / RATE)
    repair = RepairStage(stream(1, "float64"), chosen)
    outcome(repair, cut([Chunk(x, 0)], rng, 30))
    events = repair.pop_events()
    cell = -(-flat_after // 4)
    if length < flat_after or not events:
        assert not events
        assert length < 5 * cell
    else:
        flat, moved = events
        assert (flat.kind, moved) == ("flat", ChannelEvent(first + length, "c0", "moving"))
        assert first + flat_after - 1 <= flat.index <= first + 5 * cell


def test_a_stream_that_begins_within_a_cell_must_be_constant_as_long() -> None:
    repair = RepairStage(stream(1, "float64"), settings("hold"))
    for start in range(3, 40):
        repair.push(Chunk(np.full((1, 1), 3.0), start))
    assert repair.pop_events() == [ChannelEvent(24, "c0", "flat")]


def test_missing_samples_are_not_constant() -> None:
    repair = RepairStage(stream(1, "float64"), settings("hold"))
    x = np.full((4, 1), 3.0)
    items: list[Item] = [Chunk(x, 0), Gap(4, 500, "lost"), Chunk(x, 504)]
    outcome(repair, [*items, Chunk(np.full((10, 1), np.nan), 508)])
    assert not repair.flat.any()
    repair = RepairStage(stream(1, "float64"), settings("hold"))
    repair.push(Chunk(np.full((50, 1), 3.0), 0))
    repair.push(Gap(50, 500, "lost"))
    assert repair.flat.all()
    repair.push(Chunk(x + 1.0, 550))
    assert not repair.flat.any()


def test_a_restart_resets_the_flat_detector() -> None:
    repair = RepairStage(stream(1, "float64"), settings("hold"))
    items: list[Item] = []
    for start in range(0, 200, 15):
        items += [Chunk(np.full((15, 1), 3.0), start), Gap(start + 15, 0, "restart")]
    outcome(repair, items)
    assert not repair.flat.any()


def test_the_flat_detector_can_be_disabled() -> None:
    repair = RepairStage(stream(1, "float64"), RepairSettings(flat_after=None))
    outcome(repair, [Chunk(np.full((5000, 1), 3.0), 0), Gap(5000, 3, "lost"), Gap(5003, 0, "restart")])
    assert not repair.flat.any()
    assert repair.pop_events() == []


def test_the_largest_numbers_are_interpolated_without_overflow() -> None:
    big = 1e100
    out = outcome(
        RepairStage(stream(1, "float64"), settings("interpolate", 10.0)),
        [Chunk(column(big, np.nan, -big), 0)],
    )
    assert [part[1] for part in parts(out)] == [[big, 0.0, -big]]


def test_unread_events_do_not_fill_memory() -> None:
    x = np.random.default_rng(0).normal(size=(9000, 1))
    x[np.arange(9000) % 9 < 7] = np.nan
    repair = RepairStage(stream(1, "float64"), settings("hold"))
    outcome(repair, [Chunk(x, 0)])
    assert repair.counts.failed == 1000
    assert len(repair.pop_events()) == 1024


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            Chunk(np.zeros((5, 4), np.float32), 10),
            "samples of stream 's' must be float32 of shape (samples, 3). Got float32 of shape (5, 4) instead.",
        ),
        (
            Chunk(np.zeros((5, 3)), 10),
            "samples of stream 's' must be float32 of shape (samples, 3). Got float64 of shape (5, 3) instead.",
        ),
        (
            Chunk(np.zeros((5, 3), np.float32), 12),
            "an item begins at sample 12, but the previous one stopped at 10. Pass items in order, and a Gap for missing samples.",
        ),
        (Gap(9, 3, "lost"), "an item begins at sample 9, but the previous one stopped at 10."),
    ],
)
def test_an_item_that_does_not_follow_is_rejected_and_changes_nothing(item: Item, message: str) -> None:
    repair = RepairStage(stream(), settings("hold"))
    x = np.zeros((10, 3), np.float32)
    repair.push(Chunk(x, 0))
    with pytest.raises(InputError, match=re.escape(message)):
        repair.push(item)
    assert parts(repair.push(Chunk(x[:2], 10))) == [(10, [0.0, 0.0])]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gap": "zero"}, "gap must be one of reset, hold, interpolate, nan. Got 'zero' instead."),
        ({"max_fill": 0}, "max_fill must be a finite number above 0 and at most 60. Got 0 instead."),
        ({"max_fill": 61.0}, "max_fill must be a finite number above 0 and at most 60. Got 61.0 instead."),
        ({"outlier": -1.0}, "outlier must be a finite number above 0. Got -1.0 instead."),
        ({"outlier_window": "2"}, "outlier_window must be a finite number above 0. Got '2' instead."),
        ({"accept_after": NAN}, "accept_after must be a finite number above 0. Got nan instead."),
        ({"flat_after": True}, "flat_after must be a finite number above 0. Got True instead."),
    ],
)
def test_invalid_settings_are_rejected(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(message)):
        RepairSettings(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_fill": 0.001}, "max_fill must be at least 1 sample, 0.01 s at 100 Hz. Got 0.001 s instead."),
        (
            {"outlier_window": 0.1},
            "outlier_window must be at least 16 samples, 0.16 s at 100 Hz. Got 0.1 s",
        ),
        ({"accept_after": 0.001}, "accept_after must be at least 1 sample, 0.01 s at 100 Hz."),
        ({"flat_after": 0.001}, "flat_after must be at least 1 sample, 0.01 s at 100 Hz."),
    ],
)
def test_times_that_are_too_short_for_the_rate(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(message)):
        RepairStage(stream(), replace(settings("hold", 10.0), **change))


def test_a_state_of_another_stream_is_rejected() -> None:
    repair = RepairStage(stream(), settings("interpolate", 10.0))
    state = repair.state
    for other in (stream(4), stream(3, "float64")):
        with pytest.raises(InputError, match="the state belongs to another stream or to other settings"):
            RepairStage(other, settings("interpolate", 10.0)).restore(state)
    with pytest.raises(InputError, match="the state has an unexpected 'outlier_"):
        RepairStage(stream(), settings("interpolate")).restore(state)
    with pytest.raises(InputError, match="the state lacks 'known'"):
        repair.restore({name: array for name, array in state.items() if name != "known"})
    with pytest.raises(InputError, match="the waiting samples of the state are incomplete"):
        repair.restore(state | {"waiting": np.zeros((2, 3), np.float32)})
