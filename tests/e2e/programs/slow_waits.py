# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Calls that wait for one thing each, which their names say.

Says "ready", waits for a line, works, prints {name: [how long each of its calls waited, in ns]}, waits for the next line.
"""
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time

LENGTH = 0.08
TIMES = 2


began = []  # when the call at hand began to wait
waited = []  # what all calls of the function at hand have waited


def later(what):
    """Does it so much later than the call at hand begins to wait."""
    def run():
        while not began or time.monotonic() < began[0] + LENGTH:
            time.sleep(LENGTH / 20)
        what()

    del began[:]
    threading.Thread(target=run).start()


def wait(call, *args):
    began[:] = [time.monotonic()]
    call(*args)
    waited.append(int(1e9 * (time.monotonic() - began[0])))


def wait_sleep():
    wait(time.sleep, LENGTH)


def wait_lock():
    lock = threading.Lock()
    lock.acquire()
    later(lock.release)
    wait(lock.acquire)


def wait_net():
    here, there = socket.socketpair()
    later(lambda: there.send(b"x"))
    wait(here.recv, 1)
    here.close()
    there.close()


def wait_pipe():
    here, there = os.pipe()
    later(lambda: os.write(there, b"x"))
    wait(os.read, here, 1)
    os.close(here)
    os.close(there)


def wait_poll():
    here, there = socket.socketpair()
    later(lambda: there.send(b"x"))
    wait(select.select, [here], [], [])
    here.close()
    there.close()


def wait_child():
    child = subprocess.Popen(["sleep", str(LENGTH)])
    wait(os.waitpid, child.pid, 0)
    child.returncode = 0


def wait_gil():
    """All threads want it, and drop it when another one has waited for it for a switch interval."""
    until = [time.monotonic() + 4 * LENGTH]

    def spin():
        while time.monotonic() < until[0]:
            pass

    others = [threading.Thread(target=spin) for _ in range(2)]
    for other in others:
        other.start()
    wait(spin)
    for other in others:
        other.join()


CALLS = [wait_sleep, wait_lock, wait_net, wait_pipe, wait_poll, wait_child, wait_gil]


def main():
    print("ready", flush=True)
    for _ in iter(sys.stdin.readline, ""):
        times = {}
        for call in CALLS:
            del waited[:]
            for _ in range(TIMES):
                call()
            times[call.__name__] = waited[:]
        print(json.dumps(times), flush=True)


main()
