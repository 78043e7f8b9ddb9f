# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Calls a function that is slow now and then: on a CPU, or waiting.

Says "ready", waits for a line, works, prints [[total, on CPU], ...] of its calls in ns, waits for the next line.
"""
import json
import sys
import time


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def handle(n):
    if n % 10 == 3:
        spin(0.1)
    elif n % 10 == 6:
        time.sleep(0.1)
    elif n % 10 == 9:
        raise ValueError(n)


def waits(n):
    handle(n)


def computes(n):
    handle(n)


def fails(n):
    try:
        handle(n)
    except ValueError:
        pass


def measure(n):
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    (computes if n % 10 == 3 else waits if n % 10 == 6 else fails)(n)
    return time.perf_counter_ns() - wall, time.thread_time_ns() - cpu


def work():
    return [measure(n) for n in range(20)]


def main():
    print("ready")
    sys.stdout.flush()
    for _ in iter(sys.stdin.readline, ""):
        print(json.dumps(work()))
        sys.stdout.flush()


main()
