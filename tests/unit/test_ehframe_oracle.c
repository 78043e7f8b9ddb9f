/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Unwind rows against libdw, over every state of every FDE of real files.
 *
 * The test has its own translation from libdw's operations to a rule, or to the reason why there is
 * none; it is compared with the rule that the table gives, at the first and at the last byte of
 * each of libdw's states and of each row, and between FDEs.
 *
 *	test_ehframe_oracle		the files below, the vdso, and freshly compiled code
 *	test_ehframe_oracle PATH...	a table: every ELF file at or below each path (make
 *					test-oracle)
 */
#include "elf/ehframe.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <inttypes.h>
#include <libelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
#include <cmocka.h>

enum { RBX = 3, RBP = 6, RSP = 7, RIP = 16 };
enum { MAX_SHOWN = 10 };

enum verdict { RULE, NO_FDE, CFA_EXPR, RA_RULE, SP_RULE, DAMAGED, VERDICT_CNT };

static const char *const verdict_names[VERDICT_CNT] = { "rule",	   "no FDE",  "CFA expression",
							"RA rule", "SP rule", "damaged" };

struct subject {
	const char *name;
	struct elf_file *ef;
	struct unwind_table *table;
	Elf *elf;
	Dwarf *dbg;
	Dwarf_CFI *cfi, *debug_cfi; /* .eh_frame; .debug_frame: for what the first does not cover */
	uint64_t compared, mismatches, fp_lost, row_equal;
	uint64_t verdicts[VERDICT_CNT];
	uint64_t signals, derefs, plts, fp_offs;
};

/* ---- libdw -> rule ------------------------------------------------------------------------ */

/* bregN + off, perhaps with plus_uconst behind it. */
static bool is_address(const Dwarf_Op *ops, size_t n, unsigned int *reg, int64_t *off)
{
	if (!n)
		return false;
	if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
		*reg = ops[0].atom - DW_OP_breg0;
		*off = (int64_t)ops[0].number;
	} else if (ops[0].atom == DW_OP_bregx) {
		*reg = (unsigned int)ops[0].number;
		*off = (int64_t)ops[0].number2;
	} else {
		return false;
	}
	for (size_t i = 1; i < n; i++) {
		if (ops[i].atom != DW_OP_plus_uconst)
			return false;
		*off += (int64_t)ops[i].number;
	}
	return true;
}

static bool is_plt(const Dwarf_Op *ops, size_t n, struct unwind_rule *r)
{
	if (n != 9 || ops[0].atom != DW_OP_breg7 || ops[1].atom != DW_OP_breg16 ||
	    ops[2].atom != DW_OP_lit15 || ops[3].atom != DW_OP_and || ops[5].atom != DW_OP_ge ||
	    ops[6].atom != DW_OP_lit3 || ops[7].atom != DW_OP_shl || ops[8].atom != DW_OP_plus)
		return false;
	r->cfa_kind = CFA_PLT;
	r->cfa_reg = RSP;
	r->cfa_off = (int32_t)ops[0].number;
	r->cfa_add = (int16_t)(ops[4].atom - DW_OP_lit0);
	return true;
}

static bool is_indexed(const Dwarf_Op *ops, size_t n, struct unwind_rule *r)
{
	if (n < 6 || n > 7 || ops[0].atom != DW_OP_breg7 || ops[1].atom < DW_OP_breg0 ||
	    ops[1].atom > DW_OP_breg15 || ops[1].number || ops[2].atom != DW_OP_lit8 ||
	    ops[3].atom != DW_OP_mul || ops[4].atom != DW_OP_plus || ops[5].atom != DW_OP_deref ||
	    (n == 7 && ops[6].atom != DW_OP_plus_uconst))
		return false;
	r->cfa_kind = CFA_DEREF_INDEX;
	r->cfa_reg = (uint8_t)(RSP | (ops[1].atom - DW_OP_breg0) << 4);
	r->cfa_off = (int32_t)ops[0].number;
	r->cfa_add = n == 7 ? (int16_t)ops[6].number : 0;
	return true;
}

