/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Stacks as text, outermost first: "p:" a Python frame, "c:" one of compiled code, "C:" one of
 * another source file, "n:" a native one, "M" the marker.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "symbolize/symbolize.h"

#define FRAMES_MAX 32

/* What the walk says of the frame, and its name. */
static uint64_t add_frame(struct profile *p, char *text, uint32_t *sym)
{
	static uint64_t id;
	uint64_t word;
	struct sym s = { .module = -1, .inlined = -1, .kind = SYM_PYTHON };
	int added;

	id++;
	s.func = profile__intern_z(p, *text == 'M' ? "[marker]" : text + 2);
	s.file = profile__intern_z(p, *text == 'C' ? "other.py" : "mod.py");
	if (*text == 'M') {
		word = MARKER_WORD(MARK_PY_COMPILED, 0);
		s.kind = SYM_MARKER;
	} else if (*text == 'n') {
		word = NATIVE_WORD(1, id);
		s.kind = SYM_NATIVE;
	} else {
		word = PYTHON_WORD(id, *text == 'p' ? 2 : OFFSET_LINE + 7);
	}
	added = profile__add_sym(p, &s);
	assert_true(added >= 0);
	*sym = (uint32_t)added;
	return word;
}

static void add_stack(struct profile *p, const char *stack, uint32_t *syms, uint32_t *cnt)
{
	uint64_t words[FRAMES_MAX];
	char *text = strdup(stack), *save = NULL;
	size_t n = 0;

	assert_non_null(text);
	for (char *t = strtok_r(text, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
		assert_true(n < FRAMES_MAX);
		words[n] = add_frame(p, t, &syms[*cnt + n]);
		n++;
	}
	assert_true(profile__add_stack(p, 0, 0, words, n, 1) >= 0);
	*cnt += (uint32_t)n;
	free(text);
}

static void check_stack(const struct profile *p, size_t i, const char *expected)
{
	const struct profile_stack *s = &p->stacks[i];
	char found[2048] = "";

	for (uint32_t k = 0; k < s->cnt; k++) {
		uint64_t word = p->frames[s->first + k];
		const struct sym *sym = &p->syms[p->frame_syms[s->first + k]];
		const char *name = profile__str(p, sym->func);
		size_t len = strlen(found);

		if (sym->kind == SYM_MARKER)
			snprintf(found + len, sizeof(found) - len, "%sM", k ? " " : "");
		else
			snprintf(found + len, sizeof(found) - len, "%s%c:%s", k ? " " : "",
				 FRAME_TAG(word) == FRAME_NATIVE		   ? 'n'
				 : !OFFSET_HAS_LINE(PYTHON_OFFSET(word))	   ? 'p'
				 : !strcmp(profile__str(p, sym->file), "other.py") ? 'C'
										   : 'c',
				 name);
	}
	assert_string_equal(found, expected);
}

/* Between two other stacks, which must not change. */
static void check(const char *stack, const char *expected)
{
	static const char beside[] = "n:main p:run n:impl_m$$$function__1_f";
	struct profile *p = profile__new();
	uint32_t cnt = 0;

	assert_non_null(p);
	assert_int_equal(profile__add_proc(p, &(struct profile_proc){ .space = 1 }), 0);
	p->frame_syms = NULL;
	{
		uint32_t syms[3 * FRAMES_MAX];

		add_stack(p, beside, syms, &cnt);
		add_stack(p, stack, syms, &cnt);
		add_stack(p, beside, syms, &cnt);
		p->frame_syms = calloc(cnt, sizeof(*p->frame_syms));
		assert_non_null(p->frame_syms);
		memcpy(p->frame_syms, syms, cnt * sizeof(*syms));
	}
	assert_int_equal(sym_place_compiled(p), 0);
	check_stack(p, 0, beside);
	check_stack(p, 1, expected);
	check_stack(p, 2, beside);
	profile__free(p);
}

static void stays(const char *stack)
{
	check(stack, stack);
}

static void test_placed(void **state)
{
	(void)state;
	check("p:main c:run M n:call n:impl_m$$$function__1_run n:leaf",
	      "p:main n:call c:run n:leaf");
	check("p:main c:Shape.area c:Shape.area.<locals>.<lambda> M n:a "
	      "n:impl_m$$$function__3_area n:b "
	      "n:impl_m$$$function__3_area$$$function__1_lambda n:leaf",
	      "p:main n:a c:Shape.area n:b c:Shape.area.<locals>.<lambda> n:leaf");
	check("c:<module> c:pieces M n:_start n:module_code___main__ n:send "
	      "n:__main__$$$function__4_pieces$$$genobj__1_pieces_context",
	      "n:_start c:<module> n:send c:pieces");
	check("c:<module> M n:_start n:modulecode_m", "n:_start c:<module>");
	/* Each run of native frames between Python frames is for itself. */
	check("c:run M n:impl_m$$$function__1_run p:plain c:leaf M n:x n:impl_m$$$function__2_leaf",
	      "c:run p:plain n:x c:leaf");
}

/* From the outermost on: the innermost function has not pushed its frame yet. */
static void test_recursion(void **state)
{
	(void)state;
	check("c:f c:f M n:impl_m$$$function__1_f n:a n:impl_m$$$function__1_f n:b "
	      "n:impl_m$$$function__1_f",
	      "c:f n:a c:f n:b n:impl_m$$$function__1_f");
	check("c:f c:g M n:impl_m$$$function__1_f n:impl_m$$$function__3_h "
	      "n:impl_m$$$function__2_g",
	      "c:f n:impl_m$$$function__3_h c:g");
}

/* What has no function of its own is in that of the frame outwards, if that is of its file. */
static void test_joined(void **state)
{
	(void)state;
	check("c:<module> c:Shape c:f M n:module_code_m n:a n:impl_m$$$function__1_f",
	      "c:<module> c:Shape n:a c:f");
	check("c:f c:<listcomp> M n:impl_m$$$function__1_f n:b", "c:f c:<listcomp> n:b");
	stays("c:f C:g M n:impl_m$$$function__1_f n:b");
	stays("c:f C:g c:h M n:impl_m$$$function__1_f n:b n:impl_m$$$function__2_h");
}

static void test_unknown(void **state)
{
	(void)state;
	stays("c:run M n:call n:leaf"); /* stripped */
	stays("c:run M");
	stays("M n:call");
	stays("p:run M n:impl_m$$$function__1_run");	     /* no compiled frame */
	stays("c:run c:leaf M n:impl_m$$$function__2_leaf"); /* the outermost is not known */
	stays("c:run M p:inner n:impl_m$$$function__1_run"); /* beyond another activation */
	stays("c:run M n:impl_m$$$function__1_ n:impl_m$$$function_1_run n:m$$$function__1_run");
	stays("c:run M n:impl_m$$$run n:$$$ n:impl_$$$__1_run n:impl_m$$$f__run n:_context");
	stays("c:run M n:impl_m$$$function__1_runs n:impl_m$$$function__1_ru");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_placed),
		cmocka_unit_test(test_recursion),
		cmocka_unit_test(test_joined),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
