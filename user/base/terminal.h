/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TERMINAL_H
#define PYPERF_TERMINAL_H

#include <stdbool.h>

/*
 * Returns the columns of the terminal on stdout and says whether it may show colours; 0: stdout is
 * not a terminal.
 */
unsigned terminal__width(bool *color);

#endif /* PYPERF_TERMINAL_H */
