/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * pprof: a gzipped protobuf message (profile.proto), for `go tool pprof` and everything that reads
 * its format.
 *
 *	sample      one distinct stack of one process (and thread); values: samples, CPU nanoseconds
 *	location    one place in the code, with the functions inlined there
 *	mapping     one ELF file. Addresses are offsets in the file, so processes that load it at
 *	            different addresses share locations, and "memory" is the file itself:
 *	            start = file_offset. Python, kernel and generated code get mappings of
 *	            their own.
 *	label       pid, tid, comm, title (what people call it), thread, interpreter (not the main
 *	            one), exe, container, python, native-only (why there are no Python frames), life
 *	            (2, 3... where a pid is the second, third... with the same labels); of samples
 *	            in code without a name: inside, the function that called it; of waits: reason
 *	comment     a sentence for people
 *
 * String 1 is named by nothing: "pyperf-bpf-run:" and the numbers of profile_stats__print(), so
 * that import_pprof.c gets back what a report needs. As a comment it would head every output of
 * go's pprof, and stay in a merged profile, of which it is not true. No name from outside can stand
 * there. String 2 is likewise what is known of event loops and tasks (pprof.h), where there are
 * any.
 *
 * has_functions keeps readers from symbolizing again what has names. A file without one single name
 * does not have it, so that its frames can be symbolized later, by build id; they have no line.
 *
 * There is no system_name: the linker's name is not known here, and were it the name itself, go's
 * pprof would take "<module>" or "<lambda>" for a C++ template argument and strip it.
 *
 * The message borrows from arrays in struct pprof; all ids are in the order of the content, so
 * equal profiles become equal bytes.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "export/gzip_message.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"
#include "profile/inside.h"
#include "profile/loops.h"
#include "profile/pprof.h"
#include "profile/profile.pb-c.h"
#include "profile/waits.h"

#define LABELS_MAX  11
#define COLUMNS_MAX (2 * VALUES_MAX)

typedef Perftools__Profiles__Profile pb_profile;
typedef Perftools__Profiles__ValueType pb_value_type;
typedef Perftools__Profiles__Sample pb_sample;
typedef Perftools__Profiles__Label pb_label;
typedef Perftools__Profiles__Mapping pb_mapping;
typedef Perftools__Profiles__Location pb_location;
typedef Perftools__Profiles__Line pb_line;
typedef Perftools__Profiles__Function pb_function;

/* Labels of all samples of one process and thread. */
struct label_set {
	pb_label labels[LABELS_MAX];
	pb_label *list[LABELS_MAX];
	size_t cnt;
};

/* Labels of one sample that has one more than its set. */
struct end_labels {
	pb_label label;
	pb_label *list[LABELS_MAX + 1];
};

struct pprof {
	const struct profile *p;
	const struct export_opts *o;
	int err;
	struct strtab *strings;
	struct strbuf buf;

	struct sym_ranks locations, functions; /* sym -> location, sym -> function */
	uint32_t *location_id, *function_id;   /* by rank; 0: not used */
	uint32_t location_cnt;		       /* that are used */
	struct proc_order procs;
	uint32_t *lives;      /* by rank of the process */
	uint32_t *mapping_id; /* by module; 0: not used */
	uint32_t python_mapping, kernel_mapping, anon_mapping;
	struct flat_stacks stacks; /* of locations */

	pb_profile msg;
	pb_value_type types[COLUMNS_MAX + 1], *type_list[COLUMNS_MAX];
	size_t column_cnt;
	size_t column_of[VALUES_MAX]; /* the first, or only one, of a value type */
	pb_sample *samples, **sample_list;
	uint64_t *location_ids; /* leaf first, of all samples */
	int64_t *values;
	struct label_set *label_sets;
	struct end_labels *ends; /* of samples that end in unnamed code, or in a wait */
	size_t end_cnt;
	uint32_t *scratch; /* the syms of a stack */
	pb_mapping *mappings, **mapping_list;
	pb_location *locs, **loc_list;
	pb_line *lines, **line_list;
	pb_function *funcs, **func_list;
	char **texts;
	int64_t comment;
};

/* ---- Strings ---- */

/* The index of the string in pp->buf; clears pp->buf. */
static int64_t take_string(struct pprof *pp)
{
	uint32_t id = 0;

	if (pp->buf.len && !pp->buf.err) {
		id = strtab__add(pp->strings, pp->buf.s, pp->buf.len);
		if (!id)
			pp->err = -ENOMEM;
	}
	if (pp->buf.err)
		pp->err = pp->buf.err;
	strbuf__clear(&pp->buf);
	return id;
}

