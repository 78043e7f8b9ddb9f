# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Says where the interpreter itself finds the C function of each method, slot and attribute.

One line for each: FILE, a tab, the offset in it, a tab, the name. For 2.7 and 3.
"""
import ctypes
import gc
import json
import re
import struct
import sys
import types

FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)() or "t" in getattr(sys, "abiflags", "")
HEAD = 32 if FREE_THREADED else 16
# An object, d_type, d_name, and from 3.3 on d_qualname; then what the kind of descriptor has.
DESCRIPTOR = HEAD + (16 if sys.version_info < (3, 3) else 24)


def word(address):
    return struct.unpack("Q", ctypes.string_at(address, 8))[0]


def functions():
    """(address, name) of what Python code can reach."""
    seen = set()
    types_found = [object]
    for kind in types_found:
        if id(kind) in seen:
            continue
        seen.add(id(kind))
        types_found += type.__subclasses__(kind)
        if kind.__flags__ & 1 << 9:  # Py_TPFLAGS_HEAPTYPE: may be a class of Python code
            if kind.__module__ in sys.modules and hasattr(sys.modules[kind.__module__], "__file__") and \
                    str(sys.modules[kind.__module__].__file__).endswith((".py", ".pyc")):
                continue
        for name, value in list(vars(kind).items()):
            of = kind.__name__ + "." + name
            if isinstance(value, types.MethodDescriptorType):
                yield word(word(id(value) + DESCRIPTOR) + 8), of
            elif isinstance(value, types.WrapperDescriptorType):
                yield word(id(value) + DESCRIPTOR + 8), kind.__name__ + " (slot)"
            elif isinstance(value, types.GetSetDescriptorType):
                getset = word(id(value) + DESCRIPTOR)
                yield word(getset + 8), of + " (get)"
                yield word(getset + 16), of + " (set)"
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if isinstance(value, types.BuiltinFunctionType) and \
                    isinstance(getattr(value, "__self__", None), (types.ModuleType, type(None))):
                yield word(word(id(value) + HEAD) + 8), "%s.%s" % (module.__name__, value.__name__)


def mappings():
    with open("/proc/self/maps") as f:
        for line in f:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) \S+ [1-9]\d* +(/.*)", line)
            if match:
                yield int(match.group(1), 16), int(match.group(2), 16), int(match.group(3), 16), match.group(4)


def main():
    if sys.version_info < (3, 7):
        types.MethodDescriptorType = type(str.join)
        types.WrapperDescriptorType = type(object.__init__)
    maps = list(mappings())
    found = []
    for address, name in functions():
        for start, end, offset, path in maps:
            if start <= address < end:
                found.append([path, address - start + offset, name])
    json.dump(found, sys.stdout)


for name in "_json", "_collections", "_pickle", "_datetime", "zlib", "_struct", "math", "_hashlib", "array":
    try:
        __import__(name)
    except ImportError:
        pass
main()
