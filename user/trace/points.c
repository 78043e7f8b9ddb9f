/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/points.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "elf/ehframe.h"
#include "trace/auditor.h"
#include "trace/collector.h"
#include "trace/exits.h"
#include "trace/handlers.h"
#include "elf/insn.h"

#define WORDS_AT_ONCE 8192	 /* of the file */
#define RELOCS_MAX    (1U << 24) /* looked at */
#define HANDLER_INSNS 24	 /* limit of instructions read of an opcode's code */
#define ENTRY_INSNS   8		 /* of the eval function */
#define MAX_PART      (1U << 20) /* bytes of one part of the eval loop */
#define MAX_TARGETS   (1U << 18) /* branches in all parts */
#define RUN_MAX	      (1U << 20) /* words of one run of pointers to code */
#define MIN_INSIDE    128	 /* of the dispatch table, in the eval loop */
#define STUB_BYTES    16	 /* of a part that is never executed */
#define MAX_RECORDERS 8
#define MAX_PARTS     64 /* of a function */

/* ---- the table ------------------------------------------------------------------------------- */
/*
 * Python/opcode_targets.h (generated): static const void *opcode_targets[256]. Where code does not
 * move it is in .rodata. Elsewhere it is in .data.rel.ro: the words are the addends of relative
 * relocations (Elf64_Rela), or stand in the file where these are packed (SHT_RELR).
 */

struct run {
	const struct elf_file *ef;
	const struct code_range *r;
	size_t range_cnt;
	uint64_t *words; /* consecutive ones that point to code */
	size_t cnt, cap;
	size_t inside;	/* of them, in the eval loop */
	uint64_t start; /* where they begin */
	uint64_t found_at;
	uint64_t *found; /* OPCODE_CNT */
	unsigned tables; /* runs of the right length */
	int err;
};

static bool covers(const struct code_range *r, size_t cnt, uint64_t addr)
{
	for (size_t i = 0; i < cnt; i++)
		if (addr >= r[i].start && addr < r[i].end)
			return true;
	return false;
}

static bool is_text(const struct elf_file *ef, uint64_t addr)
{
	size_t cnt;
	const struct elf_segment *s = elf_file__segments(ef, &cnt);

	for (size_t i = 0; i < cnt; i++)
		if (s[i].exec && addr >= s[i].addr && addr - s[i].addr < s[i].file_size)
			return true;
	return false;
}

/*
 * The labels of opcodes that cannot be executed are where the compiler leaves them: in a part of
 * the eval loop of a few bytes, to which nothing branches (Py_UNREACHABLE() in the code of CACHE,
 * 3.11).
 */