static int64_t add_string(struct pprof *pp, const char *s)
{
	strbuf__addz(&pp->buf, s);
	return take_string(pp);
}

static int64_t add_path(struct pprof *pp, str_id id)
{
	text_add_path(&pp->buf, pp->p, id);
	return take_string(pp);
}

/* ---- Order: what is equal, and what comes first ---- */

static int cmp_functions(const struct profile *p, uint32_t a, uint32_t b, const void *arg)
{
	const struct sym *sa = export_sym(p, a), *sb = export_sym(p, b);
	int d = export_function_cmp(p, sa, sb);

	(void)arg;
	return d ? d : (sa->start_line > sb->start_line) - (sa->start_line < sb->start_line);
}

static bool has_address(const struct sym *s)
{
	return s->kind == SYM_NATIVE || s->kind == SYM_KERNEL;
}

/* Without lines a function is one location; without a name, the address is all there is. */
static int cmp_one_location(const struct profile *p, uint32_t a, uint32_t b, bool lines)
{
	const struct sym *sa = export_sym(p, a), *sb = export_sym(p, b);
	int d = cmp_functions(p, a, b, NULL);

	if (!d && has_address(sa) && !sa->func)
		d = (sa->addr > sb->addr) - (sa->addr < sb->addr);
	if (d || !lines)
		return d;
	if (sa->line != sb->line)
		return sa->line < sb->line ? -1 : 1;
	if (has_address(sa) && sa->addr != sb->addr)
		return sa->addr < sb->addr ? -1 : 1;
	return 0;
}

static int cmp_locations(const struct profile *p, uint32_t a, uint32_t b, const void *arg)
{
	const bool *lines = arg;

	for (int i = 0; i < EXPORT_MAX_INLINED; i++) {
		int32_t next_a = export_sym_inlined(p, a), next_b = export_sym_inlined(p, b);
		int d = cmp_one_location(p, a, b, *lines);

		if (d)
			return d;
		if (next_a < 0 || next_b < 0)
			return (next_a >= 0) - (next_b >= 0);
		a = (uint32_t)next_a;
		b = (uint32_t)next_b;
	}
	return 0;
}

static int merge_stacks(struct pprof *pp)
{
	uint64_t *keys = proc_order__keys(&pp->procs, pp->p, pp->o->threads);
	int err;

	if (!keys)
		return -ENOMEM;
	err = flat_stacks__init(&pp->stacks, pp->p, pp->locations.of, false, keys);
	free(keys);
	return err;
}

/* ---- Numbering what is used ---- */

/* Turns marks into ids, from 1 on; returns their number. */
static uint32_t number(uint32_t *marks, size_t cnt)
{
	uint32_t id = 0;

	for (size_t i = 0; i < cnt; i++)
		if (marks[i])
			marks[i] = ++id;
	return id;
}

/* A marker may have a module as well, but is no code in it. */
static bool in_module(const struct pprof *pp, const struct sym *s)
{
	return has_address(s) && s->module >= 0 && (size_t)s->module < pp->p->module_cnt;
}

static bool is_named(const struct pprof *pp, const struct sym *s)
{
	return !in_module(pp, s) || profile__str_len(pp->p, s->func);
}

static uint32_t location_of(const struct pprof *pp, uint32_t sym)
{
	return pp->locations.of[sym < pp->p->sym_cnt ? sym : pp->p->sym_cnt];
}

/* Generated code with a name: nothing but a mapping tells it from a frame that is only a name. */
static bool is_anon_code(const struct pprof *pp, const struct sym *s)
{
	return s->kind == SYM_NATIVE && !s->addr && !in_module(pp, s);
}

/* Returns the number of lines of the location. */
static size_t mark_location(struct pprof *pp, uint32_t location, bool *modules)
{
	int32_t sym = (int32_t)pp->locations.first[location];
	size_t lines = 0;

	for (int i = 0; sym >= 0 && i < EXPORT_MAX_INLINED; i++) {
		const struct sym *s = export_sym(pp->p, (uint32_t)sym);

		if (in_module(pp, s))
			modules[s->module] = true;
		pp->python_mapping |= s->kind == SYM_PYTHON;
		pp->kernel_mapping |= s->kind == SYM_KERNEL && !in_module(pp, s);
		pp->anon_mapping |= is_anon_code(pp, s);
		if (is_named(pp, s)) {
			pp->function_id[pp->functions.of[sym]] = 1;
			lines++;
		}
		sym = export_sym_inlined(pp->p, (uint32_t)sym);
	}
	return lines;
}

