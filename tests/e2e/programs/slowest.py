# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Calls functions of which each 100th call is slow, for a reason that is known.

Says "ready", waits for a line with the number of calls, makes them, prints {function: [ns, ...]}, waits for the next line.
"""
import json
import sys
import time

SLOW_S = 0.05
now = getattr(time, "perf_counter", time.time)
cpu = getattr(time, "thread_time", None) or getattr(time, "process_time", None) or time.clock


def price(n):
    return n * 2


def fetch(n):
    time.sleep(SLOW_S)
    return n


def wait_elsewhere(n):
    """Calls another function when it is slow, and the usual one once less."""
    total = price(n)
    if n % 100 == 50:
        return total + fetch(n)
    return total + price(n)


def compute(n):
    """Takes its time itself."""
    total = price(n)
    if n % 100 == 50:
        end = cpu() + SLOW_S
        while cpu() < end:
            total += 1
    return total


def fail(n):
    """The slow calls are those that an exception ends, in what it calls."""
    if n % 100 == 50:
        fetch(n)
        raise ValueError(n)
    return price(n)


def caught(function, n):
    try:
        return function(n)
    except ValueError:
        return 0


def measure(function, n):
    start = now()
    caught(function, n)
    return int((now() - start) * 1e9)


def work(cnt):
    return {f.__name__: [measure(f, n) for n in range(cnt)] for f in (wait_elsewhere, compute, fail)}


def main():
    print("ready")
    sys.stdout.flush()
    for line in iter(sys.stdin.readline, ""):
        print(json.dumps(work(int(line))))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
