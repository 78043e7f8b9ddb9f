# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A process whose list of mappings is locked for ever: who looks at its mappings, memory, environment or arguments
waits, and no signal ends the wait.

One thread reads a page of a file whose server does not answer, so the page stays locked. Another one maps the file in a
way for which the kernel has to drop the file's pages first (FOPEN_DIRECT_IO): it waits for that page, and holds the
lock of the mappings meanwhile.

The kernel takes that lock of all who map a file in which somebody sets a breakpoint, and no process of the machine can
be forked until it has it: so this runs from copies of the interpreter and its libraries, which nobody else maps.

usage: held_lock.py FUSE COPIES (directories; as root of a user namespace, in a mount namespace of its own)
"""
import mmap
import os
import shutil
import signal
import struct
import sys
import threading
import time

import fuse
import tenant

FOPEN_DIRECT_IO = 1
asked_r, asked_w = os.pipe()  # a byte: the server has a read that it will not answer


def answer(opcode, node, body):
    """Who opens a file with O_DSYNC reads and maps past the pages in memory."""
    if opcode == fuse.OPEN:
        flags, = struct.unpack_from("<I", body)
        return 0, struct.pack("<QII", 0, FOPEN_DIRECT_IO if flags & os.O_DSYNC else 0, 0)
    if opcode == fuse.READ:
        os.write(asked_w, b".")
    return fuse.answer(opcode, node, body)


def is_held(pid):
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/stat" % (pid, tid)) as f:
            if f.read().rpartition(")")[2].split()[0] == "D":
                return True
    return False


def watch(pid, server):
    """While the server lives the process cannot end: who ends takes the lock."""
    for _ in range(2000):
        if is_held(pid):
            os.write(1, b"ready\n")
            break
        time.sleep(0.005)
    else:
        print("the kernel holds no lock there")
    while os.read(0, 4096):
        pass
    os.kill(server, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    os._exit(0)


def run_from_copies(place):
    with open("/proc/self/maps") as f:
        mapped = {line.split()[-1] for line in f if " r-xp " in line and "/" in line}
    for path in mapped:
        shutil.copy(path, place)
    exe = os.path.join(place, os.path.basename(os.path.realpath("/proc/self/exe")))
    os.execve(exe, [exe, "-B", *sys.argv], dict(os.environ, PYTHONHOME=sys.prefix, LD_LIBRARY_PATH=place))


if not os.path.realpath("/proc/self/exe").startswith(sys.argv[2]):
    run_from_copies(sys.argv[2])
server = fuse.mount_own(sys.argv[1], answer)
path = sys.argv[1] + "/file"
cached, direct = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY | os.O_DSYNC)
signal.alarm(300)
threading.Thread(target=os.read, args=(cached, 4096), daemon=True).start()
os.read(asked_r, 1)
pid = os.getpid()
if not os.fork():
    watch(pid, server)
threading.Thread(target=tenant.map_file, args=(direct, 4096, mmap.PROT_READ), daemon=True).start()
x = 1
while True:
    for i in range(1000):
        x = (x * 31 + i) & 0xffff
