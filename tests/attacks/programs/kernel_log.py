# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Its perf map is the kernel's log, of which each read waits for more."""
import os

import tenant

path = "/tmp/perf-%d.map" % os.getpid()
open(path, "w").close()
tenant.bind("/proc/kmsg", path)
tenant.spin_at(tenant.map_code())
tenant.work()
