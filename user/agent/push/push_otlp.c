// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * OTLP profiles, v1development: the window's pprof file is read back and written as one Profile
 * with its dictionary.
 *
 *	label          attribute of the resource, by the name that OpenTelemetry has for it
 *	process        attributes of the sample (process.pid, process.executable.name...)
 *	frame          location, with profile.frame.type: cpython, native or kernel
 *	ELF file       mapping, in offsets of the file; process.executable.build_id.gnu
 *
 * One Profile for each value type, with one value per sample: how often, and the period says what
 * one of a clock is worth. A native frame without a name has an address and no line, so that a
 * backend can still name it.
 *
 * All messages are in one arena, and tables are of pointers into it. What is equal is found by the
 * bytes that make it up, in a strtab, whose ids begin with 1 as those of the tables do.
 */
#include "agent/push/push_kind.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"
#include "base/hash.h"
#include "import/import.h"
#include "agent/push/otlp.pb-c.h"
#include "profile/pprof.h"
#include "base/version.h"

#define ARENA_BLOCK   65536U
#define SAMPLE_ATTRS  8

#define TABLE_MAX     (1U << 26)
#define PROFILE_ID_SZ (WINDOW_ID_LEN / 2)

struct block {
	struct block *next;
	size_t used, cap;
	max_align_t data[];
};

struct table {
	void **items;
	size_t cnt, cap;
};

struct encoder {
	const struct profile *p;
	int err;
	struct block *arena;
	struct strbuf key; /* bytes that make something up */
	struct strtab *strings, *functions, *attributes, *stacks, *mappings, *locations;
	struct table mapping_list, location_list, function_list, attribute_list, stack_list,
		string_list, sample_list, resource_list, part_list;
	int32_t *location_of; /* by sym; 0: not used yet */
	int32_t *mapping_of;  /* by module */
};

/* ---- Memory ---------------------------------------------------------------------------------- */

/* All zero; freed with the encoder. NULL: e->err is set. */
static void *take(struct encoder *e, size_t size)
{
	struct block *b = e->arena;
	void *p;

	size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
	if (!b || b->cap - b->used < size) {
		size_t cap = size > ARENA_BLOCK ? size : ARENA_BLOCK;

		b = calloc(1, sizeof(*b) + cap);
		if (!b) {
			e->err = -ENOMEM;
			return NULL;
		}
		b->next = e->arena;
		b->cap = cap;
		e->arena = b;
	}
	p = (char *)b->data + b->used;
	b->used += size;
	return p;
}

/* Its index. */
static int32_t append(struct encoder *e, struct table *t, void *item)
{
	if (!item || ARRAY_GROW(t->items, t->cap, t->cnt, TABLE_MAX)) {
		e->err = -ENOMEM;
		return 0;
	}
	t->items[t->cnt] = item;
	return (int32_t)t->cnt++;
}

/*
 * The items of a list that begins anew; they live as long as the encoder. NULL: e->err is set, or
 * there are none.
 */
static void **keep(struct encoder *e, struct table *t)
{
	void **items = t->cnt ? take(e, t->cnt * sizeof(*items)) : NULL;

	if (items)
		memcpy(items, t->items, t->cnt * sizeof(*items));
	t->cnt = 0;
	return items;
}

/* The id of the key in e->key; clears e->key. *is_new: it was not there. */
static int32_t number_key(struct encoder *e, struct strtab *t, bool *is_new)
{
	size_t before = strtab__count(t);
	uint32_t id = 0;

	if (e->key.err)
		e->err = e->key.err;
	else
		id = strtab__add(t, e->key.s, e->key.len);
	if (!id)
		e->err = -ENOMEM;
	*is_new = strtab__count(t) > before;
	strbuf__clear(&e->key);
	return (int32_t)id;
}

/* ---- Strings and attributes ------------------------------------------------------------------ */

/* The string in e->key. */
static int32_t take_string(struct encoder *e)
{
	bool is_new;

	return e->key.len ? number_key(e, e->strings, &is_new) : 0;
}

static int32_t string(struct encoder *e, const char *s)
{
	strbuf__addz(&e->key, s);
	return take_string(e);
}

static Otlp__AnyValue *string_value(struct encoder *e, const char *s)
{
	Otlp__AnyValue *v = take(e, sizeof(*v));

	if (v) {
		otlp__any_value__init(v);
		v->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
		v->string_value = (char *)s;
	}
	return v;
}

