"""Log to standard error: plain lines on a terminal, JSON elsewhere."""

import json
import logging
import sys
import time
from typing import Any, Literal


class _TextFormatter(logging.Formatter):
    """``12:03:04 WARNING stream eeg has been silent for 5 s``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        return f"{at} {level}{record.getMessage()}{self._format_trace(record)}"

    def _format_trace(self, record: logging.LogRecord) -> str:
        return f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""


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
        return json.dumps(entry)


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
    logging.captureWarnings(True)
    set_level(level)


def set_level(level: str) -> None:
    """Set the lowest level that is logged."""
    logging.getLogger("igbss_stream").setLevel(level.upper())
