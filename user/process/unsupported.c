/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/unsupported.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/foreign.h"
#include "base/opener.h"
#include "base/reader.h"
#include "base/str.h"
#include "process/maps_parse.h"
#include "process/maps_read.h"

#define SCAN_MAX   (256ULL << 20) /* bytes of one file; libpypy has 60 MiB */
#define SCAN_CHUNK (1U << 20)
#define FILES_MAX  256 /* different ones of a process */

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#else
#define OWN_MACHINE EM_AARCH64
#endif

/*
 * Names that end in NUL in the table of symbols, or of strings. In two parts, so that our own
 * program has none of them: _PyEval_EvalFrameDefault is CPython's of 3.6 and later,
 * PyEval_EvalFrameEx of all before 3.11 (Python/ceval.c); rpython_startup_code is of everything
 * that RPython translates, pypy_setup_home of PyPy alone (pypy/goal/ targetpypystandalone.py);
 * QEMU_LD_PREFIX is read by qemu's user emulation only (linux-user/main.c).
 */
static const struct needle {
	const char *begin, *end;
	size_t trait;
} needles[] = {
	{ "_PyEval_", "EvalFrameDefault", offsetof(struct file_traits, cpython) },
	{ "PyEval_", "EvalFrameEx", offsetof(struct file_traits, cpython) },
	{ "pypy_", "setup_home", offsetof(struct file_traits, pypy) },
	{ "QEMU_", "LD_PREFIX", offsetof(struct file_traits, qemu) },
};

#define NEEDLE_MAX 32 /* longer than any */

/* ---- one file -------------------------------------------------------------------------------- */

static bool has_needle(const char *text, size_t len, const struct needle *n)
{
	size_t begin = strlen(n->begin), size = begin + strlen(n->end) + 1;
	const char *at = text;

	while ((at = memmem(at, len - (size_t)(at - text), n->begin, begin))) {
		if (len - (size_t)(at - text) >= size && !memcmp(at + begin, n->end, size - begin))
			return true;
		at++;
	}
	return false;
}

static void scan(const char *text, size_t len, struct file_traits *t)
{
	for (size_t i = 0; i < sizeof(needles) / sizeof(needles[0]); i++) {
		bool *trait = (bool *)((char *)t + needles[i].trait);

		*trait = *trait || has_needle(text, len, &needles[i]);
	}
}

static void read_header(const char *text, size_t len, struct file_traits *t)
{
	const unsigned char *h = (const unsigned char *)text;
	const size_t at = offsetof(Elf32_Ehdr, e_machine); /* Elf64_Ehdr has it there, too */

	if (len < sizeof(Elf32_Ehdr) || memcmp(h, ELFMAG, SELFMAG))
		return;
	t->is_32_bit = h[EI_CLASS] == ELFCLASS32;
	t->machine = h[EI_DATA] == ELFDATA2MSB ? (uint16_t)(h[at] << 8 | h[at + 1])
					       : (uint16_t)(h[at + 1] << 8 | h[at]);
}

int unsupported__read(int fd, struct file_traits *t)
{
	char *text = malloc(NEEDLE_MAX + SCAN_CHUNK);
	size_t kept = 0, len;
	ssize_t n = 0;

	*t = (struct file_traits){ 0 };
	if (!text)
		return -ENOMEM;
	for (uint64_t at = 0; at < SCAN_MAX; at += (uint64_t)n) {
		n = pread(fd, text + kept, SCAN_CHUNK, (off_t)at);
		if (n <= 0)
			break;
		len = kept + (size_t)n;
		if (!at)
			read_header(text, len, t);
		if (!t->machine)
			break;
		scan(text, len, t);
		/* A name may lie across the end. */
		kept = len < NEEDLE_MAX ? len : NEEDLE_MAX;
		memmove(text, text + len - kept, kept);
	}
	n = n < 0 ? -errno : 0;
	free(text);
	return (int)n;
}

/* ---- one process ----------------------------------------------------------------------------- */

struct finding {
	/* Of files; "": there is none. */
	char qemu[PATH_MAX], pypy[PATH_MAX], cpython32[PATH_MAX];
	char out_of_reach[PATH_MAX]; /* a libpython */
	char guest[PATH_MAX];	     /* of another machine, one with CPython if there is one */
	uint16_t guest_machine;
	bool guest_is_cpython;
};

