/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * .eh_frame -> unwind rows. See ehframe.h.
 *
 * Two passes. The first reads every record once: CIEs are run and kept, of each FDE its range of
 * file offsets and its place are kept. These are sorted, and the second pass runs each FDE's
 * instructions in the order of the text, so rows and index are written once, in their final place.
 *
 *	cfi_read.c	bytes, pointers, records of a section
 *	cfi_frames.c	first pass: CIEs, and the list of FDEs
 *	cfi_run.c	the instructions of one CIE or FDE; cfi_expr.c its expressions
 *	cfi_rule.c	a state that they leave (cfi_state.h) -> a rule
 *	cfi_rows.c	rows, index and rules, as the words of the table
 *	ehframe_find.c	the FDE of one address, without a table
 *
 * Work and memory are linear in the section: an FDE may only name a CIE that the first pass has met
 * as a record, so no byte is run twice; the stack of remembered states is bounded; each row costs
 * at least one byte of instructions.
 */
#include "elf/ehframe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/cfi_frames.h"
#include "elf/cfi_rows.h"
#include "elf/cfi_run.h"
#include "elf/greenlet.h"

struct builder {
	struct cfi_frames frames;
	struct cfi_rows rows;
	struct greenlet_function special[MAX_GREENLET_FUNCTIONS]; /* their rows have another kind */
	size_t special_cnt;
};

/* The kind of the rows of an FDE that would be CFA_REG. */
static enum cfa_kind kind_of_rows(const struct builder *b, const struct fde *fde)
{
	for (size_t i = 0; i < b->special_cnt; i++) {
		if (b->special[i].off - fde->start < fde->size)
			return b->special[i].kind;
	}
	return CFA_REG;
}

static void compile_fde(struct builder *b, const struct fde *fde, uint64_t covered)
{
	struct cfi_frames *f = &b->frames;
	struct cfi_section *sec = fde->pos & FDE_DEBUG ? &f->debug : &f->eh;
	struct cfi_run run;
	struct cfi_record rec;
	uint64_t size;

	run.rows = &b->rows;
	run.m = f->m;
	run.sec = sec;
	run.depth = 0;
	run.dirty = true;
	run.kind = kind_of_rows(b, fde);
	run.off = fde->start;
	run.limit = fde->start + fde->size;
	run.clip = covered;
	/* The first pass has done the same three steps with success. */
	if (!cfi_read_record(sec, fde->pos & ~FDE_DEBUG, &rec) ||
	    !(run.cie = cfi_section__cie(sec, rec.cie_pos)) ||
	    !cie__read_fde_range(sec, run.cie, &rec.r, &run.addr, &size))
		return;
	run.st = run.cie->initial;
	b->rows.stats.fde_cnt++;
	if (!cfi_run__instructions(&run, rec.r, fde->start)) {
		b->rows.stats.fde_bad++;
		run.st = (struct cfi_state){ .cfa.kind = CFA_UNSET };
		run.dirty = true;
	}
	cfi_run__flush(&run, run.limit);
}

/* The offset behind the last text. */
static uint64_t end_of_text(const struct cfi_frames *f)
{
	uint64_t end = 0;

	for (size_t i = 0; i < f->fde_cnt; i++) {
		if (fde__end(&f->fdes[i]) > end)
			end = fde__end(&f->fdes[i]);
	}
	return end;
}

static int compile_fdes(struct builder *b)
{
	uint64_t covered = (uint64_t)b->rows.first_page << UW_PAGE_BITS;
	const struct cfi_frames *f = &b->frames;

	for (size_t i = 0; i < f->fde_cnt && !b->rows.err; i++) {
		if (fde__end(&f->fdes[i]) <= covered)
			continue;
		if (f->fdes[i].start > covered)
			cfi_rows__add(&b->rows, covered, 0);
		compile_fde(b, &f->fdes[i], covered);
		covered = fde__end(&f->fdes[i]);
	}
	return cfi_rows__finish(&b->rows, covered);
}

static int compile(struct builder *b)
{
	struct cfi_frames *f = &b->frames;
	int err;

	cfi_frames__read_all(f);
	if (f->err)
		return f->err;
	if (!f->fde_cnt)
		return f->bad_cnt ? -EBADMSG : -ENOENT;
	err = cfi_rows__begin(&b->rows, f->fdes[0].start, end_of_text(f), f->fde_cnt);
	return err ? err : compile_fdes(b);
}

/* Takes the words. */
static void fill_table(struct unwind_table *t, struct builder *b)
{
	t->words = b->rows.words;
	t->word_cnt = b->rows.word_cnt;
	t->stats = b->rows.stats;
	t->stats.fde_bad += b->frames.bad_cnt;
	t->stats.eh_bytes = b->frames.eh.size + b->frames.debug.size;
	b->rows.words = NULL;
}

struct unwind_table *unwind_table__build(const struct elf_file *ef)
{
	struct unwind_table *t = calloc(1, sizeof(*t));
	struct builder b = { 0 };
	int err = -ENOMEM;

	if (!t)
		goto out;
	cfi_frames__init(&b.frames, ef);
	b.special_cnt = greenlet__functions(ef, b.special);
	err = cfi_frames__load(&b.frames, ef);
	if (err)
		goto out;
	err = compile(&b);
	if (err)
		goto out;
	fill_table(t, &b);
out:
	cfi_frames__free(&b.frames);
	cfi_rows__free(&b.rows);
	if (err) {
		free(t);
		errno = -err;
		return NULL;
	}
	return t;
}

void unwind_table__free(struct unwind_table *t)
{
	if (!t)
		return;
	free(t->words);
	free(t);
}

/* ---- Look-up ------------------------------------------------------------------------------- */

bool unwind_table__find(const struct unwind_table *t, uint64_t offset, struct unwind_rule *rule)
{
	const uint32_t *index, *rows;
	uint64_t page = offset >> UW_PAGE_BITS;
	struct unwind_header h;
	uint32_t low, high, number;

	memcpy(&h, t->words, sizeof(h));
	if (page < h.first_page || page - h.first_page >= h.page_cnt)
		return false;
	index = t->words + h.index_word + (page - h.first_page);
	rows = t->words + h.row_word;
	low = index[0];
	high = index[1];
	/* The first row of this page that is above the offset; within a page 16 bits are enough. */
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (rows[mid] >> 16 <= (offset & 0xffff))
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return false;
	number = rows[low - 1] & 0xffff;
	memcpy(rule, t->words + h.rule_word + 4 * (size_t)number, sizeof(*rule));
	return number;
}
