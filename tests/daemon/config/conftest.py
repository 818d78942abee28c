"""Fixtures for the tests of the configuration."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.config.schema import Config
from igbss_stream.errors import ConfigError
from tests.configurations import SECRET, FindMistakes, LoadConfig


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    """Return the path of a configuration to be written."""
    return tmp_path / "run.yaml"


@pytest.fixture
def load_config(run_file: Path) -> LoadConfig:
    """Load a configuration, given as text or as plain values."""

    def run(content: Any) -> Config:
        run_file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return load(run_file, {"KEY": SECRET})

    return run


@pytest.fixture
def find_mistakes(load_config: LoadConfig, run_file: Path) -> FindMistakes:
    """Load a configuration with mistakes; return the messages without the name of the file."""

    def run(content: Any) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load_config(content)
        lines = str(caught.value).splitlines()
        assert all(line.startswith(str(run_file)) for line in lines), lines
        return [line.removeprefix(str(run_file)).lstrip(": ") for line in lines]

    return run
