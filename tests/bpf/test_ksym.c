/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Names that the kernel is asked for are those in /proc/kallsyms, of all symbols. Modules and BPF
 * programs come and go meanwhile: a difference in one of those counts when the list has not changed
 * there.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "symbolize/ksym.h"
#include "symbolize/symbolize.h"

#define KALLSYMS "/proc/kallsyms"

struct lists {
	struct ksym *ask;
	struct sym_kernel *list;  /* read from the file */
	struct sym_kernel *again; /* a moment later, or NULL */
	struct sym_kernel *both;  /* what the profiler uses */
	size_t asked, answered;
};

static void expect(struct lists *l, uint64_t addr)
{
	uint64_t want_off = 0, got_off = 0, both_off = 0;
	const char *want = sym_kernel__find(l->list, addr, &want_off);
	const char *got = ksym__find(l->ask, addr, &got_off);
	const char *both = sym_kernel__find(l->both, addr, &both_off);

	l->asked++;
	l->answered += got != NULL;
	if (want && both && !strcmp(want, both) && want_off == both_off &&
	    (!got || (!strcmp(want, got) && want_off == got_off)))
		return;
	if (!l->again)
		l->again = sym_kernel__open(KALLSYMS);
	assert_non_null(l->again);
	both = sym_kernel__find(l->again, addr, &both_off);
	if (!want || !both || strcmp(want, both) || want_off != both_off)
		return; /* it has changed */
	fail_msg("%" PRIx64 ": %s+%" PRIx64 ", the kernel says %s+%" PRIx64, addr, want, want_off,
		 got ? got : "nothing", got_off);
}

static void test_all_symbols(void **state)
{
	struct lists l = { .list = sym_kernel__open(KALLSYMS), .ask = ksym__open() };
	uint64_t addr, last = 0;
	char line[1024], type;
	FILE *f;

	(void)state;
	if (libbpf_probe_bpf_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_snprintf, NULL) != 1 ||
	    !l.list) {
		print_message("skipped: %s\n", l.list ? "no bpf_snprintf()" : KALLSYMS);
		skip();
	}
	assert_non_null(l.ask);
	l.both = sym_kernel__open(NULL);
	f = fopen(KALLSYMS, "re");
	assert_true(l.both && f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 " %c", &addr, &type) != 2 || !strchr("tTwW", type) ||
		    addr == last)
			continue;
		expect(&l, addr);
		if (addr > last && addr - last < 8192 && sym_kernel__find(l.list, last, NULL))
			expect(&l, last + (addr - last) / 2);
		last = addr;
	}
	fclose(f);
	print_message("%zu addresses, %zu answered\n", l.asked, l.answered);
	assert_true(l.asked > 2000 && l.answered >= l.asked - l.asked / 100);
	ksym__close(l.ask);
	sym_kernel__close(l.list);
	sym_kernel__close(l.again);
	sym_kernel__close(l.both);
}

static void test_no_symbol(void **state)
{
	static const uint64_t nowhere[] = { 0, 1, 0x7f0000001000, UINT64_MAX };
	struct ksym *k = ksym__open();

	(void)state;
	for (size_t i = 0; k && i < sizeof(nowhere) / sizeof(nowhere[0]); i++)
		assert_null(ksym__find(k, nowhere[i], NULL));
	ksym__close(k);
	ksym__close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_symbols),
		cmocka_unit_test(test_no_symbol),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
