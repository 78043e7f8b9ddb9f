/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "symbolize/sym_jit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/idmap.h"
#include "base/log.h"
#include "base/procfield.h"
#include "base/str.h"
#include "base/tenant.h"
#include "process/maps_read.h"
#include "symbolize/jit_codes.h"
#include "symbolize/jit_list.h"
#include "symbolize/symbolize.h"

#define CODES_MAX	(1U << 18) /* functions of one file */
#define CODES_USER	(3U << 17) /* of all files of one user */
#define CODES_ALL	(1U << 19) /* of all users: 20 MiB, and as much while one file is settled */
/* Bytes read of one file in all; the code in a jitdump is not */
#define READ_MAX	(64ULL << 20)
/*
 * CPU time of a round, in which the profiler does nothing else: one file, one user, all; less, if
 * something is due (readers__left()). The rest comes in the next ones.
 */
#define FILE_NS		200000000ULL
#define USER_NS		250000000ULL
#define ROUND_NS	350000000ULL
#define READ_SZ		(64 * 1024)
#define PROCS_MAX	1024	      /* each holds up to three descriptors */
#define LIST_ROUND	(32ULL << 20) /* bytes of objects in the lists of one user, in a round */
#define NAMES_MAX	(64U << 20)
#define NAMES_KEPT	(1U << 20) /* when they are forgotten */
#define TRAMPOLINE	"py::"
#define ORIGINS_MAX	8 /* a child of a child of ... */

/* From the jitdump specification: sizes of records up to the parts that we skip. */
#define DUMP_MAGIC	0x4a695444U /* "JiTD" in our byte order */
#define DUMP_HEADER_MIN 40
#define RECORD_HEADER	16
#define LOAD_FIXED	56 /* RECORD_HEADER, pid, tid, vma, addr, size, index; the name follows */
#define MOVE_FIXED	64 /* RECORD_HEADER, pid, tid, vma, old, new, size, index */

enum record_id {
	JIT_CODE_LOAD = 0,
	JIT_CODE_MOVE = 1,
	JIT_CODE_CLOSE = 3,
};

/* One file, or one list. */
struct source {
	struct opened file;
	dev_t dev;
	ino_t ino;
	uid_t uid;
	bool is_dump, ended;
	uint64_t read_to, read_bytes;
	struct jit_codes codes;
	size_t limit; /* of codes.cnt, in this round */
	uint64_t until_ns;
	uint64_t list;		 /* its address in the process; 0: it is a file */
	struct jit_object known; /* what was the first of the list when it was read */
};

/* In which order an address is looked for. */
enum { DUMP, MAP, FIRST_LIST, SOURCES = FIRST_LIST + SYM_JIT_LISTS };

struct jit_proc {
	uint32_t space, tgid;
	unsigned refs;
	uid_t uid;	 /* whose files it makes */
	uint64_t tenant; /* see tenant__of_process() */
	/* its directory in /proc, valid even if the number is used again; -1: not opened yet */
	int proc_fd;
	struct jit_proc *origin; /* whose code it was forked with; NULL */
	/* How much of the origin's files was written then: what came later is not in this one. */
	uint64_t inherited[SOURCES];
	struct source sources[SOURCES];
	uint64_t round;
};

struct sym_jit {
	struct readers *readers; /* borrowed; may be NULL */
	struct idmap procs;	 /* space -> struct jit_proc */
	struct strtab *names;
	size_t name_bytes;
	uint64_t round;
	struct idmap spent; /* user + 1 -> struct spent, of this round */
	uint64_t spent_ns;  /* of all users */
	bool warned_codes, warned_time;
	uint8_t *buf; /* READ_SZ, of the file at work */
	struct strbuf text;
};

/* Not of the clock: on a busy machine a small file takes long, too. */
static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The cost of one user's files in a round. */
struct spent {
	uint64_t round, ns;
	uint64_t list_bytes;
};

/* ---- What came ---- */

static void warn_codes(struct sym_jit *j, const struct source *s)
{
	if (!j->warned_codes)
		log_warn("generated code: no room for more than %zu functions of a process of user "
			 "%u: the later ones have no names",
			 s->limit, (unsigned int)s->uid);
	j->warned_codes = true;
}

