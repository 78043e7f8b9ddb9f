/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "symbolize/sym_inline.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/foreign.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/resources.h"
#include "base/sanitized.h"
#include "base/selfmem.h"
#include "base/str.h"
#include "symbolize/sym_debugfile.h"
#include "symbolize/symbolize.h"

#define OFFSETS_MAX  (1U << 22)
#define FRAMES_MAX   (1U << 24)
#define ANSWER_BYTES (256U << 20) /* from one child */
#define CHILD_MEMORY (2ULL << 30) /* beyond what it begins with and the size of the file */
#define NOBODY	     65534
#define CHILD_FAILED 100 /* and an errno: its exit status when it could not begin */

/* frames[first .. first + cnt); names are in strings. */
struct place {
	uint64_t offset;
	uint32_t first, cnt;
};

struct stored_frame {
	uint32_t name, file, line, decl_line;
};

struct sym_inline {
	const struct elf_file *ef;
	const struct sym_debugfile_places *debug_places;
	unsigned limit_s;
	bool no_dwarf, warned;
	struct place *places; /* ascending by offset */
	size_t cnt, cap;
	struct stored_frame *stored;
	struct inline_frame *frames; /* the same for the caller, made anew by each load */
	size_t frame_cnt, frame_cap;
	struct strtab *strings;
};