static void take_file(struct finding *f, const struct file_traits *t, const char *name)
{
	if (t->qemu && !*f->qemu)
		snprintf(f->qemu, sizeof(f->qemu), "%s", name);
	if (t->pypy && !*f->pypy)
		snprintf(f->pypy, sizeof(f->pypy), "%s", name);
	else if (t->cpython && t->is_32_bit && !*f->cpython32)
		snprintf(f->cpython32, sizeof(f->cpython32), "%s", name);
	if (t->machine == OWN_MACHINE || (*f->guest && (f->guest_is_cpython || !t->cpython)))
		return;
	snprintf(f->guest, sizeof(f->guest), "%s", name);
	f->guest_machine = t->machine;
	f->guest_is_cpython = t->cpython;
}

/* Takes over `path_fd`, opened with O_PATH, or negative. */
static void look_at_file(struct finding *f, int path_fd, const char *name)
{
	struct file_traits t;
	int fd;

	if (path_fd < 0)
		return;
	fd = foreign__reopen(path_fd);
	close(path_fd);
	if (fd < 0)
		return;
	if (!unsupported__read(fd, &t) && t.machine)
		take_file(f, &t, name);
	close(fd);
}

/* The emulator may lie outside of the process's root. */
static void look_at_program(struct finding *f, int proc_fd)
{
	char name[PATH_MAX];
	ssize_t n = readlinkat(proc_fd, "exe", name, sizeof(name) - 1);

	if (n <= 0)
		return;
	name[n] = '\0';
	look_at_file(f, openat(proc_fd, "exe", O_PATH | O_CLOEXEC), name);
}

/*
 * A libpython whose name leads to another file by now, or to none, as after an upgrade: without a
 * right that we lack nobody can read the one that is mapped. Its contents are not known, so this
 * goes by its name.
 */
static void look_for_libpython(struct finding *f, int proc_fd, const struct map_line *m,
			       const char *path)
{
	const char *base = strrchr(path, '/');
	int fd;

	if (*f->out_of_reach || !m->exec || !base || strncmp(base, "/libpython", 10))
		return;
	fd = foreign__find_mapped(proc_fd, m->start, m->end);
	if (fd == -EPERM || fd == -EACCES)
		snprintf(f->out_of_reach, sizeof(f->out_of_reach), "%s", path);
	if (fd >= 0)
		close(fd);
}

/* Files are mapped in pieces, one behind the other. Those of a guest are not executable for us. */
static void look_at_maps(struct finding *f, int proc_fd, struct strbuf *text)
{
	char path[PATH_MAX], last[PATH_MAX] = "";
	const char *rest = text->s, *line;
	size_t len = text->len, line_len;
	unsigned files = 0;
	struct map_line m;

	while (files < FILES_MAX && maps__next(&rest, &len, &line, &line_len)) {
		if (map_line__parse(&m, line, line_len) || !m.inode ||
		    map_line__path(&m, path, sizeof(path)) < 0)
			continue;
		look_for_libpython(f, proc_fd, &m, path);
		if (!strcmp(path, last))
			continue;
		snprintf(last, sizeof(last), "%s", path);
		look_at_file(f, foreign__find(proc_fd, path), path);
		files++;
	}
}

static const char *machine_name(uint16_t machine)
{
	static const struct {
		uint16_t machine;
		const char *name;
	} names[] = {
		{ EM_386, "i386" },	   { EM_X86_64, "x86-64" }, { EM_ARM, "arm" },
		{ EM_AARCH64, "aarch64" }, { EM_PPC64, "ppc64" },   { EM_S390, "s390x" },
		{ EM_RISCV, "riscv" },	   { EM_MIPS, "mips" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].machine == machine)
			return names[i].name;
	return "another machine";
}

static bool explain(const struct finding *f, char *why)
{
	if (*f->qemu && *f->guest)
		snprintf(why, UNSUPPORTED_LEN,
			 "%s for %s (%.160s) under qemu's user emulation (%.160s), which is not "
			 "supported",
			 f->guest_is_cpython ? "CPython" : "a program",
			 machine_name(f->guest_machine), f->guest, f->qemu);
	else if (*f->pypy)
		snprintf(why, UNSUPPORTED_LEN,
			 "PyPy (%.200s), which is not supported: only CPython is", f->pypy);
	else if (*f->cpython32)
		snprintf(why, UNSUPPORTED_LEN,
			 "32-bit CPython (%.200s), which is not supported: only 64-bit CPython is",
			 f->cpython32);
	else if (*f->out_of_reach)
		snprintf(why, UNSUPPORTED_LEN,
			 "Python whose library (%.200s) was replaced or deleted since it started: "
			 "CAP_CHECKPOINT_RESTORE is needed to read it",
			 f->out_of_reach);
	else
		return false;
	return true;
}

