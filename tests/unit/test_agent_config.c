/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The configuration file, and what is said of mistakes in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/config.h"

static char said[4096], whole[4096]; /* without the path in front, and with all paths */

static void listen_to(enum log_level level, const char *fmt, const char *text)
{
	const char *name = strrchr(text, '/');

	(void)level, (void)fmt;
	strncat(whole, text, sizeof(whole) - strlen(whole) - 2);
	strcat(whole, "\n");
	strncat(said, name ? name + 1 : text, sizeof(said) - strlen(said) - 2);
	strcat(said, "\n");
}

static struct config *parse(const char *text)
{
	char path[] = "/tmp/agent.XXXXXX";
	int fd = mkstemp(path);
	struct config *c;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	said[0] = whole[0] = '\0';
	c = config__new(path);
	if (!c)
		assert_int_equal(errno, EINVAL);
	unlink(path);
	/* The path is another one each time. */
	for (char *p; (p = strstr(said, path + 5));)
		memmove(p, p + strlen(path + 5), strlen(p + strlen(path + 5)) + 1);
	return c;
}

static void refused(const char *text, const char *why)
{
	assert_null(parse(text));
	assert_string_equal(said, why);
}

static void defaults(void **state)
{
	struct config *c = config__new(NULL);

	(void)state;
	assert_non_null(c);
	assert_int_equal(c->agent.event_cnt, 1);
	assert_string_equal(source__name(c->agent.events[0]), "cpu-clock");
	assert_int_equal(c->agent.frequency_hz, 19);
	assert_int_equal(c->agent.window_s, 60);
	assert_string_equal(c->agent.group[0], "service_name");
	assert_string_equal(c->agent.group[1], "k8s_namespace");
	assert_string_equal(c->agent.group[2], "k8s_workload");
	assert_string_equal(c->agent.group[3], "k8s_container");
	assert_null(c->agent.group[4]);
	assert_true(c->agent.native && c->agent.kernel && c->agent.lines);
	assert_true(c->store_enabled && c->store.max_bytes && c->store.max_age_s);
	assert_string_equal(c->store.path, STATE_DIR_DEFAULT "/store.db");
	config__put(c);
}

static void all_keys(void **state)
{
	struct config *c = parse("# of a host\n"
				 "[agent]\n"
				 "frequency = 99 Hz ; fast\n"
				 "  window = 30s\n"
				 "state-dir=/run/x\n"
				 "group = service_name, k8s_pod\n"
				 "native = no\n"
				 "kernel = yes\n"
				 "comm = celery*\n"
				 "cgroup = app\n"
				 "directory = /tmp/w\n"
				 "table-memory = 16MiB\n"
				 "log-level = debug\n"
				 "log-format = json\n"
				 "\n"
				 "[labels]\n"
				 "add.region = eu\n"
				 "environment = A B\n"
				 "[budget]\n"
				 "cpu = 0.5%\n"
				 "memory = 64 MiB\n"
				 "processes = 10\n"
				 "stacks = 1000\n");

	(void)state;
	assert_string_equal(said, "");
	assert_non_null(c);
	assert_int_equal(c->agent.frequency_hz, 99);
	assert_int_equal(c->agent.window_s, 30);
	assert_string_equal(c->agent.state_dir, "/run/x");
	assert_string_equal(c->agent.group[1], "k8s_pod");
	assert_false(c->agent.native);
	assert_int_equal(c->agent.log_level, LOG_LEVEL_DEBUG);
	assert_true(c->agent.log_json);
	assert_string_equal(c->labels.environment[1], "B");
	assert_true(c->budget.cpu_percent > 0.49 && c->budget.cpu_percent < 0.51);
	assert_int_equal(c->budget.memory_mib, 64);
	assert_int_equal(c->budget.stacks, 1000);
	config__put(c);
}

static void every_mistake_once(void **state)
{
	(void)state;
	refused("[agent]\n"
		"frequncy = 9\n"
		"frequency = 0\n"
		"window = 61s\n"
		"state-dir = here\n"
		"group = a-b\n"
		"group =\n"
		"native = on\n"
		"log-level = loud\n"
		"nonsense\n"
		"[nothing]\n"
		"a = b\n"
		"c = d\n"
		"[budget]\n"
		"cpu = 1O%\n"
		"memory = 1\n",
		":2: frequncy: there is no such key in this section\n"
		":3: frequency: samples per second and CPU, from 1 to 999\n"
		":4: window: seconds, from 10 to 60\n"
		":5: state-dir: an absolute path\n"
		":6: group: one to eight names of labels, with commas between them\n"
		":7: group: one to eight names of labels, with commas between them\n"
		":8: native: yes or no\n"
		":9: log-level: error, warning, info or debug\n"
		":10: syntax: neither [section] nor key = value\n"
		":12: nothing: there is no such section\n"
		":15: cpu: percent of one CPU, from 0.05 to 100\n"
		":16: memory: MiB, from 32 to 65536\n");
	refused("window = 30\n", ":1: window: stands in no section\n");
	refused("[agent\nwindow = 30\n", ":1: syntax: neither [section] nor key = value\n"
					 ":2: window: stands in no section\n");
}

