# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Many processes of 50 to 200 ms. Each logs the CPU time it spent in work(), then it is gone.

usage: short_lived.py multiprocessing|fork|exec LOG COUNT      start COUNT workers, two at a time
       short_lived.py work LOG MILLISECONDS                    one worker
"""
import multiprocessing
import os
import subprocess
import sys
import time

process_time = getattr(time, "process_time", None) or time.clock  # 2.7


def work(seconds):
    clock = process_time
    x = 1
    end = clock() + seconds
    while clock() < end:
        for i in range(500):
            x = (x * 31 + i) & 0xffff


def worker(log, milliseconds):
    begin = process_time()
    work(milliseconds / 1000.0)
    spent = process_time() - begin
    fd = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"%.9f\n" % spent)
    os.close(fd)


def start_multiprocessing(log, milliseconds):
    context = multiprocessing.get_context("fork") if sys.version_info[0] > 2 else multiprocessing
    process = context.Process(target=worker, args=(log, milliseconds))
    process.start()
    return process.join


def start_fork(log, milliseconds):
    pid = os.fork()
    if pid:
        return lambda: os.waitpid(pid, 0)
    worker(log, milliseconds)
    os._exit(0)


def start_exec(log, milliseconds):
    return subprocess.Popen([sys.executable, "-S", "-E", os.path.abspath(__file__), "work", log,
                             str(milliseconds)]).wait


def main():
    mode, log, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if mode == "work":
        worker(log, number)
        return
    launch = {"multiprocessing": start_multiprocessing, "fork": start_fork,
              "exec": start_exec}[mode]
    waits = []
    for n in range(number):
        waits.append(launch(log, 50 + n * 37 % 151))
        if len(waits) == 2:
            waits.pop(0)()
    for wait in waits:
        wait()


if __name__ == "__main__":
    main()
