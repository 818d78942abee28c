"""Where samples come from. Each module reads one kind of source as blocks of (samples, channels)."""
