/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * export_pprof.c: profiles built by hand against readers that share no code with us:
 * tests/e2e/pprof_read.py, go tool pprof, and pprof-format from npm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "unit/cost.h"
#include "unit/exporting.h"

static void golden_pprof(const char *name, struct profile *p, struct export_opts o)
{
	char path[PATH_MAX], *s, *dir = temp_dir();

	snprintf(path, sizeof(path), "%s/a.pb.gz", dir);
	save(path, p, &o);
	s = decode(path, "");
	check_golden(name, s);
	free(s);
	remove_dir(dir);
	profile__free(p);
}

static void test_pprof(void **state)
{
	(void)state;
	golden_pprof("service.pprof.json", service(), defaults);
	golden_pprof("service-functions.pprof.json", service(),
		     (struct export_opts){ .threads = true });
	golden_pprof("hostile.pprof.json", hostile(), defaults);
	golden_pprof("empty.pprof.json", profile__new(), defaults);
}

/* The two formats say the same: the decoder can print folded stacks. */
static void test_pprof_folded(void **state)
{
	char path[PATH_MAX], *s, *want, *dir = temp_dir();
	struct export_opts o = { .lines = true, .threads = true };
	struct profile *p = service();

	(void)state;
	snprintf(path, sizeof(path), "%s/a.pb.gz", dir);
	save(path, p, &o);
	s = decode(path, "--folded");
	want = output(export__folded, p, &o, NULL);
	assert_string_equal(s, want);
	free(want);
	free(s);
	remove_dir(dir);
	profile__free(p);
}

/* Equal profiles, collected in another order, are equal bytes. */
static void test_pprof_deterministic(void **state)
{
	struct profile *p = service(), *q = service();
	size_t lp, lq;
	char *sp, *sq;

	(void)state;
	for (size_t i = 0; i < q->stack_cnt / 2; i++) {
		struct profile_stack tmp = q->stacks[i];

		q->stacks[i] = q->stacks[q->stack_cnt - 1 - i];
		q->stacks[q->stack_cnt - 1 - i] = tmp;
	}
	for (size_t i = 0; i < q->frame_cnt; i++)
		q->frame_syms[i] = (uint32_t)q->sym_cnt - 1 - q->frame_syms[i];
	for (size_t i = 0; i < q->sym_cnt / 2; i++) {
		struct sym tmp = q->syms[i];

		q->syms[i] = q->syms[q->sym_cnt - 1 - i];
		q->syms[q->sym_cnt - 1 - i] = tmp;
	}
	for (size_t i = 0; i < q->sym_cnt; i++)
		if (q->syms[i].inlined >= 0)
			q->syms[i].inlined = (int32_t)q->sym_cnt - 1 - q->syms[i].inlined;
	sp = output(export__pprof, p, &defaults, &lp);
	sq = output(export__pprof, q, &defaults, &lq);
	assert_int_equal(lp, lq);
	assert_memory_equal(sp, sq, lp);
	free(sp);
	free(sq);
	sp = output(export__report, p, &defaults, NULL);
	sq = output(export__report, q, &defaults, NULL);
	assert_string_equal(sp, sq);
	free(sp);
	free(sq);
	profile__free(p);
	profile__free(q);
}

/* One row of `pprof -top`: "flat flat% sum% cum cum%  name", values in samples. */
static void check_top(const char *text, const char *name, const char *flat, const char *cum)
{
	const char *line = text, *end;
	char a[32], b[32];

	for (; line && *line; line = *end ? end + 1 : end) {
		end = strchrnul(line, '\n');
		if (sscanf(line, "%31s %*s %*s %31s", a, b) == 2 &&
		    (size_t)(end - line) > strlen(name) &&
		    !strncmp(end - strlen(name), name, strlen(name))) {
			assert_string_equal(a, flat);
			assert_string_equal(b, cum);
			return;
		}
	}
	fail_msg("not in pprof's output: %s\n%s", name, text);
}

