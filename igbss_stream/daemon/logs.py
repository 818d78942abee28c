"""Log to standard error: plain lines on a terminal, JSON elsewhere.

Each record is one line, and control characters are escaped: messages contain names that come from
elsewhere.
"""

import json
import logging
import sys
import warnings
from datetime import datetime
from typing import Any, Literal

from igbss_stream.errors import IgbssWarning, printable, printable_lines


class _TextFormatter(logging.Formatter):
    """``2026-11-29T12:03:04.123+01:00 WARNING stream eeg has been silent for 5 s``; a traceback follows."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        return f"{at} {level}{printable(record.getMessage())}{self._format_trace(record)}"

    def _format_trace(self, record: logging.LogRecord) -> str:
        return f"\n{printable_lines(self.formatException(record.exc_info))}" if record.exc_info else ""


class _JsonFormatter(logging.Formatter):
    """One object per line: time (Unix seconds), level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        entry: dict[str, Any] = {
            "time": round(record.created, 6),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry)  # in ASCII


def configure(level: str, style: Literal["auto", "text", "json"]) -> None:
    """Send log records to standard error.

    Parameters
    ----------
    level : {"debug", "info", "warning", "error"}
    style : {"auto", "text", "json"}
        "auto" is text on a terminal, JSON elsewhere.
    """
    handler = logging.StreamHandler()
    is_text = style == "text" or (style == "auto" and sys.stderr.isatty())
    handler.setFormatter(_TextFormatter() if is_text else _JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    warnings.showwarning = _log_warning
    set_level(level)


def _log_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Log a warning of Python, with its place unless it is one of the package."""
    place = "" if issubclass(category, IgbssWarning) else f"{where[0]}:{where[1]}: {category.__name__}: "
    logging.getLogger("py.warnings").warning("%s%s", place, message)


def set_level(level: str) -> None:
    """Set the lowest level that is logged."""
    logging.getLogger("igbss_stream").setLevel(level.upper())
