"""The version of the package; packaging reads it from here."""

__version__ = "0.2.0"
