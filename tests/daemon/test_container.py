"""Test the Dockerfile: what it says, its commands on this machine, and the container where docker runs."""

import fnmatch
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from igbss_stream.chunk import Stream
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from tests.commands import COMMAND
from tests.daemons import DaemonProcess, free_port
from tests.pages.live_page import NAMES, RATE, Sender
from tests.waiting import DEADLINE, until

ROOT = Path(__file__).parents[2]
START = 240.0  # seconds that a container may take until it is healthy
CONFIG = """
streams:
  - name: s
    source: {{kind: zmq, address: "{source}", silence: 1}}
    model: {{structure: systematic}}
    sinks:
      - {{kind: zmq, address: "tcp://127.0.0.1:{out}"}}
      - {{kind: hdf5, path: {folder}/eeg.h5}}
health: {{port: {health}}}
log: {{format: json}}
"""


def read_instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile and their arguments."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines]


def get_last(name: str) -> str:
    """Return the argument of the last instruction of a kind, which is the one that counts."""
    return [argument for kind, argument in read_instructions() if kind == name][-1]


def get_health_check() -> list[str]:
    options, _, command = get_last("HEALTHCHECK").partition("CMD")
    assert "--start-period=" in options
    return list(json.loads(command))


def get_environment() -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(get_last("ENV")))


