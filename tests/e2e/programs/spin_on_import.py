# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Imported by nesting.py again and again, to put the import machinery on the stack."""
import __main__

__main__.spin()
