/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/probes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "base/stream.h"
#include "elf/usdt.h"
#include "follow/held.h"
#include "follow/uprobe.h"
#include "trace/points.h"

#define NAME_CHARS 60

struct location {
	char *provider, *name; /* owned */
	unsigned cnt;	       /* locations of this probe */
	bool semaphore;
	const char *price, *why_not; /* constants; why_not: NULL, or it must not be enabled */
};

struct printer {
	FILE *f;
	const struct target *t;
	bool python;
	struct uprobe_prices prices;
	struct trace_points points;
	int points_err;
	struct location *usdt;
	size_t usdt_cnt, usdt_cap;
	int err;
};

/* ---- prices ---------------------------------------------------------------------------------- */

#define EMULATED "emulated"
#define STEPPED	 "single-stepped"

static const char *price_of(bool emulated)
{
	return emulated ? EMULATED : STEPPED;
}

static const char *kind_name(uint8_t kind)
{
	switch (kind) {
	case POINT_ENTRY:
		return "call (eval function)";
	case POINT_RESUME:
		return "call (RESUME)";
	case POINT_RETURN:
		return "return";
	case POINT_EXIT:
		return "return (eval function)";
	case POINT_RAISE:
		return "exception";
	default:
		return "yield";
	}
}

/* ---- static probes --------------------------------------------------------------------------- */

