/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_RIGHTS_H
#define PYPERF_RIGHTS_H
/*
 * The capabilities that this process has, and what this kernel permits. Asks the kernel and tries
 * nothing out. The table below says once what fails without each capability and how to get it:
 * record warns by it, and check prints it.
 */
#include <stdbool.h>
#include <stdint.h>

struct right {
	const char *name;    /* "CAP_BPF" */
	int cap, or_cap;     /* numbers; either of them will do */
	bool essential;	     /* nothing works without it */
	const char *without; /* what does not work then */
};

#define RIGHT_CHECKPOINT 40 /* CAP_CHECKPOINT_RESTORE, Linux 5.9; not in older headers */

/* The table; its end has no name. */
extern const struct right rights__needed[];

bool rights__has(const struct right *right);
/*
 * Keeps of our capabilities those of a mask, by number. `inherit`: makes them inheritable, too. 0
 * or negative errno.
 */
int rights__keep(uint64_t mask, bool inherit);
/* The remedy for any right that is missing. */
#define RIGHTS_REMEDY                                                                              \
	"run it with sudo, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,"     \
	"cap_syslog,cap_checkpoint_restore+ep pyperf-bpf"

/* Kernel lockdown forbids BPF to read memory. */
bool rights__locked_down(void);
/* An integer below /proc/sys ("kernel/kptr_restrict"); -2 when it cannot be read. */
long rights__sysctl(const char *name);
#define BTF_PATH "/sys/kernel/btf/vmlinux"

#endif /* PYPERF_RIGHTS_H */
