"""A page that shows a live stream: its sources, the channels beside them, and what one source is like."""