static Otlp__AnyValue *int_value(struct encoder *e, int64_t n)
{
	Otlp__AnyValue *v = take(e, sizeof(*v));

	if (v) {
		otlp__any_value__init(v);
		v->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
		v->int_value = n;
	}
	return v;
}

static int32_t add_attribute(struct encoder *e, int32_t key, Otlp__AnyValue *value)
{
	Otlp__Attribute *a = take(e, sizeof(*a));

	if (!a || !value)
		return 0;
	otlp__attribute__init(a);
	a->key = key;
	a->value = value;
	return append(e, &e->attribute_list, a);
}

/* `text` is an id of e->strings. */
static int32_t text_attribute(struct encoder *e, const char *name, int32_t text)
{
	const int32_t parts[] = { string(e, name), text };
	bool is_new;
	int32_t id;

	strbuf__add(&e->key, parts, sizeof(parts));
	id = number_key(e, e->attributes, &is_new);
	if (is_new)
		add_attribute(e, parts[0],
			      string_value(e, strtab__get(e->strings, (uint32_t)text, NULL)));
	return id;
}

static int32_t int_attribute(struct encoder *e, const char *name, int64_t n)
{
	int32_t key = string(e, name), id;
	bool is_new;

	strbuf__add(&e->key, &key, sizeof(key));
	strbuf__add(&e->key, &n, sizeof(n));
	id = number_key(e, e->attributes, &is_new);
	if (is_new)
		add_attribute(e, key, int_value(e, n));
	return id;
}

static int32_t path(struct encoder *e, str_id id)
{
	text_add_path(&e->key, e->p, id);
	return take_string(e);
}

static int32_t name(struct encoder *e, str_id id)
{
	text_add_name(&e->key, e->p, id, "");
	return take_string(e);
}

/* ---- Mappings, functions, locations ---------------------------------------------------------- */

static bool has_address(const struct sym *s)
{
	return s->kind == SYM_NATIVE || s->kind == SYM_KERNEL;
}

static int32_t add_mapping(struct encoder *e, const struct profile_module *m)
{
	int32_t build_id = name(e, m->build_id), filename = path(e, m->path), id;
	const uint64_t parts[] = { m->start, m->limit, (uint64_t)build_id, (uint64_t)filename };
	Otlp__Mapping *out;
	bool is_new;

	strbuf__add(&e->key, parts, sizeof(parts));
	id = number_key(e, e->mappings, &is_new);
	out = is_new ? take(e, sizeof(*out)) : NULL;
	if (!out)
		return id;
	otlp__mapping__init(out);
	out->memory_start = out->file_offset = m->start;
	out->memory_limit = m->limit;
	out->filename = filename;
	if (build_id) {
		out->attributes = take(e, sizeof(*out->attributes));
		if (!out->attributes)
			return 0;
		out->attributes[out->n_attributes++] =
			text_attribute(e, "process.executable.build_id.gnu", build_id);
	}
	return append(e, &e->mapping_list, out);
}

static int32_t mapping_of(struct encoder *e, const struct sym *s)
{
	if (!has_address(s) || s->module < 0 || (size_t)s->module >= e->p->module_cnt)
		return 0;
	if (!e->mapping_of[s->module])
		e->mapping_of[s->module] = add_mapping(e, &e->p->modules[s->module]);
	return e->mapping_of[s->module];
}

static int32_t function_of(struct encoder *e, const struct sym *s)
{
	int32_t parts[3], id;
	Otlp__Function *f;
	bool is_new;

	text_add_func(&e->key, e->p, s, s->kind == SYM_KERNEL ? PPROF_KERNEL : PPROF_ANON);
	parts[0] = take_string(e);
	parts[1] = path(e, s->file);
	parts[2] = (int32_t)s->start_line;
	strbuf__add(&e->key, parts, sizeof(parts));
	id = number_key(e, e->functions, &is_new);
	if (!is_new)
		return id;
	f = take(e, sizeof(*f));
	if (!f)
		return 0;
	otlp__function__init(f);
	f->name = parts[0];
	f->filename = parts[1];
	f->start_line = s->start_line;
	return append(e, &e->function_list, f);
}

static bool is_named(const struct encoder *e, const struct sym *s)
{
	return !has_address(s) || s->module < 0 || profile__str_len(e->p, s->func);
}