struct module_order {
	const struct profile *p;
	str_id main_exe;
};

static int cmp_modules(const void *a, const void *b, void *ctx)
{
	const struct module_order *o = ctx;
	uint32_t ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;
	const struct profile_module *ma = &o->p->modules[ia], *mb = &o->p->modules[ib];
	bool main_a = o->main_exe && ma->path == o->main_exe;
	bool main_b = o->main_exe && mb->path == o->main_exe;
	int d;

	if (main_a != main_b)
		return main_a ? -1 : 1;
	d = export_str_cmp(o->p, ma->path, mb->path);
	if (!d)
		d = export_str_cmp(o->p, ma->build_id, mb->build_id);
	if (!d && ma->start != mb->start)
		d = ma->start < mb->start ? -1 : 1;
	return d ? d : (ia > ib) - (ia < ib);
}

/* The executable of the process with most samples: readers call the first mapping the binary. */
static str_id main_exe(const struct pprof *pp)
{
	uint64_t best = 0, sum = 0;
	str_id exe = 0;

	for (size_t i = 0; i < pp->stacks.cnt; i++) {
		const struct flat_stack *s = &pp->stacks.stacks[i];
		uint32_t proc = pp->procs.at[s->key >> 32];

		if (i && s->key >> 32 != pp->stacks.stacks[i - 1].key >> 32)
			sum = 0;
		sum += s->count;
		if (sum > best && proc < pp->p->proc_cnt) {
			best = sum;
			exe = pp->p->procs[proc].exe;
		}
	}
	return exe;
}

static pb_mapping *next_mapping(struct pprof *pp)
{
	pb_mapping *m = &pp->mappings[pp->msg.n_mapping];

	perftools__profiles__mapping__init(m);
	pp->mapping_list[pp->msg.n_mapping++] = m;
	m->id = pp->msg.n_mapping;
	return m;
}

static uint32_t add_synthetic(struct pprof *pp, const char *name)
{
	pb_mapping *m = next_mapping(pp);

	m->filename = add_string(pp, name);
	m->has_functions = true;
	return (uint32_t)m->id;
}

static int add_mappings(struct pprof *pp, const bool *used)
{
	struct module_order ctx = { .p = pp->p, .main_exe = main_exe(pp) };
	uint32_t *order = calloc(pp->p->module_cnt + 1, sizeof(*order));
	size_t cnt = 0;

	pp->mappings = calloc(pp->p->module_cnt + 3, sizeof(*pp->mappings));
	pp->mapping_list = calloc(pp->p->module_cnt + 3, sizeof(*pp->mapping_list));
	if (!order || !pp->mappings || !pp->mapping_list) {
		free(order);
		return -ENOMEM;
	}
	for (size_t i = 0; i < pp->p->module_cnt; i++)
		if (used[i])
			order[cnt++] = (uint32_t)i;
	qsort_r(order, cnt, sizeof(*order), cmp_modules, &ctx);
	for (size_t i = 0; i < cnt; i++) {
		const struct profile_module *module = &pp->p->modules[order[i]];
		pb_mapping *m = next_mapping(pp);

		m->memory_start = m->file_offset = module->start;
		m->memory_limit = module->limit;
		m->filename = add_path(pp, module->path);
		text_add_name(&pp->buf, pp->p, module->build_id, "");
		m->build_id = take_string(pp);
		pp->mapping_id[order[i]] = (uint32_t)m->id;
	}
	free(order);
	if (pp->python_mapping)
		pp->python_mapping = add_synthetic(pp, PPROF_PYTHON);
	if (pp->kernel_mapping)
		pp->kernel_mapping = add_synthetic(pp, PPROF_KERNEL);
	if (pp->anon_mapping)
		pp->anon_mapping = add_synthetic(pp, PPROF_ANON);
	pp->msg.mapping = pp->mapping_list;
	return 0;
}

/* ---- Functions and locations ---- */

