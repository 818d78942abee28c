"""Under a real-time policy, only the threads of a daemon that move samples keep the policy."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.commands import Spawn
from tests.daemons import DaemonProcess, free_port
from tests.waiting import until

pytest.importorskip("bokeh")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have a policy each on Linux alone")


def get_policies(pid: int | str) -> list[tuple[str, int]]:
    """Return the name and the policy of each thread of a process."""
    threads = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda thread: int(thread.name))
    found = []
    for thread in threads:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            found.append(((thread / "comm").read_text(), os.sched_getscheduler(int(thread.name))))
    return found


def test_only_threads_that_move_samples_keep_the_policy(tmp_path: Path, spawn: Spawn) -> None:
    health = free_port()
    stream = {
        "name": "s",
        "source": {"kind": "zmq", "address": f"{free_port()}"},
        "sinks": [{"kind": "zmq", "address": f"{free_port()}"}],
    }
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"streams": [stream], "view": {"port": 0}, "health": {"port": health}}))
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        pytest.skip("this machine lets nobody but root have a real-time policy")
    try:
        process = spawn("run", path)
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    daemon = DaemonProcess(process, health)
    daemon.wait_for_line("running 1 stream(s)")
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    niceness = min(os.getpriority(os.PRIO_PROCESS, 0) + 5, 19)  # the page gives way
    until(lambda: os.getpriority(os.PRIO_PROCESS, int(child)) == niceness)
    assert {policy for _, policy in get_policies(child)} == {os.SCHED_OTHER}

    def resting() -> list[int]:
        return [policy for name, policy in get_policies(process.pid)[1:] if not name.startswith("ZMQbg")]

    until(
        lambda: resting() == [os.SCHED_OTHER] * 2, describe=lambda: get_policies(process.pid)
    )  # learning, health
    (_, main), *others = get_policies(process.pid)
    assert main == os.SCHED_RR
    moving = [policy for name, policy in others if name.startswith("ZMQbg")]
    assert len(moving) >= 4  # two of each context
    assert set(moving) == {os.SCHED_RR}
    daemon.end(15)
