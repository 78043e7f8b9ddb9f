/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "import/import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/log.h"
#include "import/import_build.h"

#define READ_SIZE    65536
#define GZIP_WINDOW  (15 + 16) /* zlib: the largest window, gzip's header */
#define LOOK_AT_SIZE 4096      /* bytes that decide whether a file is text */
/*
 * Bounds on memory, a hundred times what a busy machine gives: a stack takes 80 bytes, a frame 12.
 */
#define STACKS_MAX   (1U << 22)
#define FRAMES_MAX   (1U << 25)

struct import *import__new(const struct import_opts *o)
{
	struct import *im = calloc(1, sizeof(*im));

	if (!im)
		return NULL;
	im->o = *o;
	im->key = hash_key();
	im->p = profile__new();
	im->procs = strtab__new();
	if (!im->p || !im->procs) {
		import__free(im);
		errno = ENOMEM;
		return NULL;
	}
	return im;
}

void import__free(struct import *im)
{
	if (!im)
		return;
	profile__free(im->p);
	strtab__free(im->procs);
	hash_index__free(&im->syms);
	hash_index__free(&im->modules);
	strbuf__free(&im->scratch);
	free(im->words);
	free(im);
}

int import_bad(const struct import *im, const char *fmt, ...)
{
	char why[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	log_err("%s: %s", im->path, why);
	return -EBADMSG;
}

/* ---- Equal things become one ---- */

static bool same_sym(const struct sym *a, const struct sym *b)
{
	return a->kind == b->kind && a->flags == b->flags && a->func == b->func &&
	       a->file == b->file && a->line == b->line && a->start_line == b->start_line &&
	       a->module == b->module && a->addr == b->addr && a->inlined == b->inlined;
}

int import_sym(struct import *im, const struct sym *s)
{
	/* Not the struct itself: it has padding. */
	const uint64_t parts[] = {
		(uint64_t)s->kind << 40 | (uint64_t)s->flags << 32 | s->func,
		(uint64_t)s->file << 32 | s->line,
		(uint64_t)s->start_line << 32 | (uint32_t)s->module,
		s->addr,
		(uint32_t)s->inlined,
	};
	uint64_t hash = hash_bytes(&im->key, parts, sizeof(parts));
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&im->syms, hash, &at)) != HASH_NONE;)
		if (same_sym(&im->p->syms[i], s))
			return (int)i;
	if (im->p->sym_cnt >= INT32_MAX ||
	    hash_index__add(&im->syms, hash, (uint32_t)im->p->sym_cnt))
		return -ENOMEM;
	return profile__add_sym(im->p, s);
}

int import_module(struct import *im, const struct profile_module *m)
{
	const uint64_t parts[] = { (uint64_t)m->path << 32 | m->build_id, m->start, m->limit };
	uint64_t hash = hash_bytes(&im->key, parts, sizeof(parts));
	struct profile_module copy = *m;
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&im->modules, hash, &at)) != HASH_NONE;) {
		const struct profile_module *known = &im->p->modules[i];

		if (known->path == m->path && known->build_id == m->build_id &&
		    known->start == m->start && known->limit == m->limit)
			return (int)i;
	}
	if (im->p->module_cnt >= INT32_MAX ||
	    hash_index__add(&im->modules, hash, (uint32_t)im->p->module_cnt))
		return -ENOMEM;
	copy.file = (uint32_t)im->p->module_cnt + 1;
	return profile__add_module(im->p, &copy);
}

/* As little is left of the process as is true of all of them. False: no memory. */
static bool give_to_owner(struct import *im, struct profile_proc *proc)
{
	str_id name = profile__intern_z(im->p, im->owner);

	*proc = (struct profile_proc){ .comm = name, .title = name };
	return name;
}

static bool merges_processes(const struct import *im)
{
	return im->o.merge_processes || im->owner;
}

int import_proc(struct import *im, struct profile_proc *proc, uint64_t life)
{
	str_id name;
	uint32_t number;
	int known;

	if (im->owner && !give_to_owner(im, proc))
		return -ENOMEM;
	name = profile_proc__name(proc);
	if (merges_processes(im)) {
		proc->tgid = 0;
		proc->container = 0;
		strbuf__add(&im->scratch, &name, sizeof(name));
	} else {
		const str_id all[] = { proc->comm,   proc->title,	proc->exe, proc->container,
				       proc->python, proc->native_only, proc->tgid };

		strbuf__add(&im->scratch, all, sizeof(all));
		strbuf__add(&im->scratch, &life, sizeof(life));
	}
	number = im->scratch.err ? 0 : strtab__add(im->procs, im->scratch.s, im->scratch.len);
	strbuf__clear(&im->scratch);
	if (!number)
		return -ENOMEM;
	known = profile__find_proc(im->p, number);
	if (known >= 0)
		return known;
	proc->space = number;
	return profile__add_proc(im->p, proc);
}

