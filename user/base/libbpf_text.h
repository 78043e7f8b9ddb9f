/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LIBBPF_TEXT_H
#define PYPERF_LIBBPF_TEXT_H
/* Prints messages of libbpf in the form of ours (log.h). */
#include <stdarg.h>

#include <bpf/libbpf.h>

/*
 * For libbpf_set_print(), which main() calls. We explain ourselves what libbpf calls a warning, so
 * its text is shown with -vv only. The kernel's log about a program that it refuses is one message
 * of up to megabytes and gives the reason at its end.
 */
int libbpf_text(enum libbpf_print_level level, const char *fmt, va_list args);

#endif /* PYPERF_LIBBPF_TEXT_H */
