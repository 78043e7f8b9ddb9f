/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/auditor.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/ehframe.h"
#include "elf/insn.h"

#define WRAPPER_MAX    512 /* bytes of PySys_Audit() if it only calls */
#define CHUNK	       65536
#define TEXTS_MAX      128
#define METH_FASTCALL  0x80 /* Include/cpython/methodobject.h */
#define METHOD_WORDS   3    /* PyMethodDef: ml_name, ml_meth, ml_flags */
#define RELOCS_MAX     (1U << 24)
#define CALL	       0xe8
#define VARIADIC_BYTES 96
#define OVERLAP	       256 /* bytes that a chunk shares with the next one */
#define SETTING_INSNS  24  /* between an argument and the call that gets it */

static const char *const method_name[] = { "audit", NULL };

/* What _PySys_Audit() is called with, from 3.9 to 3.15. */
static const char *const hidden_events[] = {
	"cpython.PyInterpreterState_Clear",
	"cpython.PyInterpreterState_New",
	"cpython._PySys_ClearAuditHooks",
	"exec",
	"import",
	"sys._current_exceptions",
	"sys._current_frames",
	"sys._getframe",
	"sys.addaudithook",
	"sys.excepthook",
	"sys.set_asyncgen_hook_finalizer",
	"sys.set_asyncgen_hook_firstiter",
	"sys.setprofile",
	"sys.settrace",
	"sys.unraisablehook",
	NULL,
};

struct search {
	const struct elf_file *ef;
	const char *const *names;
	/* Link addresses of them, each also as the end of a longer one. */
	uint64_t texts[TEXTS_MAX];
	size_t text_cnt;
	uint64_t found[AUDITOR_HIDDEN_MAX + 1]; /* functions */
	size_t cnt;
};

/* ---- the file -------------------------------------------------------------------------------- */

static bool is_one(const char *const *names, const uint8_t *at, size_t size)
{
	for (; *names; names++) {
		size_t len = strlen(*names) + 1;

		if (**names == (char)*at && len <= size && !memcmp(*names, at, len))
			return true;
	}
	return false;
}

static void look_for_text(struct search *s, const uint8_t *at, size_t size, uint64_t addr)
{
	for (size_t i = 0; i < size && s->text_cnt < TEXTS_MAX; i++)
		if (is_one(s->names, at + i, size - i))
			s->texts[s->text_cnt++] = addr + i;
}

static bool is_text(const struct search *s, uint64_t word)
{
	for (size_t i = 0; i < s->text_cnt; i++)
		if (s->texts[i] == word)
			return true;
	return false;
}

typedef void look_fn(struct search *s, const uint8_t *at, size_t size, uint64_t addr);

/* Shows the file's code, or all else, in chunks that overlap. */
static int each_chunk(struct search *s, bool code, look_fn *look)
{
	size_t cnt;
	const struct elf_segment *seg = elf_file__segments(s->ef, &cnt);
	uint8_t *chunk = malloc(CHUNK + OVERLAP);

	if (!chunk)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		if (seg[i].exec != code)
			continue;
		for (uint64_t at = 0; at < seg[i].file_size; at += CHUNK) {
			uint64_t left = seg[i].file_size - at;
			size_t size = left < CHUNK + OVERLAP ? left : CHUNK + OVERLAP;

			if (elf_file__read(s->ef, seg[i].addr + at, chunk, size))
				break;
			look(s, chunk, size, seg[i].addr + at);
		}
	}
	free(chunk);
	return 0;
}

/* If a function begins there. */
static void take_function(struct search *s, uint64_t function)
{
	uint64_t start, end;
	size_t i = 0;

	while (i < s->cnt && s->found[i] != function)
		i++;
	if (i < s->cnt || s->cnt == AUDITOR_HIDDEN_MAX + 1 ||
	    !ehframe__fde_at(s->ef, function, &start, &end) || start != function)
		return;
	s->found[s->cnt++] = function;
}

/* ---- in C ------------------------------------------------------------------------------------ */

/* The function that is called last before the first `ret`. 0: none. */
static uint64_t last_callee(const struct elf_file *ef, const uint8_t *code, size_t size,
			    uint64_t start)
{
	uint64_t callee = 0, from, to;

	for (size_t at = 0; at < size;) {
		struct insn insn;

		if (insn__decode(code + at, size - at, start + at, &insn))
			return 0;
		if (insn.ends && !insn.direct)
			break;
		if (insn.direct && code[at] == CALL)
			callee = insn.target;
		at += insn.size;
	}
	/* A stub of the PLT is in the middle of what one FDE covers. */
	if (!callee || !ehframe__fde_at(ef, callee, &from, &to) || from != callee)
		return 0;
	return callee;
}

/* The function that the next call calls. 0: none. */
static uint64_t next_callee(const uint8_t *code, size_t size, uint64_t addr)
{
	struct insn insn;

	for (int i = 0; i < SETTING_INSNS && size; i++) {
		if (insn__decode(code, size, addr, &insn) || insn.size > size)
			return 0;
		if (insn.direct && *code == CALL)
			return insn.target;
		code += insn.size;
		addr += insn.size;
		size -= insn.size;
	}
	return 0;
}

/*
 * It has any number of arguments: where it begins, it tests al and stores xmm0 if it is not 0
 * (System V ABI, 3.5.7):
 *
 *	test %al, %al
 *	je ...
 *	movaps %xmm0, 0x50(%rsp)
 */
