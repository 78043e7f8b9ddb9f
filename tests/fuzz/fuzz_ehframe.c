/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Any bytes as .eh_frame in a sound ELF file (the first byte says which kind): the table must keep
 * the promises of bpf/pyperf.h, because BPF will walk it.
 */
#include "elf/ehframe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "elfgen.h"

#define TEXT_SIZE 0x21000 /* more than the 16 bits of a row */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void check_rule(const struct unwind_rule *r)
{
	check(r->cfa_kind >= CFA_END && r->cfa_kind <= CFA_SWITCH);
	check(r->fp_rule <= REG_FP_OFF && r->ra_rule <= REG_CFA_OFF);
	check(r->fp_rule == REG_CFA_OFF || r->fp_rule == REG_FP_OFF || !r->fp_off);
	check(r->ra_rule == REG_CFA_OFF || !r->ra_off);
}

/* Rows ascend, lie in their pages and in the text, and name rules that exist. */
static void check_rows(const struct unwind_table *t, const struct unwind_header *h)
{
	const uint32_t *index = t->words + h->index_word, *rows = t->words + h->row_word;
	uint64_t last = 0;

	check(index[0] == 0 && index[h->page_cnt] == h->row_cnt);
	for (uint32_t p = 0; p < h->page_cnt; p++) {
		check(index[p] <= index[p + 1]);
		for (uint32_t i = index[p]; i < index[p + 1]; i++) {
			uint64_t off = (uint64_t)(h->first_page + p) << UW_PAGE_BITS;

			check((rows[i] >> 24) == ((off >> 8) & 0xff));
			off |= rows[i] >> 16 & 0xff;
			check(i == 0 || off > last);
			check(off <= GEN_TEXT_OFF + TEXT_SIZE);
			check((rows[i] & 0xffff) < h->rule_cnt);
			check(i == 0 || (rows[i] & 0xffff) != (rows[i - 1] & 0xffff));
			last = off;
		}
	}
	check(h->row_cnt > 0 && (rows[h->row_cnt - 1] & 0xffff) == 0);
}

static void check_table(const struct unwind_table *t, size_t size)
{
	struct unwind_header h;
	struct unwind_rule rule;

	memcpy(&h, t->words, sizeof(h));
	check(t->word_cnt % UW_CHUNK_WORDS == 0 && t->word_cnt <= UW_MAX_WORDS);
	check(h.index_word % 4 == 0 && h.row_word % 4 == 0 && h.rule_word % 4 == 0);
	check(h.index_word + h.page_cnt + 1 <= h.row_word);
	check(h.row_word + h.row_cnt <= h.rule_word);
	check(h.rule_word + 4 * h.rule_cnt <= t->word_cnt);
	check(h.rule_cnt <= UW_MAX_RULES);
	check(h.row_cnt <= 2 * size + 2);
	check_rows(t, &h);
	for (uint32_t i = 1; i < h.rule_cnt; i++) {
		memcpy(&rule, t->words + h.rule_word + 4 * i, sizeof(rule));
		check_rule(&rule);
	}
	for (uint64_t off = 0; off < GEN_TEXT_OFF + TEXT_SIZE + 4096; off += 61) {
		if (unwind_table__find(t, off, &rule))
			check_rule(&rule);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elfgen g = { .machine = EM_X86_64, .text_size = TEXT_SIZE };
	struct unwind_table *t;
	struct elf_file *ef;
	uint64_t start, end;
	uint8_t *image;

	if (size < 1 || size > 1U << 20)
		return 0;
	g.machine = data[0] & 1 ? EM_AARCH64 : EM_X86_64;
	g.debug_frame = data[0] & 2;
	g.compressed = (data[0] & 6) == 6;
	g.eh = data + 1;
	g.eh_size = (uint32_t)size - 1;
	image = elfgen_make(&g, &size);
	ef = elf_file__open_memory(image, size, "fuzz");
	free(image);
	check(ef);
	t = unwind_table__build(ef);
	if (t)
		check_table(t, g.eh_size);
	unwind_table__free(t);
	if (ehframe__fde_at(ef, GEN_TEXT_ADDR + 0x1040, &start, &end))
		check(start <= GEN_TEXT_ADDR + 0x1040 && end > GEN_TEXT_ADDR + 0x1040);
	elf_file__close(ef);
	return 0;
}

/* ---- Inputs -------------------------------------------------------------------------------- */

static size_t add_insns(uint8_t *p, uint32_t variant)
{
	static const uint8_t insns[] = {
		0x0e, 16,   0x86, 2,	0x41, 0x0d, 6,	  0x44, 0x0a, 0x2e, 8,	  0x0f, 3,
		0x76, 0x78, 6, /* DRAP */
		0x10, 6,    2,	  0x76, 0,    0x48, 0x0b, 0x02, 9,    0x0f, 11,	  0x77, 8,
		0x80, 0,    0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22, /* .plt */
		0x03, 20,   0,	  0x0c, 7,    8,    0x05, 6,	3,    0x06, 6,	  0x08, 6,
		0x11, 6,    0x7e, 0x41, 0x12, 7,    0x7e, 0x0f, 9,    0x77, 8,	  0x79, 0,
		0x38, 0x1e, 0x22, 0x06, 0x23, 8,    0x41, /* index */
		0x13, 0x7d, 0x41, 0x14, 7,    0,    0x15, 7,	0,    0x41, 0x16, 6,	1,
		0x36, 0x09, 6,	  3,	0x44, 0xc6, 0x04, 1,	0,    0,    0,	  0x07, 16
	};
	size_t n = variant ? sizeof(insns) : 4;

	memcpy(p, insns, n);
	return n;
}

/* A CIE and a few FDEs. */
static size_t seed_by_hand(uint8_t kind, uint8_t *buf)
{
	static const uint8_t cie[] = { 20,   0,	 0, 0,	  0,  0, 0, 1,	  'z', 'R', 0, 1,
				       0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1,   0,   0, 0 };
	size_t n = 1;

	buf[0] = kind;
	memcpy(buf + n, cie, 4);
	memset(buf + n + 4, kind & 2 ? 0xff : 0, 4);
	memcpy(buf + n + 8, cie + 8, 16);
	if (kind & 1)
		buf[n + 14] = 30;
	n += 24;
	for (uint32_t i = 0; i < 4; i++) {
		uint8_t *p = buf + n;
		uint32_t len, id = kind & 2 ? 0 : (uint32_t)n - 1 + 4, size = 0x60 + i;
		int32_t pc = (int32_t)(GEN_TEXT_ADDR + 0x1000 + ((i * 7) % 4) * 0xfff0 -
				       (GEN_EH_ADDR + n - 1 + 8));

		memcpy(p + 4, &id, 4);
		memcpy(p + 8, &pc, 4);
		memcpy(p + 12, &size, 4);
		p[16] = 0;
		len = 13 + (uint32_t)add_insns(p + 17, i);
		memcpy(p, &len, 4);
		n += 4 + len;
	}
	return n;
}

size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	return i < 4 && cap >= 1024 ? seed_by_hand((uint8_t)i, buf) : 0;
}
