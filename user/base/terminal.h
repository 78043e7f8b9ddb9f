/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TERMINAL_H
#define PYPERF_TERMINAL_H

#include <stdbool.h>

/* Columns of the terminal that is stdout, and whether it may show colours; 0: it is no terminal. */
unsigned terminal__width(bool *color);

#endif /* PYPERF_TERMINAL_H */
