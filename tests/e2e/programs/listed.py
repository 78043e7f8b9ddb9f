# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs machine code of object files, which it lists for debuggers as a JIT does.

listed.py LIBRARY OBJECT...: each object has its code at the start of .text. The last one comes later.
"""
import ctypes
import mmap
import struct
import sys

from common import finish, rounds, start

PAGE = 4096


class Entry(ctypes.Structure):
    pass


Entry._fields_ = [("next", ctypes.POINTER(Entry)), ("prev", ctypes.POINTER(Entry)), ("addr", ctypes.c_void_p),
                  ("size", ctypes.c_uint64)]


class Descriptor(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("action", ctypes.c_uint32), ("relevant", ctypes.POINTER(Entry)),
                ("first", ctypes.POINTER(Entry))]


def sections(image):
    """(offset of its header, name, where it is, size) of each."""
    headers, = struct.unpack_from("<Q", image, 0x28)
    size, cnt, names = struct.unpack_from("<HHH", image, 0x3a)
    strings, = struct.unpack_from("<Q", image, headers + names * size + 0x18)
    for at in range(headers, headers + cnt * size, size):
        name, = struct.unpack_from("<I", image, at)
        where, length = struct.unpack_from("<QQ", image, at + 0x18)
        yield at, bytes(image[strings + name:image.index(b"\0", strings + name)]), where, length


def load(path, memory, base, at):
    """Its code is copied there, which its section says then."""
    with open(path, "rb") as f:
        image = bytearray(f.read())
    header, _, where, length = next(s for s in sections(image) if s[1] == b".text")
    memory[at:at + length] = bytes(image[where:where + length])
    struct.pack_into("<Q", image, header + 0x10, base + at)
    return ctypes.create_string_buffer(bytes(image), len(image))


def add(descriptor, library, image):
    entry = Entry(addr=ctypes.addressof(image), size=len(image))
    entry.next = descriptor.first
    if descriptor.first:
        descriptor.first.contents.prev = ctypes.pointer(entry)
    descriptor.first = descriptor.relevant = ctypes.pointer(entry)
    descriptor.action = 1
    library.__getattr__("__jit_debug_register_code")()
    return entry


def main():
    library = ctypes.CDLL(sys.argv[1])
    descriptor = Descriptor.in_dll(library, "__jit_debug_descriptor")
    memory = mmap.mmap(-1, PAGE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    images, entries, calls = [], [], []
    for n, path in enumerate(sys.argv[2:]):
        images.append(load(path, memory, base, 256 * n))
        calls.append(ctypes.CFUNCTYPE(None, ctypes.c_uint)(base + 256 * n))
    late = images.pop()
    entries = [add(descriptor, library, image) for image in images]
    running = start()
    for n, _ in enumerate(rounds(running)):
        if n == 1:
            entries.append(add(descriptor, library, late))
        for call in calls:
            call(200000)
    finish({})


main()
