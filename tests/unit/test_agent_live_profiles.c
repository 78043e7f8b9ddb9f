/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Profiles of the next seconds, asked for by threads, on a clock that the test turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/live_profiles.h"
#include "base/clock.h"

static const struct period_limits limits = { .stacks = 100, .processes = 10 };

struct asker {
	pthread_t thread;
	struct live_profiles *live;
	unsigned seconds;
	int client_fd;
	int result;
	char *data;
	size_t size;
};

static void *ask(void *arg)
{
	struct asker *a = arg;
	FILE *f = open_memstream(&a->data, &a->size);

	a->result = live_profiles__profile(a->live, a->seconds, a->client_fd, f);
	fclose(f);
	return NULL;
}

static void begin_for(struct asker *a, struct live_profiles *t, unsigned seconds, int client_fd)
{
	*a = (struct asker){ .live = t, .seconds = seconds, .client_fd = client_fd };
	assert_int_equal(pthread_create(&a->thread, NULL, ask, a), 0);
}

static void begin(struct asker *a, struct live_profiles *t, unsigned seconds)
{
	begin_for(a, t, seconds, -1);
}

static void end(struct asker *a, int result)
{
	pthread_join(a->thread, NULL);
	assert_int_equal(a->result, result);
	assert_true(result == -EBUSY || result == -EINVAL ||
		    (a->size > 20 && !memcmp(a->data, "\x1f\x8b", 2)));
	free(a->data);
}

/* Which samples its profile had. */
static uint64_t named;

static int name(void *ctx, struct profile *p)
{
	(void)ctx;
	named = profile__total(p);
	return 0;
}

static struct profile *drained(uint64_t count)
{
	struct profile *p = profile__new();
	const struct profile_proc proc = { .space = 1, .tgid = 1 };
	const uint64_t word = PYTHON_WORD(1, 0);

	profile__add_proc(p, &proc);
	profile__add_stack(p, 0, 0, &word, 1, count);
	return p;
}

/* A drain of so many samples. */
static void drain(struct live_profiles *t, const struct clocks *now, uint64_t count)
{
	struct profile *p = drained(count);

	live_profiles__add(t, p, &limits);
	live_profiles__turn(t, now, 19, 2, name, NULL);
	profile__free(p);
}

static void wait_asked(struct live_profiles *t, int fd)
{
	uint64_t n;

	assert_int_equal(read(fd, &n, sizeof(n)), sizeof(n));
	assert_true(live_profiles__due(t, 0));
}

static void only_what_is_sampled_meanwhile(void **state)
{
	int fd = eventfd(0, 0);
	struct live_profiles *t = live_profiles__new(fd);
	struct clocks now = { .real_ns = 1000 * NS_PER_S, .mono_ns = 10 * NS_PER_S };
	struct asker a;

	(void)state;
	assert_false(live_profiles__due(t, UINT64_MAX - 1));
	begin(&a, t, 5);
	wait_asked(t, fd);
	drain(t, &now, 1000); /* from before it was asked for */
	assert_int_equal(live_profiles__wake_ns(t), 15 * NS_PER_S);
	now.mono_ns += 3 * NS_PER_S;
	assert_false(live_profiles__due(t, now.mono_ns));
	drain(t, &now, 20);
	now.mono_ns += 2 * NS_PER_S;
	assert_true(live_profiles__due(t, now.mono_ns));
	drain(t, &now, 3);
	end(&a, 0);
	assert_int_equal(named, 23);
	drain(t, &now, 1000);
	live_profiles__end(t, &now, 19, 2, name, NULL);
	live_profiles__free(t);
	close(fd);
}

static void several_at_once(void **state)
{
	int fd = eventfd(0, EFD_SEMAPHORE);
	struct live_profiles *t = live_profiles__new(fd);
	struct clocks now = { .mono_ns = 10 * NS_PER_S };
	struct asker a[LIVE_PROFILES_MAX], more;

	(void)state;
	for (unsigned i = 0; i < LIVE_PROFILES_MAX; i++) {
		begin(&a[i], t, 1 + i);
		wait_asked(t, fd);
	}
	begin(&more, t, 1);
	end(&more, -EBUSY);
	begin(&more, t, 0);
	end(&more, -EINVAL);
	begin(&more, t, LIVE_PROFILE_MAX_S + 1);
	end(&more, -EINVAL);
	drain(t, &now, 1);
	for (unsigned i = 0; i < LIVE_PROFILES_MAX; i++) {
		now.mono_ns += NS_PER_S;
		drain(t, &now, 1);
		end(&a[i], 0);
		assert_int_equal(named, i + 1);
	}
	live_profiles__end(t, &now, 19, 2, name, NULL);
	live_profiles__free(t);
	close(fd);
}