static bool is_in_table(const struct run *run, uint64_t word)
{
	uint64_t start, end;

	if (covers(run->r, run->range_cnt, word))
		return true;
	return ehframe__fde_at(run->ef, word, &start, &end) && end - start <= STUB_BYTES;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static unsigned count_different(const uint64_t *table)
{
	uint64_t sorted[OPCODE_CNT];
	unsigned cnt = 1;

	memcpy(sorted, table, sizeof(sorted));
	qsort(sorted, OPCODE_CNT, sizeof(*sorted), by_value);
	for (size_t i = 1; i < OPCODE_CNT; i++)
		cnt += sorted[i] != sorted[i - 1];
	return cnt;
}

static void take_table(struct run *run, uint64_t at, const uint64_t *words)
{
	/* The same words again, as a relocation and in the file, are the same table. */
	if (!run->tables || run->found_at != at)
		run->tables++;
	run->found_at = at;
	memcpy(run->found, words, OPCODE_CNT * sizeof(*words));
}

/* A run without words that do not belong to it. */
static void check_run(struct run *run, size_t first, size_t cnt)
{
	const uint64_t *words = run->words + first;
	uint64_t at = run->start + 8 * first;
	bool plain;

	if (cnt == OPCODE_CNT) {
		take_table(run, at, words);
	} else if (cnt == 2 * OPCODE_CNT) {
		/*
		 * A build with the JIT (3.15) has a second one, all of whose opcodes are recorded
		 * by one code.
		 */
		plain = count_different(words) > count_different(words + OPCODE_CNT);
		if (count_different(words + (plain ? OPCODE_CNT : 0)) <= MAX_RECORDERS)
			take_table(run, at + (plain ? 0 : 8 * OPCODE_CNT),
				   words + (plain ? 0 : OPCODE_CNT));
	}
}

static void end_run(struct run *run)
{
	size_t first = 0;

	if (run->inside >= MIN_INSIDE) {
		for (size_t i = 0; i <= run->cnt; i++) {
			if (i < run->cnt && is_in_table(run, run->words[i]))
				continue;
			check_run(run, first, i - first);
			first = i + 1;
		}
	}
	run->cnt = run->inside = 0;
}

static void add_word(struct run *run, uint64_t at, uint64_t word)
{
	bool text = is_text(run->ef, word);

	if (run->cnt && (!text || at != run->start + 8 * run->cnt))
		end_run(run);
	if (!text || run->err)
		return;
	if (!run->cnt)
		run->start = at;
	run->err = ARRAY_GROW(run->words, run->cap, run->cnt, RUN_MAX);
	if (run->err)
		return;
	run->words[run->cnt++] = word;
	run->inside += covers(run->r, run->range_cnt, word);
}

static int scan_segment(const struct elf_file *ef, const struct elf_segment *s, struct run *run)
{
	uint64_t *words = malloc(WORDS_AT_ONCE * sizeof(*words));
	uint64_t at = (s->addr + 7) & ~7ULL, end = s->addr + s->file_size;

	if (!words)
		return -ENOMEM;
	while (at < end && end - at >= 8) {
		size_t cnt = (end - at) / 8 < WORDS_AT_ONCE ? (end - at) / 8 : WORDS_AT_ONCE;

		if (elf_file__read(ef, at, words, cnt * 8))
			break;
		for (size_t i = 0; i < cnt; i++)
			add_word(run, at + 8 * i, words[i]);
		at += 8 * cnt;
	}
	end_run(run);
	free(words);
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	uint64_t x = ((const Elf64_Rela *)a)->r_offset, y = ((const Elf64_Rela *)b)->r_offset;

	return (x > y) - (x < y);
}

/* Relative relocations that lead to code, in the order of where they apply. */
static int scan_relocations(const struct elf_file *ef, struct run *run)
{
	Elf64_Rela *relocs = NULL;
	size_t cnt = 0, cap = 0;
	struct elf_section s;
	int err = 0;

	if (!elf_file__section(ef, ".rela.dyn", &s) || !s.data)
		return 0;
	for (uint64_t i = 0; i < s.size / sizeof(*relocs) && i < RELOCS_MAX && !err; i++) {
		Elf64_Rela rela;

		memcpy(&rela, s.data + i * sizeof(rela), sizeof(rela));
		if (ELF64_R_TYPE(rela.r_info) != R_X86_64_RELATIVE ||
		    !is_text(ef, (uint64_t)rela.r_addend))
			continue;
		err = ARRAY_GROW(relocs, cap, cnt, RELOCS_MAX);
		if (!err)
			relocs[cnt++] = rela;
	}
	if (!err && cnt)
		qsort(relocs, cnt, sizeof(*relocs), by_offset);
	for (size_t i = 0; i < cnt && !err; i++)
		add_word(run, relocs[i].r_offset, (uint64_t)relocs[i].r_addend);
	end_run(run);
	free(relocs);
	return err ? -ENOMEM : 0;
}

int dispatch__find(const struct elf_file *ef, const struct code_range *r, size_t cnt,
		   uint64_t table[OPCODE_CNT], uint64_t *addr)
{
	struct run run = { .ef = ef, .r = r, .range_cnt = cnt, .found = table };
	size_t segment_cnt;
	const struct elf_segment *segments = elf_file__segments(ef, &segment_cnt);
	int err = 0;

	for (size_t i = 0; i < segment_cnt && !err; i++)
		err = scan_segment(ef, &segments[i], &run);
	if (!err)
		err = scan_relocations(ef, &run);
	free(run.words);
	if (err || run.err)
		return -ENOMEM;
	*addr = run.found_at;
	if (run.tables > 1)
		return -EEXIST;
	return run.tables ? 0 : -ENOENT;
}

/* ---- the code -------------------------------------------------------------------------------- */

struct search {
	const struct elf_file *ef;
	const struct py_binary *bin;
	struct code_range parts[MAX_PARTS];
	size_t part_cnt;
	uint64_t *targets; /* of direct branches in the eval loop, and of the table; ascending */
	size_t target_cnt, target_cap;
	struct handlers handlers; /* of a tail-call interpreter */
	struct trace_points *out;
};

static int add_target(struct search *s, uint64_t target)
{
	if (ARRAY_GROW(s->targets, s->target_cap, s->target_cnt, MAX_TARGETS))
		return -ENOMEM;
	s->targets[s->target_cnt++] = target;
	return 0;
}

/*
 * Collects the targets of the direct branches of one part. Compilers put no data between
 * instructions.
 */
static int collect_part(struct search *s, const struct code_range *r)
{
	size_t size = r->end - r->start;
	uint8_t *code = size && size <= MAX_PART ? malloc(size) : NULL;
	int err = 0;

	if (!code)
		return size && size <= MAX_PART ? -ENOMEM : -ENOTSUP;
	if (elf_file__read(s->ef, r->start, code, size))
		err = -ENOTSUP;
	for (size_t at = 0; at < size && !err;) {
		struct insn insn;

		if (insn__decode(code + at, size - at, r->start + at, &insn)) {
			at++;
			continue;
		}
		if (insn.direct && covers(s->parts, s->part_cnt, insn.target))
			err = add_target(s, insn.target);
		at += insn.size;
	}
	free(code);
	return err;
}

static int collect_targets(struct search *s)
{
	int err = 0;

	for (size_t i = 0; i < s->part_cnt && !err; i++)
		err = collect_part(s, &s->parts[i]);
	if (!err && s->target_cnt)
		qsort(s->targets, s->target_cnt, sizeof(*s->targets), by_value);
	return err;
}

/* A branch leads to an address in (start, end]. */
static bool is_joined(const struct search *s, uint64_t start, uint64_t end)
{
	size_t low = 0, high = s->target_cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->targets[mid] > start)
			high = mid;
		else
			low = mid + 1;
	}
	return low < s->target_cnt && s->targets[low] <= end;
}

