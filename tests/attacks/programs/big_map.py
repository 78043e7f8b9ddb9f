# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Its perf map is of MIB mebibytes, and each line is another function.

usage: big_map.py MIB
"""
import os
import sys

import tenant

path = "/tmp/perf-%d.map" % os.getpid()
with open(path, "w") as f:
    for i in range((int(sys.argv[1]) << 20) // 32):
        f.write("%016x 10 function%05x\n" % (i << 5, i & 0xfffff))
addr = tenant.map_code()
tenant.spin_at(addr)
os.environ["MAP"] = path
tenant.work()
