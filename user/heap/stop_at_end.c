/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/stop_at_end.h"

#include <elf.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
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
#define TRAP_BY_PERF   6 /* TRAP_PERF, include/uapi/asm-generic/siginfo.s */

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

static void close_places(struct stop_at_end *s)
{
	close_fd(&s->entry_fd);
	for (size_t i = 0; i < STOP_PLACES; i++)
		close_fd(&s->end_fds[i]);
}

int stop_at_end__begin(struct stop_at_end *s, pid_t pid)
{
	static const unsigned long options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
	int fd;

	*s = (struct stop_at_end){ .pid = pid, .entry_fd = -1, .end_fds = { -1, -1, -1, -1 } };
	/* Its memory is a copy of ours, and it never gets to this place: can the kernel do it? */
	fd = place_breakpoint(pid, (uint64_t)(uintptr_t)stop_at_end__begin);
	if (fd < 0)
		return fd;
	close(fd);
	if (ptrace(PTRACE_SEIZE, pid, NULL, options))
		return -errno;
	s->traced = true;
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
static void on_exec(struct stop_at_end *s)
{
	uint64_t entry = entry_of(s->pid);

	close_places(s);
	s->python = false;
	s->entry_fd = entry ? place_breakpoint(s->pid, entry) : -1;
	if (s->entry_fd < 0)
		log_debug("process %d: no breakpoint at its entry", s->pid);
}

/*
 * Where Python's finalization begins (Python/pylifecycle.c): Py_Finalize() in 2.7, which later ones
 * have beside Py_FinalizeEx(); sys.exit() gets there by Py_Exit(). From 3.13 on all of them call
 * _Py_Finalize(), which the compiler may have put into them.
 */
static void place_ends(struct stop_at_end *s, const struct interpreter *in)
{
	static const char *const names[STOP_PLACES] = { "Py_FinalizeEx", "Py_Exit", "_Py_Finalize",
							"Py_Finalize" };
	struct elf_symbol sym;

	s->python = true;
	for (size_t i = 0; i < STOP_PLACES; i++) {
		if (!elf_file__symbol(in->ef, names[i], &sym))
			continue;
		s->end_fds[i] = place_breakpoint(s->pid, in->bias + sym.addr);
		if (s->end_fds[i] < 0)
			log_debug("process %d: no breakpoint at %s: %s", s->pid, names[i],
				  strerror(-s->end_fds[i]));
	}
}

/* The libraries of the program are loaded. */
static void find_ends(struct stop_at_end *s)
{
	struct readers *rs = readers__new();
	int proc_fd = opener__proc_dir((uint32_t)s->pid);
	struct interpreter in = { 0 };
	struct exec_maps maps = { 0 };
	int err = proc_fd < 0 ? proc_fd : 0;

	if (rs)
		readers__start(rs);
	if (!err)
		err = exec_maps__ask(&maps, rs, (uint32_t)s->pid, proc_fd);
	if (!err)
		err = interpreter__find(&in, rs, (uint32_t)s->pid, proc_fd, &maps);
	if (!err)
		place_ends(s, &in);
	interpreter__close(&in);
	exec_maps__free(&maps);
	if (proc_fd >= 0)
		close(proc_fd);
	readers__free(rs);
}

/* ---- stops ----------------------------------------------------------------------------------- */

static bool is_breakpoint(const struct stop_at_end *s)
{
	siginfo_t info;

	return !ptrace(PTRACE_GETSIGINFO, s->pid, NULL, &info) && info.si_signo == SIGTRAP &&
	       info.si_code == TRAP_BY_PERF;
}

/* By exit, os._exit included, and not by a signal. */
static bool is_exit(const struct stop_at_end *s)
{
	unsigned long status = 0;

	return !ptrace(PTRACE_GETEVENTMSG, s->pid, NULL, &status) && WIFEXITED((int)status);
}

/* True: it is at its end. */
static bool on_stop(struct stop_at_end *s, int status)
{
	long sig = WSTOPSIG(status);

	switch (status >> 16) {
	case PTRACE_EVENT_EXIT:
		s->exited = is_exit(s);
		return true;
	case PTRACE_EVENT_EXEC:
		on_exec(s);
		sig = 0;
		break;
	case PTRACE_EVENT_STOP:
		/* Stopped by a signal, as by Ctrl-Z: it stays so until it gets SIGCONT. */
		if (sig != SIGTRAP && !ptrace(PTRACE_LISTEN, s->pid, NULL, NULL))
			return false;
		sig = 0;
		break;
	default:
		if (sig != SIGTRAP || !is_breakpoint(s))
			break; /* a signal, which it gets */
		if (s->entry_fd < 0)
			return true;
		close_fd(&s->entry_fd);
		find_ends(s);
		sig = 0;
	}
	ptrace(PTRACE_CONT, s->pid, NULL, sig);
	return false;
}

enum command_state stop_at_end__look(struct stop_at_end *s)
{
	int status;

	for (;;) {
		siginfo_t info = { .si_pid = 0 };

		/* The status of its end is not ours. */
		if (waitid(P_PID, (id_t)s->pid, &info,
			   WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) ||
		    !info.si_pid)
			return COMMAND_RUNS;
		if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
			s->traced = false;
			return COMMAND_GONE;
		}
		if (waitpid(s->pid, &status, WNOHANG | __WALL) != s->pid || !WIFSTOPPED(status))
			return COMMAND_RUNS;
		if (on_stop(s, status))
			return COMMAND_AT_END;
	}
}

int stop_at_end__release(struct stop_at_end *s, uint64_t patience_ms)
{
	uint64_t deadline = now_ms() + patience_ms;

	close_places(s);
	/* SIGKILL has ended its stop: it stops once more, where it exits, or has ended. */
	while (s->traced && ptrace(PTRACE_DETACH, s->pid, NULL, NULL)) {
		int err = -errno;

		if (now_ms() >= deadline)
			return err;
		if (stop_at_end__look(s) == COMMAND_RUNS)
			poll(NULL, 0, 1);
	}
	s->traced = false;
	return 0;
}
