/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * stage    symbolize, in user space, after sampling or at the end of a window
 * input    a profile without names; the ELF files and code objects that were seen
 * output   one struct sym per distinct frame, frame_syms[] parallel to frames[]
 * cost     one look-up per distinct frame word; the symbols of a file are read at the first
 *          question
 * failure  what has no name stays without one; only lack of memory fails the run
 */
#include "symbolize/symbolize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ending.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/log.h"
#include "process/waitword.h"
#include "symbolize/sym_builds.h"
#include "symbolize/sym_inline.h"

struct native_file {
	struct sym_native *symbols;
	struct sym_inline *inlines; /* NULL: not needed yet */
	const struct elf_file *ef;
	uint64_t used; /* by the clock of the symbolizer */
	struct sym_debugfile_places places;
};

struct symbolizer {
	struct readers *readers; /* borrowed; may be NULL */
	struct sym_python *python;
	struct sym_jit *jit;
	struct sym_kernel *kernel;
	bool kernel_tried;
	struct idmap files; /* file id -> struct native_file */
	uint64_t clock;
	struct sym_debuginfod *server; /* NULL: none is asked */
	struct sym_builds *builds;     /* NULL: it is not installed */
};

/* A word that occurs in the profile. */
struct distinct {
	uint64_t word;
	uint32_t sym;
};

/* One run over one profile. */
struct run {
	struct symbolizer *s;
	struct profile *p;
	const struct symbolize_opts *o;
	struct hash_key key;
	uint64_t began; /* by s->clock */
	struct distinct *words;
	size_t word_cnt, word_cap;
	struct hash_index word_index; /* frame word -> index in words[] */
	struct hash_index pythons;    /* function and line -> index in syms[] */
	struct idmap modules;	      /* file id -> index in p->modules + 1, as a pointer */
	size_t files_left_out;	      /* there was no time for their names */
	struct strbuf buf;
};

/* ---- The object ---- */

struct symbolizer *symbolizer__new(struct readers *rs)
{
	struct symbolizer *s = calloc(1, sizeof(*s));
	bool no_memory;