/* An insn_pass_fn. */
static bool is_straight(const uint8_t *code, const struct insn *insn)
{
	(void)code;
	return !insn->direct && !insn->ends;
}

/*
 * The first instruction from p->handler on that the kernel emulates, before any other branch; the
 * first one if there is none.
 */
static int choose_insn(const struct search *s, struct trace_point *p, unsigned max_insns)
{
	int err;

	p->addr = p->handler;
	err = insn__find_emulated(s->ef, p->handler, max_insns, is_straight, &p->addr);
	if (err == -EINVAL)
		return err;
	p->emulated = !err;
	p->joined = is_joined(s, p->handler, p->addr);
	return 0;
}

static int refuse(struct search *s, const char *why)
{
	s->out->why_not = why;
	return -ENOTSUP;
}

static int add_point(struct search *s, enum point_kind kind, uint8_t opcode, uint64_t handler,
		     bool first_calls_only)
{
	struct trace_point p = { .handler = handler,
				 .kind = (uint8_t)kind,
				 .opcode = opcode,
				 .first_calls_only = first_calls_only };

	if (choose_insn(s, &p, opcode || kind >= POINT_AUDIT ? HANDLER_INSNS : ENTRY_INSNS))
		return refuse(s, "the code of its eval loop is no code of this machine");
	/* Few hits, so the price matters less than that nothing else comes by. */
	if (p.joined && p.first_calls_only) {
		p.addr = p.handler;
		p.joined = p.emulated = false;
	}
	if (!elf_file__addr_to_off(s->ef, p.addr, &p.offset) || s->out->cnt == TRACE_POINTS_MAX)
		return refuse(s, "its eval loop is not in the file");
	s->out->at[s->out->cnt++] = p;
	return 0;
}