static int add_functions(struct pprof *pp)
{
	uint32_t cnt = number(pp->function_id, pp->functions.cnt);

	pp->funcs = calloc(cnt + 1, sizeof(*pp->funcs));
	pp->func_list = calloc(cnt + 1, sizeof(*pp->func_list));
	if (!pp->funcs || !pp->func_list)
		return -ENOMEM;
	for (uint32_t i = 0; i < pp->functions.cnt; i++) {
		const struct sym *s = export_sym(pp->p, pp->functions.first[i]);
		pb_function *f;

		if (!pp->function_id[i])
			continue;
		f = &pp->funcs[pp->function_id[i] - 1];
		perftools__profiles__function__init(f);
		f->id = pp->function_id[i];
		text_add_func(&pp->buf, pp->p, s,
			      s->kind == SYM_KERNEL ? PPROF_KERNEL : PPROF_ANON);
		f->name = take_string(pp);
		f->filename = add_path(pp, s->file);
		f->start_line = s->start_line;
		pp->func_list[f->id - 1] = f;
	}
	pp->msg.n_function = cnt;
	pp->msg.function = pp->func_list;
	return 0;
}

static uint32_t mapping_of(const struct pprof *pp, const struct sym *s)
{
	if (s->kind == SYM_PYTHON)
		return pp->python_mapping;
	if (in_module(pp, s))
		return pp->mapping_id[s->module];
	if (is_anon_code(pp, s))
		return pp->anon_mapping;
	return s->kind == SYM_KERNEL ? pp->kernel_mapping : 0;
}

static void describe_mapping(struct pprof *pp, const struct sym *s)
{
	uint32_t id = mapping_of(pp, s);
	pb_mapping *m = id ? &pp->mappings[id - 1] : NULL;

	if (!m || !is_named(pp, s))
		return;
	m->has_functions = true;
	m->has_filenames |= profile__str_len(pp->p, s->file) != 0;
	m->has_line_numbers |= pp->o->lines && s->line;
	m->has_inline_frames |= s->inlined >= 0;
}

/* Adds the lines, innermost function first. Returns their number. */
static size_t add_lines(struct pprof *pp, uint32_t sym, size_t first)
{
	uint32_t chain[EXPORT_MAX_INLINED];
	int32_t next = (int32_t)sym;
	size_t depth = 0, cnt = 0;

	for (; next >= 0 && depth < EXPORT_MAX_INLINED; depth++) {
		chain[depth] = (uint32_t)next;
		next = export_sym_inlined(pp->p, chain[depth]);
	}
	while (depth--) {
		const struct sym *s = export_sym(pp->p, chain[depth]);
		pb_line *l = &pp->lines[first + cnt];

		describe_mapping(pp, s);
		if (!is_named(pp, s))
			continue;
		perftools__profiles__line__init(l);
		l->function_id = pp->function_id[pp->functions.of[chain[depth]]];
		l->line = pp->o->lines ? s->line : 0;
		pp->line_list[first + cnt++] = l;
	}
	return cnt;
}

static int add_locations(struct pprof *pp, uint32_t cnt, size_t line_cnt)
{
	size_t lines = 0;

	pp->locs = calloc(cnt + 1, sizeof(*pp->locs));
	pp->loc_list = calloc(cnt + 1, sizeof(*pp->loc_list));
	pp->lines = calloc(line_cnt + 1, sizeof(*pp->lines));
	pp->line_list = calloc(line_cnt + 1, sizeof(*pp->line_list));
	if (!pp->locs || !pp->loc_list || !pp->lines || !pp->line_list)
		return -ENOMEM;
	for (uint32_t i = 0; i < pp->locations.cnt; i++) {
		const struct sym *s = export_sym(pp->p, pp->locations.first[i]);
		pb_location *l;

		if (!pp->location_id[i])
			continue;
		l = &pp->locs[pp->location_id[i] - 1];
		perftools__profiles__location__init(l);
		l->id = pp->location_id[i];
		l->mapping_id = mapping_of(pp, s);
		l->address = has_address(s) ? s->addr : 0;
		l->line = &pp->line_list[lines];
		l->n_line = add_lines(pp, pp->locations.first[i], lines);
		lines += l->n_line;
		pp->loc_list[l->id - 1] = l;
	}
	pp->msg.n_location = cnt;
	pp->msg.location = pp->loc_list;
	return 0;
}

/* Those of stacks, of event loops and of tasks. */
static int number_locations(struct pprof *pp)
{
	pp->location_id = calloc(pp->locations.cnt, sizeof(*pp->location_id));
	if (!pp->location_id)
		return -ENOMEM;
	for (size_t i = 0; i < pp->stacks.elem_cnt; i++)
		pp->location_id[pp->stacks.elems[i]] = 1;
	for (size_t i = 0; i < pp->p->loop_sym_cnt; i++)
		pp->location_id[location_of(pp, pp->p->loop_syms[i])] = 1;
	pp->location_cnt = number(pp->location_id, pp->locations.cnt);
	return 0;
}

