/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/held.h"

#include <elf.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/opener.h"
#include "base/reader.h"
#include "base/str.h"
#include "process/interpreter.h"
#include "process/maps_read.h"

/*
 * Flags of struct perf_event_attr, behind read_format: headers before 5.13 do not name them. The
 * breakpoint ends at exec; at it the thread gets a SIGTRAP before it runs the instruction.
 */
#define REMOVE_ON_EXEC (1ULL << 36)
#define SIGTRAP_FLAG   (1ULL << 37)
#define TRAP_BY_PERF   6 /* TRAP_PERF, include/uapi/asm-generic/siginfo.h */

static int place_breakpoint(pid_t pid, uint64_t addr)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_X,
		.bp_addr = addr,
		.bp_len = sizeof(long),
		.sample_period = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	char *flags_at = (char *)&attr + offsetof(struct perf_event_attr, read_format) + 8;
	uint64_t flags;
	int fd;

	memcpy(&flags, flags_at, sizeof(flags));
	flags |= REMOVE_ON_EXEC | SIGTRAP_FLAG;
	memcpy(flags_at, &flags, sizeof(flags));
	fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_places(struct held *h)
{
	close_fd(&h->entry_fd);
	for (size_t i = 0; i < HELD_PLACES; i++)
		close_fd(&h->end_fds[i]);
}

int held__begin(struct held *h, pid_t pid)
{
	static const unsigned long options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
	int fd;

	*h = (struct held){ .pid = pid, .entry_fd = -1, .end_fds = { -1, -1, -1, -1 } };
	/* Its memory is a copy of ours, and it never gets to this place: can the kernel do it? */
	fd = place_breakpoint(pid, (uint64_t)(uintptr_t)held__begin);
	if (fd < 0)
		return fd;
	close(fd);
	if (ptrace(PTRACE_SEIZE, pid, NULL, options))
		return -errno;
	h->traced = true;
	return 0;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* AT_ENTRY: the first instruction of the program behind those of the dynamic loader. 0: unknown. */
static uint64_t entry_of(pid_t pid)
{
	int proc_fd = opener__proc_dir((uint32_t)pid);
	struct strbuf b = { 0 };
	uint64_t entry = 0;
	Elf64_auxv_t aux;

	if (proc_fd >= 0 && !read_proc(proc_fd, "auxv", &b))
		for (size_t at = 0; at + sizeof(aux) <= b.len && !entry; at += sizeof(aux)) {
			memcpy(&aux, b.s + at, sizeof(aux));
			entry = aux.a_type == AT_ENTRY ? aux.a_un.a_val : 0;
		}
	if (proc_fd >= 0)
		close(proc_fd);
	strbuf__free(&b);
	return entry;
}

/* Another program, so the places of the one before are gone. */
static void on_exec(struct held *h)
{
	uint64_t entry = entry_of(h->pid);

	close_places(h);
	h->python = false;
	h->entry_fd = entry ? place_breakpoint(h->pid, entry) : -1;
	if (h->entry_fd < 0)
		log_debug("process %d: no breakpoint at its entry", h->pid);
}

/*
 * Where Python's finalization begins (Python/pylifecycle.c): Py_Finalize() in 2.7, which later ones
 * have beside Py_FinalizeEx(); sys.exit() gets there by Py_Exit(). From 3.13 on all of them call
 * _Py_Finalize(), which the compiler may have put into them.
 */
static void place_ends(struct held *h, const struct interpreter *in)
{
	static const char *const names[HELD_PLACES] = { "Py_FinalizeEx", "Py_Exit", "_Py_Finalize",
							"Py_Finalize" };
	struct elf_symbol sym;

	h->python = true;
	for (size_t i = 0; i < HELD_PLACES; i++) {
		if (!elf_file__symbol(in->ef, names[i], &sym))
			continue;
		h->end_fds[i] = place_breakpoint(h->pid, in->bias + sym.addr);
		if (h->end_fds[i] < 0)
			log_debug("process %d: no breakpoint at %s: %s", h->pid, names[i],
				  strerror(-h->end_fds[i]));
	}
}

/* The libraries of the program are loaded. */
static void find_ends(struct held *h)
{
	struct readers *rs = readers__new();
	int proc_fd = opener__proc_dir((uint32_t)h->pid);
	struct interpreter in = { 0 };
	struct exec_maps maps = { 0 };
	int err = proc_fd < 0 ? proc_fd : 0;

	if (rs)
		readers__start(rs);
	if (!err)
		err = exec_maps__ask(&maps, rs, (uint32_t)h->pid, proc_fd);
	if (!err)
		err = interpreter__find(&in, rs, (uint32_t)h->pid, proc_fd, &maps);
	if (!err)
		place_ends(h, &in);
	interpreter__close(&in);
	exec_maps__free(&maps);
	if (proc_fd >= 0)
		close(proc_fd);
	readers__free(rs);
}

/* ---- stops ----------------------------------------------------------------------------------- */

static bool is_breakpoint(const struct held *h)
{
	siginfo_t info;

	return !ptrace(PTRACE_GETSIGINFO, h->pid, NULL, &info) && info.si_signo == SIGTRAP &&
	       info.si_code == TRAP_BY_PERF;
}

/* By exit, os._exit included, and not by a signal. */
static bool is_exit(const struct held *h)
{
	unsigned long status = 0;

	return !ptrace(PTRACE_GETEVENTMSG, h->pid, NULL, &status) && WIFEXITED((int)status);
}

/* True: it is at its end. */
static bool on_stop(struct held *h, int status)
{
	long sig = WSTOPSIG(status);

	switch (status >> 16) {
	case PTRACE_EVENT_EXIT:
		h->exited = is_exit(h);
		return true;
	case PTRACE_EVENT_EXEC:
		on_exec(h);
		sig = 0;
		break;
	case PTRACE_EVENT_STOP:
		/* Stopped by a signal, as by Ctrl-Z: it stays so until it gets SIGCONT. */
		if (sig != SIGTRAP && !ptrace(PTRACE_LISTEN, h->pid, NULL, NULL))
			return false;
		sig = 0;
		break;
	default:
		if (sig != SIGTRAP || !is_breakpoint(h))
			break; /* a signal, which it gets */
		if (h->entry_fd < 0)
			return true;
		close_fd(&h->entry_fd);
		find_ends(h);
		sig = 0;
	}
	ptrace(PTRACE_CONT, h->pid, NULL, sig);
	return false;
}

enum held_state held__look(struct held *h)
{
	int status;

	for (;;) {
		siginfo_t info = { .si_pid = 0 };

		/* The status of its end is not ours. */
		if (waitid(P_PID, (id_t)h->pid, &info,
			   WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) ||
		    !info.si_pid)
			return HELD_RUNS;
		if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
			h->traced = false;
			return HELD_GONE;
		}
		if (waitpid(h->pid, &status, WNOHANG | __WALL) != h->pid || !WIFSTOPPED(status))
			return HELD_RUNS;
		if (on_stop(h, status))
			return HELD_AT_END;
	}
}

void held__release(struct held *h)
{
	close_places(h);
	if (h->traced)
		ptrace(PTRACE_DETACH, h->pid, NULL, NULL);
	h->traced = false;
}
