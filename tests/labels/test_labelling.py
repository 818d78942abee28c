"""Labels of sources whose kind is known, with and without positions, whole and in pieces."""

import numpy as np
import pytest

from igbss_stream import Labelling, label_sources, separate
from igbss_stream._util.electrodes import find_position
from igbss_stream.errors import ParameterError
from igbss_stream.labels.scores import LABELS
from tests.doc_pages import run_python
from tests.labels.heads import N_SAMPLES, NAMES, POSITIONS, RATE, SOURCES, make_noise, make_sources, see


@pytest.fixture(scope="module")
def found() -> Labelling:
    return label_sources(*make_sources(1), NAMES, RATE)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_kind_of_source_gets_its_label(seed: int) -> None:
    labelling = label_sources(*make_sources(seed), NAMES, RATE)
    assert labelling.labels == tuple(SOURCES) == LABELS
    assert labelling.top_scores.min() > 0.8
    assert labelling.notes == ()
    scores = labelling.scores.copy()
    np.fill_diagonal(scores, 0.0)
    assert scores.max() < 0.5


def test_reasons_state_the_facts(found: Labelling) -> None:
    blink, movement, heart, muscle, mains, channel, brain = found.reasons
    assert blink.startswith("frontal on both sides (")
    assert "deflections a minute" in blink
    assert movement.startswith("opposite at the two eyes (")
    beats = int(heart.split()[0])
    assert abs(beats - 72) < 5
    assert "in bursts of up to" in muscle
    assert "strongest at F7" in muscle
    assert "of the power at 50 Hz" in mains
    assert channel == "100% of the map in one channel; strongest at Cz"
    assert "at 10 Hz" in brain
    assert "no sign of an artefact" in brain
    assert str(found).splitlines()[2] == f"source-2: heart {found.top_scores[2]:.2f}, {heart}"


def test_sign_scale_order_and_reference_do_not_matter(found: Labelling) -> None:
    courses, maps = make_sources(1)
    again = label_sources(-1e-6 * courses[:, ::-1] + 5e-6, 3e3 * maps[:, ::-1] + 700.0, NAMES, RATE)
    assert again.labels == found.labels[::-1]
    np.testing.assert_allclose(again.scores[::-1], found.scores, atol=1e-6)


def test_order_of_channels_does_not_matter(found: Labelling) -> None:
    courses, maps = make_sources(1)
    order = np.random.default_rng(0).permutation(len(NAMES))
    again = label_sources(courses, maps[order], [NAMES[i] for i in order], RATE)
    np.testing.assert_allclose(again.scores, found.scores, atol=1e-9)
    assert again.reasons == found.reasons


def test_electrodes_on_the_face_are_left_out(found: Labelling) -> None:
    courses, maps = make_sources(1)
    below_the_eyes = {len(NAMES): np.array([-0.4, 0.85, -0.3]), len(NAMES) + 1: np.array([0.4, 0.85, -0.3])}
    upside_down = -maps[[NAMES.index("Fp1"), NAMES.index("Fp2")]]
    places = {i: find_position(name) for i, name in enumerate(NAMES)}
    known = {i: where for i, where in places.items() if where is not None}
    again = label_sources(
        courses,
        np.vstack([maps, upside_down]),
        [*NAMES, "E1", "E2"],
        RATE,
        positions=known | below_the_eyes,
    )
    np.testing.assert_array_equal(again.scores, found.scores)


def test_positions_stand_for_names(found: Labelling) -> None:
    names = [f"A{i}" for i in range(len(NAMES))]
    positions = {i: 95.0 * position for i, position in enumerate(POSITIONS)}
    again = label_sources(*make_sources(1), names, RATE, positions=positions)
    np.testing.assert_allclose(again.scores, found.scores)
    assert again.reasons[5] == "100% of the map in one channel; strongest at A9"


def test_without_positions_only_courses_are_judged() -> None:
    courses, maps = make_sources(1)
    labelling = label_sources(courses, maps, [f"X{i}" for i in range(len(NAMES))], RATE)
    note = labelling.notes[0]
    assert "maps are not judged, because the positions of 0 of 19 channels are known" in note
    assert np.isnan(labelling.scores[:, [1, 5]]).all()
    assert labelling.labels[0] == "eye blink"
    assert "frontal" not in labelling.reasons[0]
    assert labelling.labels[2:5] == ("heart", "muscle", "line noise")
    assert labelling.labels[6] == "brain"


def test_a_frontal_brain_source_is_no_blink_and_blinks_behind_are_none() -> None:
    rng = np.random.default_rng(4)
    blinks = SOURCES["eye blink"][0](rng)
    maps = np.column_stack([see(0, 1, -0.2), see(0, -1, 0.1)])
    labelling = label_sources(np.column_stack([make_noise(rng, 1.0), blinks]), maps, NAMES, RATE)
    assert labelling.scores[:, 0].max() < 0.2


def test_rows_after_a_break_do_not_continue(found: Labelling) -> None:
    """Steps at the breaks would be sharp peaks; runs are filtered one by one."""
    courses, maps = make_sources(1)
    breaks = list(range(2500, N_SAMPLES, 2500))
    steps = np.cumsum(np.isin(np.arange(N_SAMPLES), breaks) * 50.0)
    again = label_sources(courses + steps[:, None], maps, NAMES, RATE, breaks=breaks)
    assert again.labels == found.labels


def test_short_and_slow_samples_are_judged_by_what_they_have() -> None:
    courses, maps = make_sources(1)
    short = label_sources(courses[:1000], maps, NAMES, RATE)
    assert "which takes 12 s" in short.notes[0]
    assert "heart" not in short.labels
    slow = label_sources(courses[::4], maps, NAMES, RATE / 4)
    assert "which takes a rate of 65 Hz" in slow.notes[0]
    assert "muscle" not in slow.labels


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rate": 0.0}, "rate must be"),
        ({"courses": np.ones((300, 7))}, "at least 2 s"),
        ({"courses": np.full((N_SAMPLES, 7), np.nan)}, "finite"),
        ({"channels": NAMES[1:]}, "18 channels"),
    ],
)
def test_unusable_samples_are_refused(change: dict[str, object], words: str) -> None:
    courses, maps = make_sources(1)
    given: dict[str, object] = {"courses": courses, "maps": maps, "channels": NAMES, "rate": RATE}
    with pytest.raises(ParameterError, match=words):
        label_sources(**{**given, **change})  # type: ignore[arg-type]  # one of them is replaced


def test_a_constant_source_is_no_artefact() -> None:
    labelling = label_sources(np.ones((N_SAMPLES, 1)), np.ones((len(NAMES), 1)), NAMES, RATE)
    assert labelling.labels[0] in ("brain", "other")
    assert np.nan_to_num(labelling.scores[0, :6]).max() < 0.5


def test_a_separation_labels_its_sources() -> None:
    rng = np.random.default_rng(0)
    separation = separate(make_sources(1)[0][:, :4] @ rng.normal(size=(4, 4)), structure="systematic")
    assert len(separation.label_sources(NAMES[:4], RATE).labels) == 4
    other = separate(rng.uniform(1, 2, size=(500, 4)), structure="systematic", transform="sum")
    with pytest.raises(ParameterError, match="transform 'exp'"):
        other.label_sources(NAMES[:4], RATE)


@pytest.mark.jit
def test_the_python_of_the_page_runs() -> None:
    found = run_python("docs/labels.md")["found"]
    assert isinstance(found, Labelling)
    assert len(found.labels) == 6