static void add_line(struct encoder *e, Otlp__Location *l, const struct sym *s)
{
	Otlp__Line *line = take(e, sizeof(*line));

	if (!line)
		return;
	otlp__line__init(line);
	line->function = function_of(e, s);
	line->line = s->line;
	l->lines[l->n_lines++] = line;
}

/* The chain of a sym goes inwards, lines go outwards. */
static void add_lines(struct encoder *e, Otlp__Location *l, uint32_t sym)
{
	uint32_t chain[EXPORT_MAX_INLINED];
	int32_t next = (int32_t)sym;
	size_t depth = 0;

	for (; next >= 0 && depth < EXPORT_MAX_INLINED; depth++) {
		chain[depth] = (uint32_t)next;
		next = export_sym_inlined(e->p, chain[depth]);
	}
	l->lines = take(e, depth * sizeof(*l->lines));
	if (!l->lines)
		return;
	while (depth--)
		if (is_named(e, export_sym(e->p, chain[depth])))
			add_line(e, l, export_sym(e->p, chain[depth]));
}

/* https://opentelemetry.io/docs/specs/semconv/registry/attributes/profile/ */
static const char *frame_type(const struct sym *s)
{
	switch (s->kind) {
	case SYM_PYTHON:
		return "cpython";
	case SYM_KERNEL:
		return "kernel";
	case SYM_NATIVE:
		return "native";
	default:
		return NULL;
	}
}

/* The number of one that is equal to it, of another window, or of it. */
static int32_t number_location(struct encoder *e, Otlp__Location *l, int32_t type)
{
	const uint64_t parts[] = { l->address, (uint64_t)l->mapping, (uint64_t)type };
	bool is_new;
	int32_t id;

	strbuf__add(&e->key, parts, sizeof(parts));
	for (size_t i = 0; i < l->n_lines; i++) {
		const int64_t line[] = { l->lines[i]->function, l->lines[i]->line };

		strbuf__add(&e->key, line, sizeof(line));
	}
	id = number_key(e, e->locations, &is_new);
	return is_new ? append(e, &e->location_list, l) : id;
}

static int32_t add_location(struct encoder *e, uint32_t sym)
{
	const struct sym *s = export_sym(e->p, sym);
	Otlp__Location *l = take(e, sizeof(*l));
	const char *type = frame_type(s);
	int32_t attribute = 0;

	if (!l)
		return 0;
	otlp__location__init(l);
	l->mapping = mapping_of(e, s);
	l->address = has_address(s) ? s->addr : 0;
	add_lines(e, l, sym);
	if (type) {
		l->attributes = take(e, sizeof(*l->attributes));
		if (!l->attributes)
			return 0;
		attribute = text_attribute(e, "profile.frame.type", string(e, type));
		l->attributes[l->n_attributes++] = attribute;
	}
	return number_location(e, l, attribute);
}

/* ---- Stacks and samples ---------------------------------------------------------------------- */

static int32_t location_of(struct encoder *e, uint32_t sym)
{
	if (sym >= e->p->sym_cnt)
		return 0;
	if (!e->location_of[sym])
		e->location_of[sym] = add_location(e, sym);
	return e->location_of[sym];
}

static int32_t stack_of(struct encoder *e, const struct profile_stack *s)
{
	int32_t *locations = take(e, s->cnt * sizeof(*locations)), id;
	Otlp__Stack *out;
	bool is_new;

	if (!s->cnt || !locations)
		return 0;
	for (uint32_t i = 0; i < s->cnt; i++) /* leaf first */
		locations[i] = location_of(e, e->p->frame_syms[s->first + s->cnt - 1 - i]);
	strbuf__add(&e->key, locations, s->cnt * sizeof(*locations));
	id = number_key(e, e->stacks, &is_new);
	if (!is_new)
		return id;
	out = take(e, sizeof(*out));
	if (!out)
		return 0;
	otlp__stack__init(out);
	out->n_locations = s->cnt;
	out->locations = locations;
	return append(e, &e->stack_list, out);
}

static void add_text(struct encoder *e, Otlp__Sample *s, const char *key, int32_t text)
{
	if (text)
		s->attributes[s->n_attributes++] = text_attribute(e, key, text);
}

static void add_int(struct encoder *e, Otlp__Sample *s, const char *key, int64_t n)
{
	if (n)
		s->attributes[s->n_attributes++] = int_attribute(e, key, n);
}

