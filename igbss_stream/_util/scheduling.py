"""Who goes first on a busy machine: of the daemon, the threads that move samples.

A system may run the daemon under a real-time policy (``CPUSchedulingPolicy=rr`` of systemd), so that a
browser that draws is never in the way of a message. What learns, answers HTTP or shows a page inherits it,
and would take the machine to itself for seconds.
"""

import os
import sys


def as_others() -> None:
    """Leave a real-time policy if the thread that calls is under one; on Linux, where each has its own."""
    if sys.platform == "linux" and os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
