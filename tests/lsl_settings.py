"""Settings of LSL for tests: only this machine, nobody else's streams, no log. Import it before LSL is used."""

import os
import tempfile
import time
from pathlib import Path

_SETTINGS = f"""
[ports]
IPv6 = disable
[multicast]
ResolveScope = machine
[lab]
KnownPeers = {{127.0.0.1}}
SessionID = tests {os.getpid()} {time.time_ns()}
[log]
level = -3
"""

_folder = tempfile.TemporaryDirectory()
_path = Path(_folder.name) / "lsl.cfg"
_path.write_text(_SETTINGS)
os.environ["LSLAPICFG"] = str(_path)  # liblsl reads it when it is first used
