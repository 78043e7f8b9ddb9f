# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads that call one function of libc through stacks of their own, so often as they say.

usage: probed.py THREADS DEPTH

Says "ready", and for each line on stdin, a number of calls for each thread, makes them and prints the names of the functions
on the stack of each thread, outermost first. No two threads have a function in common.
"""
import json
import os
import sys
import threading

THREADS, DEPTH = int(sys.argv[1]), int(sys.argv[2])


def name(thread, depth):
    return "thread%d_at%d" % (thread, depth)


def source(thread, depth):
    body = "os.getppid()" if depth == DEPTH - 1 else name(thread, depth + 1) + "()"
    return "def %s():\n    %s\n" % (name(thread, depth), body)


exec("".join(source(t, d) for t in range(THREADS) for d in range(DEPTH)))


def work(thread, calls):
    outermost = globals()[name(thread, 0)]
    for _ in range(calls):
        outermost()


def all_work(calls):
    threads = [threading.Thread(target=work, args=(t, calls)) for t in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def main():
    print("ready", flush=True)
    for line in sys.stdin:
        all_work(int(line))
        print(json.dumps([[name(t, d) for d in range(DEPTH)] for t in range(THREADS)]), flush=True)


main()
