"""Read recordings from text: formats, and errors in lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.errors import IgbssError, RecordingError
from igbss_stream.files.open import open_recording
from tests.recordings import noise

X = np.round(noise(300, 3), 6)


def lines(x: Any = X, delimiter: str = ",") -> list[str]:
    return [delimiter.join(map(repr, row)) for row in np.asarray(x).tolist()]


def write(path: Path, text: Sequence[str]) -> Path:
    path.write_text("\n".join(text) + "\n")
    return path


def read(path: Path, n: int = 64, **options: Any) -> NDArray[Any]:
    with open_recording(path, **({"rate": 100.0} | options)) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(n)])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " ", ", "])
def test_all_kinds_of_columns(tmp_path: Path, delimiter: str) -> None:
    names = ["# made by hand", delimiter.join(["a", "b", "c"]), ""]
    path = write(tmp_path / "in", names + lines(delimiter=delimiter)[:150] + ["%"] + lines()[:0])
    np.testing.assert_array_equal(read(path), X[:150])
    with open_recording(path, rate=100.0, channels="c,0") as recording:
        assert recording.channels == ("c", "a")


@pytest.mark.parametrize(
    ("name", "step", "words"),
    [
        (
            "time",
            0.004,
            r"pass --rate \(time increases by 0\.004 per row: --rate 250 if it is in seconds\)$",
        ),
        ("t", 4.0, r"pass --rate \(t increases by 4 per row: --rate 250 if it is in milliseconds\)$"),
        ("index", 1.0, r"pass --rate$"),
        ("c", 0.0, r"pass --rate$"),
    ],
)
def test_a_time_column_suggests_the_missing_rate(
    tmp_path: Path, name: str, step: float, words: str
) -> None:
    rows = np.column_stack([X, step * np.arange(len(X))])
    path = write(tmp_path / "in", [f"a,b,c,{name}", *lines(rows)])
    with pytest.raises(RecordingError, match=words), open_recording(path):
        pass


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("1.5,x,2.5", r"line 252 of .* has 'x' in column 1 \(b\), which is not a number.*write nan for"),
        ("1.5,?,2.5", r"line 252 of .* has '\?' in column 1 \(b\), which is not a number"),
        ("1.5,2.5", r"line 252 of .* has 2 columns, but the first rows have 3"),
        ("1,5,2,5,3,5", r"line 252 of .* has 6 columns, but the first rows have 3"),
        ('"1,5",2,3', r"line 252 of .* has '1,5' in column 0 \(a\), which is not a number"),
    ],
)
@pytest.mark.parametrize("n", [1, 64, 300])
def test_lines_of_another_format_are_reported(tmp_path: Path, wrong: str, words: str, n: int) -> None:
    text = ["% comment", "a,b,c", *lines()]
    text[251] = wrong
    path = write(tmp_path / "in", text)
    with pytest.raises(RecordingError, match=words):
        read(path, n)


def test_invalid_cells_of_unused_columns_are_ignored(tmp_path: Path) -> None:
    text = lines()
    text[250] = "1.5,x,2.5"
    found = read(write(tmp_path / "in", text), channels="0,2")
    np.testing.assert_array_equal(found[250], [1.5, 2.5])
    np.testing.assert_array_equal(np.delete(found, 250, axis=0), np.delete(X[:, [0, 2]], 250, axis=0))


def test_quoted_cells_keep_their_delimiters(tmp_path: Path) -> None:
    path = write(
        tmp_path / "in", ['when,"a, left","b, right"', *('"May 1, 9:00",' + r for r in lines(X[:, :2]))]
    )
    with pytest.raises(IgbssError, match=r"not numbers \(when\)"):
        read(path)
    np.testing.assert_array_equal(read(path, channels="1-2"), X[:, :2])
    with open_recording(path, rate=1.0, channels="1-2") as recording:
        assert recording.channels == ("a, left", "b, right")


@pytest.mark.parametrize(
    ("column", "is_time"),
    [
        (np.arange(300) / 100, True),
        (np.arange(300) % 128, True),  # a counter that wraps
        (np.cumsum(np.random.default_rng(0).exponential(1, 300)), True),  # irregular times
        (np.random.default_rng(0).normal(size=300), False),
    ],
)
def test_an_increasing_column_must_be_selected_or_omitted(
    tmp_path: Path, column: NDArray[np.float64], is_time: bool
) -> None:
    table = np.column_stack([X[:, 0], column, X[:, 1:]])
    path = write(tmp_path / "in", lines(table))
    if is_time:
        with pytest.raises(
            IgbssError, match=r"increases evenly.*\(channel-1\); pass --channels 0,2-3 to omit"
        ):
            read(path)
        path = write(tmp_path / "in", ["a,Time,b,c", *lines(table)])
        np.testing.assert_array_equal(read(path), X)
    else:
        np.testing.assert_array_equal(read(path), table)
        # T may be a temperature.
        np.testing.assert_array_equal(read(write(tmp_path / "in", ["a,T,b,c", *lines(table)])), table)


def test_a_text_that_became_shorter_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "in", lines())
    with open_recording(path, rate=1.0) as recording:
        write(path, lines()[:200])
        with pytest.raises(RecordingError, match="became shorter"):
            list(recording.read_blocks(64))
