"""The parts of tools/reproduce_paper.py, each against something worked out another way."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from page_tables import refresh_pages
from paper_methods import (
    LEARNED,
    Method,
    ar_innovations,
    diagonalising_rotation,
    lagged_covariances,
    second_order,
    var_innovations,
    with_positive_columns,
)
from paper_mixtures import Experiment, Mixture, interact, picture_experiments
from paper_overview import ERRORS, RATIOS, overview
from paper_real import HOP, changes
from paper_recordings import RECORD, steim2
from paper_report import Report
from paper_tables import (
    METHODS,
    _convergence,
    _products,
    _scored,
    assigned,
    signs,
    with_best_signs,
)
from scipy.optimize import minimize_scalar
from scipy.signal import lfilter
from sklearn.exceptions import ConvergenceWarning

from igbss_stream.errors import InputError
from igbss_stream.separation.metrics import rmse


def rotation_of(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def off_diagonal(matrices: np.ndarray) -> float:
    return float(np.sum(matrices**2) - np.sum(np.diagonal(matrices, axis1=1, axis2=2) ** 2))


@pytest.mark.parametrize("seed", range(5))
def test_plane_rotation_is_the_best_of_all_angles(seed: int) -> None:
    """Symmetric matrices that no rotation makes diagonal, against a search over the angle."""
    matrices = np.random.default_rng(seed).standard_normal((7, 2, 2))
    matrices = matrices + matrices.transpose(0, 2, 1)

    def left(angle: float) -> float:
        turn = rotation_of(angle)
        return off_diagonal(turn @ matrices @ turn.T)

    coarse = min(np.linspace(-np.pi / 4, np.pi / 4, 201), key=left)
    best = minimize_scalar(left, bounds=(coarse - 0.02, coarse + 0.02), method="bounded")
    turn = diagonalising_rotation(matrices)
    np.testing.assert_allclose(turn @ turn.T, np.eye(2), atol=1e-12)
    assert off_diagonal(turn @ matrices @ turn.T) <= best.fun * (1 + 1e-9)


def test_common_eigenvectors_are_found() -> None:
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    matrices = np.array([axes @ np.diag(rng.standard_normal(5)) @ axes.T for _ in range(4)])
    agreement = np.abs(diagonalising_rotation(matrices) @ axes)
    np.testing.assert_allclose(np.sort(agreement.max(axis=1)), np.ones(5), atol=1e-9)
    assert sorted(agreement.argmax(axis=1)) == [0, 1, 2, 3, 4]


def test_second_order_separates_gaussian_sources_by_their_spectra() -> None:
    rng = np.random.default_rng(2)
    truth = np.column_stack(
        [lfilter([1.0], [1.0, -a], rng.standard_normal(20_000)) for a in (-0.8, 0.2, 0.9)]
    )
    x = truth @ rng.uniform(0.5, 2.0, (4, 3)).T
    sources = second_order(x, 3)
    assert rmse(sources, truth) < 0.05
    assert (signs(sources, truth) > 0).all()


def test_lagged_covariances_are_means_of_products() -> None:
    z = np.random.default_rng(3).standard_normal((50, 2))
    by_hand = sum(np.outer(z[t + 3], z[t]) + np.outer(z[t], z[t + 3]) for t in range(47)) / (2 * 47)
    np.testing.assert_allclose(lagged_covariances(z, 4)[2], by_hand, rtol=1e-12)


def test_innovations_are_what_drove_the_process() -> None:
    rng = np.random.default_rng(4)
    drive = rng.laplace(size=(30_000, 2))
    z = np.column_stack([lfilter([1.0], [1.0, -1.2, 0.7], column) for column in drive.T])
    for found in ar_innovations(z), var_innovations(z):
        gap = found - drive[-len(found) :]
        assert gap.std() < 0.03 * drive.std()


def test_columns_are_made_positive() -> None:
    mixing = np.array([[1.0, -2.0], [0.5, 1.0]])
    unmixing = with_positive_columns(np.linalg.inv(mixing))
    np.testing.assert_allclose(np.linalg.inv(unmixing), [[1.0, 2.0], [0.5, -1.0]], rtol=1e-12)


def test_signs_and_places_are_told_apart() -> None:
    truth = np.random.default_rng(5).standard_normal((400, 3))
    sources = truth[:, [2, 0, 1]] * [1.0, -1.0, 1.0]
    assert assigned(sources, truth).tolist() == [1, 2, 0]
    assert signs(sources, truth).tolist() == [-1.0, 1.0, 1.0]
    assert rmse(with_best_signs(sources, truth), truth) < 1e-12


def test_changes_from_window_to_window_are_counted() -> None:
    whole = np.random.default_rng(6).standard_normal((7 * HOP, 4))
    windows = [whole[at * HOP : (at + 4) * HOP].copy() for at in range(3)]
    windows[1][:, 0] *= -1.0  # turns over, and back again
    windows[2] = windows[2][:, [0, 1, 3, 2]]  # two change places
    assert changes(windows) == (2 / 8, 2 / 8)


def test_interactions_are_products_of_distinct_sources() -> None:
    truth = np.random.default_rng(7).uniform(size=(20, 3))
    weights = np.random.default_rng(8)
    first, second, third = (weights.uniform(1.0, 2.0, (3, n)) for n in (3, 3, 1))
    a, b, c = truth.T
    expected = truth @ first.T + np.column_stack([a * b, a * c, b * c]) @ second.T
    expected += (a * b * c)[:, None] @ third.T
    np.testing.assert_allclose(interact(truth, 3, 1.0, 2.0, 8), expected, rtol=1e-12)


def test_doubts_of_convergence_are_kept_and_other_warnings_pass() -> None:
    def run(x: np.ndarray, n_sources: int, order: int) -> np.ndarray:
        warnings.warn("not there yet", ConvergenceWarning, stacklevel=1)
        warnings.warn("something else", UserWarning, stacklevel=1)
        return x

    with pytest.warns(UserWarning, match="something else") as caught:
        _, converged = Method("doubtful", run)(np.eye(2), 2)
    assert not converged
    assert [str(said.message) for said in caught] == ["something else"]


def as_fields(steps: list[int], bits: int, head: int | None) -> int:
    """Return a word: two bits that state how it is packed, then the steps."""
    word = 0
    for step in steps:
        word = word << bits | step & (1 << bits) - 1
    return word if head is None else head << 30 | word


def test_steims_second_compression_is_undone() -> None:
    """One word of each kind of packing, put together by hand."""
    packed = [
        (1, 8, None, 4), (2, 30, 1, 1), (2, 15, 2, 2), (2, 10, 3, 3), (3, 6, 0, 5), (3, 5, 1, 6), (3, 4, 2, 7)
    ]  # fmt: skip
    rng = np.random.default_rng(9)
    steps, words, codes = [], [], 0
    for place, (code, bits, head, count) in enumerate(packed, 3):
        part = rng.integers(-(1 << bits - 1), 1 << bits - 1, count).tolist()
        steps += part
        words.append(as_fields(part, bits, head))
        codes |= code << 2 * (15 - place)
    samples = -7 + np.cumsum([0, *steps[1:]])
    frame = np.array([codes, -7 & 0xFFFFFFFF, int(samples[-1]) & 0xFFFFFFFF, *words], dtype=">u4")
    header = bytearray(64)
    header[30:32], header[44:46] = len(steps).to_bytes(2, "big"), (64).to_bytes(2, "big")
    record = (bytes(header) + frame.tobytes()).ljust(RECORD, b"\0")
    np.testing.assert_array_equal(steim2(record), samples)
    damaged = record[:80] + b"\x7f" + record[81:]
    with pytest.raises(ValueError, match="damaged"):
        steim2(damaged)


def test_a_mixture_that_raises_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    truth = np.random.default_rng(0).normal(size=(50, 2))

    def refuses_large(x: np.ndarray, n_sources: int, order: int) -> np.ndarray:
        if np.abs(x).max() > 100.0:
            raise InputError("too large.")
        return x + 0.01 * np.sin(np.arange(len(x)))[:, None]

    few = Experiment("three", [Mixture(scale * truth, truth, 2) for scale in (1.0, 1e3, 2.0)])
    scores = list(_scored(Method("picky", refuses_large), few))
    assert [one is None for one in scores] == [False, True, False]
    assert capsys.readouterr().err == "three, picky: too large.\n"
    header, rows, _ = _products({("three", "0:3"): scores})
    row = dict(zip(header, rows[0], strict=True))
    assert row["seeds"] == "0:3"
    assert (row["mixtures"], row["failed"], row["below 0.1"]) == ("3", "1", "2")
    assert 0.0 < float(row["RMSE"].split(" ± ")[0]) < 0.01
    assert row["right signs, %"] == "100"
    reported = _convergence(
        {("three", "0:3"): {method: scores if method is LEARNED else scores[:1] for method in METHODS}}
    )
    assert reported.endswith("Mixtures that a method gave no sources for: learned 1 of 3.")


def test_pictures_have_fewer_mixtures_with_products() -> None:
    drawn = list(picture_experiments(None, range(3, 9)))
    assert [len(each.mixtures) for each in drawn] == 3 * [6, 6, 4, 4]
    for rounded, plain in zip(drawn[::4], drawn[1::4], strict=True):
        assert plain.name == f"{rounded.name}, not rounded"
        for one, other in zip(rounded.mixtures, plain.mixtures, strict=True):
            assert (one.x == np.round(one.x)).all()
            assert one.x.max() == 255.0
            np.testing.assert_allclose(one.x, other.x * (255.0 / other.x.max()), atol=0.5)


def test_the_overview_has_a_value_for_each_range(tmp_path: Path) -> None:
    """Means of three sets of images, the ranges side by side, and the better of two methods in bold."""
    report = Report(tmp_path)
    methods = (
        "channels",
        "published, exp",
        "learned",
        "FastICA (oracle)",
        "Picard",
        "innovations + Picard",
    )
    names = [name for group in ERRORS.values() for name in group]
    rows = [
        [name, seeds, *(f"{0.1 * (i + 1) + 0.01 * j + 0.001 * k:.3f} ± 0.1" for i in range(len(methods)))]
        for k, name in enumerate(names)
        for j, seeds in enumerate(("0:4", "5:9"))
    ]
    report.table("rmse-ours", "errors", ["", "seeds", *methods], rows)
    overview(report)
    assert "overview" not in report.tables
    for table in RATIOS:
        header = ["", "mean SIR (0:4)", "worst SIR (0:4)", "mean SIR (5:9)", "worst SIR (5:9)"]
        ratios = [
            [each, f"**{10 - i:.1f} ± 1.0**", "0", f"{8 - i:.1f} ± 1.0", "0"]
            for i, each in enumerate(methods[2:])
        ]
        report.table(table, table, header, ratios)
    overview(report)
    _, found = report.cells["overview"]
    by_name = {row[0]: row[1:] for row in found}
    images = by_name["images of the paper, 8 bits, mean of three sets"]
    assert images[:2] == ["**0.103 / 0.113**", "0.203 / 0.213"]
    assert by_name[RATIOS["real"]] == ["", "", "**10.0 / 8.0**", "9.0 / 7.0", "8.0 / 6.0", "7.0 / 5.0"]


def test_tables_without_a_place_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = tmp_path / "one.md", tmp_path / "other.md"
    one.write_text("<!-- a -->\nold\n<!-- end -->\n")
    other.write_text("text\n<!-- b -->\n<!-- end -->\n")
    refresh_pages([one, other], {"a": "A", "b": "B", "c": "C"})
    assert one.read_text() == "<!-- a -->\nA\n<!-- end -->\n"
    assert other.read_text() == "text\n<!-- b -->\nB\n<!-- end -->\n"
    assert capsys.readouterr().err == "No page has a place for a table: <!-- c --> is missing.\n"