/* False: no more are taken of this file. */
static bool add_code(struct sym_jit *j, struct source *s, const struct jit_code *c)
{
	struct jit_codes *l = &s->codes;

	if (c->end <= c->start) /* nothing, or it overflows */
		return true;
	/*
	 * Most of them may be outdated. Not each time that a few were: to settle costs more than to
	 * read.
	 */
	if (l->cnt >= s->limit && l->cnt - l->settled > s->limit / 4)
		jit_codes__settle(l);
	if (l->cnt >= s->limit || ARRAY_GROW(l->list, l->cap, l->cnt, 2 * CODES_MAX)) {
		warn_codes(j, s);
		s->ended = true;
		return false;
	}
	l->list[l->cnt++] = *c;
	return true;
}

/* ---- Lists ---- */

/* Names that C++ makes of those of numba: "mandel[abi:v1][abi:c8tJT]", "_3clocals_3e". */
static void tidy(struct strbuf *b)
{
	static const struct {
		const char *from, *to;
	} marks[] = { { "_3clocals_3e", "<locals>" }, { "_3cdynamic_3e", "<dynamic>" } };
	char *in = b->s, *out = b->s;

	while (*in) {
		size_t i = 0;

		if (!strncmp(in, "[abi:", strlen("[abi:")) && strchr(in, ']')) {
			in = strchr(in, ']') + 1;
			continue;
		}
		while (i < 2 && strncmp(in, marks[i].from, strlen(marks[i].from)) != 0)
			i++;
		if (i == 2) {
			*out++ = *in++;
			continue;
		}
		memcpy(out, marks[i].to, strlen(marks[i].to));
		out += strlen(marks[i].to);
		in += strlen(marks[i].from);
	}
	*out = '\0';
	b->len = (size_t)(out - b->s);
}

static uint32_t keep_name(struct sym_jit *j, const char *text, size_t len)
{
	uint32_t id;

	if (!len || j->name_bytes > NAMES_MAX)
		return 0;
	id = strtab__add(j->names, text, len);
	if (id == strtab__count(j->names) - 1)
		j->name_bytes += len;
	return id;
}

/* `name` as the compiler made it, of `len` bytes. */
static uint32_t keep_mangled(struct sym_jit *j, const char *name, size_t len)
{
	char mangled[JIT_NAME_MAX + 1];

	memcpy(mangled, name, len);
	mangled[len] = '\0';
	strbuf__clear(&j->text);
	sym_demangle(&j->text, mangled);
	if (j->text.err || !j->text.len)
		return 0;
	tidy(&j->text);
	return keep_name(j, j->text.s, j->text.len);
}

/* The process may end before a name is asked for, so they are kept at once. */
static void add_functions(struct sym_jit *j, struct source *s, const struct jit_functions *fs)
{
	for (uint32_t i = 0; i < fs->cnt; i++) {
		const struct jit_function *f = &fs->functions[i];
		const struct jit_code c = {
			.start = f->start,
			.end = f->end,
			.name = f->name,
			.index = f->len,
			.id = keep_mangled(j, fs->names + f->text, f->len),
		};

		if (!add_code(j, s, &c))
			return;
	}
}

static void read_object(struct sym_jit *j, struct source *s, uint32_t tgid,
			const struct jit_object *o, uint64_t *bytes)
{
	struct jit_functions *fs = (struct jit_functions *)j->buf;
	uint32_t from = 0;

	do {
		*bytes += o->size;
		if (jit_list__functions(j->readers, tgid, o, from, fs))
			return;
		add_functions(j, s, fs);
		from = fs->next;
	} while (from && !s->ended && *bytes < LIST_ROUND);
}

/*
 * Reads the entries since the last round, the latest last: it replaces an earlier one at the same
 * address.
 */
