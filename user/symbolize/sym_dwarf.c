/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Runs in the child process of sym_inline.c, which ends it if it takes too long, so nothing here
 * bounds loops over what a file says; only what it could make us write, or recurse into.
 *
 * One pass over the units of a file. Of a unit that holds any of the addresses, the tree of entries
 * is walked once, down to those that have code at one of them: a subprogram, and in it what was
 * inlined.
 */
#include "symbolize/sym_inline.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbolize/symbolize.h"

#define TREE_DEPTH_MAX 256
#define PATH_LEN_MAX   4096

struct level {
	const char *name;
	uint32_t decl_line;
	uint32_t call_line;    /* where it was inlined, in the level outside of it */
	const char *call_file; /* NULL: not known */
};

/* The result for one address. */
struct chain {
	struct level v[INLINE_DEPTH_MAX]; /* outermost first */
	uint32_t cnt;
};

/* Reads the functions and inlined calls at some addresses from a file's DWARF. */
struct dwarf_reader {
	const uint64_t *addrs;
	size_t cnt;
	struct chain *chains; /* one per address of the unit at hand */
	Dwarf_Files *files;   /* of that unit */
	FILE *out;
};

/* The first address at or above `addr`. */
static size_t lower_bound(const struct dwarf_reader *r, uint64_t addr)
{
	size_t low = 0, high = r->cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (r->addrs[mid] < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/*
 * Which of the addresses among[0 .. cnt) (NULL: all) the entry has code at, into hits. Their
 * number.
 */
static size_t addresses_of(const struct dwarf_reader *r, Dwarf_Die *die, const uint32_t *among,
			   size_t cnt, uint32_t *hits)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t off = 0;
	size_t n = 0;

	while ((off = dwarf_ranges(die, off, &base, &start, &end)) > 0) {
		if (!among) {
			for (size_t i = lower_bound(r, start); i < r->cnt && r->addrs[i] < end; i++)
				if (r->addrs[i] >= start && n < r->cnt)
					hits[n++] = (uint32_t)i;
			continue;
		}
		for (size_t i = 0; i < cnt && n < cnt; i++)
			if (r->addrs[among[i]] >= start && r->addrs[among[i]] < end)
				hits[n++] = among[i];
	}
	return n;
}

static uint32_t number(Dwarf_Die *die, unsigned int name, bool integrate)
{
	Dwarf_Attribute mem, *attr = integrate ? dwarf_attr_integrate(die, name, &mem)
					       : dwarf_attr(die, name, &mem);
	Dwarf_Word value;

	return attr && !dwarf_formudata(attr, &value) && value <= INT32_MAX ? (uint32_t)value : 0;
}

static const char *function_name(Dwarf_Die *die)
{
	Dwarf_Attribute mem, *attr = dwarf_attr_integrate(die, DW_AT_linkage_name, &mem);
	const char *name;

	if (!attr)
		attr = dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &mem);
	name = attr ? dwarf_formstring(attr) : NULL;
	return name ? name : dwarf_diename(die);
}

static void enter_function(struct dwarf_reader *r, Dwarf_Die *die, const uint32_t *hits, size_t cnt,
			   bool inlined)
{
	uint32_t file = number(die, DW_AT_call_file, false);
	const struct level level = {
		.name = function_name(die),
		.decl_line = number(die, DW_AT_decl_line, true),
		.call_line = number(die, DW_AT_call_line, false),
		.call_file = file && r->files ? dwarf_filesrc(r->files, file, NULL, NULL) : NULL,
	};

	for (size_t i = 0; i < cnt; i++) {
		struct chain *c = &r->chains[hits[i]];

		if (!inlined) /* a function inside of a function has a frame of its own */
			c->cnt = 0;
		if (c->cnt < INLINE_DEPTH_MAX)
			c->v[c->cnt++] = level;
	}
}

static void walk(struct dwarf_reader *r, Dwarf_Die *parent, const uint32_t *among, size_t cnt,
		 unsigned depth);

static void walk_code(struct dwarf_reader *r, Dwarf_Die *die, const uint32_t *among, size_t cnt,
		      unsigned depth)
{
	uint32_t *hits = calloc(cnt, sizeof(*hits));
	int tag = dwarf_tag(die);
	size_t n = hits ? addresses_of(r, die, among, cnt, hits) : 0;

	if (n && tag != DW_TAG_lexical_block)
		enter_function(r, die, hits, n, tag == DW_TAG_inlined_subroutine);
	if (n)
		walk(r, die, hits, n, depth + 1);
	free(hits);
}

