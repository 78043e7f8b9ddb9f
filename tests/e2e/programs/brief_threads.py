# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads that end at SIGUSR1, while the main thread and another one go on."""
import signal
import sys
import threading

from common import Running, finish, gettid, start

names = {}
ended = []


def spin(goes_on):
    x = 1
    while goes_on():
        for i in range(500):
            x = (x * 31 + i) & 0xffff


def brief():
    names[gettid()] = threading.current_thread().name
    ready.release()
    spin(lambda: not ended)


def lasting(running):
    names[gettid()] = threading.current_thread().name
    ready.release()
    spin(lambda: running.now)


ready = threading.Semaphore(0)


def main():
    running = Running()
    running.be_watched()
    threads = [threading.Thread(target=brief, name="brief %d" % i) for i in range(3)]
    threads.append(threading.Thread(target=lasting, args=(running,), name="lasting"))
    for thread in threads:
        thread.daemon = True
        thread.start()
        ready.acquire()
    names[gettid()] = threading.current_thread().name
    signal.signal(signal.SIGUSR1, lambda *args: ended.append(True))
    start(running)
    spin(lambda: running.now and not ended)
    for thread in threads[:3]:
        thread.join()
    sys.stdout.write("ended\n")
    sys.stdout.flush()
    spin(lambda: running.now)
    for thread in threads:
        thread.join()
    finish({"names": names})


main()