static void read_list(struct sym_jit *j, struct source *s, uint32_t tgid, uint64_t *bytes)
{
	struct jit_objects *found = malloc(sizeof(*found));

	if (found && !jit_list__objects(j->readers, tgid, s->list, &s->known, found) &&
	    found->cnt) {
		for (uint32_t i = found->cnt;
		     i-- && !s->ended && *bytes < LIST_ROUND && cpu_ns() < s->until_ns;) {
			read_object(j, s, tgid, &found->objects[i], bytes);
			s->known = found->objects[i];
		}
	}
	free(found);
}

/* A name that was forgotten, if the process still has it. */
static uint32_t name_again(struct sym_jit *j, const struct jit_proc *p, const struct jit_code *c)
{
	char *text = (char *)j->buf;
	size_t len = c->index < JIT_NAME_MAX ? c->index : JIT_NAME_MAX;

	if (reader__read(j->readers, p->tgid, text, len, c->name))
		return 0;
	return keep_mangled(j, text, strnlen(text, len));
}

/* ---- Reading on ---- */

/*
 * The next piece of the file, from s->read_to on, into j->buf: the number of bytes, 0 at its end,
 * or for now.
 */
static size_t read_on(struct sym_jit *j, struct source *s, size_t size)
{
	ssize_t n;

	if (s->ended || cpu_ns() >= s->until_ns)
		return 0;
	n = opened__read(&s->file, j->buf, size, s->read_to);
	if (n <= 0)
		return 0;
	s->read_bytes += (size_t)n;
	if (s->read_bytes > READ_MAX)
		s->ended = true;
	return (size_t)n;
}

static const char *parse_hex(const char *p, const char *end, uint64_t *value)
{
	const char *first = p;

	if (end - p > 2 && p[0] == '0' && p[1] == 'x') { /* some writers have it */
		p += 2;
		first = p;
	}
	for (*value = 0; p < end && p - first < 16; p++) {
		int digit = *p >= '0' && *p <= '9'   ? *p - '0'
			    : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10
			    : *p >= 'A' && *p <= 'F' ? *p - 'A' + 10
						     : -1;

		if (digit < 0)
			break;
		*value = *value << 4 | (uint64_t)digit;
	}
	return p == first || p == end || *p != ' ' ? NULL : p + 1;
}

/* "START SIZE NAME" at offset `at` of the file. What is no such line is skipped. */
static bool map_line(struct sym_jit *j, struct source *s, const char *line, const char *end,
		     uint64_t at)
{
	struct jit_code c = { 0 };
	const char *p = parse_hex(line, end, &c.start);
	uint64_t size;

	p = p ? parse_hex(p, end, &size) : NULL;
	if (!p || p == end)
		return true;
	c.end = c.start + size;
	c.name = at + (uint64_t)(p - line);
	return add_code(j, s, &c);
}

