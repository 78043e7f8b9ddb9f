# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""An asyncio program that blocks its loop, and what it did between two waits in its poll, by its own clock.

After "ready" it ticks. A line on stdin has it block its loop, in functions of known names, and print {"all": [seconds, ...],
"since": how many of them were before that line, "blocks": [[seconds, function], ...]}. It does so for each line, and ends with
its stdin. Whether a poll has waited, the kernel's own count of this thread says, so a poll that finds something ready ends
nothing. Runs on 3.7 and later.
"""
import asyncio
import json
import os
import resource
import sys
import time

took = []
blocks = []


def waits():
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


# Compiled as a file of asyncio: if code that is not the loop's own waits, that is no poll of the loop.
WATCH = """
def watch(selector, time, waits, took):
    select, begun = selector.select, [None]
    def watched(timeout=None):
        entered, before = time(), waits()
        events = select(timeout)
        if waits() != before:
            if begun[0] is not None:
                took.append(entered - begun[0])
            begun[0] = time()
        return events
    selector.select = watched
"""
exec(compile(WATCH, "asyncio/watched.py", "exec"))


def by_sleeping():
    time.sleep(0.08)


def by_computing():
    end = time.monotonic() + 0.14
    while time.monotonic() < end:
        pass


def price():
    """The longest by far."""
    time.sleep(0.34)


def briefly():
    time.sleep(0.02)


async def block():
    since = len(took)
    del blocks[:]
    for function in [by_sleeping, by_computing] * 4 + [price] + [briefly] * 20:
        await asyncio.sleep(0.03)
        begun = time.monotonic()
        function()
        blocks.append((time.monotonic() - begun, function.__name__))
    await asyncio.sleep(0.03)
    await asyncio.sleep(0.03)  # the iteration of the last one has ended
    os.write(1, json.dumps({"all": took, "since": since, "blocks": blocks}).encode() + b"\n")


async def main():
    orders = asyncio.Queue()
    loop.add_reader(0, lambda: orders.put_nowait(os.read(0, 99)))
    watch(loop._selector, time.monotonic, waits, took)
    os.write(1, b"ready\n")
    while True:
        while orders.empty():
            await asyncio.sleep(0.01)
        if not orders.get_nowait():
            break
        await block()


loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
loop.run_until_complete(main())
sys.stdout.flush()
