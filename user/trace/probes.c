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
#include "trace/insn.h"
#include "trace/points.h"
#include "trace/usdt.h"

#define NAME_CHARS 60

struct location {
	char *provider, *name; /* owned */
	unsigned cnt;	       /* locations of this probe */
	bool semaphore;
	const char *price, *why_not; /* constants; why_not: NULL, or it is not used */
};

struct printer {
	FILE *f;
	const struct target *t;
	bool python;
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
	default:
		return "yield";
	}
}

/* ---- static probes --------------------------------------------------------------------------- */

/* NULL, or why this program does not use the probe. */
static const char *why_not_used(const struct printer *p, const struct usdt *u, const uint8_t *code)
{
	static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };

	if (p->python && p->t->py.version_hex >> 16 == 0x030b && !strcmp(u->name, "line"))
		return "not used: to enable it can crash CPython 3.11 (cpython #98894)";
	if (!memcmp(code, nop5, sizeof(nop5)))
		return "not used: newer kernels rewrite its instruction to a call";
	return NULL;
}

static void take_usdt(void *ctx, const struct usdt *u)
{
	struct printer *p = ctx;
	uint8_t code[INSN_MAX] = { 0 };
	struct insn insn = { 0 };
	struct location *l;

	for (size_t left = sizeof(code); left && elf_file__read(p->t->ef, u->addr, code, left);)
		left--;
	if (insn__decode(code, sizeof(code), u->addr, &insn))
		insn.emulated = false;
	for (size_t i = 0; i < p->usdt_cnt; i++) {
		l = &p->usdt[i];
		if (strcmp(l->provider, u->provider) || strcmp(l->name, u->name))
			continue;
		l->cnt++;
		l->semaphore |= u->semaphore != 0;
		if (!insn.emulated)
			l->price = STEPPED;
		return;
	}
	if (array_grow(&p->usdt, &p->usdt_cap, p->usdt_cnt, 1, sizeof(*p->usdt), USDT_MAX)) {
		p->err = -ENOMEM;
		return;
	}
	l = &p->usdt[p->usdt_cnt];
	*l = (struct location){ .provider = strdup(u->provider),
				.name = strdup(u->name),
				.cnt = 1,
				.semaphore = u->semaphore != 0,
				.price = price_of(insn.emulated),
				.why_not = why_not_used(p, u, code) };
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
	if (tp->table)
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

		if (at->kind != POINT_ENTRY)
			snprintf(opcode, sizeof(opcode), "%u", at->opcode);
		fprintf(p->f, "  %-22s %6s  0x%-10" PRIx64 " %s%s\n", kind_name(at->kind), opcode,
			at->offset, price_of(at->emulated),
			at->seldom ? ", only at a function's first calls" : "");
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
		fprintf(p->f, "  %-40s %9u  %-9s  %s\n", name.err ? "?" : name.s, l->cnt,
			l->semaphore ? "yes" : "no", l->why_not ? l->why_not : l->price);
	}
	strbuf__free(&name);
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
	fprintf(p->f,
		"\nA hit costs some 0.5 us where the kernel emulates the instruction, and 1 to 3 "
		"us where it\nsingle-steps it; 25 to 45 us in some virtual machines.\n");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void point_json(struct json *j, const struct trace_point *at)
{
	json__object(j, NULL);
	json__stringz(j, "what",
		      at->kind == POINT_RETURN	? "return"
		      : at->kind == POINT_YIELD ? "yield"
						: "call");
	if (at->kind == POINT_ENTRY)
		json__null(j, "opcode");
	else
		json__uint(j, "opcode", at->opcode);
	json__uint(j, "offset", at->offset);
	json__stringz(j, "price", price_of(at->emulated));
	json__end(j, '}');
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
	if (!p.err && (fflush(f) || ferror(f)))
		p.err = -EIO;
	return p.err;
}
