// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Calls libraries in turn.
 *
 *	libs keep|reopen|renew LOOPS PAUSE MAPPINGS LIBRARY...
 *
 * Library number N (0, 1, 2) has a function spin(LOOPS), and is called from in_N(): so each stack
 * says itself which library it must show. "reopen": each is opened for its call and closed behind
 * it, so that the next one gets its addresses; each 16th time they stay a hundred times as long, to
 * be seen. "renew": the same, but each time they stay as long. PAUSE: milliseconds without work in
 * each round. MAPPINGS: so many more executable mappings of the first library. Says "ready" when
 * all were opened once, runs until its standard input ends, then prints {"reused": how often a
 * library was where another had been, "opened": ...}.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void (*spin_fn)(long loops);

#define CALLER(n)                                                                                  \
	__attribute__((noinline)) static void in_##n(spin_fn spin, long loops)                     \
	{                                                                                          \
		spin(loops);                                                                       \
		__asm__ volatile("" ::: "memory");                                                 \
	}
CALLER(0)
CALLER(1)
CALLER(2)

static void (*const callers[])(spin_fn, long) = { in_0, in_1, in_2 };

static int stdin_open(int pause_ms)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };

	return poll(&p, 1, pause_ms) == 0;
}

/* Two pages each, and one of the two is not executable: neighbours do not become one mapping. */
static int map_pages(const char *path, long cnt)
{
	int fd = open(path, O_RDONLY);
	char *at = fd < 0 ? MAP_FAILED
			  : mmap(NULL, 8192UL * (unsigned long)cnt, PROT_READ, MAP_PRIVATE, fd, 0);

	if (at == MAP_FAILED)
		return -1;
	for (long i = 0; i < cnt; i++) {
		if (mmap(at + 8192 * i, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd,
			 0) == MAP_FAILED)
			return -1;
	}
	return close(fd);
}

static void *lib[3];
static uintptr_t last;
static unsigned long reused, opened;

static spin_fn open_lib(const char *path, int i)
{
	spin_fn spin;

	if (!lib[i]) {
		lib[i] = dlopen(path, RTLD_NOW);
		opened++;
	}
	spin = lib[i] ? (spin_fn)(uintptr_t)dlsym(lib[i], "spin") : NULL;
	if (!spin) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	reused += ((uintptr_t)spin & ~0xffffUL) == last;
	last = (uintptr_t)spin & ~0xffffUL;
	return spin;
}

int main(int argc, char **argv)
{
	int keep = argc > 1 && !strcmp(argv[1], "keep");
	int even = keep || (argc > 1 && !strcmp(argv[1], "renew"));
	long loops = argc > 2 ? atol(argv[2]) : 0, rounds = 0;

	if (argc < 6 || argc > 8)
		return 2;
	if (atol(argv[4]) && map_pages(argv[5], atol(argv[4])))
		return 1;
	do {
		for (int i = 0; i < argc - 5; i++) {
			callers[i](open_lib(argv[i + 5], i),
				   even || rounds % 16 ? loops : 100 * loops);
			if (!keep) {
				dlclose(lib[i]);
				lib[i] = NULL;
			}
		}
		if (!rounds++) {
			printf("ready\n");
			fflush(stdout);
		}
	} while (stdin_open(atoi(argv[3])));
	printf("{\"reused\": %lu, \"opened\": %lu}\n", reused, opened);
	return 0;
}
