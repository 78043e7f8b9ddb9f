/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "symbolize/sym_debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/resources.h"
#include "base/str.h"

#define LIBRARY	       "libdebuginfod.so.1"
#define SIZE_MAX_BYTES (4ULL << 30) /* of one file */

struct sym_debuginfod {
	uint64_t spent_ms;
	bool gave_up; /* the reason was printed */
};

struct sym_debuginfod *sym_debuginfod__new(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	if (!urls || !*urls) {
		errno = ENOENT;
		return NULL;
	}
	return calloc(1, sizeof(struct sym_debuginfod));
}

void sym_debuginfod__free(struct sym_debuginfod *d)
{
	free(d);
}

/* ---- Servers ---- */

#define URLS_MAX 4096 /* bytes of one file */

static void add_urls(struct strbuf *b, const char *path)
{
	char text[URLS_MAX + 1], *rest = NULL;
	FILE *f = fopen(path, "re");
	size_t len = f ? fread(text, 1, URLS_MAX, f) : 0;

	if (f)
		fclose(f);
	text[len] = '\0';
	for (char *url = strtok_r(text, " \t\n", &rest); url; url = strtok_r(NULL, " \t\n", &rest))
		if (!strncmp(url, "http://", 7) || !strncmp(url, "https://", 8))
			strbuf__addf(b, "%s%s", b->len ? " " : "", url);
}

void sym_debuginfod_system_urls(struct strbuf *b, const char *dir)
{
	struct strbuf pattern = { 0 };
	glob_t found = { 0 };

	strbuf__addf(&pattern, "%s/*.urls", dir);
	if (!pattern.err && !glob(pattern.s, 0, NULL, &found))
		for (size_t i = 0; i < found.gl_pathc; i++)
			add_urls(b, found.gl_pathv[i]);
	globfree(&found);
	strbuf__free(&pattern);
}

/* ---- The child ---- */

/* elfutils/debuginfod.h, whose package building does not need. */
typedef void *begin_fn(void);
typedef int find_fn(void *client, const unsigned char *id, int size, char **path);

static bool resolve(void *library, const char *name, void *function)
{
	void *address = dlsym(library, name);

	memcpy(function, &address, sizeof(address)); /* C has no cast from object to function */
	return address;
}

/*
 * Keeps a server that sends without end from filling the disk: a file that is too large is removed.
 */
static void limit_size(void)
{
	signal(SIGXFSZ, SIG_IGN);
	resources__limit(RLIMIT_FSIZE, SIZE_MAX_BYTES);
}

/* A descriptor or negative errno; -ELIBACC: there is no libdebuginfod. */
static int ask(const struct elf_id *id)
{
	void *library = dlopen(LIBRARY, RTLD_NOW), *client;
	begin_fn *begin;
	find_fn *find;

	if (!library || !resolve(library, "debuginfod_begin", &begin) ||
	    !resolve(library, "debuginfod_find_debuginfo", &find))
		return -ELIBACC;
	client = begin();
	return client ? find(client, id->bytes, id->size, NULL) : -ENOMEM;
}

/* One message: the error, or the descriptor. */
union message {
	struct cmsghdr head;
	char space[CMSG_SPACE(sizeof(int))];
};

static void answer(int out, int fd)
{
	union message control = { .head = { .cmsg_level = SOL_SOCKET,
					    .cmsg_type = SCM_RIGHTS,
					    .cmsg_len = CMSG_LEN(sizeof(fd)) } };
	struct iovec data = { .iov_base = &fd, .iov_len = sizeof(fd) };
	struct msghdr msg = { .msg_iov = &data, .msg_iovlen = 1 };

	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	sendmsg(out, &msg, MSG_NOSIGNAL);
}

/* ---- The parent ---- */

/* The answer of the child: a descriptor or negative errno. */
static int take_answer(int from)
{
	union message control;
	int value = 0, fd;
	struct iovec data = { .iov_base = &value, .iov_len = sizeof(value) };
	struct msghdr msg = { .msg_iov = &data,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(from, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

	if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(fd))) {
		memcpy(&fd, CMSG_DATA(head), sizeof(fd));
		return fd;
	}
	return n == sizeof(value) && value < 0 ? value : -EPIPE;
}

static int ask_child(const struct elf_id *id, uint64_t limit_ms)
{
	uint64_t until = now_ms() + limit_ms;
	int ends[2], fd;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	pid = child__fork(-1, ends[1]);
	if (!pid) {
		limit_size();
		answer(CHILD_OUT, ask(id));
		_exit(0);
	}
	close(ends[1]);
	fd = pid < 0 ? pid : child__poll(ends[0], until);
	if (!fd)
		fd = take_answer(ends[0]);
	close(ends[0]);
	if (pid > 0)
		child__wait(pid, true);
	return fd;
}

/* Once a file, and not again where there is nothing to hope for. */
static void report(struct sym_debuginfod *d, const struct elf_file *ef, int err)
{
	char hex[2 * BUILD_ID_MAX + 1];

	elf_file__id_hex(ef, hex);
	if (err == -ENOENT) {
		log_info("debuginfod: %s: no server of DEBUGINFOD_URLS has build id %s",
			 elf_file__path(ef), hex);
		return;
	}
	d->gave_up = true;
	if (err == -ELIBACC)
		log_warn("debuginfod: %s, build id %s: there is no " LIBRARY
			 " (install libdebuginfod, or unset DEBUGINFOD_URLS)",
			 elf_file__path(ef), hex);
	else
		log_warn("debuginfod: %s, build id %s: %s; no more files are asked for (see "
			 "DEBUGINFOD_URLS)",
			 elf_file__path(ef), hex, strerror(-err));
}

int sym_debuginfod__open(struct sym_debuginfod *d, const struct elf_file *ef)
{
	uint64_t start = now_ms(), limit = DEBUGINFOD_FILE_S * 1000;
	int fd;

	if (d->gave_up || !elf_file__id(ef)->size)
		return -ENOENT;
	if (limit > DEBUGINFOD_RUN_S * 1000 - d->spent_ms)
		limit = DEBUGINFOD_RUN_S * 1000 - d->spent_ms;
	log_info("debuginfod: asking for the debug file of %s", elf_file__path(ef));
	fd = ask_child(elf_file__id(ef), limit);
	d->spent_ms += now_ms() - start;
	if (fd >= 0 && d->spent_ms < DEBUGINFOD_RUN_S * 1000)
		return fd;
	if (fd < 0)
		report(d, ef, fd);
	if (d->spent_ms >= DEBUGINFOD_RUN_S * 1000)
		d->gave_up = true;
	return fd;
}