struct sym_inline *sym_inline__new(const struct elf_file *ef)
{
	struct sym_inline *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->ef = ef;
	s->limit_s = INLINE_TIME_S;
	s->strings = strtab__new();
	s->debug_places = &sym_debugfile_default;
	if (!s->strings) {
		sym_inline__free(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

void sym_inline__set_places(struct sym_inline *s, const struct sym_debugfile_places *places)
{
	s->debug_places = places;
}

void sym_inline__set_limit(struct sym_inline *s, unsigned seconds)
{
	s->limit_s = seconds;
}

void sym_inline__free(struct sym_inline *s)
{
	if (!s)
		return;
	strtab__free(s->strings);
	free(s->places);
	free(s->stored);
	free(s->frames);
	free(s);
}

/* ---- The child ---- */

/* Leaves us nothing but memory, some time, two descriptors, and files that everyone may read. */
static void drop_everything(uint64_t file_size, unsigned limit_s)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[2] = { 0 };
	struct self_memory now;

	self_memory(&now);
	if (!SANITIZED) {
		resources__limit(RLIMIT_AS, now.size + file_size + CHILD_MEMORY);
		resources__limit(RLIMIT_FSIZE, 0);
	}
	resources__limit(RLIMIT_CPU, limit_s);
	resources__limit(RLIMIT_CORE, 0);
	resources__limit(RLIMIT_NPROC, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (!geteuid() && (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
			   setresuid(NOBODY, NOBODY, NOBODY)))
		_exit(CHILD_FAILED + EPERM);
	if (syscall(SYS_capset, &header, none))
		_exit(CHILD_FAILED + EPERM);
}

/* The question to one child. */
struct question {
	const struct elf_file *dwarf;
	const uint64_t *addrs; /* ascending */
	size_t cnt;
	unsigned limit_s;
};

/*
 * To open the file may take for ever, and so may closing it: the parent has an end of answers only
 * when both are done, and waits for the child no longer than for them.
 */
static _Noreturn void be_child(const struct question *q)
{
	int fd = CHILD_IN, out = dup(CHILD_OUT);

	if (elf_file__opened(q->dwarf)->may_wait)
		fd = foreign__open_again(CHILD_IN);
	if (fd < 0)
		_exit(CHILD_FAILED - fd);
	drop_everything(elf_file__size(q->dwarf), q->limit_s);
	sym_dwarf__answer(fd, q->addrs, q->cnt, out); /* closes `out` */
	close(fd);
	_exit(0);
}

/* All that the child writes. 0 at its end; -ETIMEDOUT, -EFBIG, -ENOMEM. */
static int read_answers(int fd, unsigned limit_s, struct strbuf *answers)
{
	uint64_t until = now_ms() + limit_s * 1000ULL;
	char buf[65536];

	for (;;) {
		ssize_t n;

		if (child__poll(fd, until))
			return -ETIMEDOUT;
		n = read(fd, buf, sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		strbuf__add(answers, buf, (size_t)n);
		if (answers->err)
			return answers->err;
		if (answers->len > ANSWER_BYTES)
			return -EFBIG;
	}
}

/* 0, or why the answers are not all. */
static int ask(const struct question *q, struct strbuf *answers)
{
	int ends[2], status = 0, err;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	pid = child__fork(elf_file__fd(q->dwarf), ends[1]);
	if (!pid)
		be_child(q);
	err = pid < 0 ? pid : 0;
	close(ends[1]);
	if (!err)
		err = read_answers(ends[0], q->limit_s, answers);
	close(ends[0]);
	if (pid < 0)
		return err;
	status = child__wait(pid, err);
	if (!err && WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		err = -ETIMEDOUT;
	if (!err && WIFEXITED(status) && WEXITSTATUS(status) > CHILD_FAILED)
		err = CHILD_FAILED - WEXITSTATUS(status);
	return err ? err : status ? -EBADMSG : 0;
}

/* ---- Answers ---- */

static int add_frame(struct sym_inline *s, const struct dwarf_frame *f, const char *text)
{
	struct stored_frame *out;

	if (ARRAY_GROW(s->stored, s->frame_cap, s->frame_cnt, FRAMES_MAX))
		return -ENOMEM;
	out = &s->stored[s->frame_cnt++];
	out->name = strtab__add(s->strings, text, f->name_len);
	out->file = strtab__add(s->strings, text + f->name_len, f->file_len);
	out->line = f->line;
	out->decl_line = f->decl_line;
	return (!out->name && f->name_len) || (!out->file && f->file_len) ? -ENOMEM : 0;
}

/*
 * The next answer at *at of `b`, into the place that it is for. 0, -ENOMEM; -EBADMSG: it is cut
 * short.
 */
static int take_answer(struct sym_inline *s, struct place *places, size_t cnt,
		       const struct strbuf *b, size_t *at)
{
	struct dwarf_answer a;
	struct dwarf_frame f;
	struct place *place;
	int err;

	if (b->len - *at < sizeof(a))
		return -EBADMSG;
	memcpy(&a, b->s + *at, sizeof(a));
	*at += sizeof(a);
	if (a.query >= cnt || a.cnt > INLINE_DEPTH_MAX)
		return -EBADMSG;
	place = &places[a.query];
	place->cnt = 0;
	place->first = (uint32_t)s->frame_cnt;
	for (uint32_t i = 0; i < a.cnt; i++) {
		if (b->len - *at < sizeof(f))
			return -EBADMSG;
		memcpy(&f, b->s + *at, sizeof(f));
		*at += sizeof(f);
		if (f.name_len > SYM_NAME_MAX || f.file_len > SYM_NAME_MAX ||
		    f.name_len + f.file_len > b->len - *at)
			return -EBADMSG;
		err = add_frame(s, &f, b->s + *at);
		if (err)
			return err;
		*at += f.name_len + f.file_len;
	}
	place->cnt = a.cnt;
	return 0;
}

static int take_answers(struct sym_inline *s, struct place *places, size_t cnt,
			const struct strbuf *b)
{
	int err = 0;

	for (size_t at = 0; !err && at < b->len;)
		err = take_answer(s, places, cnt, b, &at);
	return err;
}

/* For the caller; strings stay where they are. */
static int make_frames(struct sym_inline *s)
{
	struct inline_frame *frames = realloc(s->frames, (s->frame_cnt + 1) * sizeof(*frames));

	if (!frames)
		return -ENOMEM;
	s->frames = frames;
	for (size_t i = 0; i < s->frame_cnt; i++)
		frames[i] = (struct inline_frame){
			.name = strtab__get(s->strings, s->stored[i].name, NULL),
			.file = strtab__get(s->strings, s->stored[i].file, NULL),
			.line = s->stored[i].line,
			.decl_line = s->stored[i].decl_line,
		};
	return 0;
}

static void warn(struct sym_inline *s, int err, const struct place *places, size_t cnt)
{
	size_t known = 0;

	for (size_t i = 0; i < cnt; i++)
		known += places[i].cnt != 0;
	if (!s->warned)
		log_warn("%s: debug information: %s: inlined functions are known for %zu of %zu "
			 "places",
			 elf_file__path(s->ef),
			 err == -ETIMEDOUT ? "it takes too long to read"
			 : err == -EBADMSG ? "it is damaged"
					   : strerror(-err),
			 known, cnt);
	s->warned = true;
}

static int ask_for(struct sym_inline *s, const struct elf_file *dwarf, struct place *places,
		   size_t cnt)
{
	uint64_t *addrs = calloc(cnt, sizeof(*addrs)), addr;
	const struct question q = {
		.dwarf = dwarf, .addrs = addrs, .cnt = cnt, .limit_s = s->limit_s
	};
	struct strbuf answers = { 0 };
	int err = addrs ? 0 : -ENOMEM, bad;

	/* Segments lie in the order of their addresses, or are not found in sym_dwarf.c. */
	for (size_t i = 0; addrs && i < cnt; i++)
		if (!elf_file__off_to_addr(s->ef, places[i].offset, &addrs[i]))
			addrs[i] = i ? addrs[i - 1] : 0;
	if (!err)
		err = ask(&q, &answers);
	if (err != -ENOMEM) {
		bad = take_answers(s, places, cnt, &answers);
		if (bad == -ENOMEM || !err)
			err = bad;
	}
	for (size_t i = 0; i < cnt; i++) /* it was asked about in the place of another */
		if (!elf_file__off_to_addr(s->ef, places[i].offset, &addr))
			places[i].cnt = 0;
	if (err && err != -ENOMEM)
		warn(s, err, places, cnt);
	strbuf__free(&answers);
	free(addrs);
	return err == -ENOMEM ? err : 0;
}

/* ---- Questions ---- */

static int by_offset(const void *a_, const void *b_)
{
	const struct place *a = a_, *b = b_;

	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static const struct place *find(const struct sym_inline *s, size_t cnt, uint64_t offset)
{
	const struct place key = { .offset = offset };

	return cnt ? bsearch(&key, s->places, cnt, sizeof(key), by_offset) : NULL;
}

/* Adds places for the offsets that have none, sorted, behind the others. */
static int add_places(struct sym_inline *s, const uint64_t *offsets, size_t cnt)
{
	size_t old = s->cnt, kept = old;

	for (size_t i = 0; i < cnt; i++) {
		if (find(s, old, offsets[i]))
			continue;
		if (ARRAY_GROW(s->places, s->cap, s->cnt, OFFSETS_MAX)) {
			s->cnt = old;
			return -ENOMEM;
		}
		s->places[s->cnt++] = (struct place){ .offset = offsets[i] };
	}
	if (s->cnt == old)
		return 0;
	qsort(s->places + old, s->cnt - old, sizeof(*s->places), by_offset);
	for (size_t i = old; i < s->cnt; i++)
		if (kept == old || s->places[i].offset != s->places[kept - 1].offset)
			s->places[kept++] = s->places[i];
	s->cnt = kept;
	return 0;
}

int sym_inline__load(struct sym_inline *s, const uint64_t *offsets, size_t cnt)
{
	struct elf_file *debug = NULL;
	size_t old = s->cnt;
	int err;

	if (s->no_dwarf)
		return 0;
	err = add_places(s, offsets, cnt);
	if (err || s->cnt == old)
		return err;
	if (!elf_file__has(s->ef, ".debug_info")) {
		debug = sym_debugfile__open(s->ef, s->debug_places, ".debug_info");
		if (!debug && errno == ENOMEM) {
			s->cnt = old;
			return -ENOMEM;
		}
		s->no_dwarf = !debug;
	}
	if (!s->no_dwarf && elf_file__fd(debug ? debug : s->ef) >= 0)
		err = ask_for(s, debug ? debug : s->ef, s->places + old, s->cnt - old);
	elf_file__close(debug);
	if (!err)
		err = make_frames(s);
	if (err)
		s->cnt = old;
	qsort(s->places, s->cnt, sizeof(*s->places), by_offset);
	return err;
}

size_t sym_inline__find(const struct sym_inline *s, uint64_t offset,
			const struct inline_frame **frames)
{
	const struct place *place = find(s, s->cnt, offset);

	if (!place || !place->cnt)
		return 0;
	*frames = s->frames + place->first;
	return place->cnt;
}
