/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Addresses that the kernel gives out anew: BPF takes them out of the image that had a file there,
 * and tells of those that may become code. Truth: what this program maps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "object_fixture.h"
#include "waiting_child.h"

#define AREA_PAGES 200
#define PAGE	   4096UL

/* Mappings of a page each from `at` on: one below it, AREA_PAGES, one above. Their number. */
static uint32_t write_area(struct rig *r, uint32_t first, uint64_t at)
{
	for (uint32_t i = 0; i < AREA_PAGES + 2; i++)
		r->maps.mappings[first + i] =
			(struct mapping){ .start = at + (i - 1ULL) * PAGE, .end = at + i * PAGE };
	return AREA_PAGES + 2;
}

/* The number of empty ones; those beside the area are whole. */
static uint32_t emptied(const struct rig *r, uint32_t first)
{
	const struct mapping *m = r->maps.mappings + first;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < AREA_PAGES + 2; i++)
		cnt += m[i].end == m[i].start;
	assert_true(m[0].end == m[0].start + PAGE);
	assert_true(m[AREA_PAGES + 1].end == m[AREA_PAGES + 1].start + PAGE);
	return cnt;
}

static void *map_area(void)
{
	void *at = mmap(NULL, AREA_PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

/* Frees the area and maps until it is given out again. */
static void map_again(void *area)
{
	void *at = NULL;

	assert_int_equal(munmap(area, AREA_PAGES * PAGE), 0);
	for (int i = 0; i < 1000 && at != area; i++) /* higher gaps are filled first */
		at = map_area();
	assert_ptr_equal(at, area);
}

static void area_rig(struct rig *r, uint64_t at)
{
	struct image im = { .map_first = 1000 };
	uint32_t space = SPACE_SELF;

	lifecycle_rig(r, 0);
	if (!r->skel->links.on_unmapped_area) {
		print_message("the kernel has no tracepoint vm_unmapped_area\n");
		skip();
	}
	im.map_cnt = write_area(r, im.map_first, at);
	write_area(r, 2000, at);
	assert_int_equal(bpf_map_update_elem(r->maps.images_fd, &space, &im, BPF_ANY), 0);
}

/*
 * What was mapped there is taken out of the image, and of a draft for it; not of another's draft.
 */
static void addresses_given_out_belong_to_no_file(void **state)
{
	void *area = map_area();
	struct proc before, after;
	struct rig r;

	(void)state;
	area_rig(&r, (uintptr_t)area);
	assert_true(rig_proc(&r, getpid(), &before));
	r.skel->bss->draft = DRAFT_WORD(SPACE_OTHER, 2000, AREA_PAGES + 2);
	munmap(mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
	assert_int_equal(emptied(&r, 1000), 0); /* elsewhere */
	map_again(area);
	assert_int_equal(emptied(&r, 1000), AREA_PAGES);
	assert_int_equal(emptied(&r, 2000), 0);
	r.skel->bss->draft = DRAFT_WORD(SPACE_SELF, 2000, AREA_PAGES + 2);
	map_again(area);
	assert_int_equal(emptied(&r, 2000), AREA_PAGES);
	assert_true(rig_proc(&r, getpid(), &after));
	assert_true(after.areas >= before.areas + 3);
	assert_int_equal(after.image, SPACE_SELF);
	assert_true(rig_counter(&r, CTR_note_remapped) >= 1);
	rig_close(&r);
}

static void map_page(int prot, int flags, int fd)
{
	void *at = mmap(NULL, PAGE, prot, flags, fd, 0);

	assert_true(at != MAP_FAILED);
	munmap(at, PAGE);
}

/* What is mapped to read and write is left alone: most mappings are. All else may become code. */
static void memory_is_not_followed(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct proc before, after;
	struct rig r;

	(void)state;
	assert_true(fd >= 0);
	area_rig(&r, (uintptr_t)map_area());
	assert_true(rig_proc(&r, getpid(), &before));
	for (int i = 0; i < 100; i++)
		map_page(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	assert_true(rig_proc(&r, getpid(), &after));
	assert_true(after.areas < before.areas + 50); /* malloc() maps, too, as it likes */
	before = after;
	map_page(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	map_page(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	map_page(PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
	map_page(PROT_READ, MAP_PRIVATE, fd);
	assert_true(rig_proc(&r, getpid(), &after));
	assert_true(after.areas >= before.areas + 4);
	rig_close(&r);
	close(fd);
}

static size_t areas_told(struct rig *r)
{
	size_t n = 0;

	r->skel->bss->user_woken = 0;
	assert_true(ring_buffer__consume(r->rings) >= 0);
	for (size_t i = 0; i < r->event_cnt; i++)
		n += r->events[i].type == EV_AREA && r->events[i].tgid == (uint32_t)getpid();
	return n;
}

/* Libraries and code, not memory and data. */
static void areas_of_code_are_told(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct rig r;

	(void)state;
	assert_true(fd >= 0);
	area_rig(&r, (uintptr_t)map_area());
	map_page(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	map_page(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	map_page(PROT_READ, MAP_SHARED, fd);
	assert_int_equal(areas_told(&r), 0);
	map_page(PROT_READ, MAP_PRIVATE, fd);
	assert_int_equal(areas_told(&r), 1);
	map_page(PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	assert_int_equal(areas_told(&r), 2);
	rig_close(&r);
	close(fd);
}

/* Of processes that have no Python, and whose executable never had, nobody wants to know. */
static void areas_of_plain_programs_are_not_told(void **state)
{
	static const struct {
		uint32_t image;
		uint16_t proc;
		uint32_t cfg;
		size_t told;
	} cases[] = {
		{ 0, PROC_PLAIN, CFG_PYTHON_ONLY, 0 },
		{ 0, 0, CFG_PYTHON_ONLY, 1 }, /* it may load Python */
		{ IMAGE_PYTHON, PROC_PLAIN, CFG_PYTHON_ONLY, 1 },
		{ 0, PROC_PLAIN, 0, 1 },
	};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig r;

		lifecycle_rig(&r, cases[i].cfg);
		rig_add_proc(&r, getpid(), SPACE_SELF, cases[i].proc);
		rig_add_image(&r, SPACE_SELF, cases[i].image);
		map_page(PROT_READ, MAP_PRIVATE, fd);
		assert_int_equal(areas_told(&r), cases[i].told);
		rig_close(&r);
	}
	close(fd);
}

static void *inherited_area;

static void map_again_body(int in, int out)
{
	map_again(inherited_area);
	if (write(out, "x", 1) == 1)
		wait_for_end(in, out);
}

/* A child leaves the image that it shares as it is, and is without one. */
static void shared_image_is_left(void **state)
{
	const struct ev_proc *ev[16];
	struct waiting w;
	struct proc p;
	struct rig r;

	(void)state;
	inherited_area = map_area();
	area_rig(&r, (uintptr_t)inherited_area);
	start_waiting(&w, map_again_body);
	await_byte(&w);
	assert_true(rig_proc(&r, w.pid, &p));
	assert_int_equal(p.image, 0);
	assert_int_equal(emptied(&r, 1000), 0);
	assert_int_equal(events_of(&r, w.pid, ev), 2);
	assert_int_equal(ev[1]->type, EV_UNSHARE);
	assert_int_equal(ev[1]->space, p.space);
	stop_waiting(&w);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_given_out_belong_to_no_file),
		cmocka_unit_test(memory_is_not_followed),
		cmocka_unit_test(areas_of_code_are_told),
		cmocka_unit_test(areas_of_plain_programs_are_not_told),
		cmocka_unit_test(shared_image_is_left),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