int import_thread(struct import *im, int proc, uint32_t tid, str_id name)
{
	const struct profile_thread thread = { im->p->procs[proc].space, THREAD_TID(tid), name };

	if (!tid || im->o.merge_threads || merges_processes(im))
		return 0;
	im->has_threads = true;
	return name && profile__add_thread(im->p, &thread) < 0 ? -ENOMEM : 0;
}

static const uint32_t frame_tags[] = {
	[SYM_PYTHON] = FRAME_PYTHON, [SYM_NATIVE] = FRAME_NATIVE, [SYM_KERNEL] = FRAME_KERNEL,
	[SYM_MARKER] = FRAME_MARKER, [SYM_PLAIN] = FRAME_NATIVE,
};

/* Samples of this file in samples of the frequency that is counted in. */
static uint64_t scale(struct import *im, uint64_t count)
{
	uint32_t hz = im->stats.values[0].frequency_hz;
	uint64_t parts;

	if (!im->as_hz || !hz || hz == im->as_hz || count > UINT64_MAX / im->as_hz / 2)
		return count;
	parts = count * im->as_hz + im->carry;
	im->carry = parts % hz;
	return parts / hz;
}

/* Shares are of sums, which must not begin anew. 0, or -EBADMSG after a message. */
static int add_up(struct import *im, uint32_t type, uint64_t samples, uint64_t count)
{
	uint64_t more = samples > count ? samples : count;

	if (more > UINT64_MAX - im->sums[type])
		return import_bad(im, "counts add up to more than 64 bits hold");
	im->sums[type] += more;
	return 0;
}

int import_stack(struct import *im, uint32_t type, int proc, uint32_t tid, const uint32_t *syms,
		 size_t cnt, uint64_t samples, uint64_t count)
{
	uint32_t max_frames = im->o.max_frames ? im->o.max_frames : FRAMES_MAX;
	int stack, err;

	if (im->p->stack_cnt >= STACKS_MAX || im->p->frame_cnt + cnt > max_frames) {
		import_bad(im, "more than %u different stacks, or %u frames in them", STACKS_MAX,
			   max_frames);
		return -E2BIG;
	}
	if (im->o.merge_threads || merges_processes(im))
		tid = 0;
	if (!type)
		count = scale(im, count);
	if (!count)
		return 0;
	err = add_up(im, type, samples, count);
	if (err)
		return err;
	if (array_grow(&im->words, &im->word_cap, 0, cnt, sizeof(*im->words), UINT32_MAX))
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++)
		im->words[i] = FRAME_WORD(frame_tags[im->p->syms[syms[i]].kind], syms[i]);
	stack = profile__add_value(im->p, type, (uint32_t)proc, tid, im->words, cnt, samples,
				   count);
	return stack < 0 ? -ENOMEM : 0;
}

/* ---- Files ---- */

struct bytes {
	uint8_t *data;
	size_t size, cap;
};

static int room(struct bytes *b, size_t more)
{
	if (b->size + more > IMPORT_MAX_SIZE)
		return -EFBIG;
	return array_grow(&b->data, &b->cap, b->size, more, 1, IMPORT_MAX_SIZE);
}

static int read_all(const char *path, struct bytes *b)
{
	int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	ssize_t n;
	int err;

	if (fd < 0)
		return -errno;
	do {
		err = room(b, READ_SIZE);
		if (err)
			break;
		n = read(fd, b->data + b->size, READ_SIZE);
		if (n > 0)
			b->size += (size_t)n;
		else if (n < 0 && errno != EINTR)
			err = -errno;
	} while (!err && n);
	if (fd != STDIN_FILENO)
		close(fd);
	return err;
}

/* One gzip member after the other, as gzip -d does. -EBADMSG: not gzip, or damaged, or cut. */
static int inflate_all(z_stream *z, struct bytes *out)
{
	int ret = Z_OK, err;

	while (ret != Z_STREAM_END || z->avail_in) {
		if (ret == Z_STREAM_END && inflateReset(z) != Z_OK)
			return -EBADMSG;
		err = room(out, READ_SIZE);
		if (err)
			return err;
		z->next_out = out->data + out->size;
		z->avail_out = READ_SIZE;
		ret = inflate(z, Z_NO_FLUSH);
		if (ret == Z_MEM_ERROR)
			return -ENOMEM;
		if (ret != Z_OK && ret != Z_STREAM_END) /* Z_BUF_ERROR: the input ends early */
			return -EBADMSG;
		out->size += READ_SIZE - z->avail_out;
	}
	return 0;
}

