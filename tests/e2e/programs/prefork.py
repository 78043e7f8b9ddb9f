# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A pre-fork server: workers that end are replaced; a thread starts one, and one executes Python anew.

"wait" waits for a line before. Calls: see CALLS.
"""
import json
import os
import sys
import threading

EXECUTED = "def executed():\n    pass\nfor i in range(40):\n    executed()\n"

# Generations x workers x requests, the worker of the thread, and the master's own.
CALLS = {"handle": 3 * 3 * 25 + 25 + 7, "worker": 3 * 3 + 1, "executed": 40}


def handle(request):
    return request + 1


def worker():
    for request in range(25):
        handle(request)
    os._exit(0)


def start(work):
    pid = os.fork()
    if not pid:
        work()
    return pid


def execute():
    os.execv(sys.executable, [sys.executable, "-c", EXECUTED])


def serve():
    for _ in range(3):
        for pid in [start(worker) for _ in range(3)]:
            os.waitpid(pid, 0)
    thread = threading.Thread(target=lambda: os.waitpid(start(worker), 0))
    thread.start()
    thread.join()
    os.waitpid(start(execute), 0)
    for request in range(7):
        handle(request)


if __name__ == "__main__":
    if sys.argv[1:] == ["truth"]:
        json.dump(CALLS, sys.stdout)
    elif sys.argv[1:] == ["wait"]:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        serve()
        sys.stdout.write("done\n")
        sys.stdout.flush()
        sys.stdin.readline()
    else:
        serve()
        sys.exit(3)