static void walk(struct dwarf_reader *r, Dwarf_Die *parent, const uint32_t *among, size_t cnt,
		 unsigned depth)
{
	Dwarf_Die die;

	if (depth > TREE_DEPTH_MAX || dwarf_child(parent, &die))
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
		case DW_TAG_inlined_subroutine:
		case DW_TAG_entry_point:
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
			walk_code(r, &die, among, cnt, depth);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
		case DW_TAG_union_type:
			walk(r, &die, among, cnt, depth + 1); /* Rust's functions are in there */
		}
	} while (!dwarf_siblingof(&die, &die));
}

static uint32_t length(const char *s, size_t max)
{
	return s ? (uint32_t)strnlen(s, max) : 0;
}

static void write_frame(struct dwarf_reader *r, const char *name, const char *file, uint32_t line,
			uint32_t decl_line)
{
	const struct dwarf_frame f = { .line = line,
				       .decl_line = decl_line,
				       .name_len = length(name, SYM_NAME_MAX),
				       .file_len = length(file, PATH_LEN_MAX) };

	fwrite(&f, sizeof(f), 1, r->out);
	fwrite(name ? name : "", 1, f.name_len, r->out);
	fwrite(file ? file : "", 1, f.file_len, r->out);
}

/*
 * A level stands at the place where the next one was inlined; the innermost one by the line table.
 */
static void write_answer(struct dwarf_reader *r, Dwarf_Die *unit, uint32_t query)
{
	const struct chain *c = &r->chains[query];
	const struct dwarf_answer a = { .query = query, .cnt = c->cnt ? c->cnt : 1 };
	Dwarf_Line *at = dwarf_getsrc_die(unit, r->addrs[query]);
	const char *file = at ? dwarf_linesrc(at, NULL, NULL) : NULL;
	int line = 0;

	if (!at || dwarf_lineno(at, &line) || line < 0)
		line = 0;
	if (!c->cnt && !file)
		return;
	fwrite(&a, sizeof(a), 1, r->out);
	for (uint32_t i = 0; i + 1 < c->cnt; i++)
		write_frame(r, c->v[i].name, c->v[i + 1].call_file, c->v[i + 1].call_line,
			    c->v[i].decl_line);
	write_frame(r, c->cnt ? c->v[c->cnt - 1].name : NULL, file, (uint32_t)line,
		    c->cnt ? c->v[c->cnt - 1].decl_line : 0);
}

static void read_unit(struct dwarf_reader *r, Dwarf_Die *unit, Dwarf_Die *split, uint32_t *hits)
{
	size_t n = addresses_of(r, unit, NULL, 0, hits), file_cnt;

	if (!n)
		return;
	for (size_t i = 0; i < n; i++)
		r->chains[hits[i]].cnt = 0;
	/* With split DWARF the tree is in another file, the line table in this one. */
	if (dwarf_getsrcfiles(split->addr ? split : unit, &r->files, &file_cnt))
		r->files = NULL;
	walk(r, split->addr ? split : unit, hits, n, 0);
	for (size_t i = 0; i < n; i++)
		write_answer(r, unit, hits[i]);
	fflush(r->out);
}

void sym_dwarf__answer(int fd, const uint64_t *addrs, size_t cnt, int out)
{
	struct dwarf_reader r = { .addrs = addrs, .cnt = cnt };
	uint32_t *hits = calloc(cnt, sizeof(*hits));
	Dwarf *dw = dwarf_begin(fd, DWARF_C_READ);
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit, split;
	uint8_t type;

	r.chains = calloc(cnt, sizeof(*r.chains));
	r.out = fdopen(out, "w");
	while (dw && hits && r.chains && r.out &&
	       !dwarf_get_units(dw, cu, &cu, NULL, &type, &unit, &split))
		if (type == DW_UT_compile || type == DW_UT_skeleton)
			read_unit(&r, &unit, &split, hits);
	if (r.out)
		fclose(r.out);
	dwarf_end(dw);
	free(r.chains);
	free(hits);
}