/* ---- opcodes --------------------------------------------------------------------------------- */
/*
 * Include/opcode.h, from 3.13 on Include/opcode_ids.h, of the last release of each version. They
 * are fixed from the first release candidate on.
 */
struct opcode_use {
	uint8_t opcode;
	uint8_t kind; /* enum point_kind */
	bool first_calls_only;
};

#define OPCODE_USES 10

struct opcode_table {
	uint32_t version; /* PY_VERSION_HEX >> 16 */
	struct opcode_use use[OPCODE_USES];
};

/* clang-format off */
static const struct opcode_table opcode_tables[] = {
	/*
	 * RESUME becomes RESUME_QUICK after eight calls of a function (co_warmup,
	 * Objects/codeobject.c)
	 */
	{ 0x030b, { { 150, POINT_RESUME, false }, { 151, POINT_RESUME, true },
		    { 83, POINT_RETURN, false }, { 86, POINT_YIELD, false } } },
	{ 0x030c, { { 151, POINT_RESUME, false }, { 240, POINT_RESUME, false },
		    { 83, POINT_RETURN, false }, { 121, POINT_RETURN, false },
		    { 242, POINT_RETURN, false },
		    { 247, POINT_RETURN, false }, { 150, POINT_YIELD, false },
		    { 243, POINT_YIELD, false } } },
	/* RESUME becomes RESUME_CHECK when it is executed first (Python/bytecodes.c) */
	{ 0x030d, { { 149, POINT_RESUME, true }, { 207, POINT_RESUME, false },
		    { 236, POINT_RESUME, false },
		    { 36, POINT_RETURN, false }, { 103, POINT_RETURN, false },
		    { 239, POINT_RETURN, false },
		    { 240, POINT_RETURN, false }, { 118, POINT_YIELD, false },
		    { 241, POINT_YIELD, false } } },
	{ 0x030e, { { 128, POINT_RESUME, true }, { 196, POINT_RESUME, false },
		    { 245, POINT_RESUME, false },
		    { 35, POINT_RETURN, false }, { 246, POINT_RETURN, false },
		    { 120, POINT_YIELD, false },
		    { 247, POINT_YIELD, false } } },
	{ 0x030f, { { 128, POINT_RESUME, true }, { 200, POINT_RESUME, false },
		    { 201, POINT_RESUME, false },
		    { 244, POINT_RESUME, false }, { 33, POINT_RETURN, false },
		    { 245, POINT_RETURN, false },
		    { 119, POINT_YIELD, false }, { 246, POINT_YIELD, false } } },
};
/* clang-format on */

static const struct opcode_table *opcodes_of(const struct py_binary *bin)
{
	size_t cnt = sizeof(opcode_tables) / sizeof(*opcode_tables);

	for (size_t i = 0; i < cnt; i++)
		if (opcode_tables[i].version == bin->version_hex >> 16)
			return &opcode_tables[i];
	return NULL;
}

/* Alpha and beta releases still change their opcodes: Include/patchlevel.h. */
static bool is_unfinished(const struct py_binary *bin)
{
	uint32_t level = bin->version_hex >> 4 & 0xf;

	return level == 0xa || level == 0xb;
}

/*
 * Opcodes that do not exist share one address; an opcode with a code of its own shares it with no
 * other.
 */
static bool is_shared(const uint64_t *table, uint8_t opcode)
{
	for (size_t i = 0; i < OPCODE_CNT; i++)
		if (i != opcode && table[i] == table[opcode])
			return true;
	return false;
}

/*
 * Collects the branches that may lead into the code that begins here. None does if the breakpoint
 * is at its first instruction.
 */
