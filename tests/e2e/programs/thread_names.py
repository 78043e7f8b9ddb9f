# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads with names of every kind, among them one that Python does not know. Runs on 2.7, too."""
import sys
import threading

from common import Running, finish, gettid, start

NAMES = ["plain", "with blank", "semi;colon", "\x1b[31mred", "new\nline", "x" * 300]
if sys.version_info[0] > 2:
    NAMES += ["caf\u00e9", "\u65e5\u672c", "\U0001f40d"]
names = {}


def spin(running):
    x = 1
    while running.now:
        for i in range(500):
            x = (x * 31 + i) & 0xffff


class Subclass(threading.Thread):
    """Attributes of its own, asked for as a dict."""

    def __init__(self, **options):
        super(Subclass, self).__init__(**options)
        self.first, self.second = 1, 2
        vars(self)["third"] = 3


def enter(running):
    names[gettid()] = threading.current_thread().name
    ready.release()
    spin(running)


ready = threading.Semaphore(0)


def main():
    running = Running()
    running.be_watched()  # before others work: then it may be a while until it sleeps
    threads = [threading.Thread(target=enter, args=(running,), name=name) for name in NAMES]
    threads.append(threading.Thread(target=enter, args=(running,)))
    threads.append(Subclass(target=enter, args=(running,), name="subclass"))
    renamed = threading.Thread(target=enter, args=(running,), name="before")
    threads.append(renamed)
    for thread in threads:
        thread.daemon = True
        thread.start()
        ready.acquire()
    renamed.name = "after"
    names.update((tid, "after") for tid in names if names[tid] == "before")
    names[gettid()] = threading.current_thread().name
    start(running)
    spin(running)
    for thread in threads:
        thread.join()
    finish({"names": names})


main()
