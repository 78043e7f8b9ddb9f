/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where windows go when a reload asks for what cannot be opened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

static uint64_t fake_ms = 1;
#define now_ms() fake_ms
#include "../../user/agent/sinks.c"
#undef now_ms

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/pyperf-sinks-XXXXXX";

#include "owndir.h"
static struct sinks *sinks;
static unsigned said;

static void hear(enum log_level level, const char *fmt, const char *text)
{
	(void)fmt;
	said += level == LOG_LEVEL_ERR && strstr(text, "store");
}

static struct config *configured(const char *store)
{
	struct config *c;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/a.conf", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "[agent]\nstate-dir = %s\n[store]\nkeep-free = 0\npath = %s/%s/store.db\n", dir,
		dir, store);
	fclose(f);
	c = config__new(path);
	assert_non_null(c);
	return c;
}

static int put(uint64_t number)
{
	static const struct label labels[] = { { "host", "h" }, { "service_name", "s" } };
	struct window w = { .start_unix_ns = number, .labels = labels, .label_cnt = 2 };

	w.pprof = "x";
	w.pprof_size = 1;
	snprintf(w.id, sizeof(w.id), "%032x", (unsigned)number);
	return sinks__put(sinks, &w);
}

static void a_store_that_is_not_there_is_an_error(void **state)
{
	struct config *first = configured("good"), *second = configured("bad");
	char blocking[64];
	int fd;

	(void)state;
	snprintf(blocking, sizeof(blocking), "%s/bad", dir);
	fd = open(blocking, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	sinks = sinks__open(first);
	assert_non_null(sinks);
	assert_int_equal(put(1), 0);
	sinks__change(sinks, second);
	assert_int_equal(said, 1);
	assert_int_equal(put(2), -EIO);
	fake_ms += REOPEN_MS;
	assert_int_equal(put(3), -EIO);
	assert_int_equal(put(4), -EIO);
	assert_int_equal(said, 2);
	assert_int_equal(unlink(blocking), 0);
	assert_int_equal(put(5), -EIO);
	fake_ms += REOPEN_MS;
	assert_int_equal(put(6), 0);
	assert_int_equal(put(7), 0);
	assert_int_equal(said, 2);
	sinks__close(sinks);
	config__put(first);
	config__put(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_store_that_is_not_there_is_an_error),
	};

	log_set_writer(hear);
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