/* One runs, one was only asked for. */
static void at_the_end_nobody_waits(void **state)
{
	int fd = eventfd(0, EFD_SEMAPHORE);
	struct live_profiles *t = live_profiles__new(fd);
	struct clocks now = { .mono_ns = 10 * NS_PER_S };
	struct asker a, b, c;

	(void)state;
	begin(&a, t, 600);
	wait_asked(t, fd);
	drain(t, &now, 0);
	drain(t, &now, 7);
	begin(&b, t, 600);
	wait_asked(t, fd);
	live_profiles__end(t, &now, 19, 2, name, NULL);
	end(&a, 0);
	assert_int_equal(named, 7);
	pthread_join(b.thread, NULL);
	assert_int_equal(b.result, -ECANCELED);
	assert_int_equal(b.size, 0);
	free(b.data);
	begin(&c, t, 600);
	end(&c, -EBUSY);
	live_profiles__free(t);
	close(fd);
}

static void another_frequency_ends_them(void **state)
{
	int fd = eventfd(0, 0);
	struct live_profiles *t = live_profiles__new(fd);
	struct clocks now = { .mono_ns = 10 * NS_PER_S };
	struct asker a;

	(void)state;
	begin(&a, t, 600);
	wait_asked(t, fd);
	drain(t, &now, 5);
	drain(t, &now, 4);
	live_profiles__cut(t, &now, 19, 2, name, NULL);
	end(&a, 0);
	assert_int_equal(named, 4);
	live_profiles__end(t, &now, 19, 2, name, NULL);
	live_profiles__free(t);
	close(fd);
}

static void join_left(struct asker *a)
{
	pthread_join(a->thread, NULL);
	assert_int_equal(a->result, -ECANCELED);
	assert_int_equal(a->size, 0);
	free(a->data);
}

/*
 * One leaves before it began, one while it runs: nothing is named for them, and their places are
 * free.
 */
static void who_leaves_keeps_no_place(void **state)
{
	int fd = eventfd(0, EFD_SEMAPHORE), early[2], late[2], stays[2];
	struct live_profiles *t = live_profiles__new(fd);
	struct clocks now = { .mono_ns = 10 * NS_PER_S };
	struct asker a, b, c, more[LIVE_PROFILES_MAX];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, early), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, late), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stays), 0);
	begin_for(&a, t, 600, early[0]);
	wait_asked(t, fd);
	close(early[1]);
	join_left(&a);
	begin_for(&b, t, 600, late[0]);
	wait_asked(t, fd);
	begin_for(&c, t, 600, stays[0]);
	wait_asked(t, fd);
	drain(t, &now, 1);
	drain(t, &now, 5);
	named = 0;
	assert_false(live_profiles__due(t, now.mono_ns));
	close(late[1]);
	wait_asked(t, fd); /* it wakes the main thread */
	drain(t, &now, 6);
	join_left(&b);
	assert_int_equal(named, 0);
	for (unsigned i = 1; i < LIVE_PROFILES_MAX; i++) {
		begin(&more[i], t, 600);
		wait_asked(t, fd);
	}
	drain(t, &now, 7);
	live_profiles__end(t, &now, 19, 2, name, NULL);
	end(&c, 0);
	for (unsigned i = 1; i < LIVE_PROFILES_MAX; i++)
		end(&more[i], 0);
	live_profiles__free(t);
	close(early[0]);
	close(late[0]);
	close(stays[0]);
	close(stays[1]);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_sampled_meanwhile),
		cmocka_unit_test(several_at_once),
		cmocka_unit_test(at_the_end_nobody_waits),
		cmocka_unit_test(another_frequency_ends_them),
		cmocka_unit_test(who_leaves_keeps_no_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
