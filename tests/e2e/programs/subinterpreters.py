# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Several interpreters in one process: one inside the other, and side by side in threads.

Code of an interpreter is text; it runs inside_interpreter.py, which reports the frames of its own
interpreter through a pipe. The frames of those that called it are passed in. With the argument
"foreign", threads also run interpreters that another thread made.
"""
import json
import os
import sys
import threading
import time

import inside_interpreter
from common import Recorder, Running, clock, finish, rounds, start
from inside_interpreter import create

record = Recorder()
tids = {}
ids = {}
kept = []  # the last reference to one ends it


def spin_main():
    x = 1
    record(sys._getframe(), "main")
    end = clock() + 0.004
    while clock() < end:
        for i in range(300):
            x = (x * 31 + i) & 0xffff
    time.sleep(0.001)  # see inside_interpreter.py


def run_nested(interpreter, label):
    inside_interpreter.run(interpreter, pipe[1], label, sys._getframe())


def in_thread(running, name, interpreter):
    tids[name] = inside_interpreter.gettid()
    if interpreter is None:
        interpreter = create(name, pipe[1])
    kept.append(interpreter)
    ready.set()
    begin.wait()
    for _ in rounds(running):
        run_nested(interpreter, name)


def own(interpreter):
    run_nested(interpreter, "own")


def shared(interpreter):
    run_nested(interpreter, "shared")


def first(running):
    in_thread(running, "first", None)


def second(running):
    in_thread(running, "second", None)


def foreign(running):
    in_thread(running, "foreign", made)


def main():
    outer = {name: create(name, pipe[1]) for name in inside_interpreter.KINDS}
    tids["main"] = os.getpid()
    ids["main"] = 0
    running = Running()
    threads = []
    # One after the other: up to 3.12 imports in several interpreters at once can go wrong.
    for target in [first, second, foreign] if made is not None else [first, second]:
        ready.clear()
        threads.append(threading.Thread(target=target, args=(running,)))
        threads[-1].start()
        ready.wait()
    start(running)
    begin.set()
    for _ in rounds(running):
        spin_main()
        for name, interpreter in outer.items():
            globals()[name](interpreter)
    for each in threads:
        each.join()
    os.close(pipe[1])
    with os.fdopen(pipe[0]) as told:
        told = [json.loads(line) for line in told]
    ids.update({each["label"]: each["id"] for each in told if "id" in each})
    stacks = [each for each in told if "frames" in each]
    finish({"stacks": record.truth() + stacks, "tids": tids, "ids": ids})
    os._exit(0)  # up to 3.12 the end of several interpreters may hang


pipe = os.pipe()
ready, begin = threading.Event(), threading.Event()
made = create("foreign", pipe[1]) if "foreign" in sys.argv else None
main()