static void long_lines(void **state)
{
	char text[3000];

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, "[agent]\ncomm = ", 15);
	strcpy(text + 800, "\nwindow = 30\n");
	refused(text, ":2: syntax: the line is too long\n");
	memset(text, 'x', 800);
	memcpy(text, "[agent]\n", 8);
	memcpy(text + 100, " = 1\n", 5);
	text[105] = '\0';
	refused(text, ":2: syntax: neither [section] nor key = value\n");
}

static void a_file_of_mistakes(void **state)
{
	char text[2000] = "[agent]\n";

	(void)state;
	for (int i = 0; i < 50; i++)
		strcat(text, "x = 1\n");
	assert_null(parse(text));
	assert_non_null(
		strstr(said, ":21: x: there is no such key in this section\n: 30 more errors\n"));
}

static void no_file(void **state)
{
	(void)state;
	said[0] = '\0';
	assert_null(config__new("/nonexistent/agent.conf"));
	assert_int_equal(errno, ENOENT);
	assert_string_equal(said, "agent.conf: No such file or directory\n");
}

static void what_stays_until_the_next_start(void **state)
{
	struct config *a = parse("[agent]\nstate-dir = /a\n"),
		      *b = parse("[agent]\nstate-dir = /b\n"),
		      *c = parse("[agent]\nstate-dir = /a\nwindow = 10\n[store]\npath=/c/c.db\n"),
		      *d = parse("[agent]\nstate-dir = /a\ncomm = x\n");

	(void)state;
	assert_string_equal(a->store.path, "/a/store.db");
	assert_string_equal(c->store.path, "/c/c.db");
	assert_string_equal(config__stay(b, a), "state-dir");
	assert_string_equal(b->agent.state_dir, "/a");
	assert_string_equal(b->store.path, "/a/store.db");
	assert_null(config__stay(c, a));
	assert_string_equal(config__stay(d, a), "comm");
	config__put(a);
	config__put(b);
	config__put(c);
	config__put(d);
}

static void destinations(void **state)
{
	struct config *c = parse("[push.a]\nkind = put\nurl = http://127.0.0.1:1/\n"
				 "[push.b]\nurl = http://127.0.0.1:2/\nkind = put\n"
				 "[store]\nenabled = no\nmax-age = 2d\n");

	(void)state;
	assert_non_null(c);
	assert_int_equal(c->push_cnt, 2);
	assert_string_equal(c->push[1].name, "b");
	assert_false(c->store_enabled);
	config__put(c);
	assert_null(parse(
		"[push.a]\nkind = put\n[push.B!]\nurl = x\nkind = y\n[store]\nmax-age = x\n"));
	assert_non_null(strstr(said, ":2: a: "));
	assert_non_null(strstr(said, ":4: B!: "));
	assert_null(strstr(said, ":5:"));
	assert_non_null(strstr(said, ":7: max-age: "));
}

/* Of two values nobody would see which one holds. */
static void keys_that_come_twice(void **state)
{
	struct config *c;

	(void)state;
	refused("[agent]\nwindow = 20\n[budget]\ncpu = 1%\n[agent]\nwindow = 20\n",
		":6: window: line 2 sets it already: remove one of the two\n");
	refused("[push.a]\nkind = put\nurl = http://h/{id}\nurl = http://h/{id}\n",
		":4: url: line 3 sets it already: remove one of the two\n");
	refused("[labels]\nadd.a = 1\nadd.a = 2\n",
		":3: add.a: line 2 sets it already: remove one of the two\n");
	c = parse("[push.a]\nkind = put\nurl = http://h/{id}\nheader = A: 1\nheader = B: 2\n"
		  "[push.b]\nkind = put\nurl = http://h/{id}\n");
	assert_string_equal(said, "");
	config__put(c);
}

