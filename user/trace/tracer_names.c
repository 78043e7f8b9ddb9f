/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The names of code objects, and whether their functions are wanted. */
#include "trace/tracer_parts.h"

#include <bpf/bpf.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "base/tenant.h"
#include "follow/readcode.h"

/*
 * The bytes of a name as the sampler would have sent them. `known`: the code object came before,
 * but without all of its names.
 */
static void take_name(struct tracer *tr, const struct trace_code *c, const struct trace_name *n,
		      enum blob_kind kind, bool known, struct blob_info *info)
{
	struct ev_blob blob = { .type = EV_BLOB, .kind = kind, .id = c->id, .size = n->sent };

	*info = (struct blob_info){
		.uaddr = n->uaddr, .size = n->size, .width = n->width, .flags = n->flags
	};
	if (n->sent < n->size || !n->width)
		info->flags |= BLOB_MISSING;
	if (n->sent > TRACE_NAME_BYTES)
		return;
	if (known) {
		if (!(info->flags & BLOB_MISSING))
			sym_python__supply(tr->names, c->id, kind, n->data, info);
		return;
	}
	memcpy(blob.data, n->data, n->sent);
	sym_python__on_blob(tr->names, &blob, offsetof(struct ev_blob, data) + n->sent);
}

static const struct py_function unknown = {
	.name = "<unknown>",
	.name_len = sizeof("<unknown>") - 1,
	.file = "",
	.number = TRACER_UNKNOWN,
};

/* Without filters half of a name is better than none. */
bool tracer_names__find(const struct tracer *tr, uint64_t code, struct py_function *out)
{
	int missing = sym_python__missing(tr->names, code);
	int needed = tr->filter_cnt || tr->on_event.from ? 1 << BLOB_NAME | 1 << BLOB_FILENAME : 0;

	if (missing >= 0 && !(missing & needed) && sym_python__find(tr->names, code, out))
		return true;
	*out = unknown;
	return false;
}

bool tracer__wants(const struct tracer *tr, const struct py_function *f)
{
	if (!tr->filter_cnt)
		return true;
	return f->number != TRACER_UNKNOWN &&
	       trace_filters__select(tr->filters, tr->filter_cnt, f->name, f->file);
}

static bool is_from(const struct tracer *tr, const struct py_function *f)
{
	return f->number != TRACER_UNKNOWN &&
	       trace_filter__matches(tr->on_event.from, f->name, f->file);
}

bool tracer__is_inside(struct tracer *tr, const struct trace_event *e)
{
	const uint64_t codes[] = { e->ran_ns, e->ran_lag };
	struct py_function f;

	if (!tr->on_event.from || (tr->from_code && tr->from_code == codes[0]))
		return true;
	for (size_t i = 0; i < 2; i++) {
		if (!tracer__find(tr, codes[i], &f) || !is_from(tr, &f))
			continue;
		tr->from_code = codes[i];
		return true;
	}
	return false;
}

bool tracer__has_from(const struct tracer *tr)
{
	return tr->has_from;
}

/*
 * Tells the kernel that no filter selects this function, that it is not the one inside of which
 * calls are wanted, or that its name is still needed. Its counts stay; calls at this very moment
 * may be lost, but nobody wants them.
 */
static void refuse_unwanted(struct tracer *tr, const struct trace_code *c)
{
	int fd = bpf_map__fd(tr->skel->maps.codes);
	struct trace_count count;
	struct py_function f;
	bool named = tracer_names__find(tr, c->id, &f), wanted = tracer__wants(tr, &f);
	bool from = tr->on_event.from && is_from(tr, &f);

	tr->has_from |= from;
	if ((wanted && (from || !tr->on_event.from)) || bpf_map_lookup_elem(fd, &c->key, &count))
		return;
	if (!wanted)
		count.refused = named ? TRACE_UNWANTED : TRACE_NAMELESS;
	count.from &= from || !named;
	bpf_map_update_elem(fd, &c->key, &count, BPF_EXIST);
}

/* Whose names these are: users share the room for names. Without memory it is asked anew. */
static uint32_t slot_of(struct tracer *tr, uint32_t tgid)
{
	uint32_t slot = (uint32_t)(uintptr_t)idmap__get(&tr->slots, tgid);

	if (slot)
		return slot - 1;
	slot = tenant__slot(tgid);
	idmap__set(&tr->slots, tgid, (void *)(uintptr_t)(slot + 1));
	return slot;
}

/* The line table as BPF has sent it. False: it has not. */
static bool take_lines(struct tracer *tr, const struct trace_code_lines *c)
{
	struct blob_info info = { .uaddr = c->code.linetable, .size = c->size, .width = 1 };

	return c->sent && c->sent == c->size && c->sent <= TRACE_LINE_BYTES &&
	       !sym_python__supply(tr->names, c->code.id, BLOB_LINETABLE, c->data, &info);
}

/* Only stacks have lines: counts leave the tables where they are. */
int tracer_names__take(void *ctx, void *data, size_t size)
{
	struct tracer *tr = ctx;
	const struct trace_code *c = data;
	int wanted = 1 << BLOB_NAME | 1 << BLOB_FILENAME;
	const struct py_layout *layout = &tr->t->py.interp.layout;
	struct ev_code ev;
	bool known;
	int err;

	if (size >= sizeof(struct trace_params) && size < sizeof(*c)) {
		values__take_params(tr->values, data);
		return 0;
	}
	if (size < sizeof(*c))
		return 0;
	ev = (struct ev_code){ .type = EV_CODE,
			       .tgid = c->tgid,
			       .id = c->id,
			       .addr = c->key.addr,
			       .firstlineno = c->firstlineno };
	known = sym_python__missing(tr->names, c->id) >= 0;
	take_name(tr, c, &c->name, BLOB_NAME, known, &ev.blob[BLOB_NAME]);
	take_name(tr, c, &c->file, BLOB_FILENAME, known, &ev.blob[BLOB_FILENAME]);
	ev.blob[BLOB_LINETABLE] =
		(struct blob_info){ .uaddr = c->linetable, .flags = BLOB_MISSING };
	err = known ? 0
		    : sym_python__on_code(tr->names, &ev, sizeof(ev), layout, slot_of(tr, c->tgid));
	if (!err && size >= sizeof(struct trace_code_lines) && !take_lines(tr, data))
		wanted |= 1 << BLOB_LINETABLE;
	if (!err)
		err = readcode__supply(tr->t->readers, tr->names, &ev, layout, wanted);
	if (err)
		log_debug("code object at 0x%llx: %s", (unsigned long long)c->key.addr,
			  strerror(-err));
	refuse_unwanted(tr, c);
	tracer__process(tr, (pid_t)c->tgid);
	return 0;
}

bool tracer__find(struct tracer *tr, uint64_t code, struct py_function *out)
{
	if (tracer_names__find(tr, code, out))
		return true;
	/* Names are sent before the first event. */
	ring_buffer__consume(tr->ring);
	return tracer_names__find(tr, code, out);
}

struct values *tracer__values(struct tracer *tr, uint64_t code)
{
	/* They are sent behind the name, before the first event. */
	if (tr->values_cfg.args && !values__knows(tr->values, code))
		ring_buffer__consume(tr->ring);
	return tr->values;
}

uint32_t tracer__line(const struct tracer *tr, uint64_t code, uint32_t offset)
{
	return sym_python__line(tr->names, code, offset);
}
