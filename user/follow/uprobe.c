/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/uprobe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/opener.h"
#include "base/thread.h"
#include "elf/elf.h"
#include "elf/insn.h"
#include "process/maps_read.h"
#include "process/mapped.h"

#define PMU_TYPE	"/sys/bus/event_source/devices/uprobe/type"
#define SEMAPHORE_SHIFT 32 /* in the config of its events: format/ref_ctr_offset there */
#define LIST_MAX	(1U << 20)
#define ROUNDS		7
#define CALLS		200 /* of a round */
#define STEPPED_CALLS	20  /* in a virtual machine, some 40 us each */
#define OTHER_LINKS	64
#define EMULATED_NS	500
#define STEPPED_NS	3000
#define CLOSERS_MAX	64
#define LINKS_FEW	16 /* that are closed at once */
#define LEAVE_MS	1000

/* The number that the kernel has given its PMU. */
static int pmu_type(void)
{
	FILE *f = fopen(PMU_TYPE, "re");
	int type = -ENOSYS;

	if (!f)
		return -ENOSYS;
	if (fscanf(f, "%d", &type) != 1)
		type = -ENOSYS;
	fclose(f);
	return type;
}

bool uprobe__has_cookies(void)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_get_attach_cookie, NULL) > 0;
}

const char *uprobe__remedy(int err)
{
	if (err == -ENOSYS)
		return " (the kernel must be built with CONFIG_UPROBE_EVENTS=y)";
	if (err == -EPERM || err == -EACCES)
		return " (CAP_PERFMON is needed, on Debian and Ubuntu CAP_SYS_ADMIN)";
	return "";
}

int uprobe__run(int event, int prog_fd, uint64_t cookie)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = cookie);

	if (cookie != UPROBE_NO_COOKIE)
		return bpf_link_create(prog_fd, event, BPF_PERF_EVENT, &opts);
	return ioctl(event, PERF_EVENT_IOC_SET_BPF, prog_fd) ? -errno : UPROBE_NO_LINK;
}

/* Returns its descriptor or negative errno. */
static int open_event(pid_t pid, int fd, const struct uprobe_spot *spot)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.sample_period = 1,
					.wakeup_events = 1 };
	int type = pmu_type(), event;
	char path[32];

	if (type < 0)
		return type;
	if (spot->semaphore >> (64 - SEMAPHORE_SHIFT))
		return -EINVAL;
	/* The file itself: its name may lead to another one by now. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	attr.type = (uint32_t)type;
	attr.config = spot->semaphore << SEMAPHORE_SHIFT;
	attr.config1 = (uintptr_t)path;
	attr.config2 = spot->offset;
	event = (int)syscall(SYS_perf_event_open, &attr, pid, pid < 0 ? 0 : -1, -1,
			     PERF_FLAG_FD_CLOEXEC);
	return event < 0 ? -errno : event;
}

int uprobe_list__keep(struct uprobe_list *l, int fd)
{
	int err = fd < 0 ? fd : ARRAY_GROW(l->fds, l->cap, l->cnt, LIST_MAX);

	if (!err)
		l->fds[l->cnt++] = fd;
	else if (fd >= 0)
		close(fd);
	return err ? err : fd;
}

int uprobe_list__add(struct uprobe_list *l, pid_t pid, int fd, const struct uprobe_spot *spot,
		     int prog_fd)
{
	int event = uprobe_list__keep(l, open_event(pid, fd, spot)), link;

	if (event < 0)
		return event;
	link = uprobe__run(event, prog_fd, spot->cookie);
	if (link != UPROBE_NO_LINK)
		link = uprobe_list__keep(l, link);
	return link < 0 && link != UPROBE_NO_LINK ? link : 0;
}

void uprobe_list__close(struct uprobe_list *l)
{
	while (l->cnt)
		close(l->fds[--l->cnt]);
	free(l->fds);
	*l = (struct uprobe_list){ .cnt = 0 };
}

/* ---- many at once ---------------------------------------------------------------------------- */

/* As union bpf_attr has it for BPF_LINK_CREATE; linux/bpf.h of a distribution may be older. */
struct multi_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t cnt, multi_flags, pid, pad;
};

