/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any bytes as a perf map (that comes in two parts) and as a jitdump. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbolize/sym_jit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);

static char dir[] = "/tmp/fuzz_sym_jit.XXXXXX";

static const char *in_dir(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void remove_dir(void)
{
	remove(in_dir("root/tmp/perf-7.map"));
	remove(in_dir("root/tmp"));
	remove(in_dir("root"));
	remove(in_dir("status"));
	remove(dir);
}

/* What is read of a process. Made once, in place of /proc/PID. */
static const char *proc_dir(void)
{
	FILE *f;

	if (dir[sizeof(dir) - 2] != 'X')
		return dir;
	if (!mkdtemp(dir) || atexit(remove_dir))
		abort();
	mkdir(in_dir("root"), 0755);
	mkdir(in_dir("root/tmp"), 0755);
	f = fopen(in_dir("status"), "w");
	if (!f)
		abort();
	fprintf(f, "Name:\tx\nUid:\t0\t0\t0\t%u\nNSpid:\t7\n", geteuid());
	fclose(f);
	return dir;
}

static void write_part(const uint8_t *data, size_t size, int flags)
{
	int fd = open(in_dir("root/tmp/perf-7.map"), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
}

static void ask(struct sym_jit *j)
{
	for (uint64_t a = 0; a < 256; a++) {
		sym_jit__find(j, 1, a * 16);
		sym_jit__find(j, 1, 0x7f0000000000 + a * 16);
	}
	sym_jit__find(j, 1, UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int proc_fd = open(proc_dir(), O_PATH | O_DIRECTORY | O_CLOEXEC);
	int dump_fd = memfd_create("dump", MFD_CLOEXEC);
	struct sym_jit *j = sym_jit__new(NULL);

	if (!j || proc_fd < 0 || dump_fd < 0 || (size && write(dump_fd, data, size) < 0))
		abort();
	write_part(data, size / 2, O_TRUNC);
	sym_jit__look(j, 1, 0, proc_fd, opened__of(dump_fd));
	sym_jit__begin(j);
	ask(j);
	write_part(data + size / 2, size - size / 2, O_APPEND);
	sym_jit__begin(j);
	ask(j);
	close(proc_fd);
	sym_jit__free(j);
	return 0;
}

size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	static const char map[] =
		"10 10 a\n18 20 b\n0 ffffffffffffffff all\n20 8 c d\n7f0000000000 9 e\n";
	static const uint32_t dump[] = {
		0x4a695444,
		1,
		40,
		62,
		0,
		7,
		0,
		0,
		0,
		0,
		/* load 16 bytes at 0x20, index 1, "f" */
		0,
		60,
		0,
		0,
		7,
		7,
		0x20,
		0,
		0x20,
		0,
		16,
		0,
		1,
		0,
		'f',
		/* move them to 0x80 */
		1,
		64,
		0,
		0,
		7,
		7,
		0x80,
		0,
		0x20,
		0,
		0x80,
		0,
		16,
		0,
		1,
		0,
		/* debug information, close */
		2,
		16,
		0,
		0,
		3,
		16,
		0,
		0,
	};
	const void *seed = i ? (const void *)dump : (const void *)map;
	size_t len = i ? sizeof(dump) : sizeof(map) - 1;

	if (i > 1)
		return 0;
	memcpy(buf, seed, len < cap ? len : cap);
	return len < cap ? len : cap;
}
