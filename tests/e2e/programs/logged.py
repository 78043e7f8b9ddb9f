# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Calls functions in an order of its own, SEED's, and writes what its profile function sees: LOG, a list for each
thread of +NAME:LINE and -NAME:LINE. Each line of stdin is a round. Without LOG there is no such function."""
import json
import sys
import threading

SEED, LOG = int(sys.argv[1]), sys.argv[2]
EVENTS = []  # of each thread


def leaf(n):
    return n


def steps(n):
    for i in range(n):
        yield leaf(i)


def fails(n):
    if n:
        fails(n - 1)
    raise ValueError(n)


def handles(n):
    try:
        fails(n)
    except ValueError:
        leaf(n)


def branch(n, seed):
    for i in range(n):
        seed = (seed * 1103515245 + 12345) % 2 ** 31
        choice = (seed >> 16) % 4
        if choice == 0:
            leaf(i)
        elif choice == 1:
            sum(steps(1 + i % 3))
        elif choice == 2:
            handles(i % 3)
        elif n > 1:
            branch(n // 8, seed)
    return n


def recorder():
    events = []
    here = branch.__code__.co_filename

    def on_event(frame, event, arg):
        code = frame.f_code
        if event in ("call", "return") and code.co_filename == here:
            events.append("%s%s:%d" % ("+" if event == "call" else "-", code.co_name, code.co_firstlineno))

    EVENTS.append(events)
    return on_event


def in_thread(n, seed):
    if LOG:
        sys.setprofile(recorder())
    branch(n, seed)
    sys.setprofile(None)


def one_round():
    thread = threading.Thread(target=in_thread, args=(60, SEED + 1))
    thread.start()
    thread.join()
    in_thread(90, SEED)


def main():
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in iter(sys.stdin.readline, ""):
        one_round()
        if LOG:
            with open(LOG, "w") as f:
                json.dump(EVENTS, f)
        sys.stdout.write("done\n")
        sys.stdout.flush()


main()
