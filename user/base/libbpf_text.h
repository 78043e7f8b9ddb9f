/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LIBBPF_TEXT_H
#define PYPERF_LIBBPF_TEXT_H
/* What libbpf says, as messages of ours. */
#include <stdarg.h>

#include <bpf/libbpf.h>

/*
 * For libbpf_set_print(). What libbpf calls a warning we explain ourselves, so its text is only for
 * -vv. The kernel's log of a program that it refuses is one message of up to megabytes, and says
 * why at its end.
 */
int libbpf_text(enum libbpf_print_level level, const char *fmt, va_list args);

#endif /* PYPERF_LIBBPF_TEXT_H */