static void describe_sample(struct encoder *e, Otlp__Sample *s, const struct profile_stack *stack)
{
	const struct profile_proc *proc = &e->p->procs[stack->proc];
	const char *thread = profile__thread_name(e->p, proc->space, stack->tid);

	add_int(e, s, "process.pid", proc->tgid);
	add_text(e, s, "process.executable.name", name(e, proc->comm));
	add_text(e, s, "process.executable.path", path(e, proc->exe));
	add_text(e, s, "process.runtime.version", name(e, proc->python));
	add_text(e, s, "container.id", name(e, proc->container));
	add_int(e, s, "thread.id", THREAD_TID(stack->tid));
	str_sanitise(&e->key, thread, strlen(thread), TEXT_NAME_MAX);
	add_text(e, s, "thread.name", take_string(e));
}

static void add_sample(struct encoder *e, const struct profile_stack *stack)
{
	Otlp__Sample *s = take(e, sizeof(*s));

	if (!s)
		return;
	otlp__sample__init(s);
	s->stack = stack_of(e, stack);
	s->attributes = take(e, SAMPLE_ATTRS * sizeof(*s->attributes));
	s->values = take(e, sizeof(*s->values));
	if (!s->attributes || !s->values)
		return;
	describe_sample(e, s, stack);
	s->values[s->n_values++] = (int64_t)stack->count;
	append(e, &e->sample_list, s);
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* https://opentelemetry.io/docs/specs/semconv/resource/; other labels keep their names. */
static const char *resource_name(const char *label)
{
	static const char *const names[][2] = {
		{ "service_name", "service.name" },
		{ "host", "host.name" },
		{ "container_id", "container.id" },
		{ "container_runtime", "container.runtime" },
		{ "k8s_namespace", "k8s.namespace.name" },
		{ "k8s_pod", "k8s.pod.name" },
		{ "k8s_pod_uid", "k8s.pod.uid" },
		{ "k8s_container", "k8s.container.name" },
		{ "exe", "process.executable.path" },
		{ "comm", "process.executable.name" },
		{ "python", "process.runtime.version" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i][0], label))
			return names[i][1];
	return label;
}

static void add_resource(struct encoder *e, const struct label *l)
{
	Otlp__KeyValue *kv = take(e, sizeof(*kv));

	if (!kv)
		return;
	otlp__key_value__init(kv);
	kv->key = (char *)resource_name(l->name);
	kv->value = string_value(e, l->value);
	append(e, &e->resource_list, kv);
}

/* Element 0 of every table. */
static void add_nothing(struct encoder *e)
{
	Otlp__Mapping *m = take(e, sizeof(*m));
	Otlp__Location *l = take(e, sizeof(*l));
	Otlp__Function *f = take(e, sizeof(*f));
	Otlp__Attribute *a = take(e, sizeof(*a));
	Otlp__Stack *s = take(e, sizeof(*s));

	if (e->err)
		return;
	otlp__mapping__init(m);
	otlp__location__init(l);
	otlp__function__init(f);
	otlp__attribute__init(a);
	otlp__stack__init(s);
	append(e, &e->mapping_list, m);
	append(e, &e->location_list, l);
	append(e, &e->function_list, f);
	append(e, &e->attribute_list, a);
	append(e, &e->stack_list, s);
}

static void list_strings(struct encoder *e)
{
	for (size_t i = 0; i < strtab__count(e->strings); i++)
		append(e, &e->string_list, (void *)strtab__get(e->strings, (uint32_t)i, NULL));
}

static void fill_dictionary(struct encoder *e, Otlp__Dictionary *d)
{
	static const uint8_t zero[16];
	Otlp__Link *link = take(e, sizeof(*link));
	Otlp__Link **links = take(e, sizeof(*links));

	if (!link || !links)
		return;
	otlp__link__init(link);
	link->trace_id = (ProtobufCBinaryData){ 16, (uint8_t *)zero };
	link->span_id = (ProtobufCBinaryData){ 8, (uint8_t *)zero };
	links[0] = link;
	d->n_links = 1;
	d->links = links;
#define TABLE(member, list)                                                                        \
	d->n_##member = e->list.cnt;                                                               \
	d->member = (void *)e->list.items
	TABLE(mappings, mapping_list);
	TABLE(locations, location_list);
	TABLE(functions, function_list);
	TABLE(strings, string_list);
	TABLE(attributes, attribute_list);
	TABLE(stacks, stack_list);
#undef TABLE
}

