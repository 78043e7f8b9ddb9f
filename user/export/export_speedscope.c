/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * speedscope (https://www.speedscope.app/file-format-schema.json): one sampled profile for each
 * process, or thread when they are kept apart, the heaviest first. A sample is a stack, outermost
 * frame first, with its CPU time in nanoseconds as weight, or its number of samples when the
 * frequency is not known.
 *
 * What is equal is merged, so the order of samples means nothing: of speedscope's views, "Time
 * Order" shows the stacks in the order of their names.
 */
#include "export/export.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "base/version.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"

struct speedscope {
	const struct profile *p;
	const struct export_opts *o;
	struct export_view view;
	struct strbuf buf;
	struct json j;
};

/* Writes the text in buf, and clears it. */
static void put(struct speedscope *s, const char *key)
{
	json__string(&s->j, key, s->buf.s ? s->buf.s : "", s->buf.len);
	s->buf.len = 0; /* an error of buf stays */
}

static void put_frame(struct speedscope *s, const struct sym *sym)
{
	json__newline(&s->j);
	json__object(&s->j, NULL);
	text_add_label(&s->buf, s->p, sym);
	put(s, "name");
	text_add_place(&s->buf, s->p, sym, 0);
	if (s->buf.len)
		put(s, "file");
	if (s->o->lines && sym->line)
		json__uint(&s->j, "line", sym->line);
	json__end(&s->j, '}');
}

static uint64_t weight(const struct speedscope *s, uint64_t count)
{
	const struct value_type *v = &s->p->stats.values[0];

	return value_type__per_second(v) ? (uint64_t)export_value_ns(v, count) : count;
}

/* The unit, in a word that the format knows. */
static const char *unit(const struct speedscope *s)
{
	const struct value_type *v = &s->p->stats.values[0];

	if (value_type__per_second(v))
		return "nanoseconds";
	return value_type__is_bytes(v) ? "bytes" : "none";
}

static void put_samples(struct speedscope *s, const struct stack_group *g)
{
	const struct flat_stacks *fs = &s->view.stacks;

	json__array(&s->j, "samples");
	for (size_t i = g->first; i < g->first + g->cnt; i++) {
		json__array(&s->j, NULL);
		for (uint32_t k = 0; k < fs->stacks[i].cnt; k++)
			json__uint(&s->j, NULL, fs->elems[fs->stacks[i].first + k]);
		json__end(&s->j, ']');
	}
	json__end(&s->j, ']');
	json__array(&s->j, "weights");
	for (size_t i = g->first; i < g->first + g->cnt; i++)
		json__uint(&s->j, NULL, weight(s, fs->stacks[i].count));
	json__end(&s->j, ']');
}

static void put_profile(struct speedscope *s, const struct stack_group *g)
{
	uint64_t sum = 0; /* of rounded weights */

	for (size_t i = g->first; i < g->first + g->cnt; i++)
		sum += weight(s, s->view.stacks.stacks[i].count);
	json__newline(&s->j);
	json__object(&s->j, NULL);
	json__stringz(&s->j, "type", "sampled");
	text_add_process(&s->buf, s->p, export_view__proc(&s->view, s->p, g), (uint32_t)g->key);
	put(s, "name");
	json__stringz(&s->j, "unit", unit(s));
	json__uint(&s->j, "startValue", 0);
	json__uint(&s->j, "endValue", sum);
	put_samples(s, g);
	json__end(&s->j, '}');
}

static void put_all(struct speedscope *s)
{
	json__object(&s->j, NULL);
	json__stringz(&s->j, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json__stringz(&s->j, "exporter", "pyperf-bpf " PYPERF_VERSION);
	json__stringz(&s->j, "name", "pyperf-bpf");
	json__uint(&s->j, "activeProfileIndex", 0);
	json__object(&s->j, "shared");
	json__array(&s->j, "frames");
	for (uint32_t i = 0; i < s->view.places.cnt; i++)
		put_frame(s, export_sym(s->p, s->view.places.first[i]));
	json__end(&s->j, ']');
	json__end(&s->j, '}');
	json__array(&s->j, "profiles");
	for (size_t i = 0; i < s->view.group_cnt; i++)
		put_profile(s, &s->view.groups[i]);
	json__end(&s->j, ']');
	json__end(&s->j, '}');
	putc('\n', s->j.f);
}

int export__speedscope(const struct profile *p, const struct export_opts *o, FILE *f)
{
	struct speedscope s = { .p = p, .o = o, .j = { .f = f } };
	int err = export_view__init(&s.view, p, o->lines ? PLACE_LINES : 0, o->threads);

	if (!err) {
		errno = 0;
		put_all(&s);
		err = s.buf.err;
	}
	if (!err && ferror(f))
		err = errno ? -errno : -EIO;
	strbuf__free(&s.buf);
	export_view__free(&s.view);
	return err;
}
