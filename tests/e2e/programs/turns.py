# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads that work one after the other, each in a function of its own.

    turns.py THREADS
"""
import sys
import threading

from common import Running, clock, finish, gettid, start

TURN = """
def turn_%(n)d():
    x = 1
    end = clock() + 0.004
    while clock() < end:
        for i in range(300):
            x = (x * 31 + i) & 0xffff
"""
count = int(sys.argv[1])
batons = [threading.Semaphore(0) for _ in range(count)]
turns, tids = [], {}
begun = threading.Semaphore(0)


def work(n, running):
    tids["turn_%d" % n] = gettid()
    begun.release()
    while running.now:
        batons[n].acquire()
        if running.now:
            turns[n]()
        batons[(n + 1) % count].release()


def main():
    running = Running()
    for n in range(count):
        scope = {"clock": clock}
        exec(TURN % {"n": n}, scope)
        turns.append(scope["turn_%d" % n])
    threads = [threading.Thread(target=work, args=(n, running)) for n in range(count)]
    for thread in threads:
        thread.start()
    for _ in threads:
        begun.acquire()
    running.be_watched()  # no thread is new after that
    batons[0].release()
    start(running)
    for thread in threads:
        thread.join()
    finish({"tids": tids})


main()