def run_here(command: list[str], **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of the image with the Python and the package of this machine."""
    assert command[0] == "python"
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    return subprocess.run(
        [sys.executable, *command[1:]], env=environment, capture_output=True, text=True, timeout=DEADLINE
    )


def test_the_final_stage_is_slim_official_and_not_root() -> None:
    instructions = read_instructions()
    stages = [argument for kind, argument in instructions if kind == "FROM"]
    assert all(stage.split()[0].startswith("python:3.") and "-slim" in stage for stage in stages)
    last = max(i for i, (kind, _) in enumerate(instructions) if kind == "FROM")
    users = [argument.split(":")[0] for kind, argument in instructions[last:] if kind == "USER"]
    assert users
    assert all(user.isdigit() and int(user) > 999 for user in users)
    assert f"--uid {users[-1]} " in " ".join(argument for kind, argument in instructions if kind == "RUN")


def test_signals_reach_the_daemon_and_files_are_in_volumes() -> None:
    entry, command = json.loads(get_last("ENTRYPOINT")), json.loads(get_last("CMD"))
    assert [*entry, *command] == ["igbss-stream", "run", "/etc/igbss-stream/config.yaml"]
    assert get_last("STOPSIGNAL") == "SIGTERM"
    assert json.loads(get_last("VOLUME")) == ["/var/lib/igbss-stream", "/recordings"]


def test_extras_and_copied_files_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (install,) = [a for kind, a in read_instructions() if kind == "RUN" and ".whl)[" in a]
    extras = install.partition(".whl)[")[2].partition("]")[0].split(",")
    assert set(extras) <= set(project["optional-dependencies"])
    minor = get_last("FROM").removeprefix("python:").partition("-")[0]
    assert f"Programming Language :: Python :: {minor}" in project["classifiers"]
    rules = [
        line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] not in ("", "#")
    ]
    copied = [
        name
        for kind, argument in read_instructions()
        if kind == "COPY" and not argument.startswith("--from")
        for name in argument.split()[:-1]
    ]
    assert {"pyproject.toml", "igbss_stream", project["readme"], *project["license-files"]} == set(copied)
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in rules
    for name in (".git", ".venv", "tests", "docs"):
        assert any(fnmatch.fnmatch(name, rule) for rule in rules)
        assert f"!{name}" not in rules


@pytest.mark.jit
@pytest.mark.slow
def test_kernels_are_compiled_into_the_cache_of_the_image(tmp_path: Path) -> None:
    (compile_kernels,) = [json.loads(a) for kind, a in read_instructions() if kind == "RUN" and a[0] == "["]
    assert get_environment()["NUMBA_CACHE_DIR"] == "/var/cache/igbss-stream"
    done = run_here(compile_kernels, NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.rglob("*.nbi"))) > 5


@pytest.fixture
def feed() -> Iterator[Sender]:
    with ZmqPublisher("tcp://127.0.0.1:*") as sink:
        sink.start(Stream("s", RATE, NAMES, "uV", t0=time.time()))
        sender = Sender(sink)
        sender.start()
        yield sender
        sender.end()


def write_config(feed: Sender, path: Path, folder: str) -> int:
    """Write the configuration of a daemon that reads a feed; return the port of its health."""
    health = free_port()
    path.write_text(
        CONFIG.format(source=feed.address, out=free_port(), health=health, folder=folder), encoding="utf-8"
    )
    return health


@pytest.mark.jit
def test_the_health_check_follows_the_daemon(feed: Sender, tmp_path: Path) -> None:
    """Exit code 0 while all is well, 1 while a stream is silent, and 1 without a daemon; SIGTERM ends it."""
    path = tmp_path / "config.yaml"
    health = write_config(feed, path, str(tmp_path))
    check, address = get_health_check(), f"127.0.0.1:{health}"
    assert get_environment()["IGBSS_HEALTH"].startswith("127.0.0.1:")
    assert run_here(check, IGBSS_HEALTH=address).returncode == 1
    words = [*json.loads(get_last("CMD"))[:-1], str(path)]
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *words], text=True, stderr=subprocess.PIPE)
    with ExitStack() as ends:
        ends.callback(process.communicate)
        ends.callback(process.kill)
        daemon = DaemonProcess(process, health)
        until(lambda: json.loads(daemon.get("health"))["status"] == "ok" and daemon.count("messages"))
        done = run_here(check, IGBSS_HEALTH=address, http_proxy="http://127.0.0.1:9")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["status"] == "ok"
        feed.end()  # not even descriptions come
        until(lambda: json.loads(daemon.get("health"))["status"] == "degraded")
        done = run_here(check, IGBSS_HEALTH=address)
        assert done.returncode == 1
        assert json.loads(done.stdout)["status"] == "degraded"
        ends.pop_all()
        daemon.end(15)


def docker(*words: object, check: bool = True) -> str:
    done = subprocess.run(["docker", *map(str, words)], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def image() -> str:
    """Build the image, where docker has a daemon."""
    if shutil.which("docker") is None or subprocess.run(["docker", "info"], capture_output=True).returncode:
        pytest.skip("needs docker with a running daemon")
    docker("build", "-t", "igbss-stream:test", ROOT)
    return "igbss-stream:test"


@pytest.mark.jit
@pytest.mark.timeout(2000)
def test_the_container_becomes_healthy_and_ends_on_sigterm(
    image: str, feed: Sender, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    health = write_config(feed, path, "/recordings")
    path.chmod(0o644)
    mount = f"{path}:/etc/igbss-stream/config.yaml:ro"
    checked = docker("run", "--rm", "-v", mount, image, "check", "/etc/igbss-stream/config.yaml")
    assert checked
    host = ("--network", "host", "-e", f"IGBSS_HEALTH=127.0.0.1:{health}")
    name = docker("run", "-d", *host, "-v", mount, image)
    try:
        deadline = time.monotonic() + START
        while (state := docker("inspect", "-f", "{{.State.Health.Status}}", name)) != "healthy":
            assert time.monotonic() < deadline, (state, docker("logs", name))
            time.sleep(1)
        assert docker("exec", name, "id", "-u") == "10001"
        assert docker("exec", name, "ls", "/recordings") == "eeg.h5"
        docker("stop", "-t", "10", name)
        assert docker("inspect", "-f", "{{.State.ExitCode}}", name) == "0"
    finally:
        docker("rm", "-f", "-v", name, check=False)
