/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Records of perf, well formed and not; and the watch itself on our own mappings. */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "process/mmapwatch.h"

struct record {
	struct perf_event_header header;
	uint8_t body[256];
};

/* header, the fields, the sample id; the size that the kernel would give it. */
static uint32_t make(struct record *r, uint32_t type, uint16_t misc, const void *body, size_t size)
{
	struct {
		uint32_t pid, tid;
		uint64_t time;
	} id = { 11, 12, 1300 };

	*r = (struct record){ .header = { .type = type, .misc = misc } };
	memcpy(r->body, body, size);
	memcpy(r->body + size, &id, sizeof(id));
	r->header.size = (uint16_t)(sizeof(r->header) + size + sizeof(id));
	return r->header.size;
}

struct mmap2 {
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, gen;
	uint32_t prot, flags;
	char name[8];
};

struct comm {
	uint32_t pid, tid;
	char name[16];
};

static void parses_records(void **state)
{
	struct mmap2 m = { 1, 2, 0x1000, 0x2000, 0x3000, 8, 1, 77, 5, 5, 2, "/x" };
	struct comm c = { 3, 4, "fifteen chars.." };
	uint64_t lost[2] = { 9, 42 };
	struct mmap_event ev;
	struct record r;
	uint32_t size;

	(void)state;
	size = make(&r, PERF_RECORD_MMAP2, 0, &m, sizeof(m));
	assert_true(mmap_event__parse(&ev, &r, size));
	assert_true(ev.type == MMAP_EVENT_MMAP && ev.tgid == 1 && ev.tid == 2 &&
		    ev.time_ns == 1300);
	assert_true(ev.start == 0x1000 && ev.size == 0x2000 && ev.offset == 0x3000);
	assert_true(ev.major == 8 && ev.minor == 1 && ev.inode == 77 && ev.generation == 5);
	size = make(&r, PERF_RECORD_COMM, 0, &c, sizeof(c));
	assert_true(mmap_event__parse(&ev, &r, size));
	assert_true(ev.type == MMAP_EVENT_COMM && ev.tgid == 3 && ev.tid == 4);
	assert_string_equal(ev.comm, "fifteen chars..");
	size = make(&r, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, &c, sizeof(c));
	assert_true(mmap_event__parse(&ev, &r, size) && ev.type == MMAP_EVENT_EXEC);
	size = make(&r, PERF_RECORD_LOST, 0, lost, sizeof(lost));
	assert_true(mmap_event__parse(&ev, &r, size));
	assert_true(ev.type == MMAP_EVENT_LOST && ev.lost == 42);
	size = make(&r, PERF_RECORD_FORK, 0, lost, sizeof(lost));
	assert_false(mmap_event__parse(&ev, &r, size));
}

/* Cut anywhere, from a buffer of that size: never read past it, and never half a record. */
static void refuses_short_records(void **state)
{
	struct mmap2 m = { .pid = 1 };
	struct mmap_event ev;
	struct record r;
	uint32_t size = make(&r, PERF_RECORD_MMAP2, 0, &m, sizeof(m));

	(void)state;
	for (uint32_t cut = 0; cut < size; cut++) {
		uint8_t *copy = malloc(cut + !cut);

		memcpy(copy, &r, cut);
		assert_true(mmap_event__parse(&ev, copy, cut) ==
			    (cut >= sizeof(r.header) + offsetof(struct mmap2, name) + 16));
		free(copy);
	}
	/* A comm without its end. */
	memset(&m, 'c', sizeof(m));
	size = make(&r, PERF_RECORD_COMM, 0, &m, sizeof(m));
	assert_true(mmap_event__parse(&ev, &r, size));
	assert_int_equal(strlen(ev.comm), TASK_COMM_LEN - 1);
}

struct seen {
	uintptr_t at;
	struct stat file;
	bool mapped, named, executed;
	uint32_t child;
};

