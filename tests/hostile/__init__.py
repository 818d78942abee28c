"""What arrives ends, at worst, its own stream: hostile and broken peers, against real sockets and daemons."""
