"""Small files are written as a whole, under a temporary name that no link can redirect."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from igbss_stream._util.atomic_write import write_atomically
from igbss_stream.cli import main


def write(path: Path, content: bytes = b"new") -> None:
    write_atomically(path, lambda file: file.write(content))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes(b"new")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert names(tmp_path) == ["a.csv", "b.csv"]
    assert len(modes) == 1


def test_a_leftover_of_a_killed_run_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.csv.partial").write_bytes(b"left behind" * 100)
    write(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes() == b"new"
    assert names(tmp_path) == ["a.csv"]


def test_a_hard_link_to_another_file_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    os.link(tmp_path / "precious", tmp_path / "a.csv.partial")
    write(tmp_path / "a.csv")
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "a.csv").read_bytes() == b"new"


@pytest.mark.parametrize("target", ["precious", "missing"])
def test_a_link_is_not_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "a.csv").write_text("old")
    (tmp_path / "a.csv.partial").symlink_to(target)
    with pytest.raises(OSError, match=r"a\.csv\.partial' is a link or no regular file; remove it"):
        write(tmp_path / "a.csv")
    assert names(tmp_path) == ["a.csv", "a.csv.partial", "precious"]
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "a.csv").read_text() == "old"


def test_a_link_that_appears_after_the_check_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "a.csv.partial").symlink_to("precious")

    def find_nothing(path: Path) -> os.stat_result:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "lstat", find_nothing)
    with pytest.raises(FileExistsError):
        write(tmp_path / "a.csv")
    monkeypatch.undo()
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused_and_left(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "a.csv.partial")
    with pytest.raises(OSError, match="no regular file"):
        write(tmp_path / "a.csv")
    assert names(tmp_path) == ["a.csv.partial"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    def fail(file: object) -> None:
        raise OSError("disk full")

    write(tmp_path / "a.csv", b"old")
    with pytest.raises(OSError, match="disk full"):
        write_atomically(tmp_path / "a.csv", fail)
    assert (tmp_path / "a.csv").read_bytes() == b"old"
    assert names(tmp_path) == ["a.csv"]


def test_the_command_names_the_link(tmp_path: Path) -> None:
    (tmp_path / "igbss.yaml.partial").symlink_to("precious")
    result = CliRunner().invoke(main, ["init", str(tmp_path / "igbss.yaml")])
    assert result.exit_code == 2
    assert "igbss.yaml.partial' is a link or no regular file; remove it" in result.output
