/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_UPROBE_H
#define PYPERF_UPROBE_H
/*
 * Sets breakpoints (uprobes). The kernel sets them for all threads of a process, for no other
 * process that maps the file, and removes them when the descriptor is closed, however this program
 * ends. The file is a descriptor, so that it is the mapped one (process/mapped.h), whatever its
 * name leads to by now. There are four ways, as no kernel has one that does all:
 *
 *	uprobe_list__add()	one place of one process, or of all: every kernel
 *	uprobe__open_multi()	thousands of places of one process at once: Linux 6.6
 *	uprobe__open_session()	entries and returns of functions: Linux 6.13
 *	family__add()		(trace/family.h) a process and those that it starts: Linux 6.12
 *
 * The first one has perf events of the kernel's PMU `uprobe` (4.17).
 *
 * Only breakpoints at instructions: from Linux 6.11 on a return probe makes the process execute a
 * system call, for which a seccomp filter kills it (systemd #34615).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct elf_file;

#define UPROBE_NO_COOKIE UINT64_MAX
#define UPROBE_NO_LINK	 (-4096) /* not a negative errno */

/* A breakpoint: its offset in the file, and the cookie of its program. */
struct uprobe_spot {
	uint64_t offset, cookie;
	uint64_t semaphore; /* of a static probe: its offset in the file; 0: none. One place only */
};

/* Descriptors of breakpoints, and of the programs at them. Zeroed: none. */
struct uprobe_list {
	int *fds;
	size_t cnt, cap;
};
/*
 * The program runs from now on at each hit of the spot of the file `fd`. `pid`: -1: in every
 * process. 0 or negative errno. -ENOSYS: the kernel has no such events.
 */
int uprobe_list__add(struct uprobe_list *l, pid_t pid, int fd, const struct uprobe_spot *spot,
		     int prog_fd);
/* Takes a descriptor over, and returns it; or negative errno, also that which `fd` is. */
int uprobe_list__keep(struct uprobe_list *l, int fd);
/* Removes them, the last one first. */
void uprobe_list__close(struct uprobe_list *l);

/*
 * Runs the program at each hit of the event from now on. With a cookie, returns a descriptor:
 * closing it detaches the program. Without, returns UPROBE_NO_LINK. Or negative errno.
 */
int uprobe__run(int event, int prog_fd, uint64_t cookie);
/* What to do about the negative errno of a breakpoint: " (...)", or "". */
const char *uprobe__remedy(int err);
/* Can programs read cookies in this kernel (5.15)? */
bool uprobe__has_cookies(void);

#define UPROBE_SPOTS_MAX 16
/*
 * Sets breakpoints in a process by one link (Linux 6.6), which the kernel removes at once, too:
 * thousands of them, where uprobe_list__add() takes some milliseconds for each. Returns a
 * descriptor, whose close removes the breakpoints, or negative errno.
 */
int uprobe__open_multi(pid_t pid, int fd, const struct uprobe_spot *spots, size_t cnt, int prog_fd);
/* Expected attach type of its programs: see UPROBE_SESSION_TYPE. */
#define UPROBE_MULTI_TYPE 48
/*
 * Closes links of uprobe__open_multi(), many at a time: for each, the kernel waits until no program
 * runs any more, some 30 ms, and all that wait at a time wait for the same.
 */
void uprobe__close_links(const int *links, size_t cnt);
/*
 * The same at the end of the program, which does not wait for more than a second: for each link the
 * kernel looks at all processes that map the file, so those of a thousand processes take half a
 * minute. A child that has nothing else open goes on with it.
 */
void uprobe__leave_links(const int *links, size_t cnt);
/*
 * Sets breakpoints at the first instructions of functions of a process by one link: the program
 * runs at the entry and, if it returned 0 there, at the return (Linux 6.13). The kernel expects the
 * return address on top of the stack. Returns a descriptor, whose close removes the breakpoints, or
 * negative errno.
 */
int uprobe__open_session(pid_t pid, int fd, const struct uprobe_spot *spots, size_t cnt,
			 int prog_fd);
/*
 * Expected attach type of the programs of a session: set it with
 * bpf_program__set_expected_attach_type() before they are loaded.
 */
#define UPROBE_SESSION_TYPE 57
/* Does this kernel have such links? */
bool uprobe__has_sessions(void);
/*
 * Can a process with a seccomp filter return from a function of a session? From Linux 6.14 on the
 * kernel lets the system call pass. Tries it, with a child that has such a filter.
 */
bool uprobe__survives_seccomp(void);

/* Does the kernel emulate the instruction at this offset of a file, or single-step it? */
bool uprobe__emulates(const struct elf_file *ef, uint64_t offset);
/* Nanoseconds that a hit costs on this machine. Assumed where they cannot be measured. */
struct uprobe_prices {
	double emulated_ns, stepped_ns;
	bool measured;
};
void uprobe__assume(struct uprobe_prices *out);
/*
 * Measures both in this process, in some 20 ms, with the program `prog_fd`, which runs some
 * thousand times; -1: with one that does nothing.
 */
void uprobe__prices(int prog_fd, struct uprobe_prices *out);

/*
 * Measures in this process, in some milliseconds, how many ns a breakpoint costs on this machine,
 * at an instruction that the kernel emulates and with the program `prog_fd`, which should do
 * nothing. Negative errno.
 */
int64_t uprobe__measure(int prog_fd);
/* The same for a session whose program returns 1. */
int64_t uprobe__measure_session(int prog_fd);
/*
 * The same for a link of uprobe__open_multi(), and how many ns more a hit takes for each further
 * link at that place, of other processes: the kernel asks each of them whether it is meant.
 */
int uprobe__measure_multi(int64_t *hit_ns, double *link_ns);

#endif /* PYPERF_UPROBE_H */