static void groups_of_labels_that_there_are(void **state)
{
	static const char *const good[] = { "k8s_namespace, host", "region, env_STAGE", "cmdline",
					    "attribute.deployment.environment" };
	struct config *c = NULL;
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		config__put(c);
		snprintf(text, sizeof(text),
			 "[agent]\ngroup = %s\n[labels]\nadd.region = eu\nenvironment = STAGE\n"
			 "command-line = yes\n",
			 good[i]);
		c = parse(text);
		assert_string_equal(said, "");
	}
	assert_string_equal(c->agent.group[0], "deployment_environment");
	config__put(c);
	assert_null(parse("[agent]\ngroup = service_name, servce\n"));
	assert_non_null(strstr(whole, ":2: group: there is no label 'servce': "));
	assert_non_null(strstr(whole, "attribute.servce"));
	assert_null(parse("[agent]\ngroup = env_STAGE\n"));
	assert_null(parse("[agent]\ngroup = cmdline\n"));
}

static char *print(const struct config *c)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	config__print(c, f);
	fclose(f);
	return text;
}

static void events_are_named(void **state)
{
	static const char *const bad[] = {
		"",
		",",
		"cpu",
		"page-faults",
		"cpu-clock,",
		"cpu-clock,,page-faults",
		"cpu-clock page-faults",
		"page-faults, cpu-clock",
		"cpu-clock, cpu-clock",
		"cpu-clock:x",
		"cpu-clock, task-clock, cycles, page-faults, minor-faults",
		"cpu-clock, page-faults, off-cpu, gil", /* which is two */
		"cpu-clock, gil-held",
	};
	struct config *c =
		parse("[agent]\nevents = task-clock ,minor-faults,cpu-migrations, cycles\n");
	char text[128];

	(void)state;
	assert_non_null(c);
	assert_int_equal(c->agent.event_cnt, 4);
	assert_string_equal(source__name(c->agent.events[1]), "minor-faults");
	config__put(c);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "[agent]\nevents = %s\n", bad[i]);
		assert_null(parse(text));
		assert_non_null(strstr(said, ":2: events: up to 4 names"));
	}
}

/* Every key of every section, none with its default, and back again. */
static void what_is_printed_can_be_read(void **state)
{
	static const char all[] =
		"[agent]\nevents = cpu-clock, page-faults\nfrequency = 99Hz\nwindow = 30s\ngroup = "
		"service_name, attribute.a_b\n"
		"small = 7\nstate-dir = /run/x\ncomm = celery*\ncgroup = app\nnative = no\nkernel "
		"= no\n"
		"lines = no\ntable-memory = 16MiB\nlog-level = debug\nlog-format = json\n"
		"directory = /tmp/w\n"
		"\n[labels]\nhost = h\nenvironment = A, B\ncommand-line = yes\nadd.region = eu\n"
		"\n[budget]\ncpu = 0.5%\nmemory = 64MiB\nprocesses = 10\nstacks = 1000\n"
		"\n[store]\nenabled = no\npath = /c/c.db\nmax-age = 36h\nmax-size = 500000KiB\n"
		"keep-free = 123457\n"
		"\n[http]\nlisten = [::1]:4042\nsocket-mode = 0600\ntoken-file = /t\ntls-cert = "
		"/c\n"
		"tls-key = /k\nallow-remote = yes\nallow-host = a,b\n"
		"\n[rule]\nmatch.comm = a*\nset.team = {comm}\nset.unit = \ndrop = yes\n"
		"\n[rule]\nmatch.comm = b\nmatch.unit = \nrate = 1/10\n"
		"\n[push.a]\nkind = parca\nurl = https://h/\nheader = X-A: ***\n"
		"header-file = X-B: /b\nbearer-token-file = /t\ntenant = t\n"
		"proxy = env\ninsecure-skip-verify = yes\ncompression = none\n"
		"connect-timeout = 7s\ntimeout = 1h\nretry-min = 90s\nretry-max = 2m\n"
		"spread = 0s\nmax-in-flight = 3\nmax-windows = 5\nspool-max-size = "
		"5MiB\nspool-max-age = 61s\n";
	struct config *c = parse(all);
	char *text;

	(void)state;
	assert_string_equal(said, "");
	assert_non_null(c);
	text = print(c);
	assert_string_equal(text, all);
	free(text);
	config__put(c);
}

static void rules_that_cannot_be(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "[rule]\ndrop = yes\n", ":1: rule: it matches nothing" },
		{ "[rule]\nmatch.comm = x\n", ":1: rule: it does nothing" },
		{ "[rule]\nmatch.comm = x\ndrop = 1\n", ":3: drop: yes or no" },
		{ "[rule]\nmatch.comm = x\nrate = 10%\n", ":3: rate: 1/N" },
		{ "[rule]\nmatch.comm = x\nrate = 1/0\n", ":3: rate: 1/N" },
		{ "[rule]\nmatch.a-b = x\n", ":2: match.a-b: 8 of them" },
		{ "[rule]\nmatch.comm = x\nset.host = y\n", ":3: set.host: left out" },
		{ "[rule]\nmatches.comm = x\n", ":2: matches.comm: there is no such key" },
		{ "[rule]\nmatch.comm = x\nmatch.comm = y\ndrop = yes\n",
		  ":3: match.comm: line 2 sets it already" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_null(parse(cases[i].text));
		if (!strstr(whole, cases[i].why))
			fail_msg("%zu: %s", i, whole);
	}
}