static bool cfa_rule(const Dwarf_Op *ops, size_t n, struct unwind_rule *r)
{
	unsigned int reg;
	int64_t off;

	if (is_address(ops, n, &reg, &off)) {
		r->cfa_kind = CFA_REG;
	} else if (n >= 2 && ops[1].atom == DW_OP_deref && is_address(ops, 1, &reg, &off)) {
		r->cfa_kind = CFA_DEREF_REG;
		for (size_t i = 2; i < n; i++) {
			if (ops[i].atom != DW_OP_plus_uconst)
				return false;
			r->cfa_add = (int16_t)(r->cfa_add + (int16_t)ops[i].number);
		}
	} else {
		return is_plt(ops, n, r) || is_indexed(ops, n, r);
	}
	r->cfa_reg = (uint8_t)reg;
	r->cfa_off = (int32_t)off;
	return true;
}

enum where { W_SAME, W_UNDEF, W_CFA, W_CFA_VALUE, W_ADDRESS, W_OTHER };

struct reg {
	enum where where;
	unsigned int base; /* of W_ADDRESS */
	int64_t off;
};

static struct reg register_rule(Dwarf_Frame *frame, int regno)
{
	struct reg g = { .where = W_OTHER };
	Dwarf_Op mem[3], *ops;
	bool value;
	size_t n;

	if (dwarf_frame_register(frame, regno, mem, &ops, &n))
		return g;
	if (!n) {
		g.where = ops ? W_UNDEF : W_SAME;
		return g;
	}
	value = ops[n - 1].atom == DW_OP_stack_value;
	n -= value;
	if (n > 1 && ops[0].atom == DW_OP_call_frame_cfa && !value &&
	    is_address(ops + 1, n - 1, &g.base, &g.off)) {
		g.where = W_ADDRESS; /* an expression: it starts with the CFA on its stack */
	} else if (n && ops[0].atom == DW_OP_call_frame_cfa) {
		for (size_t i = 1; i < n; i++) {
			if (ops[i].atom != DW_OP_plus_uconst)
				return g;
			g.off += (int64_t)ops[i].number;
		}
		g.where = value ? W_CFA_VALUE : W_CFA;
	}
	return g;
}

/* Relative to the CFA, when the address is. */
static void rebase(struct reg *g, const struct unwind_rule *r)
{
	if (g->where != W_ADDRESS || r->cfa_kind != CFA_REG || g->base != r->cfa_reg)
		return;
	g->where = W_CFA;
	g->off -= r->cfa_off;
}

static bool is_signal(const struct unwind_rule *r, const struct reg *fp, const struct reg *ra)
{
	/* struct sigcontext: rbp lies 40 below rsp, rip 8 above it */
	return r->cfa_kind == CFA_DEREF_REG && r->cfa_reg == RSP && ra->where == W_ADDRESS &&
	       ra->base == RSP && ra->off == r->cfa_off + 8 && fp->where == W_ADDRESS &&
	       fp->base == RSP && fp->off == r->cfa_off - 40;
}

static void set_fp(struct unwind_rule *r, const struct reg *fp, struct subject *s)
{
	if (fp->where == W_CFA) {
		r->fp_rule = REG_CFA_OFF;
		r->fp_off = (int32_t)fp->off;
	} else if (fp->where == W_ADDRESS && fp->base == RBP) {
		r->fp_rule = REG_FP_OFF;
		r->fp_off = (int32_t)fp->off;
	} else if (fp->where != W_SAME) {
		r->fp_rule = REG_UNDEF;
		s->fp_lost += fp->where != W_UNDEF;
	}
}

/*
 * libdw's defaults for the ABI list register 0 as rbx, which has number 3 (elfutils 0.188,
 * backends/x86_64_cfi.c): when nothing is said of rbx, it says "undefined".
 */
static void set_rbx(struct unwind_rule *r, const struct reg *rbx)
{
	if (r->cfa_kind != CFA_REG || rbx->where == W_SAME || rbx->where == W_UNDEF)
		return;
	r->cfa_add = rbx->where == W_CFA && rbx->off == (int16_t)rbx->off ? (int16_t)rbx->off
									  : UW_EXTRA_LOST;
}

static enum verdict expected_rule(struct subject *s, Dwarf_Frame *frame, bool signal,
				  struct unwind_rule *r)
{
	struct reg fp = register_rule(frame, RBP), sp = register_rule(frame, RSP);
	struct reg ra = register_rule(frame, RIP), rbx = register_rule(frame, RBX);
	Dwarf_Op *ops;
	size_t n;