static void make_id(uint8_t id[PROFILE_ID_SZ], const char *hex)
{
	for (size_t i = 0; i < WINDOW_ID_LEN; i++) {
		unsigned digit = (unsigned)(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);

		id[i / 2] = (uint8_t)(id[i / 2] << 4 | digit);
	}
}

/* A value type of a window. */
struct one_profile {
	Otlp__Profile profile;
	Otlp__ValueType counted, period;
	uint8_t id[PROFILE_ID_SZ];
};

/* The messages around the profiles of a window, and these: parts that point to each other. */
struct part {
	Otlp__ResourceProfiles resource_profiles, *resource_profiles_at;
	Otlp__ScopeProfiles scope_profiles, *scope_profiles_at;
	Otlp__Resource resource;
	Otlp__Scope scope;
	struct one_profile of[VALUES_MAX];
	Otlp__Profile *profiles[VALUES_MAX];
	uint32_t profile_cnt;
};

/*
 * As the profiler of OpenTelemetry calls what it counts, too (reporter/internal/pdata/generate.go).
 * It knows no waits but those.
 */
static const char *counted_name(const struct value_type *v)
{
	if (value_type__is_clock(v))
		return UNIT_SAMPLES;
	return v->event == EVENT_OFF_CPU ? "off_cpu" : value_type__name(v);
}

/* Fills in the profile of the stacks of value type number `type`, in e->sample_list. */
static void fill_profile(struct encoder *e, const struct window *w, struct part *x, uint32_t type)
{
	const struct value_type *v = &e->p->stats.values[type];
	struct one_profile *of = &x->of[x->profile_cnt];
	Otlp__Profile *profile = &of->profile;
	bool clock = value_type__is_clock(v);

	otlp__profile__init(profile);
	otlp__value_type__init(&of->counted);
	otlp__value_type__init(&of->period);
	make_id(of->id, w->id);
	of->id[PROFILE_ID_SZ - 1] ^= (uint8_t)type;
	of->counted.type = string(e, counted_name(v));
	of->counted.unit = string(e, clock ? UNIT_COUNT : value_type__unit(v));
	of->period.type = string(e, clock ? value_type__pprof_name(v) : counted_name(v));
	of->period.unit = string(e, value_type__pprof_unit(v));
	profile->profile_id = (ProtobufCBinaryData){ sizeof(of->id), of->id };
	profile->sample_type = &of->counted;
	profile->n_samples = e->sample_list.cnt;
	profile->samples = (Otlp__Sample **)keep(e, &e->sample_list);
	profile->time_unix_nano = w->start_unix_ns;
	profile->duration_nano = w->duration_ns;
	profile->period_type = &of->period;
	profile->period = clock && w->frequency_hz ? NS_PER_S / w->frequency_hz : v->period;
	x->profiles[x->profile_cnt++] = profile;
}

/* With all that has to be around it. */
static void finish_part(struct encoder *e, struct part *x)
{
	otlp__scope__init(&x->scope);
	x->scope.name = (char *)"pyperf-bpf";
	x->scope.version = (char *)PYPERF_VERSION;
	otlp__scope_profiles__init(&x->scope_profiles);
	x->scope_profiles.scope = &x->scope;
	x->scope_profiles.n_profiles = x->profile_cnt;
	x->scope_profiles.profiles = x->profiles;
	x->scope_profiles_at = &x->scope_profiles;
	otlp__resource__init(&x->resource);
	x->resource.n_attributes = e->resource_list.cnt;
	x->resource.attributes = (Otlp__KeyValue **)keep(e, &e->resource_list);
	otlp__resource_profiles__init(&x->resource_profiles);
	x->resource_profiles.resource = &x->resource;
	x->resource_profiles.n_scope_profiles = 1;
	x->resource_profiles.scope_profiles = &x->scope_profiles_at;
}

/* The windows share the dictionary. */
static void write_request(struct encoder *e, struct strbuf *to)
{
	Otlp__ExportRequest request = OTLP__EXPORT_REQUEST__INIT;
	Otlp__Dictionary dictionary = OTLP__DICTIONARY__INIT;

	list_strings(e);
	fill_dictionary(e, &dictionary);
	request.n_resource_profiles = e->part_list.cnt;
	request.resource_profiles = (Otlp__ResourceProfiles **)e->part_list.items;
	request.dictionary = &dictionary;
	if (!e->err)
		push_pack(to, &request.base);
}

