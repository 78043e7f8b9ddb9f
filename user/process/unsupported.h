/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_UNSUPPORTED_H
#define PYPERF_UNSUPPORTED_H
/*
 * A process in which no CPython was found that can be walked: does it run Python all the same?
 * Known are CPython of 32 bits, PyPy, and any program of another machine under qemu-user. For
 * messages about one process that was asked for: files are searched for strings, which takes some
 * 10 ms.
 *
 *	char why[UNSUPPORTED_LEN];
 *
 *	if (unsupported__explain(pid, why))
 *		log_err("process %d: %s", pid, why);	"32-bit CPython (/usr/bin/python3.11), ..."
 *
 * Names in the text are the process's own and may hold anything.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define UNSUPPORTED_LEN 512

/* What one file tells. */
struct file_traits {
	uint16_t machine; /* e_machine; 0: no ELF file */
	bool is_32_bit;
	bool cpython, pypy, qemu; /* strings that only these have */
};

/* 0 or negative errno. The file may be anything; what is read of it is bounded. */
int unsupported__read(int fd, struct file_traits *t);

/* False: nothing of the kind, or the process cannot be looked into. */
bool unsupported__explain(pid_t pid, char why[UNSUPPORTED_LEN]);

#endif /* PYPERF_UNSUPPORTED_H */
