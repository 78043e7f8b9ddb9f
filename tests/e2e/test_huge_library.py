# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A library whose unwind information takes long to compile: nobody else waits for it."""
import array
import os
import re
import struct
import subprocess

import harness
from test_native_files import HZ, OPTIONS, check_names, libs, start  # noqa: F401


HUGE_TEXT, HUGE_FRAME, HUGE_FUNCTION = 400 << 20, 32 << 20, 288
BUILT = re.compile(r"huge\.so: unwind table of (1[6-9]|[2-9]\d)\d\d\d KiB")
BIG_FRAME = 20 << 20  # not built before the profile begins


def make_huge_library(path, frame=HUGE_FRAME):
    """A file of 430 MiB: text, and one FDE with three rows for each 288 bytes of it.

    Linked with room for .eh_frame, which is written here: as and ld take minutes for 1.4 million FDEs.
    """
    subprocess.run(["gcc", "-shared", "-nostartfiles", "-nostdlib", "-o", path,
                    "-Wa,--defsym,TEXT=%d" % HUGE_TEXT, "-Wa,--defsym,FRAME=%d" % frame,
                    harness.PROGRAMS / "hugelib.S"], check=True)
    sections = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True,
                              check=True).stdout

    def place(name):
        words = re.search(r"\] %s +\S+ +(\w+) (\w+) (\w+)" % re.escape(name), sections)
        return [int(word, 16) for word in words.groups()]

    text, _, _ = place(".text")
    addr, offset, size = place(".hh_frame")
    # CIE: version 1, "zR", code 1, data -8, return address 16, pc-relative; rsp + 8, RA at CFA - 8
    cie = struct.pack("<IIB3sBbBBB", 20, 0, 1, b"zR", 1, 0x78, 16, 1, 0x1b)
    cie += b"\x0c\x07\x08\x90\x01"
    cie += bytes(24 - len(cie))
    count = min((size - 24) // 24 - 1, HUGE_TEXT // HUGE_FUNCTION)
    fdes = array.array("I", bytes(24 * count))
    fdes[0::6] = array.array("I", [20]) * count
    fdes[1::6] = array.array("I", range(28, 28 + 24 * count, 24))
    step = HUGE_FUNCTION - 24
    pc = text - (addr + 24 + 8)
    fdes[2::6] = array.array("I", (v & 0xffffffff for v in range(pc, pc + step * count, step)))
    fdes[3::6] = array.array("I", [HUGE_FUNCTION]) * count
    # no augmentation; after 64 bytes CFA = rsp + 16, after 32 more rsp + 8
    fdes[4::6] = array.array("I", struct.unpack("<I", b"\x00\x02\x40\x0e")) * count
    fdes[5::6] = array.array("I", struct.unpack("<I", b"\x10\x60\x0e\x08")) * count
    with open(path, "r+b") as f:
        f.seek(offset)
        f.write(cie + fdes.tobytes() + bytes(4))
        f.seek(-65536, os.SEEK_END)
        tail = f.read()
        assert tail.count(b"\0.hh_frame\0") == 1
        tail = tail.replace(b"\0.eh_frame\0", b"\0.xx_frame\0")
        f.seek(-65536, os.SEEK_END)
        f.write(tail.replace(b"\0.hh_frame\0", b"\0.eh_frame\0"))
    return path


def test_huge_library(libs, directory):
    """Its table takes long to build; meanwhile others are sampled, and new ones are analysed."""
    program, paths = libs
    huge = make_huge_library(directory / "huge.so")
    with start(program, "keep", 100000, 0, 0, paths[0]) as other:
        profiler = harness.Profiler("-v", *OPTIONS, "--comm", program.name, "--threads")
        profiler.wait_sampling()
        begin = harness.cpu_seconds(other.pid)
        with start(program, "keep", 100000, 0, 0, huge) as slow:
            # Starts while the table is being built.
            with start(program, "keep", 100000, 0, 0, paths[1], paths[2]) as new:
                harness.poll(lambda: BUILT.search(profiler.read(profiler.err)), "the table")
                # Some tenths of a second until it is in the kernel.
                for target in new, slow:
                    harness.spend(target.pid, 1)
                seconds = harness.cpu_seconds(other.pid) - begin
                profiler.interrupt_group()
                result = profiler.wait().ok()
    built = [i for i, m in enumerate(result.messages) if BUILT.search(m)]
    published = [i for i, m in enumerate(result.messages)
                 if "process %d: published" % new.pid in m]
    # The one that came later did not have to wait.
    assert built and published and published[0] < built[0], result.messages
    of = {target.pid: [s for s in result.stacks if s.tid == target.pid]
          for target in (other, slow, new)}
    # Samples come at the rate of the clock, all through.
    assert harness.total(of[other.pid]) > 0.7 * seconds * 1999, (result.counters, seconds)
    assert harness.share(of[other.pid], lambda s: not s.markers()) > 0.99
    assert check_names(of[new.pid], [1, 2]) == {1, 2}
    # In the end its own stacks are whole, too.
    whole = [s for s in of[slow.pid] if not s.markers() and s.frames[-1].text == "spin [huge.so]"]
    assert harness.total(whole) > 20, result.counters


# Ends with its stdin.
CALLER = """
import ctypes, sys, threading
lib = ctypes.CDLL(sys.argv[1])
threading.Thread(target=lambda: sys.stdin.read(), name="end").start()
print("ready", flush=True)
while threading.active_count() > 1:
    lib.spin(ctypes.c_long(3000000))
"""


def test_table_is_used_as_soon_as_it_is_built(any_python, directory):
    """Of a Python that runs when the profile begins, too: not when something else happens to wake the profiler."""
    huge = make_huge_library(directory / "huge.so", BIG_FRAME)
    with harness.Process([any_python, "-c", CALLER, huge]) as slow:
        profiler = harness.Profiler("-vv", "-f", "-F", HZ, "--no-kernel", "-p", slow.pid)
        profiler.wait_sampling()
        harness.spend(slow.pid, 0.6)  # less than the second after which the profiler wakes in any case
        profiler.interrupt_group()
        result = profiler.wait().ok()
    assert harness.share(result.stacks, lambda s: s.frames[-1].text == "spin [huge.so]") > 0.9
    # Without the table, what lies between the library and Python is jumped over.
    c = result.counters
    assert c["note_shim_jump"] + c["note_native_lost"] < 0.5 * c["user_stacks"], c