	memset(r, 0, sizeof(*r));
	if (ra.where == W_UNDEF) {
		r->cfa_kind = CFA_END;
		return RULE;
	}
	if (dwarf_frame_cfa(frame, &ops, &n) || !cfa_rule(ops, n, r))
		return CFA_EXPR;
	if (signal && is_signal(r, &fp, &ra)) {
		r->cfa_kind = CFA_SIGNAL;
		r->cfa_off -= 160; /* of rsp in struct ucontext */
		return RULE;
	}
	if (sp.where != W_CFA_VALUE || sp.off)
		return SP_RULE;
	rebase(&fp, r);
	rebase(&ra, r);
	rebase(&rbx, r);
	if (ra.where != W_CFA || ra.off != (int16_t)ra.off)
		return RA_RULE;
	r->ra_rule = REG_CFA_OFF;
	r->ra_off = (int16_t)ra.off;
	set_fp(r, &fp, s);
	set_rbx(r, &rbx);
	return RULE;
}

/* ---- Comparison --------------------------------------------------------------------------- */

static void show(const char *what, const struct unwind_rule *r)
{
	print_message("    %s: kind %u reg %u off %d add %d, fp %u %d, ra %u %d\n", what,
		      r->cfa_kind, r->cfa_reg, r->cfa_off, r->cfa_add, r->fp_rule, r->fp_off,
		      r->ra_rule, r->ra_off);
}

static void count_kind(struct subject *s, const struct unwind_rule *r)
{
	s->signals += r->cfa_kind == CFA_SIGNAL;
	s->derefs += r->cfa_kind == CFA_DEREF_REG;
	s->plts += r->cfa_kind == CFA_PLT;
	s->fp_offs += r->fp_rule == REG_FP_OFF;
}

static enum verdict frame_at(Dwarf_CFI *cfi, uint64_t addr, Dwarf_Frame **frame)
{
	if (!cfi)
		return NO_FDE;
	if (!dwarf_cfi_addrframe(cfi, addr, frame))
		return RULE;
	return strstr(dwarf_errmsg(-1), "invalid") ? DAMAGED : NO_FDE;
}

/* What libdw says. *end: where its state ends; 0: no FDE here. */
static enum verdict ask_libdw(struct subject *s, uint64_t addr, struct unwind_rule *want,
			      uint64_t *end)
{
	Dwarf_Frame *frame = NULL;
	Dwarf_Addr first, last;
	enum verdict v;
	bool signal;

	*end = 0;
	v = frame_at(s->cfi, addr, &frame);
	if (v == NO_FDE)
		v = frame_at(s->debug_cfi, addr, &frame);
	if (v != RULE)
		return v;
	dwarf_frame_info(frame, &first, &last, &signal);
	*end = last;
	v = expected_rule(s, frame, signal, want);
	free(frame);
	return v;
}

/* Compares at one address; where libdw's state ends, or 0. */
static uint64_t compare_at(struct subject *s, uint64_t addr)
{
	struct unwind_rule want = { 0 }, got = { 0 };
	uint64_t off, end;
	enum verdict v;
	bool found;

	if (!elf_file__addr_to_off(s->ef, addr, &off))
		return 0;
	v = ask_libdw(s, addr, &want, &end);
	found = unwind_table__find(s->table, off, &got);
	s->compared++;
	s->verdicts[v]++;
	count_kind(s, &got);
	if (found == (v == RULE) && (!found || !memcmp(&want, &got, sizeof(want))))
		return end;
	if (s->mismatches++ < MAX_SHOWN) {
		print_message("  %s: at 0x%" PRIx64 ": libdw: %s, table: %s\n", s->name, addr,
			      verdict_names[v], found ? "rule" : "no rule");
		show("libdw", &want);
		show("table", &got);
	}
	return end;
}

/* All of libdw's states in [addr, limit), and what lies between them byte by byte. */
static void compare_range(struct subject *s, uint64_t addr, uint64_t limit)
{
	while (addr < limit) {
		uint64_t end = compare_at(s, addr);

		if (end <= addr)
			end = addr + (limit - addr > 4096 && !(addr & 15) ? 16 : 1);
		else
			compare_at(s, end - 1);
		addr = end;
	}
}

static uint64_t row_offset(const struct unwind_table *t, const struct unwind_header *h,
			   uint32_t page, uint32_t row)
{
	uint64_t off = (uint64_t)(h->first_page + page) << UW_PAGE_BITS;
	uint32_t low = t->words[h->row_word + row] >> 16;

	assert_int_equal(low & 0xff00, off & 0xff00);
	return off | (low & 0xff);
}