static bool is_gzip(const uint8_t *data, size_t size)
{
	return size > 2 && data[0] == 0x1f && data[1] == 0x8b;
}

/* Unpacks `data`. The caller frees the result, also after an error. */
static int gunzip(const uint8_t *data, size_t size, struct bytes *out)
{
	z_stream z = { .next_in = (uint8_t *)data, .avail_in = (uInt)size };
	int err;

	if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
		return -ENOMEM;
	err = inflate_all(&z, out);
	inflateEnd(&z);
	return err;
}

static const char *reason(int err)
{
	switch (err) {
	case -EFBIG:
		return "larger than 256 MiB, unpacked";
	case -EBADMSG:
		return "damaged: gzip cannot unpack it";
	default:
		return strerror(-err);
	}
}

static bool ends_with(const char *s, const char *end)
{
	size_t len = strlen(s), end_len = strlen(end);

	return len >= end_len && !strcmp(s + len - end_len, end);
}

/* A pprof message begins with a tag and a length, which are control characters. */
static bool is_text(const struct import *im, const uint8_t *data, size_t size)
{
	size_t len = size < LOOK_AT_SIZE ? size : LOOK_AT_SIZE;

	if (ends_with(im->path, ".folded") || ends_with(im->path, ".collapsed"))
		return true;
	for (size_t i = 0; i < len; i++)
		if (data[i] < ' ' && !memchr("\t\n\r", data[i], 3))
			return false;
	return true;
}

/* ---- Adding up ---- */

static uint32_t values_of(const struct profile_stats *s)
{
	return s->value_cnt ? s->value_cnt : 1;
}

/* False after a message. */
static bool same_values(struct import *im, const struct profile_stats *s,
			const struct profile_stats *before)
{
	for (uint32_t i = 0; i < values_of(s) && i < values_of(before); i++) {
		const struct value_type *v = &s->values[i], *was = &before->values[i];

		if (value_type__same(v, was))
			continue;
		import_bad(im, "counts %s, the file before it %s: they cannot be added up",
			   value_type__noun(v, 2), value_type__noun(was, 2));
		return false;
	}
	if (values_of(s) == values_of(before))
		return true;
	import_bad(im, "has %" PRIu32 " value types, the file before it %" PRIu32, values_of(s),
		   values_of(before));
	return false;
}

/* Samples count for 1 / frequency each, so those of different frequencies cannot be added. */
static int add_stats(struct import *im)
{
	struct profile_stats *to = &im->p->stats;
	struct profile_stats *s = &im->stats;

	if (im->as_hz && s->values[0].frequency_hz && s->values[0].frequency_hz != im->as_hz) {
		s->values[0].frequency_hz = im->as_hz;
		im->unaccounted = true;
	}
	if (im->file_cnt++ && to->values[0].frequency_hz != s->values[0].frequency_hz)
		return import_bad(im,
				  "sampled at %" PRIu32 " Hz, the file before it at %" PRIu32
				  " Hz: their samples cannot be added up",
				  s->values[0].frequency_hz, to->values[0].frequency_hz);
	if (im->file_cnt > 1 && !same_values(im, s, to))
		return -EBADMSG;
	for (size_t i = 0; i < CTR_CNT; i++)
		to->counters[i] += s->counters[i];
	if (!to->start_unix_ns || (s->start_unix_ns && s->start_unix_ns < to->start_unix_ns))
		to->start_unix_ns = s->start_unix_ns;
	to->duration_ns += s->duration_ns;
	memcpy(to->values, s->values, sizeof(to->values));
	to->value_cnt = s->value_cnt;
	to->slowed = s->slowed > to->slowed ? s->slowed : to->slowed;
	to->cpus = s->cpus > to->cpus ? s->cpus : to->cpus;
	to->ready_ns += s->ready_ns;
	to->throttled_ns += s->throttled_ns;
	to->self_cpu_ns += s->self_cpu_ns;
	to->bpf_ns += s->bpf_ns;
	to->bpf_runs += s->bpf_runs;
	to->rss_bytes = s->rss_bytes > to->rss_bytes ? s->rss_bytes : to->rss_bytes;
	to->map_bytes = s->map_bytes > to->map_bytes ? s->map_bytes : to->map_bytes;
	im->unaccounted |= !s->counters[CTR_delivered];
	return 0;
}

