"""`make-keys`."""

import stat
from pathlib import Path

from igbss_stream.feeds.keys import derive_public_key
from tests.commands import Command, Refusal, assert_says


def test_keys_belong_together_and_are_kept(igbss: Command, refused: Refusal, tmp_path: Path) -> None:
    path = tmp_path / "server.env"
    made = igbss("make-keys", path)
    name, _, secret = path.read_text().strip().partition("=")
    assert (made.exit_code, name) == (0, "IGBSS_KEY")
    assert made.output.split()[-1] == derive_public_key(secret)
    assert secret not in made.output
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert_says(refused("make-keys", path), "server.env' exists", "keys are never overwritten")
    assert path.read_text() == f"IGBSS_KEY={secret}\n"


def test_keys_that_cannot_be_written(refused: Refusal, tmp_path: Path) -> None:
    assert_says(refused("make-keys", tmp_path / "none" / "a.env"), "cannot be written", "No such file")
    assert_says(refused("make-keys", tmp_path / "a.env", "--variable", "A KEY"), "--variable", "IGBSS_KEY")
    assert not (tmp_path / "a.env").exists()
