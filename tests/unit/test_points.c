/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where calls can be seen: instructions against objdump, on the eval loops of this machine's
 * interpreters; dispatch tables in files made by hand; opcodes against what each interpreter says
 * of itself; static probes against readelf.
 */
#include "trace/points.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elfgen.h"
#include "pythons.h"
#include "elf/insn.h"
#include "trace/auditor.h"
#include "trace/collector.h"
#include "trace/exits.h"
#include "trace/target.h"
#include "elf/usdt.h"

/* ---- instructions ---------------------------------------------------------------------------- */

struct sample {
	uint8_t code[INSN_MAX];
	uint8_t size; /* 0: no instruction */
	bool emulated, direct, ends;
	uint64_t target; /* from pc 0x1000 */
};

/*
 * Sizes and targets are what objdump makes of the bytes; what is emulated, what the kernel's source
 * says.
 */
static void test_insn(void **state)
{
	static const struct sample samples[] = {
		{ { 0x55 }, 1, true, false, false, 0 },	       /* push %rbp */
		{ { 0x41, 0x57 }, 2, true, false, false, 0 },  /* push %r15 */
		{ { 0x48, 0x55 }, 2, false, false, false, 0 }, /* rex.W push */
		{ { 0x66, 0x55 }, 2, false, false, false, 0 }, /* push %bp */
		{ { 0x90 }, 1, true, false, false, 0 },	       /* nop */
		{ { 0x66, 0x90 }, 2, false, false, false, 0 }, /* xchg %ax,%ax */
		{ { 0x41, 0x90 }, 2, false, false, false, 0 }, /* xchg %eax,%r8d */
		{ { 0x0f, 0x1f, 0x44, 0x00, 0x00 }, 5, false, false, false, 0 },    /* nop5 */
		{ { 0xf3, 0x0f, 0x1e, 0xfa }, 4, false, false, false, 0 },	    /* endbr64 */
		{ { 0x74, 0xfe }, 2, true, true, false, 0x1000 },		    /* je . */
		{ { 0x0f, 0x85, 0, 1, 0, 0 }, 6, true, true, false, 0x1106 },	    /* jne */
		{ { 0xe9, 0xfb, 0xff, 0xff, 0xff }, 5, true, true, true, 0x1000 },  /* jmp . */
		{ { 0xeb, 0x10 }, 2, true, true, true, 0x1012 },		    /* jmp */
		{ { 0xe8, 0x00, 0x10, 0x00, 0x00 }, 5, true, true, false, 0x2005 }, /* call */
		{ { 0xf2, 0xe9, 0, 0, 0, 0 }, 6, false, true, true, 0x1006 },	    /* bnd jmp */
		{ { 0xe3, 0x02 }, 2, false, true, false, 0x1004 },		    /* jrcxz */
		{ { 0xc3 }, 1, false, false, true, 0 },				    /* ret */
		{ { 0xff, 0xe0 }, 2, false, false, true, 0 },			    /* jmp *%rax */
		{ { 0x3e, 0xff, 0xe0 }, 3, false, false, true, 0 }, /* notrack jmp *%rax */
		{ { 0xff, 0xd0 }, 2, false, false, false, 0 },	    /* call *%rax */
		{ { 0x0f, 0x0b }, 2, false, false, true, 0 },	    /* ud2 */
		{ { 0x48, 0x8d, 0x05, 1, 2, 3, 4 }, 7, false, false, false, 0 }, /* lea rip+ */
		{ { 0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8 }, 10, false, false, false, 0 }, /* movabs */
		{ { 0xf6, 0x43, 0x10, 0x01 }, 4, false, false, false, 0 }, /* testb $1,0x10(%rbx) */
		{ { 0xf6, 0x5b, 0x10 }, 3, false, false, false, 0 },	   /* negb 0x10(%rbx) */
		{ { 0xc5, 0xf8, 0x77 }, 3, false, false, false, 0 },	   /* vzeroupper */
		{ { 0xc4, 0xe3, 0x79, 0x14, 0xc0, 0x01 }, 6, false, false, false, 0 }, /* vpextrb */
		{ { 0x06 }, 0, false, false, false, 0 },
		{ { 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
		    0x66, 0x66 },
		  0,
		  false,
		  false,
		  false,
		  0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
		const struct sample *s = &samples[i];
		struct insn insn;
		int err = insn__decode(s->code, sizeof(s->code), 0x1000, &insn);

		assert_int_equal(err, s->size ? 0 : -EINVAL);
		if (err)
			continue;
		if (insn.size != s->size || insn.emulated != s->emulated ||
		    insn.direct != s->direct || insn.ends != s->ends || insn.target != s->target)
			fail_msg("instruction %zu: %u bytes, target 0x%" PRIx64, i, insn.size,
				 insn.target);
		/* It does not end in the middle. */
		for (size_t left = 0; left < s->size; left++)
			assert_int_equal(insn__decode(s->code, left, 0x1000, &insn), -EINVAL);
	}
}

/* "  52b29d:\t0f 85 ...\tjne    52c000 <...>": address, number of bytes, mnemonic. False: none. */
static bool parse_line(const char *line, uint64_t *addr, unsigned *size, char mnemonic[32])
{
	const char *p;
	int used = 0;

	if (sscanf(line, " %" SCNx64 ":\t%n", addr, &used) != 1 || !used)
		return false;
	p = line + used;
	for (*size = 0; isxdigit((unsigned char)p[0]) && isxdigit((unsigned char)p[1]); p += 3)
		(*size)++;
	p = strchr(p, '\t');
	return p && sscanf(p, "%31s", mnemonic) == 1;
}

static bool is_mnemonic_emulated(const char *m, const char *line, const uint8_t *code,
				 unsigned size)
{
	bool indirect = strchr(strrchr(line, '\t'), '*') != NULL;

	if (!strcmp(m, "push"))
		return size == 1 || (size == 2 && code[0] == 0x41 && (code[1] & 0xf8) == 0x50);
	if (!strcmp(m, "nop"))
		return size == 1;
	return (!strcmp(m, "jmp") || !strcmp(m, "call") || (m[0] == 'j' && strcmp(m, "jrcxz"))) &&
	       !indirect;
}

/* Each instruction of the first part of the eval loop, as objdump sees it. Their number. */
static unsigned compare_eval(const struct target *t)
{
	uint64_t start = t->py.interp.eval[0].start, end = t->py.interp.eval[0].end, addr;
	char cmd[TARGET_PATH_MAX + 256], *line = NULL, mnemonic[32];
	unsigned cnt = 0, size;
	size_t cap = 0;
	FILE *f;

	snprintf(cmd, sizeof(cmd),
		 "objdump -d -w --start-address=0x%" PRIx64 " --stop-address=0x%" PRIx64 " '%s'",
		 start, end, t->path);
	f = popen(cmd, "r");
	assert_non_null(f);
	while (getline(&line, &cap, f) > 0) {
		uint8_t code[INSN_MAX] = { 0 };
		struct insn insn;

		if (!parse_line(line, &addr, &size, mnemonic) || !size)
			continue;
		assert_int_equal(elf_file__read(t->ef, addr, code, size), 0);
		if (insn__decode(code, size, addr, &insn) || insn.size != size)
			fail_msg("%s: %s", t->path, line);
		if (insn.emulated != is_mnemonic_emulated(mnemonic, line, code, size))
			fail_msg("%s: emulated: %d: %s", t->path, insn.emulated, line);
		cnt++;
	}
	free(line);
	pclose(f);
	return cnt;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define EVAL_START (GEN_TEXT_ADDR + 0x1000)
#define EVAL_END   (GEN_TEXT_ADDR + 0x3000)

/* What dispatch__find() says of a file with these words behind each other. */
static int find_in(const uint64_t *words, size_t cnt, uint64_t *addr, uint64_t *table)
{
	const struct code_range r = { EVAL_START, EVAL_END };
	struct elfgen g = { .machine = EM_X86_64,
			    .text_size = 0x4000,
			    .eh = (const uint8_t *)words,
			    .eh_size = (uint32_t)(cnt * 8) };
	size_t size;
	uint8_t *image = elfgen_make(&g, &size);
	struct elf_file *ef = elf_file__open_memory(image, size, "forged");
	int err;

	assert_non_null(ef);
	err = dispatch__find(ef, &r, 1, table, addr);
	elf_file__close(ef);
	free(image);
	return err;
}

/* cnt words into the eval loop, from words[at] on. */
static void put_table(uint64_t *words, size_t at, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		words[at + i] = EVAL_START + 16 * (i % 256);
}

static void test_table(void **state)
{
	static const struct {
		size_t at[2], cnt[2];
		int err;
	} cases[] = {
		{ { 0, 0 }, { 0, 0 }, -ENOENT },
		{ { 10, 0 }, { 256, 0 }, 0 },
		{ { 0, 0 }, { 256, 0 }, 0 },
		{ { 10, 0 }, { 255, 0 }, -ENOENT },
		{ { 10, 0 }, { 257, 0 }, -ENOENT },
		{ { 10, 267 }, { 256, 255 }, 0 },
		{ { 10, 267 }, { 256, 256 }, -EEXIST },
		{ { 10, 0 }, { 512, 0 }, -ENOENT },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t words[1024] = { 0 }, table[OPCODE_CNT], addr = 0;

		for (int k = 0; k < 2; k++)
			put_table(words, cases[i].at[k], cases[i].cnt[k]);
		if (find_in(words, 1024, &addr, table) != cases[i].err)
			fail_msg("case %zu", i);
		if (cases[i].err)
			continue;
		assert_int_equal(addr, GEN_EH_ADDR + 8 * cases[i].at[0]);
		assert_memory_equal(table, words + cases[i].at[0], sizeof(table));
	}
}

/* 3.15 with a JIT: in front of the table or behind it is another one with one address. */
static void test_second_table(void **state)
{
	(void)state;
	for (size_t first = 0; first < 2; first++) {
		uint64_t words[1024] = { 0 }, table[OPCODE_CNT], addr;

		put_table(words, 8, 512);
		for (size_t i = 0; i < 256; i++)
			words[8 + 256 * (1 - first) + i] = EVAL_START + 8;
		assert_int_equal(find_in(words, 1024, &addr, table), 0);
		assert_int_equal(addr, GEN_EH_ADDR + 8 * (8 + 256 * first));
	}
}

/* Words that lead elsewhere end a run: the end of the loop is not in it. */
static void test_bounds(void **state)
{
	uint64_t words[1024] = { 0 }, table[OPCODE_CNT], addr;

	(void)state;
	put_table(words, 8, 256);
	words[8 + 100] = EVAL_END;
	assert_int_equal(find_in(words, 1024, &addr, table), -ENOENT);
	words[8 + 100] = EVAL_END - 1;
	assert_int_equal(find_in(words, 1024, &addr, table), 0);
	words[8 + 100] = EVAL_START - 1;
	assert_int_equal(find_in(words, 1024, &addr, table), -ENOENT);
}

/* ---- real interpreters ----------------------------------------------------------------------- */

/* The opcodes that the interpreter itself names; the rest of the line is theirs. */
#define ASK                                                                                        \
	"import opcode, sys\n"                                                                     \
	"m = dict(opcode.opmap)\n"                                                                 \
	"try:\n"                                                                                   \
	"    import _opcode_metadata as o\n"                                                       \
	"    m.update(o._specialized_opmap)\n"                                                     \
	"    m.update(o.opmap)\n"                                                                  \
	"except ImportError: pass\n"                                                               \
	"if sys.version_info[:2] == (3, 11): m['RESUME_QUICK'] = 150\n"                            \
	"k = lambda n: (2 if n.replace('INSTRUMENTED_', '') in ('RESUME', 'RESUME_CHECK',"         \
	" 'RESUME_CHECK_JIT', 'RESUME_QUICK') else 3 if n.replace('INSTRUMENTED_', '') in"         \
	" ('RETURN_VALUE', 'RETURN_CONST') else 4 if n.replace('INSTRUMENTED_', '') =="            \
	" 'YIELD_VALUE' else 0)\n"                                                                 \
	"print(' '.join(sorted('%d:%d' % (k(n), m[n]) for n in m if k(n))))\n"

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Opcodes and what they are used for, as the program prints them. */
static void check_opcodes(const char *python, const struct trace_points *tp)
{
	char cmd[4096], theirs[1024] = "", ours[1024] = "", one[TRACE_POINTS_MAX][16];
	const char *last = "";
	size_t cnt = 0;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "'%s' -c \"%s\"", python, ASK);
	f = popen(cmd, "r");
	assert_non_null(f);
	assert_non_null(fgets(theirs, sizeof(theirs), f));
	pclose(f);
	theirs[strcspn(theirs, "\n")] = '\0';
	for (size_t i = 0; i < tp->cnt; i++)
		if (tp->at[i].opcode)
			snprintf(one[cnt++], sizeof(one[0]), "%u:%u", tp->at[i].kind,
				 tp->at[i].opcode);
	qsort(one, cnt, sizeof(one[0]), by_text);
	/* BOLT makes copies of an opcode's code. */
	for (size_t i = 0; i < cnt; last = one[i++])
		if (strcmp(one[i], last))
			snprintf(ours + strlen(ours), sizeof(ours) - strlen(ours), "%s%s",
				 i ? " " : "", one[i]);
	assert_string_equal(ours, theirs);
}

static void check_points(const struct target *t, const struct trace_points *tp)
{
	bool call = false, end = false, raise = false;

	for (size_t i = 0; i < tp->cnt; i++) {
		const struct trace_point *p = &tp->at[i];
		uint64_t off;

		assert_true(elf_file__addr_to_off(t->ef, p->addr, &off));
		assert_int_equal(off, p->offset);
		assert_true(p->addr >= p->handler && p->addr - p->handler < 400);
		/* What is hit at each call costs little. */
		if (p->kind <= POINT_RESUME && !p->first_calls_only)
			assert_true(p->emulated && !p->joined);
		call |= p->kind <= POINT_RESUME;
		end |= p->kind >= POINT_RETURN && p->kind <= POINT_EXIT;
		raise |= p->kind == POINT_RAISE;
		/* --ret would be refused. */
		assert_true(p->kind != POINT_EXIT || p->place != PLACE_UNKNOWN);
		for (size_t k = 0; k < i; k++)
			assert_true(tp->at[k].addr != p->addr);
	}
	assert_true(call && end && raise && !tp->why_no_returns);
	assert_int_equal(tp->table != 0, t->py.version_hex >= 0x030b0000);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The exit of a function that jumps to its second instruction. */
static struct exit_point exit_of(const uint8_t *code, size_t cnt)
{
	struct elfgen g = { .machine = EM_X86_64, .text_size = 0x40 };
	struct code_range r = { GEN_TEXT_ADDR, GEN_TEXT_ADDR + 2 + cnt };
	struct exit_point out[2];
	size_t size, found = 0;
	uint8_t *image = elfgen_make(&g, &size);
	struct elf_file *ef;

	memcpy(image + GEN_TEXT_OFF, "\xeb\x00", 2);
	memcpy(image + GEN_TEXT_OFF + 2, code, cnt);
	ef = elf_file__open_memory(image, size, "forged");
	assert_non_null(ef);
	assert_int_equal(exits__find(ef, &r, 1, out, &found, 2), 0);
	assert_int_equal(found, 1);
	assert_int_equal(out[0].addr, GEN_TEXT_ADDR);
	elf_file__close(ef);
	free(image);
	return out[0];
}

/* Where the value is that the code behind an exit returns. */
static void test_exit_values(void **state)
{
	static const struct {
		uint8_t code[16];
		uint8_t size, place, reg;
		int32_t offset;
	} cases[] = {
		/* add $8, %rsp */
		{ { 0x48, 0x83, 0xc4, 8, 0xc3 }, 5, PLACE_REGISTER, ARCH_REG_RETURN, 0 },
		/* mov %r15, %rax; pop %rbx */
		{ { 0x4c, 0x89, 0xf8, 0x5b, 0xc3 }, 5, PLACE_REGISTER, 15, 0 },
		/* mov %rbx, %rax in both forms; mov %r9, %rax */
		{ { 0x48, 0x89, 0xd8, 0xc3 }, 4, PLACE_REGISTER, 3, 0 },
		{ { 0x48, 0x8b, 0xc3, 0xc3 }, 4, PLACE_REGISTER, 3, 0 },
		{ { 0x49, 0x8b, 0xc1, 0xc3 }, 4, PLACE_REGISTER, 9, 0 },
		/* xor %eax, %eax; mov $0, %eax; mov $1, %eax */
		{ { 0x31, 0xc0, 0xc3 }, 3, PLACE_NOTHING, 0, 0 },
		{ { 0xb8, 0, 0, 0, 0, 0xc3 }, 6, PLACE_NOTHING, 0, 0 },
		{ { 0xb8, 1, 0, 0, 0, 0xc3 }, 6, PLACE_UNKNOWN, 0, 0 },
		/* mov 0x30(%rsp), %rax; add $16, %rsp; and in the other order */
		{ { 0x48, 0x8b, 0x44, 0x24, 0x30, 0x48, 0x83, 0xc4, 16, 0xc3 },
		  10,
		  PLACE_MEMORY,
		  ARCH_REG_SP,
		  0x30 },
		{ { 0x48, 0x83, 0xc4, 16, 0x48, 0x8b, 0x44, 0x24, 0x30, 0xc3 },
		  10,
		  PLACE_MEMORY,
		  ARCH_REG_SP,
		  0x40 },
		/* mov -0x18(%rbp), %rax; mov 0x100(%rbp), %rax; mov (%rsp), %rax */
		{ { 0x48, 0x8b, 0x45, 0xe8, 0xc3 }, 5, PLACE_MEMORY, ARCH_REG_FP, -0x18 },
		{ { 0x48, 0x8b, 0x85, 0, 1, 0, 0, 0xc3 }, 8, PLACE_MEMORY, ARCH_REG_FP, 0x100 },
		{ { 0x48, 0x8b, 0x04, 0x24, 0xc3 }, 5, PLACE_MEMORY, ARCH_REG_SP, 0 },
		/* movq $0, 8(%rsp) or mov %rbx, 8(%rsp); mov 8(%rsp), %rax */
		{ { 0x48, 0xc7, 0x44, 0x24, 8, 0, 0, 0, 0, 0x48, 0x8b, 0x44, 0x24, 8, 0xc3 },
		  15,
		  PLACE_NOTHING,
		  0,
		  0 },
		{ { 0x48, 0x89, 0x5c, 0x24, 8, 0x48, 0x8b, 0x44, 0x24, 8, 0xc3 },
		  11,
		  PLACE_UNKNOWN,
		  0,
		  0 },
		/* mov (%rax), %rax; pop %rax; mov (%rax), %rax; mov %rbx, %rax */
		{ { 0x48, 0x8b, 0x00, 0xc3 }, 4, PLACE_UNKNOWN, 0, 0 },
		{ { 0x58, 0xc3 }, 2, PLACE_UNKNOWN, 0, 0 },
		{ { 0x48, 0x8b, 0x00, 0x48, 0x89, 0xd8, 0xc3 }, 7, PLACE_REGISTER, 3, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct exit_value v = exit_of(cases[i].code, cases[i].size).value;

		if (v.called || v.place != cases[i].place ||
		    (v.place == PLACE_REGISTER && v.reg != cases[i].reg) ||
		    (v.place == PLACE_MEMORY &&
		     (v.reg != cases[i].reg || v.offset != cases[i].offset)))
			fail_msg("%zu: place %u, register %u, offset %d", i, v.place, v.reg,
				 v.offset);
	}
}

/* The libpython of a pyenv interpreter, or the executable itself. */
static void open_python(const char *python, struct target *t)
{
	char cmd[4096], lib[4096] = "";
	FILE *f;

	snprintf(cmd, sizeof(cmd), "ldd '%s' | awk '/libpython/ { print $3 }'", python);
	f = popen(cmd, "r");
	assert_non_null(f);
	if (fgets(lib, sizeof(lib), f))
		lib[strcspn(lib, "\n")] = '\0';
	pclose(f);
	assert_int_equal(target__open_file(t, *lib ? lib : python), 0);
}

/*
 * The collectors that a symbol table names: each is found, and nothing else. Stripped files have
 * none. In one that BOLT has rewritten it may not be found.
 */
static void check_collector(const struct target *t, bool rewritten)
{
	char cmd[TARGET_PATH_MAX + 160], line[256];
	struct collector c;
	size_t cnt = 0;
	uint64_t addr;
	FILE *f;

	if (collector__find(t->ef, &c)) {
		if (!rewritten)
			fail_msg("%s: no collector", t->path);
		return;
	}
	assert_true(c.entry_cnt && c.ret_cnt >= c.entry_cnt);
	snprintf(cmd, sizeof(cmd),
		 "nm '%s' 2>/dev/null | grep -E ' t (collect|gc_collect_main)(\\.(constprop|isra|"
		 "part)\\.[0-9]+)?$'",
		 t->path);
	f = popen(cmd, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		bool found = false;

		assert_int_equal(sscanf(line, "%" SCNx64, &addr), 1);
		for (size_t i = 0; i < c.entry_cnt; i++)
			found |= c.entries[i] == addr;
		assert_true(found);
		cnt++;
	}
	pclose(f);
	if (cnt)
		assert_int_equal(c.entry_cnt, cnt);
}

/* The address that a symbol table has for a static function. 0: none, or it has no table. */
static uint64_t local_symbol(const struct target *t, const char *name)
{
	char cmd[TARGET_PATH_MAX + 160], line[256];
	uint64_t addr = 0;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "nm '%s' 2>/dev/null | grep ' t %s$'", t->path, name);
	f = popen(cmd, "r");
	assert_non_null(f);
	if (fgets(line, sizeof(line), f))
		assert_int_equal(sscanf(line, "%" SCNx64, &addr), 1);
	pclose(f);
	return addr;
}

/* Audit events, where a symbol table says that they are raised. BOLT may hide some. */
static void check_auditor(const struct target *t, bool rewritten)
{
	uint64_t inner = local_symbol(t, "sys_audit_tstate"), python = local_symbol(t, "sys_audit");
	bool old = t->py.version_hex < PY_VERSION_MINOR_HEX(3, 8);
	struct auditor a;

	assert_int_equal(auditor__find(t->ef, &a), old ? -ENOENT : 0);
	if (old)
		return;
	if (rewritten)
		return;
	assert_true(a.raise && a.python && a.complete);
	assert_int_equal(a.inner, t->py.version_hex >= PY_VERSION_MINOR_HEX(3, 9));
	if (inner) {
		assert_int_equal(a.raise, inner);
		assert_int_equal(a.hidden_cnt, 0); /* as these were built */
	}
	if (python)
		assert_int_equal(a.python, python);
}

static void test_pythons(void **state)
{
	struct pythons py = { 0 };

	(void)state;
	pythons_find(&py);
	if (!py.cnt)
		skip();
	for (size_t i = 0; i < py.cnt; i++) {
		struct trace_points tp;
		struct target t;
		bool rewritten;

		open_python(py.path[i], &t);
		if (trace_points__find(t.ef, &t.py, &tp))
			fail_msg("%s: %s", t.path, tp.why_not);
		check_points(&t, &tp);
		rewritten = elf_file__has(t.ef, ".bolt.org.text");
		check_collector(&t, rewritten);
		check_auditor(&t, rewritten);
		if (tp.table)
			check_opcodes(py.path[i], &tp);
		assert_true(compare_eval(&t) > (tp.by_function ? 50 : 500));
		target__close(&t);
	}
	pythons_free(&py);
}

/* ---- static probes --------------------------------------------------------------------------- */

static void sum_up(void *ctx, const struct usdt *u)
{
	uint64_t *sum = ctx;

	sum[0]++;
	sum[1] += u->addr;
	sum[2] += u->semaphore;
	assert_string_equal(u->provider, "python");
}

/* "    Location: 0x..., Base: 0x..., Semaphore: 0x..." */
static void ask_readelf(const char *path, uint64_t sum[3])
{
	char cmd[TARGET_PATH_MAX + 64], line[1024];
	FILE *f;

	snprintf(cmd, sizeof(cmd), "readelf -n '%s' 2>/dev/null", path);
	f = popen(cmd, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		uint64_t at, semaphore;

		if (sscanf(line, " Location: %" SCNx64 ", Base: %*x, Semaphore: %" SCNx64, &at,
			   &semaphore) != 2)
			continue;
		sum[0]++;
		sum[1] += at;
		sum[2] += semaphore;
	}
	pclose(f);
}

static void test_usdt(void **state)
{
	struct pythons py = { 0 };

	(void)state;
	pythons_find(&py);
	for (size_t i = 0; i < py.cnt; i++) {
		uint64_t ours[3] = { 0 }, theirs[3] = { 0 };
		struct target t;

		open_python(py.path[i], &t);
		ask_readelf(t.path, theirs);
		assert_int_equal(usdt__each(t.ef, sum_up, ours), (int)theirs[0]);
		assert_memory_equal(ours, theirs, sizeof(ours));
		target__close(&t);
	}
	pythons_free(&py);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_insn),	     cmocka_unit_test(test_table),
		cmocka_unit_test(test_second_table), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_pythons),	     cmocka_unit_test(test_usdt),
		cmocka_unit_test(test_exit_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
