# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Collects garbage in every way, and notes each collection.

collected.py [THREADS]  says "ready", waits for a line, works, prints [[generation, stack, found, count], ...], waits
                        for the next line

A stack is ["function:line", ...], the innermost first. What the interpreter begins by itself is noted by gc.callbacks,
which CPython 2.7 has not: there nothing of the kind happens. With THREADS, so many want the GIL back while a finalizer
keeps it.
"""
import gc
import json
import sys
import threading
import time

NOTES = {}
BY_ITSELF = hasattr(gc, "callbacks")
STOP = []


def stack_of(frame):
    stack = []
    while frame is not None:
        stack.append("%s:%d" % (frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return tuple(stack)


def note(generation, frame, found):
    key = generation, stack_of(frame), found
    NOTES[key] = NOTES.get(key, 0) + 1


def on_collection(phase, info):
    if phase == "stop":
        note(info["generation"], sys._getframe(1), info["collected"] + info["uncollectable"])


class Node(object):
    def __init__(self):
        self.me = self


def collect(generation):
    if BY_ITSELF:
        gc.collect(generation)
    else:
        note(generation, sys._getframe(), gc.collect(generation))


def litter(n):
    for _ in range(n):
        Node()


def explicit():
    for generation in 0, 1, 2, 2:
        litter(10)
        collect(generation)


def deep(n):
    return deep(n - 1) if n else explicit()


def by_itself():
    gc.enable()
    litter(5000)
    gc.disable()


def waits():
    while not STOP:
        time.sleep(0.001)


class Slow(object):
    """Its end takes its time, and lets no other thread run."""

    def __init__(self):
        self.me = self

    def __del__(self):
        end = time.time() + 0.3
        while time.time() < end:
            pass


def work():
    explicit()
    deep(20)
    if BY_ITSELF:
        by_itself()
    thread = threading.Thread(target=explicit)
    thread.start()
    thread.join()


def contended(cnt):
    interval = sys.getswitchinterval()
    threads = [threading.Thread(target=waits) for _ in range(cnt)]
    for thread in threads:
        thread.start()
    sys.setswitchinterval(1000)
    Slow()
    collect(2)
    sys.setswitchinterval(interval)
    STOP.append(True)
    for thread in threads:
        thread.join()


def main():
    gc.disable()
    gc.collect()
    if BY_ITSELF:
        gc.callbacks.append(on_collection)
    print("ready")
    sys.stdout.flush()
    for _ in iter(sys.stdin.readline, ""):
        if len(sys.argv) > 1:
            contended(int(sys.argv[1]))
        else:
            work()
        print(json.dumps([list(key) + [n] for key, n in NOTES.items()]))
        sys.stdout.flush()


main()
