"""Which recordings are meant by files, folders, globs and lists, and where their sources go."""

import io
import struct
from pathlib import Path

import h5py
import pytest

from igbss_stream.batch.inputs import FoundRecording, find_recordings, is_one_file
from igbss_stream.batch.outputs import get_output_folder, is_template, plan_outputs
from igbss_stream.errors import IgbssError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with recordings and much else, which is the current one."""
    for name in (
        "in/b.h5", "in/a.EDF", "in/sub/c.vhdr", "in/sub/deep/d.snirf",
        "in/sub/c.eeg", "in/notes.txt", "in/.hidden.h5", "in/.git/e.h5", "in/b.h5.partial",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    with h5py.File(tmp_path / "in" / "sub" / "sources.h5", "w") as file:
        file.attrs.update(settings="{}", transform="{}", solver="joint", igbss_stream_version="0")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(found: list[FoundRecording]) -> list[str]:
    return [str(item.path) for item in found]


def test_folder_is_searched_for_what_is_named_as_recordings_are() -> None:
    found = find_recordings(["in"])
    assert names(found) == ["in/a.EDF", "in/b.h5", "in/sub/c.vhdr", "in/sub/deep/d.snirf"]
    assert [str(item.relative) for item in found] == ["a.EDF", "b.h5", "sub/c.vhdr", "sub/deep/d.snirf"]


def test_folders_of_egi_are_recordings_and_files_of_egi_are_found_by_content(folder: Path) -> None:
    for name in ("in/sub/e.mff/signal1.bin", "in/sub/e.mff/in.h5", "in/photo.raw"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"II")
    (folder / "in" / "egi.raw").write_bytes(
        struct.pack(">i6hi5h", 4, 2012, 11, 30, 8, 9, 10, 0, 250, 4, 1, 0, 0)
    )
    assert names(find_recordings(["in"])) == [
        "in/a.EDF", "in/b.h5", "in/egi.raw", "in/sub/c.vhdr", "in/sub/e.mff", "in/sub/deep/d.snirf",
    ]  # fmt: skip
    assert names(find_recordings(["in/sub/e.mff/"])) == ["in/sub/e.mff"]
    assert names(find_recordings(["in/sub/**/*"])) == [
        "in/sub/c.eeg", "in/sub/c.vhdr", "in/sub/deep/d.snirf", "in/sub/e.mff",
    ]  # fmt: skip
    assert is_one_file(["in/sub/e.mff"], None)


def test_glob_is_expanded_and_leaves_out_what_batch_wrote() -> None:
    found = find_recordings(["in/**/*.h5*"])
    assert names(found) == ["in/b.h5"]
    assert names(find_recordings(["i*/sub/*"])) == ["in/sub/c.eeg", "in/sub/c.vhdr"]
    assert str(find_recordings(["in/sub/**/*.snirf"])[0].relative) == "deep/d.snirf"


def test_what_is_named_outright_is_taken_whatever_it_is(folder: Path) -> None:
    (folder / "x[1].h5").touch()
    named = ["x[1].h5", "in/sub/sources.h5", "in/notes.txt", "gone.h5"]
    assert names(find_recordings(named)) == named
    assert str(find_recordings(["in/sub/sources.h5"])[0].relative) == "sources.h5"


def test_each_recording_once_in_the_order_given(folder: Path) -> None:
    (folder / "link.h5").symlink_to("in/b.h5")
    assert names(find_recordings(["link.h5", "in/sub", "./in/b.h5", "in"])) == [
        "link.h5", "in/sub/c.vhdr", "in/sub/deep/d.snirf", "in/a.EDF",
    ]  # fmt: skip


def test_list_of_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# those of Monday\n\n  in/b.h5  \nin/sub\n"
    (folder / "list.txt").write_text(text)
    expected = ["in/a.EDF", "in/b.h5", "in/sub/c.vhdr", "in/sub/deep/d.snirf"]
    assert names(find_recordings(["in/a.EDF"], "list.txt")) == expected
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert names(find_recordings([], "-")) == expected[1:]


@pytest.mark.parametrize(
    ("inputs", "listed", "words"),
    [
        (["in/.git"], None, ["'in/.git' is a directory without recordings"]),
        (["in/*.wav"], None, ["'in/*.wav' matches no recording"]),
        ([], "gone.txt", ["--list 'gone.txt' cannot be read", "No such file"]),
        ([], "empty.txt", ["no recording was given", "--list"]),
    ],
)
def test_what_finds_nothing_is_refused(
    folder: Path, inputs: list[str], listed: str | None, words: list[str]
) -> None:
    (folder / "empty.txt").touch()
    (folder / "in/.git/e.h5").unlink()
    with pytest.raises(IgbssError) as error:
        find_recordings(inputs, listed)
    for word in words:
        assert word in str(error.value)


def test_one_file_is_told_from_many() -> None:
    assert is_one_file(["in/b.h5"], None)
    assert is_one_file(["gone.h5"], None)
    for inputs, listed in (["in"], None), (["in/*"], None), (["a", "b"], None), (["a"], "list"):
        assert not is_one_file(inputs, listed)


@pytest.mark.parametrize(
    ("template", "places"),
    [
        ("out/", ["out/a.h5", "out/c.h5"]),
        ("in", ["in/a.h5", "in/c.h5"]),
        ("out/{path}.h5", ["out/a.h5", "out/sub/c.h5"]),
        ("{parent}-{name}.h5", ["in-a.EDF.h5", "sub-c.vhdr.h5"]),
        ("{{x}}/{index:03d}", ["{x}/001", "{x}/002"]),
    ],
)
def test_templates(template: str, places: list[str]) -> None:
    found = find_recordings(["in/[ac]*", "in/sub/[ac]*.vhdr"])[:1] + find_recordings(["in/**/c.vhdr"])
    assert [str(place) for place in plan_outputs(template, found)] == places


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("out.h5", ["one file for 4 recordings", "{stem}", "{index}", "end it with /"]),
        ("{stm}.h5", ["the field {stm}", "{stem}, {name}, {parent}, {path}, {index}"]),
        ("{}.h5", ["the field {}"]),
        ("{stem.x}.h5", ["the field {stem.x}"]),
        ("{stem!r}.h5", ["the field {stem!r}"]),
        ("{stem:>9}.h5", ["the field {stem:>9}"]),
        ("{index:{stem}}.h5", ["cannot be filled in"]),
        ("{index:q}.h5", ["cannot be filled in"]),
        ("{stem.h5", ["is not a valid template", "{stem}"]),
        ("out/x.h5{{", ["'in/a.EDF' and 'in/b.h5' would both be written to 'out/x.h5{'", "by {name} or {index}"]),
        ("in/sub/{index}.h5/../../{name}", ["'in/a.EDF'", "never overwritten"]),
    ],
)  # fmt: skip
def test_templates_that_cannot_be(template: str, words: list[str]) -> None:
    with pytest.raises(IgbssError) as error:
        plan_outputs(template, find_recordings(["in"]))
    for word in words:
        assert word in str(error.value), str(error.value)


def test_recordings_of_one_name_need_a_telling_template(folder: Path) -> None:
    (folder / "in/sub/b.bdf").touch()
    with pytest.raises(
        IgbssError, match=r"'in/b.h5' and 'in/sub/b.bdf' would both be .* 'out/b.h5'.*by {path}"
    ):
        plan_outputs("out/", find_recordings(["in"]))
    places = plan_outputs("out/{path}.h5", find_recordings(["in"]))
    assert len({str(place) for place in places}) == 5


def test_folder_of_all_outputs_does_not_depend_on_what_is_found() -> None:
    assert (
        get_output_folder("out/")
        == get_output_folder("out/{stem}.h5")
        == get_output_folder("out/x-{parent}/{stem}")
        == Path("out")
    )
    assert get_output_folder("in") == Path("in")
    assert get_output_folder("{stem}.h5") == get_output_folder("x.h5") == Path()


def test_a_plain_name_is_no_template() -> None:
    assert not any(map(is_template, ["out.h5", "", ".", "/", "a/b"]))
    assert all(map(is_template, ["out/", "{stem}", "a}"]))