static int open_many(pid_t pid, int fd, const struct uprobe_spot *spots, size_t cnt, int prog_fd,
		     uint32_t type)
{
	uint64_t *offsets = calloc(2 * cnt + 1, sizeof(*offsets)), *cookies = offsets + cnt;
	struct multi_attr attr = { .prog_fd = (uint32_t)prog_fd,
				   .attach_type = type,
				   .cnt = (uint32_t)cnt,
				   .pid = (uint32_t)pid };
	char path[32];
	int link;

	if (!offsets)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		offsets[i] = spots[i].offset;
		cookies[i] = spots[i].cookie;
	}
	/* The file itself: its name may lead to another one by now. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	attr.path = (uintptr_t)path;
	attr.offsets = (uintptr_t)offsets;
	attr.cookies = (uintptr_t)cookies;
	link = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	link = link < 0 ? -errno : link;
	free(offsets);
	return link;
}

int uprobe__open_session(pid_t pid, int fd, const struct uprobe_spot *spots, size_t cnt,
			 int prog_fd)
{
	return cnt > UPROBE_SPOTS_MAX
		       ? -E2BIG
		       : open_many(pid, fd, spots, cnt, prog_fd, UPROBE_SESSION_TYPE);
}

int uprobe__open_multi(pid_t pid, int fd, const struct uprobe_spot *spots, size_t cnt, int prog_fd)
{
	return open_many(pid, fd, spots, cnt, prog_fd, UPROBE_MULTI_TYPE);
}

struct closing {
	const int *links;
	size_t cnt, next;
};

static void *close_some(void *closing)
{
	struct closing *c = closing;
	size_t i;

	while ((i = __atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED)) < c->cnt)
		close(c->links[i]);
	return NULL;
}

void uprobe__close_links(const int *links, size_t cnt)
{
	struct closing c = { .links = links, .cnt = cnt };
	pthread_t threads[CLOSERS_MAX];
	size_t started = 0;

	while (started < CLOSERS_MAX && started + 1 < cnt &&
	       !thread__start(&threads[started], close_some, &c))
		started++;
	close_some(&c);
	while (started)
		pthread_join(threads[--started], NULL);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* The child. Whoever reads our output, or waits for what else we have open, is not kept waiting. */
static void close_beside(int *links, size_t cnt, int go_fd)
{
	unsigned next = 0;
	char nothing;

	setsid();
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_IGN);
	/* Whoever closes a link last waits for the kernel. */
	while (read(go_fd, &nothing, 1) < 0 && errno == EINTR)
		;
	qsort(links, cnt, sizeof(*links), by_number);
	for (size_t i = 0; i < cnt; i++) {
		if ((unsigned)links[i] > next)
			syscall(SYS_close_range, next, (unsigned)links[i] - 1, 0U);
		next = (unsigned)links[i] + 1;
	}
	syscall(SYS_close_range, next, ~0U, 0U);
	uprobe__close_links(links, cnt);
	_exit(0);
}

static void wait_a_while(pid_t child)
{
	struct pollfd fd = { .fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN };

	if (fd.fd >= 0) {
		poll(&fd, 1, LEAVE_MS);
		close(fd.fd);
	}
	waitpid(child, NULL, WNOHANG);
}

void uprobe__leave_links(const int *links, size_t cnt)
{
	int *own = cnt > LINKS_FEW ? malloc(cnt * sizeof(*own)) : NULL, ends[2];
	pid_t child = -1;

	if (own && !pipe2(ends, O_CLOEXEC)) {
		memcpy(own, links, cnt * sizeof(*own));
		child = fork();
		if (!child) {
			close(ends[1]);
			close_beside(own, cnt, ends[0]);
		}
		close(ends[0]);
		if (child < 0)
			close(ends[1]);
	}
	free(own);
	if (child < 0) {
		uprobe__close_links(links, cnt);
		return;
	}
	for (size_t i = 0; i < cnt; i++)
		close(links[i]);
	close(ends[1]);
	wait_a_while(child);
}

/* A program that does nothing. Its descriptor or negative errno. */
static int load_nothing(uint32_t attach_type)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)attach_type);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", insns,
			     sizeof(insns) / sizeof(insns[0]), &opts);
}

#if defined(__x86_64__)
/* It wants to see the return. */
static int load_session(void)
{
	return load_nothing(UPROBE_SESSION_TYPE);
}
#endif

/* ---- the price ------------------------------------------------------------------------------- */

bool uprobe__emulates(const struct elf_file *ef, uint64_t offset)
{
	uint8_t code[INSN_MAX];
	struct insn insn;
	uint64_t addr;

	return elf_file__off_to_addr(ef, offset, &addr) && !insn__at(ef, addr, code, &insn) &&
	       insn.emulated;
}

/*
 * The targets of the breakpoint: functions that begin with an instruction which the kernel
 * emulates, and with one that it does not.
 */
#if defined(__x86_64__)
static __attribute__((noinline)) void measured(void)
{
	__asm__ volatile(".globl pyperf_measured\npyperf_measured:\n\tnop" ::: "memory");
}
static __attribute__((noinline)) void measured_stepped(void)
{
	__asm__ volatile(".globl pyperf_measured_stepped\npyperf_measured_stepped:\n\t"
			 "test %%eax, %%eax" ::
				 : "memory", "cc");
}
extern const char pyperf_measured[], pyperf_measured_stepped[];
#endif

