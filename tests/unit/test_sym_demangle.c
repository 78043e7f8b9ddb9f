/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "symbolize/symbolize.h"

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

static void check_with(const struct sym_peers *peers, const char *path, const char *symbol,
		       const char *expected)
{
	struct strbuf b = { 0 };

	strbuf__addz(&b, "before ");
	sym_native_name(&b, symbol, path, peers);
	assert_int_equal(b.err, 0);
	assert_memory_equal(b.s, "before ", 7);
	assert_string_equal(b.s + 7, expected);
	assert_int_equal(b.len, strlen(b.s));
	strbuf__free(&b);
}

static void check_in(const char *path, const char *symbol, const char *expected)
{
	check_with(NULL, path, symbol, expected);
}

/* Names that Cython 0.29 made of a module with these functions. */
static void test_cython(void **state)
{
	const char *so = "/srv/cymod.cpython-311-x86_64-linux-gnu.so";

	(void)state;
	check_in(so, "__pyx_pw_5cymod_1inner", "inner (cymod.pyx)");
	check_in(so, "__pyx_pf_5cymod_inner", "inner (cymod.pyx)");
	check_in(so, "__pyx_pf_5cymod_2get_item.isra.0", "get_item (cymod.pyx)");
	check_in(so, "__pyx_pw_5cymod_3get_item", "get_item (cymod.pyx)"); /* no "item" in "get" */
	check_in(so, "__pyx_pw_5cymod_8get_item_1nested", "get_item.nested (cymod.pyx)");
	check_in(so, "__pyx_pw_5cymod_5Plain_1first", "Plain.first (cymod.pyx)");
	check_in(so, "__pyx_pw_5cymod_3Ext_4prop_1__get__", "Ext.prop.__get__ (cymod.pyx)");
	check_in(so, "__pyx_pw_5cymod_3Ext_9__setstate_cython__",
		 "Ext.__setstate_cython__ (cymod.pyx)");
	check_in(so, "__pyx_pw_5cymod_20lambda", "lambda (cymod.pyx)");
	check_in(so, "__pyx_gb_5cymod_6generator", "generator (cymod.pyx)");
	check_in(so, "__pyx_gb_5cymod_8get_item_2generator1", "get_item.generator1 (cymod.pyx)");
	check_in(so, "__pyx_f_5cymod_3Ext_cmeth", "Ext.cmeth (cymod.pyx)");
	check_in(so, "__pyx_f_5cymod_cfun", "cfun (cymod.pyx)");
	check_in(so, "__pyx_f_5cymod_get_item.cold", "get_item (cymod.pyx)");
	check_in(so, "__pyx_fuse_1__pyx_f_5cymod_fus", "fus (cymod.pyx)");
	check_in(so, "__pyx_fuse_0_1__pyx_f_5cymod_fus", "fus (cymod.pyx)");
	check_in(so, "__pyx_fuse_0__pyx_pw_5cymod_15deffus", "deffus (cymod.pyx)");
	check_in(so, "__pyx_pw_5cymod_15__pyx_fuse_1deffus", "deffus (cymod.pyx)");
	check_in(so, "__pyx_pymod_exec_cymod", "<module> (cymod.pyx)");
	check_in("/p/pandas/_libs/lib.so", "__pyx_pw_6pandas_5_libs_3lib_5infer",
		 "infer (lib.pyx)");
	check_in("lib.so", "__pyx_f_3lib_3lib_x", "lib.x (lib.pyx)");
	check_in("lib/lib.so", "__pyx_f_3lib_3lib_x", "x (lib.pyx)");
}

static void test_cython_stays(void **state)
{
	static const char *const raw[] = {
		"__pyx_pf_5cymod_3get_item", /* "item" in "get", or "get_item" with number 3 */
		"__pyx_pw_5cymod_3get_1d",
		"__pyx_pw_5cymod_inner",
		"__pyx_pw_5cymod_1",
		"__pyx_pw_5cymod_",
		"__pyx_pw_",
		"__pyx_f_5cymod_99999x_",
		"__pyx_f_5cymod_4Ext_a",
		"__pyx_f_05cymod_a",
		"__pyx_f_5other_a",
		"__pyx_f_5cymod_a b",
		"__pyx_pw_5cymod_15__pyx_fuse_0_1deffus",
		"__pyx_gb_5cymod_6other",
		"__pyx_tp_new_5cymod_Ext",
		"__pyx_pymod_exec_other",
		"__pyx_fuse_",
		"__pyx_fuse_0_1",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(raw) / sizeof(*raw); i++)
		check_in("/srv/cymod.so", raw[i], raw[i]);
	check_in("/srv/renamed.so", "__pyx_pw_5cymod_1inner", "__pyx_pw_5cymod_1inner");
	check_in("", "__pyx_pw_5cymod_1inner", "__pyx_pw_5cymod_1inner");
	check_in("/", "__pyx_pw_0_1inner", "__pyx_pw_0_1inner");
}