static void rules_of_sections(void **state)
{
	struct config *c = parse("[rule]\nmatch.comm = a*\nset.team = x\n[agent]\ngroup = team\n"
				 "[rule]\nmatch.comm = b\nrate = 1/10\n[rule]\nmatch.comm = c\n"
				 "drop = yes\n");

	(void)state;
	assert_string_equal(said, "");
	assert_non_null(c);
	assert_int_equal(c->labels.rule_cnt, 3);
	assert_string_equal(c->labels.rules[0].match[0].value, "a*");
	assert_int_equal(c->labels.rules[1].one_in, 10);
	assert_true(c->labels.rules[2].drop && !c->labels.rules[1].drop);
	config__put(c);
}

static void no_secret_is_printed(void **state)
{
	struct config *c = parse("[push.a]\nkind = put\nurl = https://h/{id}?sig=hidden\n"
				 "header = Authorization: Bearer hidden\n"),
		      *again;
	char *text = print(c), *second;

	(void)state;
	assert_null(strstr(text, "hidden"));
	assert_non_null(strstr(text, "url = https://h/{id}?" CONFIG_MASK "\n"));
	assert_non_null(strstr(text, "header = Authorization: " CONFIG_MASK "\n"));
	again = parse(text);
	assert_string_equal(said, "");
	second = print(again);
	assert_string_equal(text, second);
	free(second);
	free(text);
	config__put(again);
	config__put(c);
}

static void files_that_are_not_there(void **state)
{
	struct config *c = parse("[agent]\ndirectory = /dev/null\n[http]\ntoken-file = /dev/null\n"
				 "tls-cert = /nonexistent/c\ntls-key = /proc\n");

	(void)state;
	assert_non_null(c);
	assert_int_equal(config__check_files(c, "a.conf", LOG_LEVEL_ERR), 3);
	assert_string_equal(whole,
			    "a.conf:2: directory: /dev/null: Not a directory: make it, or correct "
			    "the path\n"
			    "a.conf:5: tls-cert: /nonexistent/c: No such file or directory: make "
			    "it, or correct the path\n"
			    "a.conf:6: tls-key: /proc: Is a directory: correct the path\n");
	config__put(c);
}

/* The default path need not be there, until it was. */
static void a_file_that_may_be_missing(void **state)
{
	char path[] = "/tmp/agent.XXXXXX", loop[] = "/tmp/agent.XXXXXX/a.conf";
	struct config *c;
	bool required = false;
	int fd = mkstemp(path);

	(void)state;
	close(fd);
	unlink(path);
	c = config__load(path, &required);
	assert_non_null(c);
	assert_false(required);
	config__put(c);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "[agent]\nfrequency = 7\n", 22), 22);
	close(fd);
	c = config__load(path, &required);
	assert_int_equal(c->agent.frequency_hz, 7);
	assert_true(required);
	config__put(c);
	unlink(path);
	assert_null(config__load(path, &required));
	assert_int_equal(errno, ENOENT);

	/* There, but not to be reached: that is not the same as missing. */
	assert_non_null(mkdtemp(memcpy(path, "/tmp/agent.XXXXXX", sizeof(path))));
	memcpy(loop, path, sizeof(path) - 1);
	assert_int_equal(symlink("a.conf", loop), 0);
	required = false;
	assert_null(config__load(loop, &required));
	assert_int_equal(errno, ELOOP);
	unlink(loop);
	rmdir(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(all_keys),
		cmocka_unit_test(every_mistake_once),
		cmocka_unit_test(long_lines),
		cmocka_unit_test(a_file_of_mistakes),
		cmocka_unit_test(no_file),
		cmocka_unit_test(a_file_that_may_be_missing),
		cmocka_unit_test(what_stays_until_the_next_start),
		cmocka_unit_test(destinations),
		cmocka_unit_test(keys_that_come_twice),
		cmocka_unit_test(groups_of_labels_that_there_are),
		cmocka_unit_test(events_are_named),
		cmocka_unit_test(what_is_printed_can_be_read),
		cmocka_unit_test(rules_that_cannot_be),
		cmocka_unit_test(rules_of_sections),
		cmocka_unit_test(no_secret_is_printed),
		cmocka_unit_test(files_that_are_not_there),
	};

	log_set_writer(listen_to);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
