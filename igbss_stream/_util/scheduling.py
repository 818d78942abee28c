"""Scheduling policy of threads.

The daemon may run under a real-time policy (``CPUSchedulingPolicy=rr`` of systemd), which gives the threads
that move samples precedence over, say, a web browser. Threads that learn, answer HTTP requests or serve a
page would inherit this policy and could block the machine for seconds.
"""

import os
import sys


def use_normal_priority() -> None:
    """Reset the calling thread from a real-time policy to the default one; Linux only."""
    if sys.platform == "linux" and os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