static int collect_around(struct search *s, uint64_t addr)
{
	uint8_t code[INSN_MAX];
	struct insn insn;
	int err;

	s->target_cnt = 0;
	if (!insn__at(s->ef, addr, code, &insn) && insn.emulated)
		return 0;
	err = handlers__parts(&s->handlers, addr, s->parts, &s->part_cnt, MAX_PARTS);
	if (!err)
		err = collect_targets(s);
	return err && err != -ENOMEM ? refuse(s, "the code of its opcodes cannot be read") : err;
}

/*
 * The code of other forms of RESUME sometimes jumps to RESUME's own (JUMP_TO_PREDICTED() in
 * Python/ceval_macros.h): the same call comes by a second time.
 */
static void set_before(struct trace_point *p, const struct opcode_table *o)
{
	size_t cnt = 0;

	if (p->kind != POINT_RESUME || !p->first_calls_only)
		return;
	for (size_t i = 0; i < OPCODE_USES && cnt < sizeof(p->before); i++)
		if (o->use[i].kind == POINT_RESUME && o->use[i].opcode != p->opcode)
			p->before[cnt++] = o->use[i].opcode;
}

/* Free-threaded 3.13 replaces no opcode by one for further calls. */
static bool is_for_first_calls(const struct search *s, const struct opcode_use *u)
{
	return u->first_calls_only &&
	       (!s->bin->free_threaded || s->bin->version_hex >= PY_VERSION_MINOR_HEX(3, 14));
}

static int add_handler(struct search *s, const struct opcode_table *o, const struct opcode_use *u,
		       uint64_t addr)
{
	int err = s->out->by_function ? collect_around(s, addr) : 0;
	struct trace_point *p;

	if (!err)
		err = add_point(s, (enum point_kind)u->kind, u->opcode, addr,
				is_for_first_calls(s, u));
	if (err || !s->out->by_function)
		return err;
	p = &s->out->at[s->out->cnt - 1];
	p->by_convention =
		p->addr == addr &&
		handlers__is_by_convention(s->ef, addr, s->bin->interp.layout.frame_lasti);
	set_before(p, o);
	return 0;
}

/* Of a tail-call interpreter: see handlers.h. */
static int add_copies(struct search *s, const struct opcode_table *o)
{
	struct handler_copy copies[TRACE_POINTS_MAX];
	uint64_t wanted[OPCODE_USES];
	size_t cnt = 0, copy_cnt;
	int err;

	for (; cnt < OPCODE_USES && o->use[cnt].kind; cnt++)
		wanted[cnt] = s->handlers.table[o->use[cnt].opcode];
	err = handlers__find_copies(&s->handlers, wanted, cnt, copies, &copy_cnt,
				    TRACE_POINTS_MAX - 1 - s->out->cnt);
	if (err == -E2BIG)
		return refuse(s, "the code of its opcodes has been copied to too many places");
	if (err == -ENOTSUP)
		return refuse(s, "where the code of its opcodes has been copied to cannot be told");
	for (size_t i = 0; i < copy_cnt && !err; i++)
		err = add_handler(s, o, &o->use[copies[i].of], copies[i].addr);
	return err;
}

static int find_table(struct search *s, uint64_t table[OPCODE_CNT])
{
	int err = dispatch__find(s->ef, s->parts, s->part_cnt, table, &s->out->table);

	if (err == -ENOENT) {
		err = handlers__find(&s->handlers, s->ef, s->parts, s->part_cnt);
		s->out->by_function = !err;
		s->out->table = s->handlers.addr;
		memcpy(table, s->handlers.table, sizeof(s->handlers.table));
	}
	if (err == -ENOENT)
		return refuse(s, "its dispatch table was not found: none of its calls can be seen");
	return err == -EEXIST ? refuse(s, "it has several dispatch tables") : err;
}

static int collect_loop(struct search *s, const uint64_t *table)
{
	int err = 0;

	for (size_t i = 0; i < OPCODE_CNT && !err; i++)
		err = add_target(s, table[i]);
	if (!err)
		err = collect_targets(s);
	return err == -ENOTSUP ? refuse(s, "the code of its eval loop cannot be read") : err;
}

