"""Write the boxes that mark sources, and the command that takes the marked ones out of the channels.

The command of an output applies its model to the recording again (`batch --model`), which gives the same
sources to the bit. That of a recorded stream changes the choice of its daemon (`choose`). Without a script,
nothing of this is shown.
"""

import html
import shlex
from typing import Any

from igbss_stream.errors import printable
from igbss_stream.pages.markup import escape
from igbss_stream.pages.report.data import ReportData

_READING = ("dataset", "axis", "rate", "channels", "factor", "unit", "events", "montage", "missing")


def render_box(data: ReportData, source: int, text: str) -> str:
    """Return the box that marks a source and a text beside it; the text alone if nothing can be marked.

    Parameters
    ----------
    data : ReportData
    source : int
    text : str
        HTML.
    """
    if not data.can_be_cleaned:
        return text
    about = escape(f"Mark {data.sources.channels[source]} to take it out")
    checked = " checked" if source in data.excluded_sources else ""
    box = f'<input type="checkbox" value="{source}" aria-label="{about}" hidden{checked}>'
    return f'<label class="take">{box}{text}</label>'


def write_command(data: ReportData) -> str:
    """Return the command, without the numbers that the script adds; empty if sources cannot be taken out.

    Parameters
    ----------
    data : ReportData
    """
    if not data.can_be_cleaned:
        return ""
    if data.stream is not None:
        before, after = ["choose", "--stream", data.stream.name], []
        about = "It changes the choice of the daemon that publishes the stream, with its token."
    else:
        name = str(data.attributes.get("input") or "")
        before = ["batch", _as_argument(name), *_list_options(data.facts.job)]
        before += ["--model", _as_argument(data.path.name)]
        after = ["-o", _as_argument(f"{data.path.stem}-cleaned.h5")]
        about = "Run it in the folder of the recording and the output; it gives the same sources."
    if any(word != printable(word) for word in (*before, *after)):
        return ""  # control characters, or a name that is not text: nobody could paste it
    parts = (shlex.join(["igbss-stream", *before, "--exclude"]), shlex.join(after))
    first, last = (html.escape(part) for part in parts)
    return (
        f'<div class="command" id="command" data-before="{first}" data-after="{last}" hidden>'
        f'<p>Mark the sources to take out of the channels. <span class="soft">{escape(about)}</span></p>'
        '<p><code id="words"></code> <button id="copy" type="button">Copy</button> '
        '<span id="copied" class="soft" role="status"></span></p></div>'
    )


def _as_argument(name: str) -> str:
    """Return the name of a file as it has to stand on a command line: an option begins with a hyphen."""
    return f"./{name}" if name.startswith("-") else name


def _list_options(job: dict[str, Any] | None) -> list[str]:
    """Return the options with which the recording was read."""
    wanted, settings = ((job or {}).get(key) or {} for key in ("wanted", "settings"))
    options: list[str] = []
    for key in _READING:
        if wanted.get(key) is not None:
            options += [f"--{key}", _join(wanted[key])]
    if settings.get("bad_channels", "off") != "off":
        options += ["--bad-channels", _join(settings["bad_channels"])]
    if settings.get("window") is not None:
        options += ["--window", _join(settings["window"])]
    options += [f"--{key.replace('_', '-')}" for key in ("drop_flat", "keep_bad") if settings.get(key)]
    return options


def _join(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