static bool explain_process(pid_t pid, char why[UNSUPPORTED_LEN])
{
	struct finding *f = calloc(1, sizeof(*f));
	struct strbuf text = { 0 };
	int proc_fd = opener__proc_dir((uint32_t)pid);
	bool found = false;

	if (f && proc_fd >= 0 && !read_proc(proc_fd, "maps", &text) && text.len) {
		look_at_program(f, proc_fd);
		look_at_maps(f, proc_fd, &text);
		found = explain(f, why);
	}
	if (proc_fd >= 0)
		close(proc_fd);
	strbuf__free(&text);
	free(f);
	return found;
}

static int answer(struct reader_job *job, bool (*fn)(pid_t pid, char why[UNSUPPORTED_LEN]))
{
	char why[UNSUPPORTED_LEN] = "";
	pid_t pid;

	memcpy(&pid, job->question, sizeof(pid));
	if (!fn(pid, why))
		return -ENOENT;
	memcpy(job->answer, why, sizeof(why));
	return sizeof(why);
}

static int explain_it(struct reader_job *job)
{
	return answer(job, explain_process);
}

READER_JOB(explain_it);

/* 0, or negative errno: the answer is no text. */
static int ask(struct readers *rs, pid_t pid, const struct reader_operation *op,
	       char why[UNSUPPORTED_LEN])
{
	const struct reader_call c = { .whose = { .tgid = (uint32_t)pid },
				       .op = op,
				       .question = &pid,
				       .size = sizeof(pid),
				       .in = -1,
				       .answer = why,
				       .answer_size = UNSUPPORTED_LEN };
	int size = reader__files(rs, &c);

	if (size != UNSUPPORTED_LEN)
		return size < 0 ? size : -EBADMSG;
	why[UNSUPPORTED_LEN - 1] = '\0';
	return 0;
}

bool unsupported__explain(struct readers *rs, pid_t pid, char why[UNSUPPORTED_LEN])
{
	return !ask(rs, pid, &op_explain_it, why);
}

/* ---- files that are not read ----------------------------------------------------------------- */

/* Takes over `path_fd`, of a file that a process maps. False also: it is not there. */
static bool is_unread(int path_fd)
{
	int fd = path_fd < 0 ? path_fd : foreign__reopen_mapped(path_fd);

	if (path_fd >= 0)
		close(path_fd);
	if (fd >= 0)
		close(fd);
	return fd < 0 && fd != -ENOENT;
}

static bool find_unread(int proc_fd, char path[PATH_MAX])
{
	ssize_t n = readlinkat(proc_fd, "exe", path, PATH_MAX - 1);
	struct exec_maps maps = { 0 };
	bool found;

	path[n > 0 ? n : 0] = '\0';
	found = n > 0 && is_unread(openat(proc_fd, "exe", O_PATH | O_CLOEXEC));
	if (!found && exec_maps__read(&maps, proc_fd))
		maps.cnt = 0;
	for (size_t i = 0; i < maps.cnt && i < FILES_MAX && !found; i++) {
		const struct map_line *m = &maps.lines[i];

		found = m->inode && memmem(m->name, m->name_len, "python", 6) &&
			map_line__path(m, path, PATH_MAX) >= 0 &&
			is_unread(foreign__find(proc_fd, path));
	}
	exec_maps__free(&maps);
	return found;
}

static bool name_unread(pid_t pid, char why[UNSUPPORTED_LEN])
{
	int proc_fd = opener__proc_dir((uint32_t)pid);
	char path[PATH_MAX];
	bool found = proc_fd >= 0 && find_unread(proc_fd, path);

	if (found)
		snprintf(
			why, UNSUPPORTED_LEN,
			"its file %.200s " UNSUPPORTED_UNREAD
			", so it is not known whether it is Python: mount the file system as root, "
			"or start it from another one",
			path);
	if (proc_fd >= 0)
		close(proc_fd);
	return found;
}

static int name_unread_of(struct reader_job *job)
{
	return answer(job, name_unread);
}

READER_JOB(name_unread_of);

bool unsupported__unread(struct readers *rs, pid_t pid, char why[UNSUPPORTED_LEN])
{
	int err = ask(rs, pid, &op_name_unread_of, why);

	if (err == -ETIMEDOUT)
		snprintf(why, UNSUPPORTED_LEN,
			 READER_FILES_HANG ", so it is not known whether it is Python: try again "
					   "when they do");
	return !err || err == -ETIMEDOUT;
}
