/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The main() of a fuzz program where there is no fuzzer: runs LLVMFuzzerTestOneInput() over a
 * corpus and over deterministic mutations of it, so that `make test` repeats exactly.
 *
 *	fuzz_NAME [-n MUTATIONS] [-s SEED] [FILE...]
 *
 * Without files: the empty input, what fuzz_seed() gives (if the program has one), and the files of
 * tests/fuzz/corpus/NAME/ (or of $FUZZ_CORPUS). An input that kills the program is left in
 * ./crash-NAME; replay it with -n 0.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX_SIZE (1U << 20)
#define MUTATIONS      2000 /* of each input */
#define MAX_EDITS      8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Optional: the i-th built-in input into buf; its size, 0 behind the last one. */
__attribute__((weak)) size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

struct input {
	uint8_t *data;
	size_t size;
};

static struct input current; /* what is being run, for the death callback */
static char crash_path[256];
static uint64_t rng_state;
static uint64_t runs;

static void leave_crash(void)
{
	int fd = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ssize_t n = fd < 0 ? -1 : write(fd, current.data, current.size);

	if (n == (ssize_t)current.size)
		dprintf(STDERR_FILENO, "input left in %s\n", crash_path);
}

static void on_abort(int sig)
{
	leave_crash();
	signal(sig, SIG_DFL);
	raise(sig);
}

static uint64_t rng(uint64_t below)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state % below;
}

/* A copy of its own size, so that ASan sees one byte too far. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	current = (struct input){ copy, size };
	LLVMFuzzerTestOneInput(copy, size);
	current = (struct input){ 0 };
	free(copy);
	runs++;
}

/* ---- Mutations ----------------------------------------------------------------------------- */

static void overwrite_number(uint8_t *buf, size_t size)
{
	static const uint64_t numbers[] = {
		0,	    1,	       0x7f,	   0x80,	  0xff,
		0x7fff,	    0xffff,    0x7fffffff, 0x80000000,	  0xffffffff,
		0x80808080, INT64_MAX, UINT64_MAX, UINT64_MAX - 7
	};
	size_t width = 1U << rng(4), at;
	uint64_t v = numbers[rng(sizeof(numbers) / sizeof(numbers[0]))];

	if (rng(4) == 0)
		v = rng(2 * size + 2); /* something like an offset */
	if (width > size)
		return;
	at = rng(size - width + 1);
	memcpy(buf + at, &v, width);
}

/* Moves a piece to another place of the input: sizes and types meet the wrong neighbours. */
static void copy_piece(uint8_t *buf, size_t size)
{
	size_t len = 1 + rng(size < 64 ? size : 64), from = rng(size - len + 1);

	memmove(buf + rng(size - len + 1), buf + from, len);
}

static size_t insert_piece(uint8_t *buf, size_t size)
{
	size_t len = 1 + rng(16), at = rng(size + 1);

	if (size + len > INPUT_MAX_SIZE)
		return size;
	memmove(buf + at + len, buf + at, size - at);
	for (size_t i = 0; i < len; i++)
		buf[at + i] = (uint8_t)rng(256);
	return size + len;
}

static size_t remove_piece(uint8_t *buf, size_t size)
{
	size_t len = 1 + rng(size < 16 ? size : 16), at = rng(size - len + 1);

	memmove(buf + at, buf + at + len, size - at - len);
	return size - len;
}

static size_t mutate(uint8_t *buf, size_t size)
{
	uint64_t edits = 1 + rng(MAX_EDITS);

	for (uint64_t i = 0; i < edits && size; i++) {
		switch (rng(8)) {
		case 0:
		case 1:
			buf[rng(size)] ^= (uint8_t)(1U << rng(8));
			break;
		case 2:
			buf[rng(size)] = (uint8_t)rng(256);
			break;
		case 3:
		case 4:
			overwrite_number(buf, size);
			break;
		case 5:
			copy_piece(buf, size);
			break;
		case 6:
			size = rng(2) ? insert_piece(buf, size) : remove_piece(buf, size);
			break;
		case 7:
			if (rng(8) == 0)
				size = rng(size + 1);
			break;
		}
	}
	return size;
}

static void run_input(const uint8_t *data, size_t size, unsigned long mutations)
{
	static uint8_t buf[INPUT_MAX_SIZE];

	run(data, size);
	for (unsigned long i = 0; i < mutations; i++) {
		memcpy(buf, data, size);
		run(buf, mutate(buf, size));
	}
}

/* ---- Inputs -------------------------------------------------------------------------------- */

static int run_file(const char *path, unsigned long mutations)
{
	static uint8_t buf[INPUT_MAX_SIZE];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t size = 0;
	ssize_t n = fd < 0 ? -1 : 1;

	while (n > 0 && size < INPUT_MAX_SIZE) {
		n = read(fd, buf + size, INPUT_MAX_SIZE - size);
		size += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
	else
		run_input(buf, size, mutations);
	if (fd >= 0)
		close(fd);
	return n < 0;
}

static int no_dot(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

/* In the order of the names, so that every machine does the same. */
static int run_corpus(const char *dir, unsigned long mutations)
{
	struct dirent **names;
	int cnt = scandir(dir, &names, no_dot, alphasort), failed = 0;
	char path[4096];

	if (cnt < 0)
		return errno == ENOENT ? 0 : 1;
	for (int i = 0; i < cnt; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
		failed |= run_file(path, mutations);
		free(names[i]);
	}
	free(names);
	return failed;
}

static void run_seeds(unsigned long mutations)
{
	static uint8_t buf[INPUT_MAX_SIZE];
	size_t size;

	run_input(buf, 0, 0);
	for (size_t i = 0; fuzz_seed && (size = fuzz_seed(i, buf, sizeof(buf))); i++)
		run_input(buf, size, mutations);
}

/* "fuzz_elf" -> "elf" */
static const char *name_of(const char *argv0)
{
	const char *name = strrchr(argv0, '/');

	name = name ? name + 1 : argv0;
	return strncmp(name, "fuzz_", 5) ? name : name + 5;
}

static void watch_for_death(const char *name)
{
	snprintf(crash_path, sizeof(crash_path), "crash-%s", name);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(leave_crash);
	signal(SIGABRT, on_abort);
}

int main(int argc, char **argv)
{
	const char *name = name_of(argv[0]), *dir = getenv("FUZZ_CORPUS");
	unsigned long mutations = MUTATIONS, seed = 1;
	char corpus[512];
	int opt, failed = 0;

	while ((opt = getopt(argc, argv, "n:s:")) != -1) {
		if (opt == '?') {
			fprintf(stderr, "usage: %s [-n MUTATIONS] [-s SEED] [FILE...]\n", argv[0]);
			return 2;
		}
		*(opt == 'n' ? &mutations : &seed) = strtoul(optarg, NULL, 10);
	}
	rng_state = 0x9e3779b97f4a7c15ULL * (seed | 1);
	watch_for_death(name);
	for (int i = optind; i < argc; i++)
		failed |= run_file(argv[i], mutations);
	if (optind == argc) {
		snprintf(corpus, sizeof(corpus), "tests/fuzz/corpus/%s", name);
		run_seeds(mutations);
		failed = run_corpus(dir ? dir : corpus, mutations);
	}
	printf("%s: %llu inputs\n", name, (unsigned long long)runs);
	return failed;
}
