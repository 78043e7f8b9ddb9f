# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Ends soon, so that the start of a process is stopped in: the dynamic linker, lazy binding."""
import json