/* The rows are in order and in their pages; each row's first byte, and the last one before it. */
static void compare_rows(struct subject *s)
{
	const struct unwind_table *t = s->table;
	struct unwind_header h;
	uint64_t last = 0, off, addr, before;

	memcpy(&h, t->words, sizeof(h));
	assert_int_equal(t->words[h.index_word], 0);
	assert_int_equal(t->words[h.index_word + h.page_cnt], h.row_cnt);
	for (uint32_t page = 0; page < h.page_cnt; page++) {
		const uint32_t *index = t->words + h.index_word + page;

		for (uint32_t row = index[0]; row < index[1]; row++) {
			off = row_offset(t, &h, page, row);
			assert_true(off > last);
			last = off;
			before = s->mismatches;
			s->row_equal++;
			if (!elf_file__off_to_addr(s->ef, off, &addr))
				continue; /* the row behind the last FDE, at the segment's end */
			compare_at(s, addr);
			compare_at(s, addr - 1);
			s->row_equal -= s->mismatches != before;
		}
	}
}

static void compare_fde(struct subject *s, uint64_t addr)
{
	uint64_t start, end, frame_end;
	struct unwind_rule unused;
	bool found = ehframe__fde_at(s->ef, addr, &start, &end);
	enum verdict v = ask_libdw(s, addr, &unused, &frame_end);

	if (found != (v != NO_FDE) || (found && (start > addr || end <= addr || frame_end > end))) {
		if (s->mismatches++ < MAX_SHOWN)
			print_message("  %s: fde_at 0x%" PRIx64 ": libdw: %s, found %d\n", s->name,
				      addr, verdict_names[v], found);
	}
}

static void compare_subject(struct subject *s)
{
	const struct elf_segment *segments;
	size_t cnt;

	compare_rows(s);
	segments = elf_file__segments(s->ef, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		if (!segments[i].exec)
			continue;
		compare_range(s, segments[i].addr, segments[i].addr + segments[i].file_size);
		for (uint64_t a = 0; a < segments[i].file_size; a += 509)
			compare_fde(s, segments[i].addr + a);
	}
}

static void report(const struct subject *s)
{
	const struct unwind_stats *st = &s->table->stats;

	print_message("%s: %" PRIu64 " FDEs (%" PRIu64 " bad), %" PRIu64 " rows, %.2f bytes/row, "
		      "%" PRIu64 " compared, %" PRIu64 " mismatches\n",
		      s->name, st->fde_cnt, st->fde_bad, st->row_cnt,
		      4.0 * (double)s->table->word_cnt / (double)st->row_cnt, s->compared,
		      s->mismatches);
	print_message("  addresses: %" PRIu64 " deref, %" PRIu64 " plt, %" PRIu64
		      " signal, %" PRIu64 " fp_off, %" PRIu64 " fp lost;",
		      s->derefs, s->plts, s->signals, s->fp_offs, s->fp_lost);
	for (int v = CFA_EXPR; v < VERDICT_CNT; v++)
		print_message(" %" PRIu64 " %s%s", s->verdicts[v], verdict_names[v],
			      v + 1 < VERDICT_CNT ? "," : "\n");
	print_message("  rows without a rule:");
#define X(id, text) print_message(" %" PRIu64 " " #id, st->row_reason[UNWIND_##id]);
	UNWIND_REASONS(X)
#undef X
	print_message("\n");
}

/* Takes over ef and elf. False: no unwind information; errno is EBADMSG, E2BIG...: not readable. */
static bool open_subject(struct subject *s)
{
	assert_non_null(s->ef);
	assert_non_null(s->elf);
	s->cfi = dwarf_getcfi_elf(s->elf);
	s->dbg = dwarf_begin_elf(s->elf, DWARF_C_READ, NULL);
	s->debug_cfi = s->dbg ? dwarf_getcfi(s->dbg) : NULL;
	s->table = unwind_table__build(s->ef);
	return s->table;
}

static void close_subject(struct subject *s)
{
	unwind_table__free(s->table);
	elf_file__close(s->ef);
	if (s->cfi)
		dwarf_cfi_end(s->cfi);
	if (s->dbg)
		dwarf_end(s->dbg);
	elf_end(s->elf);
}

/* Takes over ef and elf. */
static void check_subject(const char *name, struct elf_file *ef, Elf *elf)
{
	struct subject s = { .name = name, .ef = ef, .elf = elf };

	assert_true(open_subject(&s));
	compare_subject(&s);
	report(&s);
	assert_true(s.table->stats.row_cnt > 1);
	assert_int_equal(s.mismatches, 0);
	close_subject(&s);
}

static void check_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	check_subject(path, elf_file__open(dup(fd), path), elf_begin(fd, ELF_C_READ_MMAP, NULL));
	close(fd);
}

