/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_UNSUPPORTED_H
#define PYPERF_UNSUPPORTED_H
/*
 * Explains a process in which no CPython that can be walked was found, but which runs Python all
 * the same: CPython of 32 bits, PyPy, any program of another machine under qemu-user, or CPython
 * whose library was replaced and cannot be read without a right that we lack. For messages about
 * one process that a user asked for: searches files for strings, which takes some 10 ms.
 *
 *	char why[UNSUPPORTED_LEN];
 *
 *	if (unsupported__explain(rs, pid, why))
 *		log_err("process %d: %s", pid, why);	"32-bit CPython (/usr/bin/python3.11), ..."
 *
 * The process chooses the names in the text, so they may hold anything.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reader.h"

#define UNSUPPORTED_LEN 512

/* Traits of one file. */
struct file_traits {
	uint16_t machine; /* e_machine; 0: no ELF file */
	bool is_32_bit;
	bool cpython, pypy, qemu; /* strings that only these have */
};

/*
 * Reads the traits of a file. 0 or negative errno. The file may be anything; a bounded part of it
 * is read.
 */
int unsupported__read(int fd, struct file_traits *t);

/* False: it is none of these, or the process cannot be read. */
bool unsupported__explain(struct readers *rs, pid_t pid, char why[UNSUPPORTED_LEN]);

/* What to say of a file, behind its name. */
#define UNSUPPORTED_UNREAD "cannot be opened, or not without waiting for others (FUSE)"

/*
 * Is not known whether it is Python, because files do not answer, or its program, or a library that
 * is called python, is not read? Ask unsupported__explain() first.
 *
 *	if (unsupported__unread(rs, pid, why))
 *		log_err("process %d: %s", pid, why);	"its file /mnt/python3 cannot ..."
 */
bool unsupported__unread(struct readers *rs, pid_t pid, char why[UNSUPPORTED_LEN]);

#endif /* PYPERF_UNSUPPORTED_H */
