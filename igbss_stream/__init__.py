"""Streaming blind source separation."""