/* ---- Subjects ------------------------------------------------------------------------------ */

/* The first file that a pattern names; skips the test when there is none. */
static void check_pattern(const char *pattern)
{
	glob_t g;

	if (glob(pattern, 0, NULL, &g)) {
		print_message("missing: %s\n", pattern);
		skip();
	}
	check_file(g.gl_pathv[0]);
	globfree(&g);
}

#define FILE_TEST(name, pattern)                                                                   \
	static void name(void **state)                                                             \
	{                                                                                          \
		(void)state;                                                                       \
		check_pattern(pattern);                                                            \
	}

FILE_TEST(libc, "/lib/x86_64-linux-gnu/libc.so.6")
FILE_TEST(ld_so, "/lib64/ld-linux-x86-64.so.2")
FILE_TEST(libstdcxx, "/lib/x86_64-linux-gnu/libstdc++.so.6")
FILE_TEST(libcrypto, "/lib/x86_64-linux-gnu/libcrypto.so.3")
FILE_TEST(debian_libpython, "/usr/lib/x86_64-linux-gnu/libpython3.*.so.1.0")
FILE_TEST(debian_python, "/usr/bin/python3.1?")
FILE_TEST(numpy, "/usr/lib/python3/dist-packages/numpy/core/_multiarray_umath.*.so")
FILE_TEST(openblas, "/usr/lib/x86_64-linux-gnu/*/libopenblas*.so")

/* A CPython built with debug information and shared: PYENV_ROOT, or ~/.pyenv. */
static void pyenv_libpython(void **state)
{
	const char *root = getenv("PYENV_ROOT"), *home = getenv("HOME");
	char pattern[4096];

	(void)state;
	if (root)
		snprintf(pattern, sizeof(pattern), "%s/versions/3.12*/lib/libpython3.*.so.1.0",
			 root);
	else
		snprintf(pattern, sizeof(pattern),
			 "%s/.pyenv/versions/3.12*/lib/libpython3.*.so.1.0", home ? home : "");
	check_pattern(pattern);
}

static void vdso(void **state)
{
	const char *image = (const char *)getauxval(AT_SYSINFO_EHDR);
	size_t size = 2 * 4096;

	(void)state;
	if (!image) {
		print_message("missing: AT_SYSINFO_EHDR (the vdso)\n");
		skip();
	}
	check_subject("[vdso]", elf_file__open_memory(image, size, "[vdso]"),
		      elf_memory((char *)image, size));
}

/* What the libraries above have none of: realigned frames, and .debug_frame alone. */
static const char source[] =
	"void use(void *);\n"
	"int realigned(int n) { int v[8] __attribute__((aligned(64))); char *p = "
	"__builtin_alloca(n);\n"
	"  use(v); use(p); return v[n & 7]; }\n"
	"int plain(int n) { int v[64]; use(v); if (n > 3) { use(v + 1); return v[n]; } return 0; "
	"}\n"
	"int leaf(int n) { return n * 3; }\n";
static const char other_source[] = "void use(void *);\n"
				   "int other(int n) { int v[64]; use(v); return v[n]; }\n";