static int add_code(struct pprof *pp)
{
	bool *modules = calloc(pp->p->module_cnt + 1, sizeof(*modules));
	size_t lines = 0;
	int err = -ENOMEM;

	pp->function_id = calloc(pp->functions.cnt, sizeof(*pp->function_id));
	pp->mapping_id = calloc(pp->p->module_cnt + 1, sizeof(*pp->mapping_id));
	if (!modules || !pp->function_id || !pp->mapping_id)
		goto out;
	for (uint32_t i = 0; i < pp->locations.cnt; i++)
		if (pp->location_id[i])
			lines += mark_location(pp, i, modules);
	err = add_mappings(pp, modules);
	if (!err)
		err = add_functions(pp);
	if (!err)
		err = add_locations(pp, pp->location_cnt, lines);
out:
	free(modules);
	return err;
}

/* ---- Samples ---- */

static void add_label(struct pprof *pp, struct label_set *set, const char *key, int64_t str,
		      int64_t num)
{
	pb_label *l = &set->labels[set->cnt];

	if (!str && !num)
		return;
	perftools__profiles__label__init(l);
	l->key = add_string(pp, key);
	l->str = str;
	l->num = num;
	set->list[set->cnt++] = l;
}

static void add_name_label(struct pprof *pp, struct label_set *set, const char *key, str_id name)
{
	text_add_name(&pp->buf, pp->p, name, "");
	add_label(pp, set, key, take_string(pp), 0);
}

/* How many processes before it in order have the same content but for their space: by rank. */
static int count_lives(struct pprof *pp)
{
	pp->lives = calloc(pp->p->proc_cnt + 1, sizeof(*pp->lives));
	if (!pp->lives)
		return -ENOMEM;
	for (size_t i = 1; i < pp->p->proc_cnt; i++)
		if (!export_proc_cmp(pp->p, pp->procs.at[i - 1], pp->procs.at[i]))
			pp->lives[i] = pp->lives[i - 1] + 1;
	return 0;
}

static void fill_labels(struct pprof *pp, struct label_set *set, uint64_t key)
{
	uint32_t index = pp->procs.at[key >> 32], tid = THREAD_TID((uint32_t)key);
	const struct profile_proc *proc;
	const char *name;
	int64_t lives;

	if (index >= pp->p->proc_cnt)
		return;
	proc = &pp->p->procs[index];
	name = profile__thread_name(pp->p, proc->space, tid);
	lives = pp->lives[key >> 32];
	add_label(pp, set, "pid", 0, proc->tgid);
	add_name_label(pp, set, "comm", proc->comm);
	add_name_label(pp, set, "title", proc->title);
	text_add_path(&pp->buf, pp->p, proc->exe);
	add_label(pp, set, "exe", take_string(pp), 0);
	add_name_label(pp, set, "container", proc->container);
	add_name_label(pp, set, "python", proc->python);
	add_name_label(pp, set, "native-only", proc->native_only);
	if (lives)
		add_label(pp, set, "life", 0, lives + 1);
	if (!tid)
		return;
	add_label(pp, set, "tid", 0, tid);
	str_sanitise(&pp->buf, name, strlen(name), TEXT_NAME_MAX);
	add_label(pp, set, "thread", take_string(pp), 0);
	add_label(pp, set, "interpreter", 0, THREAD_INTERP((uint32_t)key));
}

