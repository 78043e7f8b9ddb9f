# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""One process that spins in a function with a name of the caller's choice.

usage: spinner.py NAME [--comm COMM] [--rest SECONDS] [--syscalls] [--idle]
"""
import argparse
import os
import threading
import time

from common import finish, start

SOURCE = """
def {name}(running):
    x = 1
    while running.now:
        for i in range(1000):
            x = (x * 31 + i) & 0xffff
        if rest:
            time.sleep(rest)
"""


def in_kernel(running):
    while running.now:
        os.urandom(1 << 16)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--comm")
    parser.add_argument("--rest", type=float, default=0, help="sleep so long after each thousand turns")
    parser.add_argument("--syscalls", action="store_true", help="work in the kernel, too")
    parser.add_argument("--idle", action="store_true", help="do nothing")
    args = parser.parse_args()
    if args.comm:
        with open("/proc/self/comm", "w") as comm:
            comm.write(args.comm)
    scope = {"time": time, "rest": args.rest}
    exec(compile(SOURCE.format(name=args.name), "/spinner/%s.py" % args.name, "exec"), scope)
    running = start()
    if args.idle:
        for thread in threading.enumerate():
            if thread.daemon:
                thread.join()
    elif args.syscalls:
        in_kernel(running)
    else:
        scope[args.name](running)
    finish({"pid": os.getpid()})


main()
