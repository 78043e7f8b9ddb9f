# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A program to be started by the profiler. It speaks through files: stdout is the profiler's.

usage: command.py READY DONE [--ignore] [--status N]

Creates the file READY, works until the file DONE exists or Ctrl-C, or the directory of both has gone, and
exits with N. With --ignore, Ctrl-C is only noted, by one more byte in READY.
"""
import argparse
import os
import signal
import sys
import time

interrupted = False


def work():
    x = 1
    for i in range(20000):
        x = (x * 31 + i) & 0xffff


def main():
    global interrupted
    parser = argparse.ArgumentParser()
    parser.add_argument("ready")
    parser.add_argument("done")
    parser.add_argument("--ignore", action="store_true")
    parser.add_argument("--status", type=int, default=0)
    args = parser.parse_args()

    def on_interrupt(number, frame):
        global interrupted
        interrupted = not args.ignore
        with open(args.ready, "a") as ready:
            ready.write("i")

    signal.signal(signal.SIGINT, on_interrupt)
    with open(args.ready + ".new", "w") as ready:
        ready.write("%d " % os.getpid())
    os.rename(args.ready + ".new", args.ready)
    # An orphan must end, too.
    end = time.monotonic() + 120
    while not interrupted and not os.path.exists(args.done) and os.path.exists(args.ready) and time.monotonic() < end:
        work()
    sys.exit(args.status)


main()