static void encoder__init(struct encoder *e)
{
	*e = (struct encoder){
		.strings = strtab__new(),
		.functions = strtab__new(),
		.attributes = strtab__new(),
		.stacks = strtab__new(),
		.mappings = strtab__new(),
		.locations = strtab__new(),
	};
	if (!e->strings || !e->functions || !e->attributes || !e->stacks || !e->mappings ||
	    !e->locations)
		e->err = -ENOMEM;
	if (!e->err)
		add_nothing(e);
}

static void encoder__free(struct encoder *e)
{
	struct table *tables[] = { &e->mapping_list,   &e->location_list, &e->function_list,
				   &e->attribute_list, &e->stack_list,	  &e->string_list,
				   &e->sample_list,    &e->resource_list, &e->part_list };

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		free(tables[i]->items);
	while (e->arena) {
		struct block *next = e->arena->next;

		free(e->arena);
		e->arena = next;
	}
	strtab__free(e->strings);
	strtab__free(e->functions);
	strtab__free(e->attributes);
	strtab__free(e->stacks);
	strtab__free(e->mappings);
	strtab__free(e->locations);
	strbuf__free(&e->key);
}

/* The profile is not needed any more when it returns. */
static void add_profile(struct encoder *e, const struct profile *p, const struct window *w)
{
	struct part *x = take(e, sizeof(*x));

	if (!x)
		return;
	x->profile_cnt = 0;
	e->p = p;
	e->location_of = take(e, p->sym_cnt * sizeof(*e->location_of));
	e->mapping_of = take(e, p->module_cnt * sizeof(*e->mapping_of));
	for (size_t i = 0; i < w->label_cnt && !e->err; i++)
		add_resource(e, &w->labels[i]);
	for (uint32_t type = 0; type < profile__value_cnt(p) && !e->err; type++) {
		for (size_t i = 0; i < p->stack_cnt && !e->err; i++)
			if (p->stacks[i].type == type)
				add_sample(e, &p->stacks[i]);
		if (!e->err && (!type || e->sample_list.cnt))
			fill_profile(e, w, x, type);
	}
	if (e->err)
		return;
	finish_part(e, x);
	append(e, &e->part_list, &x->resource_profiles);
}

static int add_window(struct encoder *e, const struct window *w)
{
	struct import *im = import__new(&(struct import_opts){ 0 });
	int err;

	if (!im)
		return -ENOMEM;
	err = import__add_data(im, w->id, w->pprof, w->pprof_size);
	if (!err)
		err = import__finish(im);
	if (!err)
		add_profile(e, import__profile(im), w);
	import__free(im);
	return err ? err : e->err;
}

static int encode(const struct push_config *c, const struct window *const *windows, size_t cnt,
		  struct push_message *m)
{
	struct encoder e;
	int err;

	(void)c;
	encoder__init(&e);
	err = e.err;
	for (size_t i = 0; i < cnt && !err; i++)
		err = add_window(&e, windows[i]);
	if (!err) {
		write_request(&e, &m->body);
		err = e.err ? e.err : m->body.err;
	}
	encoder__free(&e);
	return err && err != -ENOMEM ? -EINVAL : err;
}

/* Sent is not taken: the collector may say that it refused the profile. */
static int check(const void *body, size_t size, struct strbuf *why)
{
	Otlp__ExportResponse *r = otlp__export_response__unpack(NULL, size, body);
	int err = 0;

	if (r && r->partial_success && r->partial_success->rejected_profiles > 0) {
		strbuf__addz(why, r->partial_success->error_message);
		err = -EINVAL;
	}
	if (r)
		otlp__export_response__free_unpacked(r, NULL);
	return err;
}

const struct push_kind push_otlp = {
	.name = "otlp",
	.path = "/v1development/profiles",
	.content_type = "application/x-protobuf",
	.gzip = true,
	.many = true,
	.encode = encode,
	.check = check,
};

const struct push_kind push_otlp_grpc = {
	.name = "otlp-grpc",
	.path = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
	.content_type = "application/grpc+proto",
	.grpc = true,
	.gzip = true,
	.many = true,
	.encode = encode,
	.check = check,
};
