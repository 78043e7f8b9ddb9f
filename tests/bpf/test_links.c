/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Links of many breakpoints are closed together, in less time than one after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "follow/uprobe.h"

#define LINKS 48

static int load_nothing(void)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)UPROBE_MULTI_TYPE);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", insns, 2, &opts);
}

/* Where the breakpoints are; nobody calls it meanwhile. */
__attribute__((noinline)) static void marked(void)
{
	__asm__ volatile("nop");
}

static uint64_t offset_of_marked(void)
{
	unsigned long start, end, offset, at = (unsigned long)(uintptr_t)marked;
	FILE *f = fopen("/proc/self/maps", "r");
	char line[1024];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && at >= start &&
		    at < end)
			break;
	fclose(f);
	return at - start + offset;
}

static void open_links(int exe, uint64_t offset, int prog, int links[LINKS])
{
	const struct uprobe_spot spot = { .offset = offset };

	for (int i = 0; i < LINKS; i++) {
		links[i] = uprobe__open_multi(getpid(), exe, &spot, 1, prog);
		if (links[i] == -EINVAL || links[i] == -EOPNOTSUPP)
			skip(); /* before Linux 6.6 */
		assert_true(links[i] >= 0);
	}
}

static void closes_links_together(void **state)
{
	int prog = load_nothing(), exe = open("/proc/self/exe", O_RDONLY), links[LINKS];
	uint64_t start, alone, together, offset = offset_of_marked();

	(void)state;
	marked();
	assert_true(exe >= 0 && prog >= 0);
	open_links(exe, offset, prog, links);
	start = now_ns();
	for (int i = 0; i < LINKS; i++)
		close(links[i]);
	alone = now_ns() - start;
	open_links(exe, offset, prog, links);
	start = now_ns();
	uprobe__close_links(links, LINKS);
	together = now_ns() - start;
	printf("%d links: one by one %.0f ms, together %.0f ms\n", LINKS, (double)alone / 1e6,
	       (double)together / 1e6);
	for (int i = 0; i < LINKS; i++)
		assert_true(close(links[i]) && errno == EBADF);
	assert_true(together < alone / 2);
	close(exe);
	close(prog);
}

static uint32_t id_of(int link)
{
	struct bpf_link_info info = { 0 };
	uint32_t size = sizeof(info);

	assert_int_equal(bpf_obj_get_info_by_fd(link, &info, &size), 0);
	return info.id;
}

/* At the end somebody else may go on: we have none of them any more, and all of them go. */
static void leaves_links(void **state)
{
	int prog = load_nothing(), exe = open("/proc/self/exe", O_RDONLY), links[LINKS], fd;
	uint64_t offset = offset_of_marked();
	uint32_t ids[LINKS];

	(void)state;
	assert_true(exe >= 0 && prog >= 0);
	open_links(exe, offset, prog, links);
	for (int i = 0; i < LINKS; i++)
		ids[i] = id_of(links[i]);
	uprobe__leave_links(links, LINKS);
	for (int i = 0; i < LINKS; i++)
		assert_true(close(links[i]) && errno == EBADF);
	while (waitpid(-1, NULL, 0) > 0)
		;
	for (int i = 0; i < LINKS; i++) {
		fd = bpf_link_get_fd_by_id(ids[i]);
		assert_int_equal(fd, -ENOENT);
	}
	close(exe);
	close(prog);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closes_links_together),
		cmocka_unit_test(leaves_links),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