static int find_handlers(struct search *s, const struct opcode_table *o)
{
	uint64_t table[OPCODE_CNT];
	int err = find_table(s, table);

	if (!err && !s->out->by_function)
		err = collect_loop(s, table);
	if (err)
		return err;
	s->out->handler_cnt = count_different(table);
	for (size_t i = 0; i < OPCODE_USES && o->use[i].kind && !err; i++) {
		const struct opcode_use *u = &o->use[i];

		if (is_shared(table, u->opcode))
			return refuse(s, "its dispatch table has other opcodes than its version's");
		err = add_handler(s, o, u, table[u->opcode]);
	}
	return err || !s->out->by_function ? err : add_copies(s, o);
}

/*
 * The only function whose result the eval function returns is _Py_CheckFunctionResult(callable,
 * result, where), from 3.9 on with the thread state in front (Objects/call.c). 2.7 has none.
 */
static void set_checked(const struct py_binary *bin, struct trace_point *p)
{
	p->place = PLACE_REGISTER;
	p->reg = bin->version_hex < PY_VERSION_MINOR_HEX(3, 9) ? ARCH_REG_ARG1 : ARCH_REG_ARG2;
	if (bin->version_hex < PY_VERSION_MINOR_HEX(3, 0))
		p->place = PLACE_NOTHING; /* __stack_chk_fail() */
}

/* Up to 3.10: the eval function is left wherever the Python function is. */
static int add_exits(struct search *s)
{
	struct exit_point exits[TRACE_POINTS_MAX];
	size_t cnt = 0;
	int err = exits__find(s->ef, s->parts, s->part_cnt, exits, &cnt,
			      TRACE_POINTS_MAX - 1 - s->out->cnt);

	if (err == -ENOMEM)
		return err;
	if (err)
		s->out->why_no_returns = "where its eval function is left cannot be told";
	for (size_t i = 0; i < cnt && !s->out->why_no_returns; i++) {
		struct trace_point p = { .addr = exits[i].addr,
					 .handler = exits[i].addr,
					 .kind = POINT_EXIT,
					 .condition = exits[i].condition,
					 .sp_below = exits[i].sp_below,
					 .place = exits[i].value.place,
					 .reg = exits[i].value.reg,
					 .value_offset = exits[i].value.offset,
					 .emulated = true };

		if (exits[i].value.called)
			set_checked(s->bin, &p);

		if (elf_file__addr_to_off(s->ef, p.addr, &p.offset))
			s->out->at[s->out->cnt++] = p;
	}
	return 0;
}

/* Each frame that an exception passes gets an entry of the traceback. */
static int add_raise(struct search *s)
{
	struct elf_symbol sym;

	if (elf_file__symbol(s->ef, "PyTraceBack_Here", &sym) &&
	    !add_point(s, POINT_RAISE, 0, sym.addr, false))
		return 0;
	s->out->why_no_returns = "its function PyTraceBack_Here() was not found";
	return 0;
}

static int find_points(struct search *s)
{
	const struct opcode_table *o = opcodes_of(s->bin);
	int err;

	if (elf_file__machine(s->ef) != EM_X86_64)
		return refuse(s, "calls are traced on x86-64 only");
	if (s->bin->version_hex < PY_VERSION_MINOR_HEX(3, 11)) {
		err = collect_targets(s);
		if (err == -ENOTSUP)
			return refuse(s, "the code of its eval loop cannot be read");
		if (!err)
			err = add_point(s, POINT_ENTRY, 0, s->parts[0].start, false);
		if (!err)
			err = add_exits(s);
		return err ? err : add_raise(s);
	}
	if (!o)
		return refuse(s, "the opcodes of its version are not known");
	if (is_unfinished(s->bin))
		return refuse(s, "it is not a release: its opcodes may be others");
	err = find_handlers(s, o);
	return err ? err : add_raise(s);
}

int trace_points__find_raise(const struct elf_file *ef, const struct py_binary *bin,
			     struct trace_points *out)
{
	struct search s = { .ef = ef, .bin = bin, .out = out };
	int err;

