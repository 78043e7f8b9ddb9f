# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Calls that wait for one thing each, which their names say.

Says "ready", waits for a line, works, prints {name: [what each of its calls took, in ns]}, waits for the next line.
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


def later(what):
    threading.Thread(target=lambda: (time.sleep(LENGTH), what())).start()


def wait_sleep():
    time.sleep(LENGTH)


def wait_lock():
    lock = threading.Lock()
    lock.acquire()
    later(lock.release)
    lock.acquire()


def wait_net():
    here, there = socket.socketpair()
    later(lambda: there.send(b"x"))
    here.recv(1)
    here.close()
    there.close()


def wait_pipe():
    here, there = os.pipe()
    later(lambda: os.write(there, b"x"))
    os.read(here, 1)
    os.close(here)
    os.close(there)


def wait_poll():
    here, there = socket.socketpair()
    later(lambda: there.send(b"x"))
    select.select([here], [], [])
    here.close()
    there.close()


def wait_child():
    child = subprocess.Popen(["sleep", str(LENGTH)])
    os.waitpid(child.pid, 0)
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
    while time.monotonic() < until[0]:
        pass
    until[0] = 0
    for other in others:
        other.join()


CALLS = [wait_sleep, wait_lock, wait_net, wait_pipe, wait_poll, wait_child, wait_gil]


def main():
    print("ready", flush=True)
    for _ in iter(sys.stdin.readline, ""):
        took = {}
        for call in CALLS:
            for _ in range(TIMES):
                begin = time.monotonic_ns()
                call()
                took.setdefault(call.__name__, []).append(time.monotonic_ns() - begin)
        print(json.dumps(took), flush=True)


main()