/* Is the symbol one of the list, which ends in NULL? */
static bool is_listed(void *ctx, const char *symbol)
{
	for (const char *const *s = ctx; *s; s++)
		if (!strcmp(*s, symbol))
			return true;
	return false;
}

static void check_beside(const char *const *symbols, const char *symbol, const char *expected)
{
	const struct sym_peers peers = { .has = is_listed, .ctx = (void *)symbols };

	check_with(&peers, "/srv/cymod.so", symbol, expected);
}

/* What has two readings has the one by which its wrapper, or what it wraps, is in the file, too. */
static void test_cython_peers(void **state)
{
	static const char *const nested[] = { "__pyx_pw_5cymod_3get_1item",
					      "__pyx_pf_5cymod_3get_d", NULL };
	static const char *const plain[] = { "__pyx_pw_5cymod_4get_item", "__pyx_pf_5cymod_2get_1d",
					     NULL };
	static const char *const both[] = { "__pyx_pw_5cymod_3get_1item",
					    "__pyx_pw_5cymod_4get_item", NULL };
	static const char *const variants[] = { "__pyx_fuse_0__pyx_pw_5cymod_3get_1item", NULL };
	static const char *const none[] = { "__pyx_pw_5cymod_5get_item",
					    "__pyx_pw_5cymod_3get_3item", NULL };
	static const char item[] = "__pyx_pf_5cymod_3get_item", d[] = "__pyx_pw_5cymod_3get_1d";

	(void)state;
	check_beside(nested, item, "get.item (cymod.pyx)");
	check_beside(nested, "__pyx_pf_5cymod_3get_item.cold", "get.item (cymod.pyx)");
	check_beside(plain, item, "get_item (cymod.pyx)");
	check_beside(nested, d, "get.d (cymod.pyx)");
	check_beside(plain, d, "get_1d (cymod.pyx)");
	check_beside(variants, "__pyx_fuse_0__pyx_pf_5cymod_3get_item", "get.item (cymod.pyx)");
	check_beside(both, item, item);
	check_beside(none, item, item);
	check_beside(variants, item, item);
}

static void test_mypyc(void **state)
{
	(void)state;
	check_in("/srv/mymod.cpython-311.so", "CPyDef_inner", "inner (mymod.py)");
	check_in("/srv/mymod.cpython-311.so", "CPyPy_inner", "inner (mymod.py)");
	check_in("/srv/mymod.so", "CPyDef_Plain____private", "Plain._private (mymod.py)");
	check_in("/srv/mymod.so", "CPyDef_nested_outer_obj_____call__",
		 "nested_outer_obj.__call__ (mymod.py)");
	check_in("/srv/mymod.so", "CPyDef_a___3_b", "a___b (mymod.py)");
	check_in("/srv/mymod.so", "CPyDef___top_level__", "<module> (mymod.py)");
	check_in("/srv/30fcd__mypyc.so", "CPyDef_linegen___LineGenerator___visit",
		 "linegen.LineGenerator.visit");
	check_in("/srv/30fcd__mypyc.so", "CPyDef_black_____top_level__", "black.<module>");
	check_in("/srv/30fcd__mypyc.so",
		 "CPyDef_linegen___transform_line_gen_____mypyc_generator_helper__",
		 "linegen.transform_line");
	check_in("/srv/mymod.so", "CPyDef_lines_gen_____mypyc_generator_helper__",
		 "lines (mymod.py)");
	check_in("/srv/mymod.so", "CPyDef_not__top_level__", "not__top_level__ (mymod.py)");
	check_in("/srv/mymod.so", "CPyDef_", "CPyDef_");
	check_in("/srv/mymod.so", "CPyDef_a___", "CPyDef_a___");
	check_in("/srv/mymod.so", "CPyStatics", "CPyStatics");
}

/* What BOLT and ThinLTO add to the names of functions. */
static void test_parts(void **state)
{
	(void)state;
	check_in("/bin/x", "other.cold.0", "other");
	check_in("/bin/x", "sre_ucs1_match/1.cold.1", "sre_ucs1_match");
	check_in("/bin/x", "work.llvm.4711.cold.2", "work");
	check_in("/bin/x", "_Z3fooi.llvm.4711", "foo(int)");
	check_in("/bin/x", "f.cold", "f");
	check_in("/bin/x", "f.part.0", "f");
	check_in("/bin/x", ".cold.0", ".cold.0");
	check_in("/bin/x", "/1", "/1");
	check_in("/bin/x", "7", "7");
	check_in("/bin/x", "", "");
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
		cmocka_unit_test(test_cython),
		cmocka_unit_test(test_cython_stays),
		cmocka_unit_test(test_cython_peers),
		cmocka_unit_test(test_mypyc),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_explosion_stays_mangled),
		cmocka_unit_test(test_depth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