	*out = (struct trace_points){ 0 };
	if (elf_file__machine(ef) != EM_X86_64)
		return refuse(&s, "exceptions are traced on x86-64 only");
	err = add_raise(&s);
	if (!err && !out->cnt)
		err = refuse(&s, out->why_no_returns);
	elf_file__forget(ef);
	return err;
}

/* The collector's `ret` itself, though it is single-stepped: there its value is known. */
static int add_ret(struct search *s, uint64_t addr)
{
	struct trace_point p = { .addr = addr, .handler = addr, .kind = POINT_COLLECTED };

	if (!elf_file__addr_to_off(s->ef, addr, &p.offset) || s->out->cnt == TRACE_POINTS_MAX)
		return refuse(s, "its garbage collector is not in the file");
	s->out->at[s->out->cnt++] = p;
	return 0;
}

int trace_points__find_collector(const struct elf_file *ef, const struct py_binary *bin,
				 struct trace_points *out)
{
	struct search s = { .ef = ef, .bin = bin, .out = out };
	struct collector c;
	int err;

	*out = (struct trace_points){ 0 };
	if (elf_file__machine(ef) != EM_X86_64)
		return refuse(&s, "collections are traced on x86-64 only");
	if (bin->free_threaded)
		return refuse(&s, "a free-threaded interpreter calls its collector without need, "
				  "and that returns at once");
	err = collector__find(ef, &c);
	if (err == -ENOENT)
		err = refuse(&s, "its garbage collector was not found");
	else if (err && err != -ENOMEM)
		err = refuse(&s, "the code of its garbage collector cannot be read");
	for (size_t i = 0; !err && i < c.entry_cnt; i++)
		err = add_point(&s, POINT_COLLECT, 0, c.entries[i], false);
	for (size_t i = 0; !err && i < c.ret_cnt; i++)
		err = add_ret(&s, c.rets[i]);
	elf_file__forget(ef);
	return err;
}

int trace_points__find_auditor(const struct elf_file *ef, const struct py_binary *bin,
			       struct trace_points *out)
{
	struct search s = { .ef = ef, .bin = bin, .out = out };
	struct auditor a;
	int err;

	*out = (struct trace_points){ 0 };
	if (elf_file__machine(ef) != EM_X86_64)
		return refuse(&s, "audit events are traced on x86-64 only");
	err = auditor__find(ef, &a);
	if (err == -ENOENT)
		err = refuse(&s, "its function PySys_Audit() was not found: CPython has it from "
				 "3.8 on");
	if (!err)
		err = add_point(&s, a.inner ? POINT_AUDIT_INNER : POINT_AUDIT, 0, a.raise, false);
	for (size_t i = 0; !err && i < a.hidden_cnt; i++)
		err = add_point(&s, POINT_AUDIT_INNER, 0, a.hidden[i], false);
	if (!err && a.python)
		err = add_point(&s, POINT_AUDIT_PYTHON, 0, a.python, false);
	/* It puts copies of functions into their callers, where they are not looked for. */
	if (elf_file__has(ef, ".bolt.org.text"))
		out->why_not_all = "BOLT has rewritten it: some events of the interpreter itself, "
				   "like exec and import, are missing";
	else if (!a.complete)
		out->why_not_all = "_PySys_Audit() was not found: some events of the interpreter "
				   "itself, like exec, may be missing";
	else if (!a.python)
		out->why_not_all = "sys.audit() was not found: what Python code audits is seen "
				   "only while there is a hook";
	elf_file__forget(ef);
	return err;
}

int trace_points__find(const struct elf_file *ef, const struct py_binary *bin,
		       struct trace_points *out)
{
	struct search s = { .ef = ef, .bin = bin, .out = out };
	int err;

	*out = (struct trace_points){ 0 };
	for (unsigned i = 0; i < bin->eval_cnt && i < MAX_EVAL_RANGES; i++)
		s.parts[s.part_cnt++] =
			(struct code_range){ bin->interp.eval[i].start, bin->interp.eval[i].end };
	err = find_points(&s);
	handlers__free(&s.handlers);
	free(s.targets);
	elf_file__forget(ef);
	return err;
}