static void test_go_pprof(void **state)
{
	char path[PATH_MAX], command[2 * PATH_MAX], *s, *dir;
	struct profile *p;
	int status;

	(void)state;
	s = run("go version 2>/dev/null", &status);
	free(s);
	if (status) {
		print_message("skipped: go (go tool pprof) is not installed\n");
		skip();
	}
	p = service();
	dir = temp_dir();
	snprintf(path, sizeof(path), "%s/a.pb.gz", dir);
	save(path, p, &defaults);
	profile__free(p);
	snprintf(
		command, sizeof(command),
		"go tool pprof -sample_index=samples -top -lines -nodefraction=0 -nodecount=100 %s "
		"2>&1",
		path);
	s = run(command, &status);
	assert_int_equal(status, 0);
	assert_non_null(strstr(s, "File: python3.11\n"));
	assert_non_null(strstr(s, "Type: samples\n"));
	assert_non_null(strstr(s, "of 1250 total"));
	check_top(s, " Cart.price /srv/app/shop/cart.py:41", "705", "705");
	check_top(s, " <module> /srv/app/venv/bin/gunicorn:8", "0", "1180");
	check_top(s, " fib /opt/jobs/math.py:4", "53", "53");
	check_top(s, " tcp_sendmsg", "77", "77");
	check_top(s, " __memmove_avx_unaligned_erms", "235", "235");
	check_top(s, " [truncated]", "0", "9");
	check_top(s, " core::str::escape (inline)", "31", "261");
	check_top(s, " [orjson.so]", "17", "17");
	free(s);
	remove_dir(dir);
}

static void test_npm_pprof(void **state)
{
	char path[PATH_MAX], command[2 * PATH_MAX], *s, *dir;
	struct profile *p;
	int status;

	(void)state;
	s = run("node -e 'require(\"pprof-format\")' 2>/dev/null", &status);
	free(s);
	if (status) {
		print_message("skipped: node's pprof-format is not installed (NODE_PATH)\n");
		skip();
	}
	p = service();
	dir = temp_dir();
	snprintf(path, sizeof(path), "%s/a.pb.gz", dir);
	save(path, p, &defaults);
	profile__free(p);
	snprintf(
		command, sizeof(command),
		"node -e 'const p = require(\"pprof-format\").Profile.decode(require(\"zlib\")."
		"gunzipSync(require(\"fs\").readFileSync(process.argv[1])));"
		"const s = p.stringTable.strings;"
		"console.log(p.sample.length, p.sample.reduce((a, x) => a + Number(x.value[0]), 0),"
		"p.sampleType.map(t => s[Number(t.type)] + \"/\" + s[Number(t.unit)]).join(),"
		"p.function.map(f => s[Number(f.name)]).includes(\"Cart.price\"))' %s",
		path);
	s = run(command, &status);
	assert_int_equal(status, 0);
	assert_string_equal(s, "11 1250 samples/count,cpu/nanoseconds true\n");
	free(s);
	remove_dir(dir);
}

/* n processes that have nothing to tell them apart, as a file may say. */
static uint64_t cost_of_equal_processes(size_t n)
{
	struct profile *p = profile__new();
	int f = py(p, "f", "/app.py", 1, 1);
	uint64_t begin, ns;

	for (size_t i = 0; i < n; i++) {
		struct profile_proc proc = { .space = (uint32_t)i + 1, .tgid = 7 };

		proc.comm = profile__intern_z(p, "python3");
		STACK(p, profile__add_proc(p, &proc), 0, 1, f);
	}
	symbolized(p);
	begin = cpu_ns();
	free(output(export__pprof, p, &defaults, NULL));
	ns = cpu_ns() - begin;
	profile__free(p);
	return ns;
}

/* A stack that ends in a frame without a name has no reason. */
static void test_ends_without_symbols(void **state)
{
	struct export_opts o = { .ends = true };
	struct profile *p = profile__new();
	uint64_t frames[] = { 1, 2 };
	char path[PATH_MAX], *s, *dir = temp_dir();
	int proc = add_proc(p, 1, "python3", "/usr/bin/python3", "3.12.0", "", "");

	(void)state;
	assert_int_equal(profile__add_stack(p, (uint32_t)proc, 0, frames, 2, 1), 0);
	snprintf(path, sizeof(path), "%s/a.pb.gz", dir);
	save(path, p, &o);
	s = decode(path, "--folded");
	assert_non_null(strstr(s, "[not-symbolized]"));
	free(s);
	remove_dir(dir);
	profile__free(p);
}

static void test_equal_processes(void **state)
{
	(void)state;
	assert_not_quadratic(cost_of_equal_processes, 1500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pprof),
		cmocka_unit_test(test_pprof_folded),
		cmocka_unit_test(test_pprof_deterministic),
		cmocka_unit_test(test_go_pprof),
		cmocka_unit_test(test_npm_pprof),
		cmocka_unit_test(test_equal_processes),
		cmocka_unit_test(test_ends_without_symbols),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