static void take_usdt(void *ctx, const struct usdt *u)
{
	struct printer *p = ctx;
	bool emulated = uprobe__emulates(p->t->ef, u->offset);
	struct location *l;

	for (size_t i = 0; i < p->usdt_cnt; i++) {
		l = &p->usdt[i];
		if (strcmp(l->provider, u->provider) || strcmp(l->name, u->name))
			continue;
		l->cnt++;
		l->semaphore |= u->semaphore != 0;
		if (!emulated)
			l->price = STEPPED;
		return;
	}
	if (ARRAY_GROW(p->usdt, p->usdt_cap, p->usdt_cnt, USDT_MAX)) {
		p->err = -ENOMEM;
		return;
	}
	l = &p->usdt[p->usdt_cnt];
	*l = (struct location){ .provider = strdup(u->provider),
				.name = strdup(u->name),
				.cnt = 1,
				.semaphore = u->semaphore != 0,
				.price = price_of(emulated),
				.why_not = usdt__why_not(p->t->ef, u) };
	if (!l->provider || !l->name)
		p->err = -ENOMEM;
	p->usdt_cnt++;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_points(struct printer *p)
{
	const struct trace_points *tp = &p->points;

	if (p->points_err) {
		fprintf(p->f, "Calls of Python functions: not here: %s\n",
			tp->why_not ? tp->why_not : strerror(-p->points_err));
		return;
	}
	if (tp->by_function)
		fprintf(p->f,
			"Calls of Python functions: breakpoints in the functions of opcodes, by "
			"their table at 0x%" PRIx64 " (%u functions)\n",
			tp->table, tp->handler_cnt);
	else if (tp->table)
		fprintf(p->f,
			"Calls of Python functions: breakpoints in the eval loop, by its dispatch "
			"table at 0x%" PRIx64 " (%u codes)\n",
			tp->table, tp->handler_cnt);
	else
		fprintf(p->f, "Calls of Python functions: breakpoints at the eval function\n");
	fprintf(p->f, "  %-22s %6s  %-12s %s\n", "WHAT", "OPCODE", "FILE OFFSET", "PRICE OF A HIT");
	for (size_t i = 0; i < tp->cnt; i++) {
		const struct trace_point *at = &tp->at[i];
		char opcode[8] = "-";

		if (at->opcode)
			snprintf(opcode, sizeof(opcode), "%u", at->opcode);
		fprintf(p->f, "  %-22s %6s  0x%-10" PRIx64 " %s%s\n", kind_name(at->kind), opcode,
			at->offset, price_of(at->emulated),
			at->first_calls_only ? ", only at a function's first calls" : "");
	}
}

static void print_usdt(struct printer *p)
{
	struct strbuf name = { 0 };

	if (!p->usdt_cnt) {
		fprintf(p->f, "Static probes (USDT): none\n");
		return;
	}
	fprintf(p->f, "Static probes (USDT)\n  %-40s %9s  %-9s  %s\n", "NAME", "LOCATIONS",
		"SEMAPHORE", "PRICE OF A HIT");
	for (size_t i = 0; i < p->usdt_cnt; i++) {
		const struct location *l = &p->usdt[i];

		strbuf__clear(&name);
		str_sanitise(&name, l->provider, strlen(l->provider), NAME_CHARS);
		strbuf__addc(&name, ':');
		str_sanitise(&name, l->name, strlen(l->name), NAME_CHARS);
		fprintf(p->f, "  %-40s %9u  %-9s  %s%s\n", name.err ? "?" : name.s, l->cnt,
			l->semaphore ? "yes" : "no", l->why_not ? "not used: " : l->price,
			l->why_not ? l->why_not : "");
	}
	strbuf__free(&name);
}

static void print_prices(const struct printer *p)
{
	if (p->prices.measured)
		fprintf(p->f,
			"\nA hit costs %.2f us on this machine where the kernel emulates the "
			"instruction, and %.2f us\nwhere it single-steps it. What counts it takes "
			"some 0.2 us more.\n",
			p->prices.emulated_ns / 1000, p->prices.stepped_ns / 1000);
	else
		fprintf(p->f,
			"\nA hit costs some 0.5 us where the kernel emulates the instruction, and "
			"1 to 6 us where\nit single-steps it; 25 to 45 us in some virtual machines."
			" Root is told what it costs here.\n");
}

static void print_text(struct printer *p)
{
	struct strbuf path = { 0 };

	str_sanitise(&path, p->t->path, strlen(p->t->path), 0);
	fprintf(p->f, "%s: ", path.s ? path.s : "?");
	strbuf__free(&path);
	if (p->python)
		fprintf(p->f, "CPython %s%s\n\n", p->t->py.version,
			p->t->py.free_threaded ? ", free-threaded" : "");
	else
		fprintf(p->f, "no Python interpreter\n\n");
	if (p->python) {
		print_points(p);
		fputc('\n', p->f);
	}
	print_usdt(p);
	print_prices(p);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void point_json(struct json *j, const struct trace_point *at)
{
	json__object(j, NULL);
	json__stringz(j, "what",
		      at->kind == POINT_RETURN || at->kind == POINT_EXIT ? "return"
		      : at->kind == POINT_YIELD				 ? "yield"
		      : at->kind == POINT_RAISE				 ? "exception"
									 : "call");
	if (!at->opcode)
		json__null(j, "opcode");
	else
		json__uint(j, "opcode", at->opcode);
	json__uint(j, "offset", at->offset);
	json__stringz(j, "price", price_of(at->emulated));
	json__end(j, '}');
}

/* What a trap costs on this machine; null: not measured. */
static void prices_json(struct json *j, const struct uprobe_prices *prices)
{
	if (!prices->measured) {
		json__null(j, "emulated_ns");
		json__null(j, "single_stepped_ns");
		return;
	}
	json__uint(j, "emulated_ns", (uint64_t)prices->emulated_ns);
	json__uint(j, "single_stepped_ns", (uint64_t)prices->stepped_ns);
}

static void print_json(struct printer *p)
{
	struct json j = { .f = p->f };

	json__object(&j, NULL);
	json__stringz(&j, "path", p->t->path);
	if (p->python)
		json__stringz(&j, "python", p->t->py.version);
	else
		json__null(&j, "python");
	if (p->python && p->points_err)
		json__stringz(&j, "why_no_calls", p->points.why_not ? p->points.why_not : "error");
	else
		json__null(&j, "why_no_calls");
	prices_json(&j, &p->prices);
	json__array(&j, "calls");
	for (size_t i = 0; p->python && !p->points_err && i < p->points.cnt; i++)
		point_json(&j, &p->points.at[i]);
	json__end(&j, ']');
	json__array(&j, "usdt");
	for (size_t i = 0; i < p->usdt_cnt; i++) {
		const struct location *l = &p->usdt[i];

		json__object(&j, NULL);
		json__stringz(&j, "provider", l->provider);
		json__stringz(&j, "name", l->name);
		json__uint(&j, "locations", l->cnt);
		json__bool(&j, "semaphore", l->semaphore);
		json__stringz(&j, "price", l->price);
		json__bool(&j, "used", !l->why_not);
		json__end(&j, '}');
	}
	json__end(&j, ']');
	json__end(&j, '}');
	fputc('\n', p->f);
}

int probes__print(FILE *f, const struct target *t, bool python, bool json)
{
	struct printer p = { .f = f, .t = t, .python = python };

	if (held__find(t->readers))
		uprobe__assume(&p.prices);
	else
		uprobe__prices(-1, &p.prices);
	if (python)
		p.points_err = trace_points__find(t->ef, &t->py, &p.points);
	if (usdt__each(t->ef, take_usdt, &p) < 0)
		log_warn("%s: its notes on static probes are damaged", t->path);
	if (!p.err && json)
		print_json(&p);
	else if (!p.err)
		print_text(&p);
	for (size_t i = 0; i < p.usdt_cnt; i++) {
		free(p.usdt[i].provider);
		free(p.usdt[i].name);
	}
	free(p.usdt);
	return p.err ? p.err : stream__flush(f);
}