/* Whole lines; one that is still being written, or has no end, waits for the next round. */
static void read_map(struct sym_jit *j, struct source *s)
{
	bool overlong = false;
	size_t n;

	while ((n = read_on(j, s, READ_SZ))) {
		const char *p = (const char *)j->buf, *end = p + n, *nl;

		for (; (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1) {
			uint64_t at = s->read_to + (uint64_t)(p - (const char *)j->buf);

			if (!overlong && !map_line(j, s, p, nl, at))
				return;
			overlong = false;
		}
		if (p == (const char *)j->buf) { /* no end of line in all of it */
			if (n < READ_SZ)
				return;
			overlong = true;
			p = end;
		}
		s->read_to += (uint64_t)(p - (const char *)j->buf);
	}
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Only of this machine's byte order, which is that of the process. */
static bool dump_header(struct sym_jit *j, struct source *s)
{
	uint32_t size;
	size_t n = read_on(j, s, DUMP_HEADER_MIN);

	if (n < DUMP_HEADER_MIN)
		return false;
	size = get32(j->buf + 8);
	if (get32(j->buf) != DUMP_MAGIC || size < DUMP_HEADER_MIN || size > READ_SZ) {
		s->ended = true;
		return false;
	}
	s->read_to = size;
	return true;
}

/* One record, of which the first `have` bytes are at p. False: the file ends for us. */
static bool dump_record(struct sym_jit *j, struct source *s, const uint8_t *p, size_t have,
			uint64_t at)
{
	uint32_t id = get32(p), size = get32(p + 4);
	struct jit_code c = { 0 };

	if (id == JIT_CODE_LOAD && size > LOAD_FIXED && have >= LOAD_FIXED) {
		c = (struct jit_code){ .start = get64(p + 32),
				       .end = get64(p + 32) + get64(p + 40),
				       .index = get64(p + 48),
				       .name = at + LOAD_FIXED };
	} else if (id == JIT_CODE_MOVE && size >= MOVE_FIXED && have >= MOVE_FIXED) {
		/* Nothing is at its old place now. */
		c = (struct jit_code){ .start = get64(p + 32),
				       .end = get64(p + 32) + get64(p + 48),
				       .index = UINT64_MAX };
		if (!add_code(j, s, &c))
			return false;
		c = (struct jit_code){ .start = get64(p + 40),
				       .end = get64(p + 40) + get64(p + 48),
				       .index = get64(p + 56),
				       .id = ID_MOVED };
		s->codes.moves = true;
	} else if (id == JIT_CODE_CLOSE) {
		s->ended = true;
		return false;
	} else {
		return true;
	}
	return add_code(j, s, &c);
}

/* Whole records. The code in them is stepped over. */
static void read_dump(struct sym_jit *j, struct source *s)
{
	size_t n, at;
	struct stat st;

	if (opened__stat(&s->file, &st) || (!s->read_to && !dump_header(j, s)))
		return;
	while ((n = read_on(j, s, 4096)) >= RECORD_HEADER) {
		for (at = 0; n - at >= RECORD_HEADER;) {
			uint32_t size = get32(j->buf + at + 4);

			if (size < RECORD_HEADER) {
				s->ended = true;
				return;
			}
			if (size > (uint64_t)st.st_size - s->read_to)
				return; /* still being written */
			if (n - at < MOVE_FIXED && n - at < size && at)
				break; /* read it again, as the first */
			if (!dump_record(j, s, j->buf + at, n - at, s->read_to))
				return;
			s->read_to += size;
			if (size > n - at)
				break;
			at += size;
		}
		if (s->read_to >= (uint64_t)st.st_size)
			return;
	}
}

/* Functions that are kept of a user's files, or of all. */
static size_t count_codes(const struct sym_jit *j, const uid_t *uid)
{
	const struct jit_proc *p;
	size_t cnt = 0;

	for (size_t at = 0; (p = idmap__next(&j->procs, &at));)
		for (int i = 0; i < SOURCES; i++)
			cnt += !uid || p->sources[i].uid == *uid ? p->sources[i].codes.cnt : 0;
	return cnt;
}

static size_t room_of(size_t max, size_t used)
{
	return used < max ? max - used : 0;
}

static void set_limit(const struct sym_jit *j, struct source *s)
{
	size_t of_user = room_of(CODES_USER, count_codes(j, &s->uid));
	size_t of_all = room_of(CODES_ALL, count_codes(j, NULL));
	size_t more = of_user < of_all ? of_user : of_all;

	s->limit = s->codes.cnt + more < CODES_MAX ? s->codes.cnt + more : CODES_MAX;
}

/* The cost of a user's files in this round. NULL: no memory. */
static struct spent *spent_by(struct sym_jit *j, uid_t uid)
{
	struct spent *spent = idmap__get(&j->spent, (uint64_t)uid + 1);

	if (!spent) {
		spent = calloc(1, sizeof(*spent));
		if (!spent || idmap__set(&j->spent, (uint64_t)uid + 1, spent)) {
			free(spent);
			return NULL;
		}
	}
	if (spent->round != j->round)
		*spent = (struct spent){ .round = j->round };
	return spent;
}

static void free_spent(struct sym_jit *j)
{
	struct spent *spent;

	for (size_t at = 0; (spent = idmap__next(&j->spent, &at));)
		free(spent);
	idmap__free(&j->spent);
}

/* Until when a file of the user may be read. */
static uint64_t deadline(const struct sym_jit *j, const struct spent *spent, uint64_t now)
{
	size_t room = room_of(USER_NS, spent->ns), of_all = room_of(ROUND_NS, j->spent_ns);

	room = room < of_all ? room : of_all;
	return now + (room < FILE_NS ? room : FILE_NS);
}

static void warn_time(struct sym_jit *j, const struct source *s)
{
	if (!j->warned_time)
		log_warn(
			"generated code: the files of user %u take long to read: some of it has no "
			"names yet",
			(unsigned int)s->uid);
	j->warned_time = true;
}

static bool is_there(const struct source *s)
{
	return s->list || s->file.fd >= 0;
}

static void read_source(struct sym_jit *j, struct source *s, const struct jit_proc *p)
{
	struct spent *spent = !is_there(s) || s->ended ? NULL : spent_by(j, s->uid);
	uint64_t start = cpu_ns(), left, took;

	if (!spent)
		return;
	set_limit(j, s);
	left = readers__left(j->readers, p->tenant);
	s->until_ns = deadline(j, spent, start);
	s->until_ns = left < s->until_ns - start ? start + left : s->until_ns;
	if (s->list)
		read_list(j, s, p->tgid, &spent->list_bytes);
	else if (s->is_dump)
		read_dump(j, s);
	else
		read_map(j, s);
	if (cpu_ns() >= s->until_ns)
		warn_time(j, s);
	jit_codes__settle(&s->codes);
	took = cpu_ns() - start;
	spent->ns += took;
	j->spent_ns += took;
	readers__spent(j->readers, p->tenant, took);
}

/* The name of `c`, as far as it can be read, as an id. 0: none. */
static uint32_t name_in_file(struct sym_jit *j, const struct source *s, const struct jit_code *c)
{
	char *text = (char *)j->buf, *end;
	ssize_t n;

	n = opened__read(&s->file, text, SYM_NAME_MAX, c->name);
	if (n <= 0)
		return 0;
	end = memchr(text, s->is_dump ? '\0' : '\n', (size_t)n);
	return keep_name(j, text, end ? (size_t)(end - text) : (size_t)n);
}

static uint32_t name_of(struct sym_jit *j, const struct jit_proc *p, const struct source *s,
			struct jit_code *c)
{
	if (!c->id)
		c->id = s->list ? name_again(j, p, c) : name_in_file(j, s, c);
	return c->id;
}

/* ---- Files of a process ---- */

static void source__open(struct source *s, struct opened file, const struct stat *st, bool is_dump)
{
	*s = (struct source){ .file = file,
			      .dev = st->st_dev,
			      .ino = st->st_ino,
			      .uid = st->st_uid,
			      .is_dump = is_dump };
}

static void source__close(struct source *s)
{
	opened__close(&s->file);
	free(s->codes.list);
	*s = (struct source){ .file = OPENED_NONE };
}

/*
 * Reads the number of a process in its innermost pid namespace, and the user that its files belong
 * to.
 */
static int read_status(struct sym_jit *j, int proc_fd, unsigned *pid, uid_t *uid)
{
	const char *line, *last;
	struct proc_ids ids;
	int err = read_proc(proc_fd, "status", &j->text);

	if (err || !j->text.len)
		return err ? err : -ESRCH;
	line = procfield__find(j->text.s, "Uid");
	if (!line || !procfield__ids(line, &ids))
		return -EINVAL;
	*uid = ids.files;
	line = procfield__find(j->text.s, "NSpid");
	if (!line)
		return -EINVAL;
	last = line + strcspn(line, "\n");
	while (last[-1] >= '0' && last[-1] <= '9')
		last--;
	return sscanf(last, "%u", pid) == 1 ? 0 : -EINVAL;
}

static void open_map(struct sym_jit *j, struct jit_proc *p)
{
	struct opened file;
	char name[64];
	struct stat st;
	unsigned pid;
	uid_t uid;
	int err;

	if (p->sources[MAP].file.fd >= 0 || p->proc_fd < 0 ||
	    read_status(j, p->proc_fd, &pid, &uid))
		return;
	p->uid = uid;
	snprintf(name, sizeof(name), "perf-%u.map", pid);
	err = opener__find_plain(j->readers, p->tenant, p->proc_fd, "tmp", name, uid, &file);
	if (err == -EPERM)
		log_debug("/tmp/%s: not a file of user %u", name, uid);
	if (err)
		return;
	if (opened__stat(&file, &st))
		opened__close(&file);
	else
		source__open(&p->sources[MAP], file, &st, false);
}

static void open_dump(struct jit_proc *p, struct opened dump)
{
	struct source *s = &p->sources[DUMP];
	struct stat st;

	if (dump.fd < 0)
		return;
	if (opened__stat(&dump, &st) || !S_ISREG(st.st_mode) ||
	    (s->file.fd >= 0 && s->dev == st.st_dev && s->ino == st.st_ino)) {
		opened__close(&dump);
		return;
	}
	source__close(s);
	source__open(s, dump, &st, true);
}

/* ---- Processes ---- */

static struct jit_proc *get_proc(struct sym_jit *j, uint32_t space)
{
	struct jit_proc *p = idmap__get(&j->procs, space);

	if (p || j->procs.cnt >= PROCS_MAX)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	*p = (struct jit_proc){ .space = space, .refs = 1, .proc_fd = -1 };
	for (int i = 0; i < SOURCES; i++)
		p->sources[i].file = OPENED_NONE;
	if (idmap__set(&j->procs, space, p)) {
		free(p);
		return NULL;
	}
	return p;
}

static void put_proc(struct jit_proc *p)
{
	struct jit_proc *origin;

	for (; p && !--p->refs; p = origin) {
		origin = p->origin;
		for (int i = 0; i < SOURCES; i++)
			source__close(&p->sources[i]);
		if (p->proc_fd >= 0)
			close(p->proc_fd);
		free(p);
	}
}

static bool has_file(const struct jit_proc *p)
{
	for (int i = 0; i < SOURCES; i++)
		if (is_there(&p->sources[i]))
			return true;
	return false;
}

void sym_jit__look(struct sym_jit *j, uint32_t space, uint32_t tgid, int proc_fd,
		   struct opened dump)
{
	struct jit_proc *p = get_proc(j, space);

	if (!p) {
		opened__close(&dump);
		return;
	}
	if (p->proc_fd < 0) {
		p->proc_fd = fcntl(proc_fd, F_DUPFD_CLOEXEC, 0);
		p->tenant = tenant__of_process(tgid);
		p->tgid = tgid;
	}
	open_dump(p, dump);
	open_map(j, p);
}

void sym_jit__add_list(struct sym_jit *j, uint32_t space, uint64_t list)
{
	struct jit_proc *p = idmap__get(&j->procs, space);

	for (int i = FIRST_LIST; p && i < SOURCES; i++) {
		struct source *s = &p->sources[i];

		if (s->list == list)
			return;
		if (s->list)
			continue;
		*s = (struct source){ .file = OPENED_NONE, .list = list, .uid = p->uid };
		return;
	}
}

/*
 * Of a chain that is too long the whole is not kept: its processes may have ended, and each holds
 * its files.
 */
static bool has_room_behind(const struct jit_proc *p)
{
	int depth = 0;

	for (; p && depth < ORIGINS_MAX; p = p->origin)
		depth++;
	return depth < ORIGINS_MAX;
}

void sym_jit__fork(struct sym_jit *j, uint32_t child, uint32_t parent)
{
	struct jit_proc *from = idmap__get(&j->procs, parent), *p;
	const uint64_t *inherited = NULL;
	struct stat st;

	if (!from || !(p = get_proc(j, child)) || p->origin || p == from)
		return;
	if (!has_file(from) && from->origin) {
		inherited = from->inherited;
		from = from->origin;
	}
	if (!has_room_behind(from))
		return;
	for (int i = 0; i < SOURCES; i++) {
		p->inherited[i] = inherited ? inherited[i] : UINT64_MAX;
		if (!inherited && from->sources[i].file.fd >= 0 &&
		    !opened__stat(&from->sources[i].file, &st))
			p->inherited[i] = (uint64_t)st.st_size;
	}
	from->refs++;
	p->origin = from;
}

bool sym_jit__has_procs(const struct sym_jit *j)
{
	return j->procs.cnt;
}

void sym_jit__forget(struct sym_jit *j, uint32_t space)
{
	struct jit_proc *p = idmap__get(&j->procs, space);

	if (!p)
		return;
	idmap__remove(&j->procs, space);
	put_proc(p);
}

struct sym_jit *sym_jit__new(struct readers *rs)
{
	struct sym_jit *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->readers = rs;
	j->names = strtab__new();
	j->buf = malloc(READ_SZ);
	if (!j->names || !j->buf) {
		sym_jit__free(j);
		errno = ENOMEM;
		return NULL;
	}
	return j;
}

void sym_jit__free(struct sym_jit *j)
{
	struct jit_proc *p;

	if (!j)
		return;
	for (size_t at = 0; (p = idmap__next(&j->procs, &at));)
		put_proc(p);
	idmap__free(&j->procs);
	free_spent(j);
	strtab__free(j->names);
	strbuf__free(&j->text);
	free(j->buf);
	free(j);
}

static void forget_ids(struct source *s)
{
	for (size_t i = 0; i < s->codes.cnt; i++) {
		if (s->codes.list[i].id != ID_MOVED)
			s->codes.list[i].id = 0;
	}
}

void sym_jit__forget_names(struct sym_jit *j)
{
	struct strtab *fresh = j->name_bytes > NAMES_KEPT ? strtab__new() : NULL;
	struct jit_proc *p;

	if (!fresh)
		return;
	for (size_t at = 0; (p = idmap__next(&j->procs, &at));) {
		for (; p; p = p->origin)
			for (int i = 0; i < SOURCES; i++)
				forget_ids(&p->sources[i]);
	}
	strtab__free(j->names);
	j->names = fresh;
	j->name_bytes = 0;
}

/* ---- Answers ---- */

void sym_jit__begin(struct sym_jit *j)
{
	j->round++;
	j->spent_ns = 0;
	if (j->spent.cnt > PROCS_MAX)
		free_spent(j);
}

static void refresh(struct sym_jit *j, struct jit_proc *p)
{
	if (p->round == j->round)
		return;
	p->round = j->round;
	open_map(j, p); /* it may have come after the memory */
	for (int i = 0; i < SOURCES; i++)
		read_source(j, &p->sources[i], p);
}

/* In the files of `p`, as far as they were written when what `limits` belongs to was forked. */
static struct jit_code *find_in(struct jit_proc *p, const uint64_t *limits, uint64_t addr,
				struct source **source)
{
	for (int i = 0; i < SOURCES; i++) {
		struct jit_code *c = jit_codes__find(&p->sources[i].codes, addr);

		/* A list is memory: a child has its own. */
		if (c && (!limits || p->sources[i].list || c->name < limits[i])) {
			*source = &p->sources[i];
			return c;
		}
	}
	return NULL;
}

uint32_t sym_jit__find(struct sym_jit *j, uint32_t space, uint64_t addr)
{
	struct jit_proc *p = idmap__get(&j->procs, space);
	const uint64_t *limits = NULL;
	struct source *source;
	struct jit_code *c;

	for (int i = 0; p && i < ORIGINS_MAX; i++) {
		refresh(j, p);
		c = find_in(p, limits, addr, &source);
		if (c)
			return name_of(j, p, source, c);
		limits = p->inherited;
		p = p->origin;
	}
	return 0;
}

const char *sym_jit__name(const struct sym_jit *j, uint32_t id)
{
	return strtab__get(j->names, id, NULL);
}

bool sym_jit__is_trampoline(const struct sym_jit *j, uint32_t space, uint32_t id)
{
	const struct jit_proc *p = id ? NULL : idmap__get(&j->procs, space);

	for (int i = 0; p && i < ORIGINS_MAX; i++, p = p->origin)
		if (p->sources[DUMP].file.fd >= 0)
			return true;
	if (!id)
		return false;
	return !strncmp(sym_jit__name(j, id), TRAMPOLINE, strlen(TRAMPOLINE));
}