/* Formats of others that cannot be read, by their first bytes, and what to do. */
static int known_but_not_read(const struct import *im, const uint8_t *data, size_t size)
{
	static const struct {
		const char *magic, *say;
	} formats[] = {
		{ "PERFILE2", "a file of perf record: 'perf script -i FILE > x.txt' makes one that "
			      "can be read" },
		{ "MOJ", "austin's binary format: 'mojo2austin FILE x.austin' (of the package "
			 "austin-python) makes one that can be read" },
		{ "HCAT", "the binary format of CPython's profiling.sampling: 'python -m "
			  "profiling.sampling replay --collapsed -o x.txt FILE' makes one that can "
			  "be read" },
		{ "TACH", "the binary format of CPython's profiling.sampling, of another machine: "
			  "'replay --collapsed' it there" },
		{ "SQLite format 3", "a database of SQLite: not a profile" },
		{ "<!DOCTYPE", "a page: " IMPORT_READ },
		{ "<!doctype", "a page: " IMPORT_READ },
		{ "<?xml", "a picture or other XML: " IMPORT_READ },
		{ "<svg", "a picture: " IMPORT_READ },
	};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		size_t len = strlen(formats[i].magic);

		if (size >= len && !memcmp(data, formats[i].magic, len))
			return import_bad(im, "%s", formats[i].say);
	}
	return 0;
}

/* The first character that is no blank; 0: none. */
static char first_of(const char *text, size_t size)
{
	size_t i = 0;

	while (i < size && i < LOOK_AT_SIZE && strchr(" \t\r\n", text[i]))
		i++;
	return i < size ? text[i] : '\0';
}

static int read_profile(struct import *im, const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;

	if (!is_text(im, data, size))
		return import_pprof(im, data, size);
	if (first_of(text, size) == '{')
		return import_speedscope(im, text, size);
	if (size > 1 && !memcmp(text, "[{", 2))
		return import_bad(im, "a trace of Chrome's kind: " IMPORT_READ);
	if (import_is_perf(text, size))
		return import_perf(im, text, size);
	return import_folded(im, text, size);
}

static int parse(struct import *im, const uint8_t *data, size_t size)
{
	int err;

	if (!size)
		return import_bad(im, "empty: not a profile");
	err = known_but_not_read(im, data, size);
	if (!err)
		err = read_profile(im, data, size);
	if (err == -ENOMEM)
		log_err("%s: out of memory", im->path);
	return err ? err : add_stats(im);
}

static int failed(const struct import *im, int err)
{
	log_err("%s: %s", im->path, reason(err));
	return err;
}

int import__add_data(struct import *im, const char *name, const void *data, size_t size)
{
	struct bytes b = { 0 };
	int err;

	im->path = name;
	im->stats = (struct profile_stats){ 0 };
	im->carry = 0;
	if (size > IMPORT_MAX_SIZE)
		return failed(im, -EFBIG);
	if (!is_gzip(data, size))
		return parse(im, data, size);
	err = gunzip(data, size, &b);
	err = err ? failed(im, err) : parse(im, b.data, b.size);
	free(b.data);
	return err;
}

int import__add(struct import *im, const char *path)
{
	struct bytes b = { 0 };
	int err = read_all(path, &b);

	im->path = strcmp(path, "-") ? path : "standard input";
	err = err ? failed(im, err) : import__add_data(im, im->path, b.data, b.size);
	free(b.data);
	return err;
}

void import__set_frequency(struct import *im, uint32_t hz)
{
	im->as_hz = hz;
}

void import__set_owner(struct import *im, const char *name)
{
	im->owner = name;
}

int import__finish(struct import *im)
{
	struct profile *p = im->p;

	if (im->unaccounted)
		memset(p->stats.counters, 0, sizeof(p->stats.counters));
	free(p->frame_syms);
	p->frame_syms = calloc(p->frame_cnt + 1, sizeof(*p->frame_syms));
	if (!p->frame_syms)
		return log_no_memory();
	for (size_t i = 0; i < p->frame_cnt; i++)
		p->frame_syms[i] = (uint32_t)(p->frames[i] & FRAME_PAYLOAD);
	return 0;
}

struct profile *import__profile(struct import *im)
{
	return im->p;
}

bool import__has_lines(const struct import *im)
{
	return im->has_lines;
}

bool import__has_threads(const struct import *im)
{
	return im->has_threads;
}