/*
 * Opens the file of an address of this program, and finds the offset in it. By a loader as a
 * command, /proc/self/exe would be that. A descriptor or negative errno.
 */
static int open_place(uint64_t addr, uint64_t *offset)
{
	struct exec_maps maps = { 0 };
	int dir = opener__proc_dir((uint32_t)getpid());
	int err = dir < 0 ? dir : exec_maps__read(&maps, dir), fd = -ENOENT;
	struct elf_file *ef;

	for (size_t i = 0; !err && i < maps.cnt && fd == -ENOENT; i++) {
		if (addr < maps.lines[i].start || addr >= maps.lines[i].end)
			continue;
		*offset = addr - maps.lines[i].start + maps.lines[i].offset;
		ef = mapped__open(NULL, (uint32_t)getpid(), dir, &maps.lines[i]);
		fd = ef ? fcntl(elf_file__fd(ef), F_DUPFD_CLOEXEC, 0) : -1;
		fd = fd < 0 ? -errno : fd;
		elf_file__close(ef);
	}
	exec_maps__free(&maps);
	if (dir >= 0)
		close(dir);
	return err ? err : fd;
}

#if defined(__x86_64__)
/* The shortest of several rounds: others have the CPU, too. */
static uint64_t time_calls(void (*call)(void), unsigned cnt)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t start = thread_cpu_ns(), ns;

		for (unsigned k = 0; k < cnt; k++)
			call();
		ns = thread_cpu_ns() - start;
		if (ns < best)
			best = ns;
	}
	return best / cnt;
}

/* Negative errno: it is not there. */
typedef int put_breakpoint(struct uprobe_list *l, int prog_fd, int exe, uint64_t offset);

static int put_event(struct uprobe_list *l, int prog_fd, int exe, uint64_t offset)
{
	const struct uprobe_spot spot = { .offset = offset, .cookie = UPROBE_NO_COOKIE };

	return uprobe_list__add(l, getpid(), exe, &spot, prog_fd);
}

static int put_session(struct uprobe_list *l, int prog_fd, int exe, uint64_t offset)
{
	const struct uprobe_spot spot = { .offset = offset };

	return uprobe_list__keep(l, uprobe__open_session(getpid(), exe, &spot, 1, prog_fd));
}

/* An old kernel loads the program all the same, so it has to be attached. */
bool uprobe__has_sessions(void)
{
	uint64_t offset = 0;
	int prog = load_session(), exe = open_place((uintptr_t)pyperf_measured, &offset);
	struct uprobe_list l = { .cnt = 0 };
	int link = prog < 0 || exe < 0 ? -1 : put_session(&l, prog, exe, offset);

	if (link < 0)
		log_debug("no breakpoints of sessions: program %d, file %d, link %d", prog, exe,
			  link);
	uprobe_list__close(&l);
	if (exe >= 0)
		close(exe);
	if (prog >= 0)
		close(prog);
	return link >= 0;
}

/* What a breakpoint at `place`, the first instruction of `call`, costs. */
static int64_t measure_at(int prog_fd, put_breakpoint *put, const char *place, void (*call)(void),
			  unsigned cnt)
{
	uint64_t offset = 0, plain, hit;
	int exe = open_place((uintptr_t)place, &offset), err;
	struct uprobe_list l = { .cnt = 0 };

	if (exe < 0)
		return exe;
	plain = time_calls(call, cnt);
	err = put(&l, prog_fd, exe, offset);
	close(exe);
	hit = err < 0 ? 0 : time_calls(call, cnt);
	uprobe_list__close(&l);
	return err < 0 ? err : hit > plain ? (int64_t)(hit - plain) : 0;
}

static int64_t measure(int prog_fd, put_breakpoint *put)
{
	return measure_at(prog_fd, put, pyperf_measured, measured, CALLS);
}

static void measure_both(int prog_fd, struct uprobe_prices *out)
{
	int64_t emulated = measure(prog_fd, put_event);
	int64_t stepped = measure_at(prog_fd, put_event, pyperf_measured_stepped, measured_stepped,
				     STEPPED_CALLS);

	out->measured = emulated > 0 && stepped > 0;
	if (!out->measured)
		return;
	out->emulated_ns = (double)emulated;
	out->stepped_ns = (double)stepped;
}

/* ---- many links ------------------------------------------------------------------------------ */

/* A process that waits until we end it. */
static pid_t start_other(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (true)
		pause();
}

