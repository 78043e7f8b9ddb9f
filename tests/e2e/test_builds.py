# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The table of names by build id: what scripts/names writes is what the program shows, and what debug files say."""
import glob
import lzma
import pathlib
import re
import subprocess

import pytest

from harness import REPO

pytestmark = pytest.mark.beside

NAMES = REPO / ".output" / "oracle" / "names"
# Suffixes of parts, a function that is exported, one of assembler; the order of the file is not that of the source.
SOURCE = """
static __attribute__((noinline)) int leaf(int x) { return x * 3; }
static __attribute__((noinline)) int branch(int x) { if (x > 5) return leaf(x) + 1; return leaf(x - 1); }
static __attribute__((noinline, cold)) int rare(int x) { return leaf(x) ^ 77; }
static __attribute__((noinline)) int odd(int x) { return x & 1 ? rare(x) : branch(x); }
int exported(int x) { return branch(x) + odd(x); }
%s
"""


def run(*args):
    done = subprocess.run(list(map(str, args)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    return done.stdout


def shown(table, path):
    """{address: name}"""
    return {int(addr): name for addr, name in (line.split(" ", 1) for line in run(NAMES, table, path).splitlines())}


def build(into, more=""):
    """A stripped library and its debug file, as a distribution has them. -> (library, symbols)"""
    library = into / "lib.so"
    (into / "lib.c").write_text(SOURCE % more)
    run("gcc", "-O2", "-g", "-shared", "-fPIC", "-Wl,--build-id=0x" + "5a" * 20, into / "lib.c", "-o", library)
    symbols = {int(addr, 16): re.sub(r"\..*", "", name) for addr, name in
               re.findall(r"^(\w+) [tT] (\S+)$", run("nm", library), re.M)}
    debug = into / "usr/lib/debug/.build-id/5a" / ("5a" * 19 + ".debug")
    debug.parent.mkdir(parents=True, exist_ok=True)
    run("objcopy", "--only-keep-debug", library, debug)
    run("strip", library)
    return library, symbols


def unpacked(packed, into):
    into.write_bytes(lzma.decompress(packed.read_bytes()))
    return into


def test_made_file(tmp_path):
    library, symbols = build(tmp_path)
    packed = tmp_path / "names.xz"
    run(REPO / "scripts/names", "--table", packed, "add", tmp_path)
    table = unpacked(packed, tmp_path / "names")
    assert "0 wrong" in run(REPO / "scripts/names", "--table", packed, "check", tmp_path)
    names = shown(table, library)
    assert {"leaf", "branch", "rare", "odd", "exported"} <= set(names.values())
    for addr, name in names.items():
        assert name.endswith("@plt") or symbols[addr] == name, (addr, name, symbols)
    # What is in the table stays, and what is added is found behind it.
    before = packed.read_bytes()
    run(REPO / "scripts/names", "--table", packed, "add", tmp_path)
    assert packed.read_bytes() == before
    # Another file with this build id: one function more.
    other, _ = build(tmp_path, "int another(int x) { return x / 7; }")
    assert {n for n in shown(table, other).values() if "@" not in n} == {"exported", "another"}
    assert len(run(REPO / "scripts/names", "--table", packed, "list").splitlines()) == 1


LIBRARIES = ["/usr/bin/python3.11", *glob.glob("/usr/lib/*/libc.so.6"), *glob.glob("/usr/lib/*/libcrypto.so.3")]


def test_files_of_this_machine():
    """Names that the table has for them: those of their debug files, where these are installed."""
    packed = REPO / "share/names.xz"
    listed = dict(re.findall(r"^(\w{40}) .* for +(\d+) functions$", run(REPO / "scripts/names", "list"), re.M))
    assert len(listed) > 200 and packed.stat().st_size < 300_000
    files = [f for f in LIBRARIES if pathlib.Path(f).exists()]
    for path in files:
        build_id = re.search(r"Build ID: (\w+)", run("readelf", "-n", path))
        if build_id and build_id[1] in listed:
            names, functions = shown(REPO / ".output/names", path), int(listed[build_id[1]])
            print("%s: %d of %d functions have a name" % (path, len(names), functions))
            assert len(names) > 0.6 * functions, path
            # What Python users know comes first; the table has what they do not call.
            if "python" in path:
                assert {"list.sort", "dict (tp_dealloc)", "gc_collect_main"} <= set(names.values())
    print(run(REPO / "scripts/names", "check", *files))


def test_check_finds_wrong_names(tmp_path):
    build(tmp_path)
    packed = tmp_path / "names.xz"
    run(REPO / "scripts/names", "--table", packed, "add", tmp_path)
    packed.write_bytes(lzma.compress(lzma.decompress(packed.read_bytes()).replace(b"\0branch\0", b"\0brunch\0")))
    done = subprocess.run([REPO / "scripts/names", "--table", packed, "check", tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and "brunch" in done.stderr
