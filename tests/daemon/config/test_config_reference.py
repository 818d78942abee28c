"""The schema, the page and the template of the configuration."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from igbss_stream.daemon.config import reference
from igbss_stream.daemon.config.load import load
from tests.configurations import SECRET, uncommented

ROOT = Path(__file__).parents[3]


def sections() -> list[type]:
    return [section.cls for section in reference._list_sections()]


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.__name__)
def test_docstrings_describe_each_field(section: Any) -> None:
    assert list(reference.get_descriptions(section)) == list(section.__struct_fields__)
    assert reference.get_purpose(section).endswith(".")


def test_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == reference.build_page(), "run: igbss-stream schema --markdown > docs/configuration.md"


def test_links_of_the_page_have_targets() -> None:
    page = reference.build_page()
    headings = re.findall(r"^## (.*)$", page, re.M)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}
    linked = set(re.findall(r"\]\(#(.*?)\)", page))
    assert linked == anchors - {"the-file"}


def test_schema_has_every_key_with_a_description() -> None:
    schema = reference.build_schema()
    assert schema["$ref"] == "#/$defs/Config"
    assert set(schema["$defs"]) == {section.__name__ for section in sections()}
    for name, part in schema["$defs"].items():
        assert part["additionalProperties"] is False, name
        for key, prop in part["properties"].items():
            assert key in ("kind", "role") or prop["description"], (name, key)
    assert schema["$defs"]["Config"]["properties"]["log"]["anyOf"] == [
        {"$ref": "#/$defs/LogSection"},
        {"type": "null"},
    ]
    references = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema)))
    assert references == set(schema["$defs"])


@pytest.mark.parametrize("sink", ["zmq", "hdf5", "lsl"])
@pytest.mark.parametrize("source", ["zmq", "openephys", "lsl", "file"])
def test_template_is_valid_as_it_is_and_with_all_keys(run_file: Path, source: str, sink: str) -> None:
    text = reference.build_template(source, sink)
    run_file.write_text(text)
    config = load(run_file, {})
    (one,) = config.streams
    tags = [end.__struct_config__.tag for end in (one.source, *one.sinks)]
    assert tags == [source, sink]
    run_file.write_text(uncommented(text))
    everything = load(run_file, {"IGBSS_KEY": SECRET})
    assert everything.state is not None
    assert msgspec.structs.replace(everything, state=None, streams=config.streams) == config
    for name in ("repair", "model", "learning", "window"):
        assert getattr(everything.streams[0], name) == getattr(one, name)
    for full_end, end in zip(
        (everything.streams[0].source, *everything.streams[0].sinks), (one.source, *one.sinks), strict=True
    ):
        given = msgspec.structs.asdict(full_end)
        expected = msgspec.structs.asdict(end)
        for name in ("curve", "markers"):  # sections that are left out by default
            assert given.pop(name, None) or name not in end.__struct_fields__
            expected.pop(name, None)
        assert given == expected
    keys = {key for section in sections() for key in section.__struct_fields__}  # type: ignore[attr-defined]
    assert set(re.findall(r"^[ #-]*([a-z_]+):", uncommented(text), re.M)) <= keys | {"kind", "role"}