static void end_other(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Each spot of a link is asked like a link of its own. */
static int64_t time_beside(pid_t other, int exe, uint64_t offset, int prog_fd)
{
	struct uprobe_spot spots[OTHER_LINKS];
	int64_t hit;
	int links;

	for (int i = 0; i < OTHER_LINKS; i++)
		spots[i] = (struct uprobe_spot){ .offset = offset };
	links = uprobe__open_multi(other, exe, spots, OTHER_LINKS, prog_fd);
	if (links < 0)
		return links;
	hit = (int64_t)time_calls(measured, CALLS);
	close(links);
	return hit;
}

int uprobe__measure_multi(int64_t *hit_ns, double *link_ns)
{
	uint64_t offset = 0, plain = time_calls(measured, CALLS);
	const int prog = load_nothing(UPROBE_MULTI_TYPE);
	const int exe = open_place((uintptr_t)pyperf_measured, &offset);
	const struct uprobe_spot spot = { .offset = offset };
	int own = prog < 0 || exe < 0 ? -ENOENT : uprobe__open_multi(getpid(), exe, &spot, 1, prog);
	int64_t alone = own < 0 ? own : (int64_t)time_calls(measured, CALLS), beside = -ESRCH;
	pid_t other = own < 0 ? -1 : start_other();

	if (other > 0) {
		beside = time_beside(other, exe, offset, prog);
		end_other(other);
	}
	if (own >= 0)
		close(own);
	if (exe >= 0)
		close(exe);
	if (prog >= 0)
		close(prog);
	if (alone < 0 || beside < 0)
		return (int)(alone < 0 ? alone : beside);
	*hit_ns = alone > (int64_t)plain ? alone - (int64_t)plain : 0;
	*link_ns = beside > alone ? (double)(beside - alone) / OTHER_LINKS : 0;
	return 0;
}

/* ---- a filter of system calls ---------------------------------------------------------------- */

/* Nothing but its end is allowed. */
static int confine(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	const struct sock_fprog program = { .len = sizeof(filter) / sizeof(filter[0]),
					    .filter = filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

/* The child: waits for its breakpoint, and calls the function. */
static void call_confined(int go_fd)
{
	char go;

	if (read(go_fd, &go, 1) != 1 || confine())
		_exit(1);
	measured();
	_exit(0);
}

static bool child_survives(pid_t child, int go_fd, int exe, uint64_t offset, int prog_fd)
{
	const struct uprobe_spot spot = { .offset = offset };
	int link = uprobe__open_session(child, exe, &spot, 1, prog_fd), status = -1;

	if (link < 0 || write(go_fd, "", 1) != 1)
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (link >= 0)
		close(link);
	return link >= 0 && WIFEXITED(status) && !WEXITSTATUS(status);
}

bool uprobe__survives_seccomp(void)
{
	uint64_t offset = 0;
	int prog = load_session(), exe = open_place((uintptr_t)pyperf_measured, &offset);
	int go[2] = { -1, -1 };
	pid_t child = prog < 0 || exe < 0 || pipe2(go, O_CLOEXEC) ? -1 : fork();
	bool survives = false;

	if (!child)
		call_confined(go[0]);
	if (child > 0)
		survives = child_survives(child, go[1], exe, offset, prog);
	for (int i = 0; i < 2; i++)
		if (go[i] >= 0)
			close(go[i]);
	if (exe >= 0)
		close(exe);
	if (prog >= 0)
		close(prog);
	return survives;
}

int64_t uprobe__measure(int prog_fd)
{
	return measure(prog_fd, put_event);
}

int64_t uprobe__measure_session(int prog_fd)
{
	return measure(prog_fd, put_session);
}
#else
bool uprobe__has_sessions(void)
{
	return false;
}

bool uprobe__survives_seccomp(void)
{
	return false;
}

static void measure_both(int prog_fd, struct uprobe_prices *out)
{
	(void)prog_fd, (void)out;
}

int64_t uprobe__measure(int prog_fd)
{
	(void)prog_fd, (void)open_place;
	return -ENOTSUP;
}

int64_t uprobe__measure_session(int prog_fd)
{
	(void)prog_fd;
	return -ENOTSUP;
}

int uprobe__measure_multi(int64_t *hit_ns, double *link_ns)
{
	(void)hit_ns, (void)link_ns;
	return -ENOTSUP;
}
#endif

void uprobe__assume(struct uprobe_prices *out)
{
	*out = (struct uprobe_prices){ .emulated_ns = EMULATED_NS, .stepped_ns = STEPPED_NS };
}

void uprobe__prices(int prog_fd, struct uprobe_prices *out)
{
	int nothing = prog_fd < 0 ? load_nothing(0) : -1;

	uprobe__assume(out);
	if (prog_fd >= 0 || nothing >= 0)
		measure_both(prog_fd < 0 ? nothing : prog_fd, out);
	if (nothing >= 0)
		close(nothing);
}