static void note(void *ctx, const struct mmap_event *ev)
{
	struct seen *s = ctx;

	if (s->child && ev->tgid == s->child && ev->type == MMAP_EVENT_EXEC)
		s->executed = !strcmp(ev->comm, "true");
	if (ev->tgid != (uint32_t)getpid())
		return;
	if (ev->type == MMAP_EVENT_COMM && !strcmp(ev->comm, "renamed"))
		s->named = true;
	if (ev->type == MMAP_EVENT_MMAP && ev->start == s->at && ev->size == 4096 && !ev->offset &&
	    ev->inode == s->file.st_ino && makedev(ev->major, ev->minor) == s->file.st_dev)
		s->mapped = true;
}

/* Until `*done`, by wake-ups alone. */
static void wait_for(struct mmapwatch *w, struct seen *s, const bool *done)
{
	struct pollfd pfd = { .fd = mmapwatch__fd(w), .events = POLLIN };

	while (!*done) {
		if (poll(&pfd, 1, 10000) != 1)
			fail_msg("no wake-up");
		mmapwatch__read(w, note, s);
	}
}

static struct mmapwatch *open_watch(uint32_t pages)
{
	struct mmapwatch *w = mmapwatch__new(pages, MMAPWATCH_EACH);

	if (!w && (errno == EACCES || errno == EPERM)) {
		printf("skip: not permitted to watch all CPUs (perf_event_open)\n");
		skip();
	}
	assert_non_null(w);
	return w;
}

static void sees_our_own_mapping(void **state)
{
	struct mmapwatch *w = open_watch(0);
	struct seen s = { 0 };
	FILE *f = fopen("/proc/self/exe", "r");
	char name[16];
	void *at;

	(void)state;
	assert_true(mmapwatch__cpu_cnt(w) == (int)sysconf(_SC_NPROCESSORS_ONLN));
	assert_int_equal(fstat(fileno(f), &s.file), 0);
	at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), 0);
	assert_true(at != MAP_FAILED);
	s.at = (uintptr_t)at;
	wait_for(w, &s, &s.mapped);
	prctl(PR_GET_NAME, name);
	prctl(PR_SET_NAME, "renamed");
	wait_for(w, &s, &s.named);
	prctl(PR_SET_NAME, name);
	s.child = (uint32_t)fork();
	if (!s.child) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	wait_for(w, &s, &s.executed);
	munmap(at, 4096);
	fclose(f);
	mmapwatch__free(w);
}

/* A ring that is too small loses records, says so, and works on. */
static void reports_what_it_lost(void **state)
{
	struct mmapwatch *w = open_watch(1);
	struct seen s = { 0 };
	FILE *f = fopen("/proc/self/exe", "r");
	void *at;

	(void)state;
	assert_int_equal(fstat(fileno(f), &s.file), 0);
	for (int i = 0; i < 1000; i++) {
		at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), 0);
		assert_true(at != MAP_FAILED);
		munmap(at, 4096);
	}
	/* The record of the loss is written with the next one that finds room. */
	mmapwatch__read(w, note, &s);
	at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), 0);
	s.at = (uintptr_t)at;
	wait_for(w, &s, &s.mapped);
	for (int cpu = 0; cpu < mmapwatch__cpu_cnt(w) && !mmapwatch__lost(w); cpu++) {
		at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), 0);
		mmapwatch__read(w, note, &s);
	}
	assert_true(mmapwatch__lost(w) > 0);
	fclose(f);
	mmapwatch__free(w);
}

static void survives_hotplug(void **state)
{
	struct mmapwatch *w = open_watch(0);
	int cnt = mmapwatch__cpu_cnt(w);

	(void)state;
	assert_int_equal(mmapwatch__cpu_online(w, 0), 0); /* again */
	assert_int_equal(mmapwatch__cpu_cnt(w), cnt);
	assert_int_equal(mmapwatch__cpu_online(w, -1), -EINVAL);
	assert_int_equal(mmapwatch__cpu_online(w, 1 << 20), -EINVAL);
	mmapwatch__free(w);
	mmapwatch__free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_records),	cmocka_unit_test(refuses_short_records),
		cmocka_unit_test(sees_our_own_mapping), cmocka_unit_test(reports_what_it_lost),
		cmocka_unit_test(survives_hotplug),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
