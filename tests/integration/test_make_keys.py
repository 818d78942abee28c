"""The tool that makes keys."""

import stat
import subprocess
import sys
from pathlib import Path

from igbss_stream.sockets import public_key

TOOL = Path(__file__).parents[2] / "tools" / "make_keys.py"


def make(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, path], capture_output=True, text=True, check=False)


def test_keys_belong_together_and_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "server.env"
    made = make(path)
    name, _, secret = path.read_text().strip().partition("=")
    assert (made.returncode, name) == (0, "IGBSS_KEY")
    assert made.stdout.split()[-1] == public_key(secret)
    assert secret not in made.stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = make(path)
    assert again.returncode == 2
    assert "keys are never overwritten" in again.stderr
    assert path.read_text() == f"IGBSS_KEY={secret}\n"
