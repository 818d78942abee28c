"""Where sources go. Each module writes blocks of (samples, sources) to one kind of sink."""