static void write_source(char *path, const char *text)
{
	int fd = mkstemps(path, 2);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/*
 * `flags` for the first source, `other` for the second one, so that a file has rows of both kinds.
 */
static void check_compiled(const char *compiler, const char *flags, const char *other)
{
	char src[] = "/tmp/test_ehframe_XXXXXX.c", src2[] = "/tmp/test_ehframe_XXXXXX.c";
	char lib[sizeof(src) + 8], cmd[1024];

	snprintf(cmd, sizeof(cmd), "command -v %s >/dev/null 2>&1", compiler);
	if (system(cmd)) {
		print_message("missing: %s\n", compiler);
		skip();
	}
	write_source(src, source);
	write_source(src2, other_source);
	snprintf(lib, sizeof(lib), "%s.so", src);
	snprintf(cmd, sizeof(cmd),
		 "%s %s -fPIC -c -o %s.o %s && %s %s -fPIC -c -o %s.o %s && "
		 "%s %s -shared -nostdlib -o %s %s.o %s.o && rm %s.o %s.o",
		 compiler, flags, src, src, compiler, other, src2, src2, compiler, flags, lib, src,
		 src2, src, src2);
	assert_int_equal(system(cmd), 0);
	check_file(lib);
	unlink(src);
	unlink(src2);
	unlink(lib);
}

#define ROWS	    "-O2 -fasynchronous-unwind-tables"
#define REALIGNED   "-O2 -mstackrealign -fasynchronous-unwind-tables"
#define DEBUG_ROWS  "-O1 -g -fno-asynchronous-unwind-tables"
#define PACKED_ROWS DEBUG_ROWS " -gz=zlib"

#define COMPILED_TEST(name, compiler, flags, other)                                                \
	static void name(void **state)                                                             \
	{                                                                                          \
		(void)state;                                                                       \
		check_compiled(compiler, flags, other);                                            \
	}

COMPILED_TEST(gcc_realigned, "gcc", REALIGNED, REALIGNED)
COMPILED_TEST(gcc_debug_frame, "gcc", DEBUG_ROWS, DEBUG_ROWS)
COMPILED_TEST(gcc_both, "gcc", DEBUG_ROWS, ROWS)
COMPILED_TEST(gcc_compressed, "gcc", PACKED_ROWS, PACKED_ROWS)
COMPILED_TEST(gcc_compressed_both, "gcc", PACKED_ROWS, ROWS)
COMPILED_TEST(clang_realigned, "clang", REALIGNED, REALIGNED)

/* ---- The table of everything ---------------------------------------------------------------- */

struct sums {
	uint64_t files, bare, refused, fdes, bad, rows, equal, without, fp_lost, compared,
		mismatches;
	uint64_t reason[UNWIND_REASON_CNT];
};

static struct sums all;

static void add_subject(const struct subject *s)
{
	const struct unwind_stats *st = &s->table->stats;

	all.files++;
	all.fdes += st->fde_cnt;
	all.bad += st->fde_bad;
	all.rows += st->row_cnt;
	all.equal += s->row_equal;
	all.without += st->row_inexpressible;
	all.fp_lost += st->row_fp_lost;
	all.compared += s->compared;
	all.mismatches += s->mismatches;
	for (int i = 0; i < UNWIND_REASON_CNT; i++)
		all.reason[i] += st->row_reason[i];
	if (s->mismatches || st->fde_bad || st->row_inexpressible)
		report(s);
}

static int visit(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	struct subject s = { .name = path };
	int fd;

	(void)st, (void)at;
	if (kind != FTW_F || strstr(path, ".debug"))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	s.ef = elf_file__open(dup(fd), path);
	if (s.ef) {
		s.elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
		if (open_subject(&s)) {
			compare_subject(&s);
			add_subject(&s);
		} else if (errno == ENOENT) {
			all.bare++;
		} else {
			print_message("%s: %s\n", path, strerror(errno));
			all.refused++;
		}
		close_subject(&s);
	}
	close(fd);
	return 0;
}

static int print_table(char **paths)
{
	for (; *paths; paths++)
		nftw(*paths, visit, 16, FTW_PHYS);
	printf("files %" PRIu64 " (without unwind information %" PRIu64 ", refused %" PRIu64 ")\n"
	       "FDEs %" PRIu64 " (damaged %" PRIu64 ")\n"
	       "rows %" PRIu64 ", equal %" PRIu64 "\n"
	       "addresses compared %" PRIu64 ", different %" PRIu64 "\n"
	       "rows without a rule %" PRIu64 "\n",
	       all.files, all.bare, all.refused, all.fdes, all.bad, all.rows, all.equal,
	       all.compared, all.mismatches, all.without);
#define X(id, text) printf("  %" PRIu64 " %s\n", all.reason[UNWIND_##id], text);
	UNWIND_REASONS(X)
#undef X
	printf("rows without the frame pointer %" PRIu64 "\n", all.fp_lost);
	return all.files && !all.mismatches ? 0 : 1;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(libc),
		cmocka_unit_test(ld_so),
		cmocka_unit_test(libstdcxx),
		cmocka_unit_test(libcrypto),
		cmocka_unit_test(debian_libpython),
		cmocka_unit_test(debian_python),
		cmocka_unit_test(numpy),
		cmocka_unit_test(openblas),
		cmocka_unit_test(pyenv_libpython),
		cmocka_unit_test(vdso),
		cmocka_unit_test(gcc_realigned),
		cmocka_unit_test(gcc_debug_frame),
		cmocka_unit_test(gcc_both),
		cmocka_unit_test(gcc_compressed),
		cmocka_unit_test(gcc_compressed_both),
		cmocka_unit_test(clang_realigned),
	};

	elf_version(EV_CURRENT);
	if (argc > 1)
		return print_table(argv + 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
