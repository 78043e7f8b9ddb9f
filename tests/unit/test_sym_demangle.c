/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "symbolize.h"

static void check(const char *mangled, const char *expected)
{
	struct strbuf b = { 0 };

	/* What is in the buffer already stays. */
	strbuf__addz(&b, "before ");
	sym_demangle(&b, mangled);
	assert_int_equal(b.err, 0);
	assert_memory_equal(b.s, "before ", 7);
	assert_string_equal(b.s + 7, expected);
	assert_int_equal(b.len, strlen(b.s));
	strbuf__free(&b);
}

static void test_plain_names_stay(void **state)
{
	(void)state;
	check("", "");
	check("_", "_");
	check("_Z", "_Z");
	check("_R", "_R");
	check("_Zebra", "_Zebra");
	check("_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault");
	check("_PyEval_EvalFrameDefault.cold", "_PyEval_EvalFrameDefault.cold");
	check("i", "i"); /* a type to the demangler, a function to us */
}

static void test_cpp(void **state)
{
	(void)state;
	check("_Z3fooi", "foo(int)");
	check("_ZN2at6native3addERKNS_6TensorE", "at::native::add(at::Tensor const&)");
	check("_ZSt4moveIRiEONSt16remove_referenceIT_E4typeEOS2_",
	      "std::remove_reference<int&>::type&& std::move<int&>(int&)");
	check("_Z3fooi.cold", "foo(int) [clone .cold]");
	check("_Z3fooi.part.0.cold", "foo(int) [clone .part.0] [clone .cold]");
	check("_Z3fooi.constprop.0.isra.0", "foo(int) [clone .constprop.0] [clone .isra.0]");
	check("_Z3fooi.lto_priv.0", "foo(int) [clone .lto_priv.0]");
}

static void test_rust(void **state)
{
	(void)state;
	check("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt");
	check("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE.llvm.123",
	      "core::fmt::Write::write_fmt");
	check("_ZN60_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..Drop$GT$4drop17h"
	      "0123456789abcdefE",
	      "<alloc::vec::Vec<T> as core::ops::Drop>::drop");
	check("_RNvCs1234_7mycrate3foo", "mycrate::foo");
	check("_RINvNtC3std3mem8align_ofjEB2_", "std::mem::align_of::<usize>");
}

static char *repeat(const char *head, const char *part, size_t times, const char *tail)
{
	struct strbuf b = { 0 };

	strbuf__addz(&b, head);
	for (size_t i = 0; i < times; i++)
		strbuf__addz(&b, part);
	strbuf__addz(&b, tail);
	assert_int_equal(b.err, 0);
	return b.s;
}

/* Each argument is a pair of the one before: 2^n names of output from 2n bytes. */
static void test_explosion_stays_mangled(void **state)
{
	struct strbuf name = { 0 };

	(void)state;
	strbuf__addz(&name, "_Z1f1a1pIS_S_E");
	for (int i = 1; i <= 16; i++) {
		/* S_ is a, S0_ is p, S1_ is p<a, a>, S2_ is p, S3_ is p<S1_, S1_> ... */
		char ref = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[2 * i - 1];

		strbuf__addf(&name, "1pIS%c_S%c_E", ref, ref);
	}
	check(name.s, name.s);
	strbuf__free(&name);
}

static void test_depth(void **state)
{
	char *deep = repeat("_Z1f", "P", 100000, "i");
	char *cut = repeat("_Z1f", "P", SYM_NAME_MAX - 4, "");
	char *nested = repeat("_Z1f", "1aI", 300, "i");

	(void)state;
	check(deep, cut); /* longer than a name may be: as it is, and cut */
	check(cut, cut);
	check(nested, nested);
	free(deep);
	free(cut);
	free(nested);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_names_stay),
		cmocka_unit_test(test_cpp),
		cmocka_unit_test(test_rust),
		cmocka_unit_test(test_explosion_stays_mangled),
		cmocka_unit_test(test_depth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