	if (!s)
		return NULL;
	s->python = sym_python__new();
	s->readers = rs;
	s->jit = sym_jit__new(rs);
	s->server = sym_debuginfod__new();
	no_memory = !s->server && errno == ENOMEM;
	s->builds = sym_builds__installed();
	no_memory = no_memory || (!s->builds && errno == ENOMEM);
	if (!s->python || !s->jit || no_memory) {
		symbolizer__free(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

static void free_file(struct native_file *file)
{
	if (!file)
		return;
	sym_native__free(file->symbols);
	sym_inline__free(file->inlines);
	opened__close(&file->places.offered);
	free(file);
}

void symbolizer__free(struct symbolizer *s)
{
	struct native_file *file;

	if (!s)
		return;
	for (size_t at = 0; (file = idmap__next(&s->files, &at));)
		free_file(file);
	idmap__free(&s->files);
	sym_kernel__close(s->kernel);
	sym_python__free(s->python);
	sym_jit__free(s->jit);
	sym_debuginfod__free(s->server);
	sym_builds__free(s->builds);
	free(s);
}

struct sym_python *symbolizer__python(struct symbolizer *s)
{
	return s->python;
}

struct sym_jit *symbolizer__jit(struct symbolizer *s)
{
	return s->jit;
}

int symbolizer__add_file(struct symbolizer *s, uint32_t file, const struct elf_file *ef)
{
	struct native_file *f;

	if (!file || file > FRAME_NATIVE_FILE)
		return -EINVAL;
	if (idmap__get(&s->files, file))
		return -EEXIST;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->ef = ef;
	f->places = (struct sym_debugfile_places){ .root = DEBUG_ROOT,
						   .server = s->server,
						   .readers = s->readers,
						   .offered = OPENED_NONE };
	f->symbols = sym_native__new(ef);
	if (!f->symbols || idmap__set(&s->files, file, f)) {
		free_file(f);
		return -ENOMEM;
	}
	sym_native__set_places(f->symbols, &f->places);
	sym_native__set_builds(f->symbols, s->builds);
	return 0;
}

static struct native_file *find_file(const struct symbolizer *s, uint32_t file)
{
	return idmap__get(&s->files, file);
}

void symbolizer__remove_file(struct symbolizer *s, uint32_t file)
{
	free_file(find_file(s, file));
	idmap__remove(&s->files, file);
}

void symbolizer__offer_debug_file(struct symbolizer *s, uint32_t file, struct opened debug)
{
	struct native_file *f = find_file(s, file);

	if (f && f->places.offered.fd < 0)
		f->places.offered = debug;
	else
		opened__close(&debug);
}

/* ---- what process tells ---- */

static int sink_add(void *ctx, uint32_t file, const struct elf_file *ef)
{
	return symbolizer__add_file(ctx, file, ef);
}

static void sink_remove(void *ctx, uint32_t file)
{
	symbolizer__remove_file(ctx, file);
}

static void sink_offer_debug(void *ctx, uint32_t file, struct opened debug)
{
	symbolizer__offer_debug_file(ctx, file, debug);
}

static void sink_look_generated(void *ctx, uint32_t space, uint32_t tgid, int proc_fd,
				struct opened dump)
{
	const struct symbolizer *s = ctx;

	sym_jit__look(s->jit, space, tgid, proc_fd, dump);
}

static void sink_list_generated(void *ctx, uint32_t space, uint64_t list)
{
	const struct symbolizer *s = ctx;

	sym_jit__add_list(s->jit, space, list);
}

static void sink_fork(void *ctx, uint32_t child, uint32_t parent)
{
	const struct symbolizer *s = ctx;

	sym_jit__fork(s->jit, child, parent);
}

static void sink_forget(void *ctx, uint32_t space)
{
	const struct symbolizer *s = ctx;

	sym_jit__forget(s->jit, space);
}

struct file_sink symbolizer__sink(struct symbolizer *s)
{
	return (struct file_sink){ .ctx = s,
				   .add = sink_add,
				   .remove = sink_remove,
				   .offer_debug = sink_offer_debug,
				   .look_generated = sink_look_generated,
				   .list_generated = sink_list_generated,
				   .fork = sink_fork,
				   .forget = sink_forget };
}

/* At the first kernel frame; a failure is reported once, and kernel frames have no names then. */
static struct sym_kernel *kernel_symbols(struct symbolizer *s)
{
	if (s->kernel_tried)
		return s->kernel;
	s->kernel_tried = true;
	s->kernel = sym_kernel__open(NULL);
	if (!s->kernel && errno == EPERM)
		log_warn("/proc/kallsyms: addresses are hidden, kernel functions have no names "
			 "(need CAP_SYSLOG, or kernel.kptr_restrict=0)");
	else if (!s->kernel)
		log_warn("/proc/kallsyms: %s: kernel functions have no names", strerror(errno));
	return s->kernel;
}

/* ---- One frame of each kind ---- */

/* 0 means lack of memory, unless the string is empty. */
static int intern(struct profile *p, const char *s, size_t len, str_id *id)
{
	*id = profile__intern(p, s, len);
	return *id || !len ? 0 : -ENOMEM;
}

static int intern_buf(struct run *r, str_id *id)
{
	if (r->buf.err)
		return r->buf.err;
	return intern(r->p, r->buf.s, r->buf.len, id);
}

static int32_t module_of(const struct run *r, uint32_t file)
{
	return (int32_t)(intptr_t)idmap__get(&r->modules, file) - 1;
}

/* Sets the source line of a frame. */
static int set_place(struct run *r, const struct inline_frame *f, struct sym *sym)
{
	sym->line = r->o->lines ? f->line : 0;
	sym->start_line = f->decl_line;
	return intern(r->p, f->file, strlen(f->file), &sym->file);
}

/* The functions inlined into `sym` at its place, frames[1 .. cnt). */
static int add_inlined(struct run *r, const struct native_file *file,
		       const struct inline_frame *frames, size_t cnt, struct sym *sym)
{
	const struct sym_peers peers = sym_native__peers(file->symbols);

	while (cnt-- > 1) {
		struct sym inner = { .kind = SYM_NATIVE,
				     .flags = SYM_INLINED,
				     .module = sym->module,
				     .addr = sym->addr,
				     .inlined = sym->inlined };
		int err = set_place(r, &frames[cnt], &inner);

		strbuf__clear(&r->buf);
		sym_native_name(&r->buf, frames[cnt].name, elf_file__path(file->ef), &peers);
		if (!err)
			err = intern_buf(r, &inner.func);
		if (!err)
			err = sym->inlined = profile__add_sym(r->p, &inner);
		if (err < 0)
			return err;
	}
	return 0;
}

static int name_native(struct run *r, uint64_t word, struct sym *sym)
{
	struct native_file *file = find_file(r->s, NATIVE_FILE(word));
	const struct inline_frame *frames = NULL;
	struct sym_peers peers;
	size_t cnt = 0;
	int err;

	sym->kind = SYM_NATIVE;
	sym->module = module_of(r, NATIVE_FILE(word));
	sym->addr = NATIVE_OFFSET(word);
	if (!file || ending__late())
		return 0;
	peers = sym_native__peers(file->symbols);
	if (r->o->inlines && file->inlines)
		cnt = sym_inline__find(file->inlines, sym->addr, &frames);
	if (!sym_native__find(file->symbols, sym->addr, &r->buf, NULL)) {
		if (cnt)
			sym_native_name(&r->buf, frames[0].name, elf_file__path(file->ef), &peers);
		else
			sym_native__find_start(file->symbols, sym->addr, &r->buf, NULL);
	}
	err = intern_buf(r, &sym->func);
	if (!err && cnt)
		err = set_place(r, &frames[0], sym);
	return err ? err : add_inlined(r, file, frames, cnt, sym);
}

/* "[nf_tables]" among the modules of the profile. */
static int kernel_module(struct run *r, const char *name, int32_t *module)
{
	struct profile_module m = { .file = PROFILE_NO_FILE };
	int err = intern(r->p, name, strlen(name), &m.path);

	for (size_t i = 0; !err && i < r->p->module_cnt; i++)
		if (r->p->modules[i].file == PROFILE_NO_FILE && r->p->modules[i].path == m.path) {
			*module = (int32_t)i;
			return 0;
		}
	if (!err)
		err = *module = profile__add_module(r->p, &m);
	return err < 0 ? err : 0;
}

static int name_kernel(struct run *r, uint64_t word, struct sym *sym)
{
	struct sym_kernel *k = kernel_symbols(r->s);
	const char *name, *module;
	int err;

	sym->kind = SYM_KERNEL;
	sym->addr = KERNEL_ADDR(word);
	name = k ? sym_kernel__find(k, sym->addr, NULL) : NULL;
	if (!name)
		return 0;
	module = strstr(name, " ["); /* a name has no blanks */
	err = module ? kernel_module(r, module + 1, &sym->module) : 0;
	return err ? err
		   : intern(r->p, name, module ? (size_t)(module - name) : strlen(name),
			    &sym->func);
}

static const char *marker_text(uint32_t why)
{
	switch (why) {
#define X(name, number, text)                                                                      \
	case number:                                                                               \
		return text;
		PYPERF_MARKERS(X)
#undef X
	}
	return NULL;
}

/* The detail of these is the file that the walk stopped in; of others it may be any number. */
static bool detail_is_file(uint32_t why)
{
	return why == MARK_NO_UNWIND_INFO || why == MARK_BAD_FRAME || why == MARK_READ_FAILED;
}

static int name_marker(struct run *r, uint64_t word, struct sym *sym)
{
	uint32_t why = MARKER_WHY(word);
	uint64_t detail = word & FRAME_MARKER_DETAIL;
	const char *text = marker_text(why);

	sym->kind = SYM_MARKER;
	sym->addr = detail;
	if (text)
		strbuf__addf(&r->buf, "[%s", text);
	else
		strbuf__addf(&r->buf, "[marker %u", why);
	if (detail_is_file(why) && detail <= FRAME_NATIVE_FILE)
		sym->module = module_of(r, (uint32_t)detail);
	if (sym->module >= 0) {
		const char *path = profile__str(r->p, r->p->modules[sym->module].path);
		const char *slash = strrchr(path, '/');

		strbuf__addf(&r->buf, " %s", slash ? slash + 1 : path);
	}
	strbuf__addc(&r->buf, ']');
	return intern_buf(r, &sym->func);
}

static int name_python(struct run *r, uint64_t word, struct sym *sym)
{
	struct py_function f;
	int err;

	sym->kind = SYM_PYTHON;
	sym->addr = PYTHON_CODE(word);
	if (!sym_python__find(r->s->python, sym->addr, &f))
		return intern(r->p, "<unknown>", strlen("<unknown>"), &sym->func);
	if (r->o->lines)
		sym->line = sym_python__line(r->s->python, sym->addr, PYTHON_OFFSET(word));
	sym->start_line = f.first_line;
	err = intern(r->p, f.name, f.name_len, &sym->func);
	return err ? err : intern(r->p, f.file, f.file_len, &sym->file);
}

/* Nobody says what it is. Its addresses mean nothing to a reader, and are others in each run. */
static int name_anonymous(struct run *r, uint64_t word, struct sym *sym)
{
	sym->kind = SYM_NATIVE;
	sym->addr = word & FRAME_PAYLOAD;
	return intern(r->p, "generated code", strlen("generated code"), &sym->func);
}

/* Names of other compilers may be mangled: LLVM's are. */
static int name_jit(struct run *r, uint64_t word, struct sym *sym)
{
	sym->kind = SYM_NATIVE;
	sym_demangle(&r->buf, sym_jit__name(r->s->jit, (uint32_t)(word & FRAME_PAYLOAD)));
	return intern_buf(r, &sym->func);
}

static int name_wait(struct run *r, uint64_t word, struct sym *sym)
{
	const char *text = wait_word_text(word);

	sym->kind = SYM_MARKER;
	sym->addr = word & FRAME_PAYLOAD;
	if (text && word & WAIT_ENDED)
		strbuf__addf(&r->buf, "[ends a wait: %s]", text);
	else if (text)
		strbuf__addf(&r->buf, "[waits: %s%s]", text,
			     word & WAIT_HELD ? " with the GIL held" : "");
	else if (WAIT_CALL(word) < WAIT_CALLS)
		strbuf__addf(&r->buf, "[waits: system call %u]", (unsigned)WAIT_CALL(word));
	else
		strbuf__addz(&r->buf, "[waits]");
	return intern_buf(r, &sym->func);
}

static int name_frame(struct run *r, uint64_t word, struct sym *sym)
{
	*sym = (struct sym){ .module = -1, .inlined = -1 };
	strbuf__clear(&r->buf);
	switch (FRAME_TAG(word)) {
	case FRAME_NATIVE:
		return name_native(r, word, sym);
	case FRAME_PYTHON:
		return name_python(r, word, sym);
	case FRAME_KERNEL:
		return name_kernel(r, word, sym);
	case FRAME_MARKER:
		return name_marker(r, word, sym);
	case FRAME_JIT:
		return name_jit(r, word, sym);
	case FRAME_WAIT:
		return name_wait(r, word, sym);
	default:
		return name_anonymous(r, word, sym);
	}
}

/* ---- A run ---- */

static bool same_python(const struct sym *a, const struct sym *b)
{
	return a->func == b->func && a->file == b->file && a->start_line == b->start_line &&
	       a->line == b->line;
}

/*
 * Many words are one place of a program: other bytecode offsets of the line, code objects of other
 * processes. Returns an index in syms[] or negative errno.
 */
static int add_python(struct run *r, const struct sym *sym)
{
	uint32_t parts[] = { sym->func, sym->file, sym->start_line, sym->line };
	uint64_t hash = hash_bytes(&r->key, parts, sizeof(parts));
	uint32_t i;
	int added;

	for (size_t at = 0; (i = hash_index__next(&r->pythons, hash, &at)) != HASH_NONE;)
		if (same_python(&r->p->syms[i], sym))
			return (int)i;
	if (hash_index__reserve(&r->pythons))
		return -ENOMEM;
	added = profile__add_sym(r->p, sym);
	if (added >= 0)
		hash_index__add(&r->pythons, hash, (uint32_t)added); /* room is reserved */
	return added;
}

static int add_word(struct run *r, uint64_t word, uint32_t *index)
{
	uint64_t hash = hash_bytes(&r->key, &word, sizeof(word));

	for (size_t at = 0; (*index = hash_index__next(&r->word_index, hash, &at)) != HASH_NONE;)
		if (r->words[*index].word == word)
			return 0;
	if (ARRAY_GROW(r->words, r->word_cap, r->word_cnt, HASH_NONE))
		return -ENOMEM;
	*index = (uint32_t)r->word_cnt;
	r->words[r->word_cnt++] = (struct distinct){ .word = word };
	return hash_index__add(&r->word_index, hash, *index);
}

static int resolve(struct run *r, struct distinct *d)
{
	struct sym sym;
	int index = name_frame(r, d->word, &sym);

	if (!index)
		index = sym.kind == SYM_PYTHON ? add_python(r, &sym) : profile__add_sym(r->p, &sym);
	if (index < 0)
		return index;
	d->sym = (uint32_t)index;
	return 0;
}

/* ---- Files, one after the other ---- */

static int by_word(const void *a_, const void *b_, void *words_)
{
	const struct distinct *words = words_;
	uint64_t a = words[*(const uint32_t *)a_].word, b = words[*(const uint32_t *)b_].word;

	return a < b ? -1 : a > b;
}

/*
 * Behind each file: within the budget again. What earlier runs used goes first, the longest unused
 * before all. What this run used will be used by the next one, in the same order, so not all of it
 * can be had: the file at hand gives way, and the others will be there.
 */
static void trim_symbols(struct run *r, struct native_file *current)
{
	struct symbolizer *s = r->s;

	for (;;) {
		struct native_file *oldest = current, *f;
		size_t total = 0;

		for (size_t at = 0; (f = idmap__next(&s->files, &at));) {
			size_t size = sym_native__memory(f->symbols);

			total += size;
			if (size && f->used < r->began && f->used < oldest->used)
				oldest = f;
		}
		if (total <= (r->o->symbols_budget ? r->o->symbols_budget : SYMBOLS_BUDGET))
			return;
		sym_native__unload(oldest->symbols);
		if (oldest == current)
			return;
	}
}

static int load_inlines(struct run *r, const uint32_t *order, size_t cnt)
{
	struct native_file *file = find_file(r->s, NATIVE_FILE(r->words[order[0]].word));
	uint64_t *offsets;
	int err;

	if (!file->inlines)
		file->inlines = sym_inline__new(file->ef);
	if (file->inlines)
		sym_inline__set_places(file->inlines, &file->places);
	offsets = calloc(cnt, sizeof(*offsets));
	if (!file->inlines || !offsets) {
		free(offsets);
		return -ENOMEM;
	}
	for (size_t i = 0; i < cnt; i++)
		offsets[i] = NATIVE_OFFSET(r->words[order[i]].word);
	err = sym_inline__load(file->inlines, offsets, cnt);
	free(offsets);
	return err;
}

/* The words of one file, or of no file. */
static int resolve_group(struct run *r, const uint32_t *order, size_t cnt)
{
	uint64_t put_off = readers__put_off(r->s->readers);
	uint64_t word = r->words[order[0]].word;
	struct native_file *file =
		FRAME_TAG(word) == FRAME_NATIVE ? find_file(r->s, NATIVE_FILE(word)) : NULL;
	int err = 0;

	if (file && ending__late()) {
		r->files_left_out++;
		file = NULL;
	}
	if (file)
		file->used = ++r->s->clock;
	if (file && r->o->inlines)
		err = load_inlines(r, order, cnt);
	for (size_t i = 0; !err && i < cnt; i++)
		err = resolve(r, &r->words[order[i]]);
	if (file && readers__put_off(r->s->readers) != put_off)
		sym_native__unload(file->symbols); /* the next run reads all of them */
	if (file)
		trim_symbols(r, file);
	return err;
}

static bool same_group(uint64_t a, uint64_t b)
{
	return FRAME_TAG(a) == FRAME_TAG(b) &&
	       (FRAME_TAG(a) != FRAME_NATIVE || NATIVE_FILE(a) == NATIVE_FILE(b));
}

static int resolve_words(struct run *r)
{
	uint32_t *order = calloc(r->word_cnt + 1, sizeof(*order));
	size_t end;
	int err = order ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < r->word_cnt; i++)
		order[i] = (uint32_t)i;
	if (!err)
		qsort_r(order, r->word_cnt, sizeof(*order), by_word, r->words);
	for (size_t i = 0; !err && i < r->word_cnt; i = end) {
		for (end = i + 1; end < r->word_cnt; end++)
			if (!same_group(r->words[order[i]].word, r->words[order[end]].word))
				break;
		err = resolve_group(r, order + i, end - i);
	}
	free(order);
	return err;
}

static int index_modules(struct run *r)
{
	for (size_t i = 0; i < r->p->module_cnt; i++) {
		uint32_t file = r->p->modules[i].file;

		if (file <= FRAME_NATIVE_FILE &&
		    idmap__set(&r->modules, file, (void *)(intptr_t)(i + 1)))
			return -ENOMEM;
	}
	return 0;
}

int symbolizer__run(struct symbolizer *s, struct profile *p, const struct symbolize_opts *o)
{
	struct run r = { .s = s, .p = p, .o = o, .key = hash_key(), .began = s->clock + 1 };
	int err;

	if (p->frame_syms)
		return 0; /* nothing was added since the last run: see profile__add_stack() */
	p->frame_syms = calloc(p->frame_cnt ? p->frame_cnt : 1, sizeof(*p->frame_syms));
	p->sym_cnt = 0;
	err = p->frame_syms ? index_modules(&r) : -ENOMEM;
	for (size_t i = 0; !err && i < p->frame_cnt; i++)
		err = add_word(&r, p->frames[i], &p->frame_syms[i]);
	if (!err)
		err = resolve_words(&r);
	for (size_t i = 0; !err && i < p->frame_cnt; i++)
		p->frame_syms[i] = r.words[p->frame_syms[i]].sym;
	err = err ? err : sym_place_compiled(p);
	if (err) {
		free(p->frame_syms);
		p->frame_syms = NULL;
	}
	if (r.files_left_out)
		log_warn("the functions of %zu files have no names: there was no time for them "
			 "after the signal",
			 r.files_left_out);
	hash_index__free(&r.word_index);
	hash_index__free(&r.pythons);
	free(r.words);
	idmap__free(&r.modules);
	strbuf__free(&r.buf);
	return err;
}