static int64_t capped(uint64_t n)
{
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

/* ---- What a stack ends in ---- */

/* The named caller of the unnamed code that a stack ends in, or NULL. */
static const struct sym *caller_of(struct pprof *pp, const struct flat_stack *s)
{
	for (uint32_t i = 0; i < s->cnt; i++)
		pp->scratch[i] = pp->locations.first[pp->stacks.elems[s->first + i]];
	return inside_caller(pp->p, pp->scratch, s->cnt);
}

/* The reason of the wait that a stack ends in, and its length; NULL: it ends in none. */
static const char *reason_of(const struct pprof *pp, const struct flat_stack *s, size_t *len)
{
	const struct sym *leaf;

	if (!s->cnt)
		return NULL;
	leaf = export_sym(pp->p, pp->locations.first[pp->stacks.elems[s->first + s->cnt - 1]]);
	return wait_reason(profile__str(pp->p, leaf->func), len);
}

/* Room for the labels of samples that end in unnamed code, or in a wait. 0 or -ENOMEM. */
static int make_room_for_ends(struct pprof *pp)
{
	uint32_t longest = 0;
	size_t cnt = 0, len;

	if (!pp->o->ends)
		return 0;
	for (size_t i = 0; i < pp->stacks.cnt; i++)
		if (pp->stacks.stacks[i].cnt > longest)
			longest = pp->stacks.stacks[i].cnt;
	pp->scratch = calloc(longest + 1, sizeof(*pp->scratch));
	if (!pp->scratch)
		return -ENOMEM;
	for (size_t i = 0; i < pp->stacks.cnt; i++)
		cnt += caller_of(pp, &pp->stacks.stacks[i]) ||
		       reason_of(pp, &pp->stacks.stacks[i], &len);
	pp->ends = calloc(cnt + 1, sizeof(*pp->ends));
	return pp->ends ? 0 : -ENOMEM;
}

/*
 * Labels, not functions of other names: pprof files are merged and compared by their functions. `go
 * tool pprof -tagleaf inside` makes frames of them, `-tagfocus reason=lock` chooses by them.
 */
static void label_end(struct pprof *pp, const struct flat_stack *s, pb_sample *out)
{
	const struct sym *caller = pp->o->ends ? caller_of(pp, s) : NULL;
	size_t len = 0;
	const char *reason = pp->o->ends && !caller ? reason_of(pp, s, &len) : NULL;
	struct end_labels *end;

	if (!caller && !reason)
		return;
	end = &pp->ends[pp->end_cnt++];
	memcpy(end->list, out->label, out->n_label * sizeof(end->list[0]));
	perftools__profiles__label__init(&end->label);
	end->label.key = add_string(pp, caller ? "inside" : "reason");
	if (caller)
		text_add_func(&pp->buf, pp->p, caller, "");
	else
		str_sanitise(&pp->buf, reason, len, TEXT_NAME_MAX);
	end->label.str = take_string(pp);
	end->list[out->n_label++] = &end->label;
	out->label = end->list;
}

/* The columns of the other value types stay 0. */
static void fill_values(const struct pprof *pp, const struct flat_stack *s, int64_t *out)
{
	const struct value_type *v = &pp->p->stats.values[s->type];
	size_t at = pp->column_of[s->type];

	if (v->event == VALUE_FOREIGN) {
		out[at] = capped(s->count);
		return;
	}
	out[at] = capped(value_type__is_clock(v) ? s->count : s->samples);
	out[at + 1] = value_type__is_clock(v) ? export_value_ns(v, s->count) : capped(s->count);
}

static void add_sample(struct pprof *pp, size_t i, struct label_set *set)
{
	const struct flat_stack *s = &pp->stacks.stacks[i];
	uint64_t *ids = &pp->location_ids[s->first];
	pb_sample *out = &pp->samples[i];

	perftools__profiles__sample__init(out);
	for (uint32_t j = 0; j < s->cnt; j++)
		ids[j] = pp->location_id[pp->stacks.elems[s->first + s->cnt - 1 - j]];
	fill_values(pp, s, &pp->values[i * pp->column_cnt]);
	out->n_location_id = s->cnt;
	out->location_id = ids;
	out->n_value = pp->column_cnt;
	out->value = &pp->values[i * pp->column_cnt];
	out->n_label = set->cnt;
	out->label = set->list;
	label_end(pp, s, out);
	pp->sample_list[i] = out;
}

static int add_samples(struct pprof *pp)
{
	const struct flat_stacks *fs = &pp->stacks;
	size_t sets = 0;
	int err = make_room_for_ends(pp);

	if (err)
		return err;
	for (size_t i = 0; i < fs->cnt; i++)
		sets += !i || fs->stacks[i].key != fs->stacks[i - 1].key;
	pp->samples = calloc(fs->cnt + 1, sizeof(*pp->samples));
	pp->sample_list = calloc(fs->cnt + 1, sizeof(*pp->sample_list));
	pp->location_ids = calloc(fs->elem_cnt + 1, sizeof(*pp->location_ids));
	pp->values = calloc(fs->cnt + 1, pp->column_cnt * sizeof(*pp->values));
	pp->label_sets = calloc(sets + 1, sizeof(*pp->label_sets));
	if (!pp->samples || !pp->sample_list || !pp->location_ids || !pp->values || !pp->label_sets)
		return -ENOMEM;
	sets = 0;
	for (size_t i = 0; i < fs->cnt; i++) {
		if (!i || fs->stacks[i].key != fs->stacks[i - 1].key)
			fill_labels(pp, &pp->label_sets[sets++], fs->stacks[i].key);
		add_sample(pp, i, &pp->label_sets[sets - 1]);
	}
	pp->msg.n_sample = fs->cnt;
	pp->msg.sample = pp->sample_list;
	return 0;
}

/* ---- Event loops and tasks ---- */

/* The first sample of a process, or -1. */
static int64_t sample_of(const struct pprof *pp, uint32_t space)
{
	int proc = profile__find_proc(pp->p, space);

	for (size_t i = 0; proc >= 0 && i < pp->stacks.cnt; i++) {
		const struct flat_stack *s = &pp->stacks.stacks[i];

		if (s->count && pp->procs.at[s->key >> 32] == (uint32_t)proc)
			return (int64_t)i;
	}
	return -1;
}

static void keep_number(struct pprof *pp, uint64_t n)
{
	strbuf__addf(&pp->buf, " %" PRIu64, n);
}

static void keep_loop_stack(struct pprof *pp, const struct profile_loop_stack *s)
{
	keep_number(pp, s->ns);
	keep_number(pp, s->cnt);
	for (uint32_t i = 0; i < s->cnt; i++)
		keep_number(pp, pp->location_id[location_of(pp, pp->p->loop_syms[s->first + i])]);
}

static void keep_stretch(struct pprof *pp, const struct profile_stretch *s)
{
	keep_number(pp, s->begin_ns);
	keep_number(pp, s->ns);
	keep_number(pp, s->open);
	keep_number(pp, s->stack_cnt);
	for (uint32_t i = 0; i < s->stack_cnt; i++)
		keep_loop_stack(pp, &s->stacks[i]);
}

static void keep_loop(struct pprof *pp, const struct profile_loop *l)
{
	int64_t sample = sample_of(pp, l->space);
	const uint64_t numbers[] = { PPROF_LOOP, (uint64_t)sample, l->tid,     l->cnt,
				     l->busy_ns, l->slow_cnt,	   l->slow_ns, LOOP_BUCKETS };

	if (sample < 0)
		return;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		keep_number(pp, numbers[i]);
	for (uint32_t i = 0; i < LOOP_BUCKETS; i++)
		keep_number(pp, l->hist[i]);
	keep_loop_stack(pp, &l->poll);
	keep_number(pp, l->longest_cnt);
	for (uint32_t i = 0; i < l->longest_cnt; i++)
		keep_stretch(pp, &l->longest[i]);
}

static void keep_await(struct pprof *pp, const struct profile_await *a)
{
	int64_t sample = sample_of(pp, a->space);
	const uint64_t numbers[] = { PPROF_AWAIT, (uint64_t)sample, a->own,   a->looks,
				     a->of,	  a->cut,	    a->tasks, a->came };

	if (sample < 0)
		return;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		keep_number(pp, numbers[i]);
	keep_loop_stack(pp, &a->stack);
}

/* Threads that wait in a poll of their own are of no use to a reader. */
static int keep_loops(struct pprof *pp)
{
	const struct profile_loop **of = calloc(pp->p->loop_cnt + 1, sizeof(*of));
	size_t cnt = of ? loops_list(pp->p, of) : 0;

	if (!of)
		return -ENOMEM;
	if (cnt || pp->p->await_cnt)
		strbuf__addz(&pp->buf, PPROF_LOOPS);
	for (size_t i = 0; i < cnt && i < PPROF_LOOPS_MAX; i++)
		keep_loop(pp, of[i]);
	for (size_t i = 0; i < pp->p->await_cnt && i < PPROF_LOOPS_MAX; i++)
		keep_await(pp, &pp->p->awaits[i]);
	free(of);
	take_string(pp);
	return pp->err;
}

/* ---- The rest of the message ---- */

static void init_type(struct pprof *pp, pb_value_type *t, const char *type, const char *unit)
{
	perftools__profiles__value_type__init(t);
	t->type = add_string(pp, type);
	t->unit = add_string(pp, unit);
}

/* Fills in value type number k. */
static void init_value_type(struct pprof *pp, pb_value_type *t, uint32_t k)
{
	const struct value_type *v = &pp->p->stats.values[k];

	init_type(pp, t, k ? value_type__name(v) : value_type__pprof_name(v),
		  value_type__pprof_unit(v));
}

/*
 * Two columns for each of our value types, samples and their amount; for a type of another program
 * the one that it brought.
 */
static void init_columns(struct pprof *pp)
{
	const struct value_type *v = pp->p->stats.values;

	for (uint32_t k = 0; k < profile__value_cnt(pp->p); k++) {
		pp->column_of[k] = pp->column_cnt;
		if (v[k].event != VALUE_FOREIGN) {
			if (k)
				strbuf__addf(&pp->buf, "%s-", value_type__name(&v[k]));
			strbuf__addz(&pp->buf, UNIT_SAMPLES);
			perftools__profiles__value_type__init(&pp->types[pp->column_cnt]);
			pp->types[pp->column_cnt].type = take_string(pp);
			pp->types[pp->column_cnt++].unit = add_string(pp, UNIT_COUNT);
		}
		init_value_type(pp, &pp->types[pp->column_cnt++], k);
	}
	for (size_t i = 0; i < pp->column_cnt; i++)
		pp->type_list[i] = &pp->types[i];
}

static int add_head(struct pprof *pp)
{
	const struct profile_stats *s = &pp->p->stats;
	pb_profile *m = &pp->msg;
	int err;

	strbuf__addz(&pp->buf, pp->o->lines ? PPROF_RUN : PPROF_RUN " lines=0");
	profile_stats__print(&pp->buf, s);
	take_string(pp);
	err = keep_loops(pp);
	if (err)
		return err;
	init_columns(pp);
	init_value_type(pp, &pp->types[COLUMNS_MAX], 0);
	m->n_sample_type = pp->column_cnt;
	m->sample_type = pp->type_list;
	m->period_type = &pp->types[COLUMNS_MAX];
	m->period = value_type__is_clock(&s->values[0]) ? export_cpu_ns(pp->p, 1)
							: (int64_t)s->values[0].period;
	m->default_sample_type = pp->types[COLUMNS_MAX].type;
	m->time_nanos = (int64_t)s->start_unix_ns;
	m->duration_nanos = (int64_t)s->duration_ns;
	strbuf__addz(&pp->buf, PPROF_COMMENT);
	text_add_samples(&pp->buf, pp->p);
	if (s->counters[CTR_user_stacks])
		strbuf__addz(&pp->buf, "; ");
	text_add_complete(&pp->buf, pp->p);
	pp->comment = take_string(pp);
	m->n_comment = 1;
	m->comment = &pp->comment;
	return 0;
}

static int add_string_table(struct pprof *pp)
{
	size_t cnt = strtab__count(pp->strings);

	pp->texts = calloc(cnt + 1, sizeof(*pp->texts));
	if (!pp->texts)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++)
		pp->texts[i] = (char *)strtab__get(pp->strings, (uint32_t)i, NULL);
	pp->msg.n_string_table = cnt;
	pp->msg.string_table = pp->texts;
	return 0;
}

