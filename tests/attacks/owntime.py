# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What of a time is the profiler's own, and not that of a machine that had no CPU for it.

Bounds of seconds are a race on a machine that is busy. The kernel knows how long each thread was ready to run and had
no CPU (/proc/PID/task/TID/schedstat): what is left of the wall time was computed, or waited for something else.
"""
import bisect
import contextlib
import os
import threading
import time
from pathlib import Path

LOOK_S = 0.02


def family(pid):
    """The process and its children, the helpers."""
    found = [pid]
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/%d/task" % pid):
            with contextlib.suppress(OSError):
                found += map(int, Path("/proc/%d/task/%s/children" % (pid, task)).read_text().split())
    return found


def has_ended(pid):
    try:
        return Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


class OwnTime:
    """Watches a process and its children from now on, until it has ended or stop()."""

    def __init__(self, pid):
        self.pid = pid
        self.delays = {}  # (process, thread): ns that it was ready and had no CPU
        self.times, self.sums = [time.time()], [self.delay()]  # looks at which it had not ended
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def delay(self):
        """Seconds of all threads since they began; of those that have ended, what was last seen."""
        for pid in family(self.pid):
            with contextlib.suppress(OSError):
                for tid in os.listdir("/proc/%d/task" % pid):
                    with contextlib.suppress(OSError, IndexError):
                        text = Path("/proc/%d/task/%s/schedstat" % (pid, tid)).read_text()
                        self.delays[pid, tid] = int(text.split()[1])
        return sum(self.delays.values()) / 1e9

    def watch(self):
        while not self.over.wait(LOOK_S):
            now, total = time.time(), self.delay()  # in this order: what comes between is not subtracted too early
            if has_ended(self.pid):
                break
            self.times.append(now)
            self.sums.append(total)

    def stop(self):
        self.over.set()
        self.thread.join()

    def at(self, when):
        """What was known at the last look before that."""
        return self.sums[max(bisect.bisect_right(self.times, when) - 1, 0)]

    def between(self, start, end):
        """Own seconds of that time (of time.time())."""
        return max(end - start - max(self.at(end) - self.at(start), 0), 0)


class Ending:
    """From a signal until the process has ended."""

    def __init__(self, pid, send):
        self.own = OwnTime(pid)
        self.start = time.time()
        send()

    def took(self):
        """Own seconds until it was last seen: who looks may have to wait for a CPU, too."""
        self.own.stop()
        return self.own.between(self.start, self.own.times[-1])
