/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AUDITOR_H
#define PYPERF_AUDITOR_H
/*
 * Where audit events can be seen (Python/sysmodule.c), from CPython 3.8 on. Two functions raise
 * them, whether there is a hook or not:
 *
 *	PySys_Audit(event, ...)			exported
 *	_PySys_Audit(tstate, event, ...)	from 3.9 on, hidden: a stripped file has no symbol
 *
 * From 3.9 on both do nothing but call sys_audit_tstate(tstate, event, ...), which is static: the
 * last call that PySys_Audit() makes. Some compilers put all of it into _PySys_Audit() instead, and
 * make several of that (gcc 15: Debian's 3.13 to 3.15 of sid). These are found by the names of the
 * events that are its argument.
 *
 * sys.audit() in Python raises an event only if there is a hook. It is found by its entry in the
 * table of methods of sys: the text "audit", the function, and METH_FASTCALL.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf.h"

#define AUDITOR_HIDDEN_MAX 8

/* Link addresses of functions. */
struct auditor {
	uint64_t raise;
	bool inner; /* `raise` has the event as its second argument, else as the first one */
	uint64_t hidden[AUDITOR_HIDDEN_MAX]; /* that do not call `raise`: the second argument */
	size_t hidden_cnt;
	bool complete;	 /* it is known that all events in C come by these */
	uint64_t python; /* sys.audit(); 0: it was not found */
};

/* 0; -ENOENT: PySys_Audit() is not there; -ENOMEM. */
int auditor__find(const struct elf_file *ef, struct auditor *out);

#endif /* PYPERF_AUDITOR_H */
