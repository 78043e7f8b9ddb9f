/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_UPROBE_H
#define PYPERF_UPROBE_H
/*
 * Breakpoints in one process: perf events of the kernel's PMU `uprobe` (4.17). The kernel puts them
 * into all threads of the process, into no other process that has the file, and takes them away
 * when the descriptor is closed, however this program ends.
 *
 * Only breakpoints at instructions: a return probe makes the process execute a system call from
 * Linux 6.11 on, for which a seccomp filter kills it (systemd #34615).
 */
#include <stdint.h>
#include <sys/types.h>

/*
 * A breakpoint at `offset` of the file `fd` in a process, which runs the program `prog_fd` at each
 * hit. Its descriptor or negative errno. -ENOSYS: the kernel has no such events.
 */
int uprobe__open(pid_t pid, int fd, uint64_t offset, int prog_fd);

/*
 * Nanoseconds that a breakpoint costs on this machine, at an instruction that the kernel emulates
 * and with the program `prog_fd`, which should do nothing: measured in this process, in some
 * milliseconds. Negative errno.
 */
int64_t uprobe__measure(int prog_fd);

#endif /* PYPERF_UPROBE_H */