static bool is_variadic(const struct elf_file *ef, uint64_t function)
{
	uint8_t code[VARIADIC_BYTES + 2 * INSN_MAX] = { 0 };
	struct insn insn;

	if (elf_file__read(ef, function, code, VARIADIC_BYTES))
		return false;
	for (size_t at = 0; at < VARIADIC_BYTES; at += insn.size) {
		if (code[at] == 0x84 && code[at + 1] == 0xc0) {
			const uint8_t *je = code + at + 2, *store = je + (*je == 0x74 ? 2 : 6);

			return (*je == 0x74 || (je[0] == 0x0f && je[1] == 0x84)) &&
			       store[0] == 0x0f && store[1] == 0x29;
		}
		if (insn__decode(code + at, sizeof(code) - at, function + at, &insn) ||
		    insn.direct || insn.ends)
			return false;
	}
	return false;
}

/* lea of the text, or mov of its address as a number, into the register of the second argument. */
static void look_for_hidden(struct search *s, const uint8_t *at, size_t size, uint64_t addr)
{
	for (size_t i = 1; i + 7 <= size; i++) {
		bool lea = at[i] == 0x48 && at[i + 1] == 0x8d && at[i + 2] == 0x35;
		int32_t value;
		uint64_t text, callee;

		/* With REX.B it is r14. */
		if (!lea && (at[i] != 0xbe || (at[i - 1] & 0xf1) == 0x41))
			continue;
		memcpy(&value, at + i + (lea ? 3 : 1), sizeof(value));
		text = lea ? addr + i + 7 + (uint64_t)(int64_t)value : (uint32_t)value;
		callee = is_text(s, text) ? next_callee(at + i, size - i, addr + i) : 0;
		if (callee && is_variadic(s->ef, callee))
			take_function(s, callee);
	}
}

/* What a small function calls before it returns. 0: it is not small, or calls nothing. */
static uint64_t wrapped_by(const struct elf_file *ef, uint64_t function)
{
	uint8_t code[WRAPPER_MAX + INSN_MAX] = { 0 };
	uint64_t start, end;

	if (!ehframe__fde_at(ef, function, &start, &end) || end - function > WRAPPER_MAX ||
	    elf_file__read(ef, function, code, end - function))
		return 0;
	return last_callee(ef, code, end - function, function);
}

static int find_raise(const struct elf_file *ef, struct auditor *out)
{
	struct elf_symbol sym;
	uint64_t callee;

	if (!elf_file__symbol(ef, "PySys_Audit", &sym))
		return -ENOENT;
	callee = wrapped_by(ef, sym.addr);
	out->inner = callee != 0;
	out->raise = callee ? callee : sym.addr;
	return 0;
}

/*
 * _PySys_Audit() needs a breakpoint of its own where the compiler has put into it what it would
 * call; it may have made several of it, for some of the events.
 */
static int find_hidden(const struct elf_file *ef, struct auditor *out)
{
	struct search s = { .ef = ef, .names = hidden_events };
	int err = each_chunk(&s, false, look_for_text);

	if (!err && s.text_cnt)
		err = each_chunk(&s, true, look_for_hidden);
	out->complete = s.cnt && s.cnt <= AUDITOR_HIDDEN_MAX;
	for (size_t i = 0; i < s.cnt && out->complete; i++)
		if (wrapped_by(ef, s.found[i]) != out->raise)
			out->hidden[out->hidden_cnt++] = s.found[i];
	return err;
}

/* ---- in Python ------------------------------------------------------------------------------- */

static void look_for_method(struct search *s, const uint8_t *at, size_t size, uint64_t addr)
{
	uint64_t word[METHOD_WORDS];

	for (size_t i = (8 - addr % 8) % 8; i + sizeof(word) <= size; i += 8) {
		memcpy(word, at + i, sizeof(word));
		if (is_text(s, word[0]) && (uint32_t)word[2] == METH_FASTCALL)
			take_function(s, word[1]);
	}
}

/* Where code may move, the words are the addends of relocations. They stand in order, mostly. */
static void look_for_relocations(struct search *s)
{
	struct elf_section rela;
	const Elf64_Rela *r;
	uint64_t cnt;

	if (!elf_file__section(s->ef, ".rela.dyn", &rela) || !rela.data)
		return;
	r = (const Elf64_Rela *)(const void *)rela.data;
	cnt = rela.size / sizeof(*r) < RELOCS_MAX ? rela.size / sizeof(*r) : RELOCS_MAX;
	for (uint64_t i = 0; i + 1 < cnt; i++) {
		uint32_t flags;

		if (!is_text(s, (uint64_t)r[i].r_addend) || r[i + 1].r_offset != r[i].r_offset + 8)
			continue;
		if (!elf_file__read(s->ef, r[i].r_offset + 16, &flags, sizeof(flags)) &&
		    flags == METH_FASTCALL)
			take_function(s, (uint64_t)r[i + 1].r_addend);
	}
}

static int find_python(const struct elf_file *ef, struct auditor *out)
{
	struct search s = { .ef = ef, .names = method_name };
	int err = each_chunk(&s, false, look_for_text);

	if (!err && s.text_cnt)
		err = each_chunk(&s, false, look_for_method);
	if (!err && s.text_cnt)
		look_for_relocations(&s);
	if (s.cnt == 1)
		out->python = s.found[0];
	return err;
}

int auditor__find(const struct elf_file *ef, struct auditor *out)
{
	int err;

	*out = (struct auditor){ 0 };
	err = find_raise(ef, out);
	out->complete = !out->inner;
	if (!err && out->inner)
		err = find_hidden(ef, out);
	return err ? err : find_python(ef, out);
}
