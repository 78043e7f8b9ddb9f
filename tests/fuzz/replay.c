/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The main() of a fuzz program where there is no fuzzer: runs LLVMFuzzerTestOneInput() over a
 * corpus and over deterministic mutations of it, so that `make test` repeats exactly.
 *
 *	fuzz_NAME [-n MUTATIONS] [-s SEED] [-t SECONDS] [FILE...]
 *
 * Without files: the empty input, what fuzz_seed() gives (if the program has one), and the files of
 * tests/fuzz/corpus/NAME/ (or of $FUZZ_CORPUS). An input that kills the program is left in
 * ./crash-NAME; replay it with -n 0. With -t, it does so again and again, each time with other
 * mutations, until so many seconds have passed, and says how many inputs it ran in a second.
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
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#define INPUT_MAX_SIZE (1U << 20)
#define MUTATIONS      2000 /* of each input */
#define MAX_EDITS      8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Optional: the i-th built-in input into buf; its size, 0 behind the last one. */
__attribute__((weak)) size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);
/* Optional: pieces of text that mutations put into an input. The last one is NULL. */
extern const char *const fuzz_words[] __attribute__((weak));
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

/*
 * A quarter of the time went into stacks of allocations and into freed memory that is kept, 256 MiB
 * of it. 8 MiB are more than one input frees. $ASAN_OPTIONS comes later: malloc_context_size=30
 * shows whole stacks when an input is replayed.
 */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=8:malloc_context_size=2";
}

struct input {
	uint8_t *data;
	size_t size;
};

static struct input current; /* what is being run, for the death callback */
static char crash_path[256];
static uint64_t rng_state;
static uint64_t runs;
static time_t until; /* 0: one round */

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

static time_t now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return ts.tv_sec;
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

/* Over what is there, or in front of it. */
static size_t put_word(uint8_t *buf, size_t size)
{
	size_t cnt = 0, at = rng(size + 1), len, moved;
	const char *word;

	while (fuzz_words[cnt])
		cnt++;
	word = fuzz_words[rng(cnt)];
	len = strlen(word);
	moved = rng(2) ? size - at : size - at > len ? size - at - len : 0;
	if (at + len + moved > INPUT_MAX_SIZE)
		return size;
	memmove(buf + at + len, buf + size - moved, moved);
	memcpy(buf + at, word, len);
	return at + len + moved;
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
		switch (rng(fuzz_words ? 10 : 8)) {
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
		default:
			size = put_word(buf, size);
			break;
		}
	}
	return size;
}

static void run_input(const uint8_t *data, size_t size, unsigned long mutations)
{
	static uint8_t buf[INPUT_MAX_SIZE];

	run(data, size);
	for (unsigned long i = 0; i < mutations && !(until && now_s() >= until); i++) {
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

/* Writing what is wrong with an input would take longer than to find it. */
static void drop_message(enum log_level level, const char *fmt, const char *text)
{
	(void)level;
	(void)fmt;
	(void)text;
}

/* All inputs once. */
static int run_round(const char *name, char **files, unsigned long mutations)
{
	const char *dir = getenv("FUZZ_CORPUS");
	char corpus[512];
	int failed = 0;

	for (char **file = files; *file; file++)
		failed |= run_file(*file, mutations);
	if (*files)
		return failed;
	snprintf(corpus, sizeof(corpus), "tests/fuzz/corpus/%s", name);
	run_seeds(mutations);
	return run_corpus(dir ? dir : corpus, mutations);
}

int main(int argc, char **argv)
{
	unsigned long mutations = MUTATIONS, seed = 1, seconds = 0;
	const char *name = name_of(argv[0]);
	time_t begun = now_s();
	int opt, failed = 0;

	while ((opt = getopt(argc, argv, "n:s:t:")) != -1) {
		if (opt == '?') {
			fprintf(stderr,
				"usage: %s [-n MUTATIONS] [-s SEED] [-t SECONDS] [FILE...]\n",
				argv[0]);
			return 2;
		}
		*(opt == 'n'   ? &mutations
		  : opt == 's' ? &seed
			       : &seconds) = strtoul(optarg, NULL, 10);
	}
	rng_state = 0x9e3779b97f4a7c15ULL * (seed | 1);
	until = seconds ? begun + (time_t)seconds : 0;
	watch_for_death(name);
	if (mutations)
		log_set_writer(drop_message);
	do
		failed |= run_round(name, argv + optind, mutations);
	while (!failed && now_s() < until);
	printf("%s: %llu inputs", name, (unsigned long long)runs);
	if (seconds)
		printf(", %llu in a second",
		       (unsigned long long)runs / (unsigned long long)seconds);
	putchar('\n');
	return failed;
}