static int build(struct pprof *pp)
{
	int err = sym_ranks__init(&pp->locations, pp->p, cmp_locations, &pp->o->lines);

	if (!err)
		err = sym_ranks__init(&pp->functions, pp->p, cmp_functions, NULL);
	if (!err)
		err = proc_order__init(&pp->procs, pp->p);
	if (!err)
		err = count_lives(pp);
	if (!err)
		err = merge_stacks(pp);
	if (!err)
		err = number_locations(pp);
	if (!err)
		err = add_head(pp);
	if (!err)
		err = add_code(pp);
	if (!err)
		err = add_samples(pp);
	if (!err)
		err = add_string_table(pp);
	return err ? err : pp->err;
}

static void free_all(struct pprof *pp)
{
	sym_ranks__free(&pp->locations);
	sym_ranks__free(&pp->functions);
	flat_stacks__free(&pp->stacks);
	strtab__free(pp->strings);
	strbuf__free(&pp->buf);
	free(pp->location_id);
	free(pp->function_id);
	proc_order__free(&pp->procs);
	free(pp->lives);
	free(pp->mapping_id);
	free(pp->samples);
	free(pp->sample_list);
	free(pp->location_ids);
	free(pp->values);
	free(pp->label_sets);
	free(pp->ends);
	free(pp->scratch);
	free(pp->mappings);
	free(pp->mapping_list);
	free(pp->locs);
	free(pp->loc_list);
	free(pp->lines);
	free(pp->line_list);
	free(pp->funcs);
	free(pp->func_list);
	free(pp->texts);
	free(pp);
}

int export__pprof(const struct profile *p, const struct export_opts *o, FILE *f)
{
	struct pprof *pp = calloc(1, sizeof(*pp));
	int err = -ENOMEM;

	if (!pp)
		return -ENOMEM;
	pp->p = p;
	pp->o = o;
	perftools__profiles__profile__init(&pp->msg);
	pp->strings = strtab__new();
	if (pp->strings)
		err = build(pp);
	if (!err)
		err = gzip_message__write(&pp->msg.base, f);
	free_all(pp);
	return err;
}
