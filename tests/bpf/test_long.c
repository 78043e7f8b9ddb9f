/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A session that samples for long: whatever comes and goes, what is kept of it does not grow. Root.
 * The processes are those of one child, which ends with us.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "elf/elf.h"
#include "sample/session.h"
#include "unit/pythons.h"

#define WARM_UP 4 /* rounds until everything has its size */

static char workdir[] = "/tmp/pyperf-long-XXXXXX";

/* ---- processes with files of their own ------------------------------------------------------- */

#define SHELL	  "/bin/sh"
#define PER_ROUND 60
#define ROUNDS	  12
#define AT_ONCE	  4
#define SCRIPT	  "i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done"

struct shell {
	char *bytes;
	size_t size, id_at; /* where its build id is */
	struct elf_id id;
};

static void read_shell(struct shell *sh)
{
	int fd = open(SHELL, O_RDONLY | O_CLOEXEC);
	struct elf_file *ef;
	const char *at;
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	sh->size = (size_t)st.st_size;
	sh->bytes = malloc(sh->size);
	assert_int_equal(pread(fd, sh->bytes, sh->size, 0), sh->size);
	ef = elf_file__open(fd, SHELL);
	assert_non_null(ef);
	sh->id = *elf_file__id(ef);
	elf_file__close(ef);
	if (sh->id.size < 8) {
		printf("skip: %s has no build id\n", SHELL);
		skip();
	}
	at = memmem(sh->bytes, sh->size, sh->id.bytes, sh->id.size);
	assert_non_null(at);
	sh->id_at = (size_t)(at - sh->bytes);
}

/* Starts a copy of the shell that nobody has seen before. */
static void start_copy(struct shell *sh, uint32_t nr)
{
	char path[64];
	pid_t pid;
	int fd;

	memcpy(sh->bytes + sh->id_at, &nr, sizeof(nr));
	snprintf(path, sizeof(path), "%s/copy-%u", workdir, nr);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	if (fd < 0 || write(fd, sh->bytes, sh->size) != (ssize_t)sh->size || close(fd))
		_exit(1);
	pid = fork();
	if (pid < 0)
		_exit(1);
	if (!pid) {
		execl(path, "sh", "-c", SCRIPT, (char *)NULL);
		_exit(127);
	}
}

/* Starts a round of copies for each byte that comes, and answers when all have ended. */
static void run_copies(struct shell *sh, int in, int out)
{
	uint32_t nr = 1;
	char byte;

	while (read(in, &byte, 1) == 1) {
		for (unsigned i = 0, running = 0; i < PER_ROUND || running;) {
			if (i < PER_ROUND && running < AT_ONCE) {
				start_copy(sh, nr++);
				running++;
				i++;
				continue;
			}
			if (wait(NULL) > 0)
				running--;
		}
		/* Their names were needed until here only if somebody is late. */
		for (uint32_t old = nr - PER_ROUND; old < nr; old++) {
			char path[64];

			snprintf(path, sizeof(path), "%s/copy-%u", workdir, old);
			unlink(path);
		}
		if (write(out, &byte, 1) != 1)
			break;
	}
	_exit(0);
}

/* ---- a session beside them ------------------------------------------------------------------- */

struct rig {
	struct session *s;
	struct sample_spec targets;
	pid_t child;
	int to, from; /* the child */
	bool stopped;
};

static size_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t cnt = 0;

	assert_non_null(dir);
	while (readdir(dir))
		cnt++;
	closedir(dir);
	return cnt;
}

/*
 * `r->child` is to be sampled, with its descendants. Without kernel frames: one in a BPF program
 * that is gone, of whoever runs beside us, would have the list of all kernel symbols read.
 */
static void rig_open(struct rig *r, bool all, uint32_t table_mib)
{
	const struct session_opts o = { .spec = &r->targets,
					.table_mib = table_mib,
					.no_kernel = true };

	r->targets = (struct sample_spec){
		.sources = { { .source = source__of_event(EVENT_CPU_CLOCK) } },
		.source_cnt = 1,
		.pids = &r->child,
		.pid_cnt = 1,
		.children = true,
		.all = all,
		.frequency_hz = 997,
	};
	r->s = session__open(&o);
	assert_non_null(r->s);
	assert_int_equal(session__start(r->s), 0);
}

static void rig_close(struct rig *r)
{
	session__stop(r->s);
	session__close(r->s);
	kill(r->child, SIGKILL);
	waitpid(r->child, NULL, 0);
}

static void drain_if_wanted(struct rig *r, struct profile *p)
{
	if (session__wants_drain(r->s))
		assert_int_equal(session__drain(r->s, p), 0);
}

/* Names of a finished profile; the rest of its life is the caller's. */
static void finish(struct rig *r, struct profile *p)
{
	const struct symbolize_opts so = { .lines = true };

	assert_int_equal(session__drain(r->s, p), 0);
	assert_int_equal(session__name(r->s, p, &so), 0);
}

/* How many files have names of copies. */
static unsigned copies_in(const struct profile *p)
{
	unsigned cnt = 0;

	for (size_t i = 0; i < p->module_cnt; i++) {
		const char *path = profile__str(p, p->modules[i].path);

		cnt += strstr(path, "/copy-") && p->modules[i].limit;
	}
	return cnt;
}

/* Native frames whose file is gone. */
static unsigned frames_without_file(const struct profile *p)
{
	unsigned cnt = 0;

	for (size_t i = 0; i < p->frame_cnt; i++)
		cnt += FRAME_TAG(p->frames[i]) == FRAME_NATIVE &&
		       p->syms[p->frame_syms[i]].module < 0;
	return cnt;
}

struct sizes {
	size_t fds, heap;
	uint64_t files, tables, mappings, inodes;
};

static struct sizes measure(const struct rig *r)
{
	struct process_stats ps;
	struct file_stats fs;

	process_table__stats(session__procs(r->s), &ps);
	process_table__file_stats(session__procs(r->s), &fs);
	return (struct sizes){ .fds = count_fds(),
			       .heap = mallinfo2().uordblks + mallinfo2().hblkhd,
			       .files = fs.files - fs.released,
			       .tables = fs.tables,
			       .mappings = ps.mappings_used,
			       .inodes = fs.inodes };
}

static void print_sizes(const char *when, const struct sizes *z)
{
	print_message("%s: %zu descriptors, %zu KiB, %llu files, %llu tables, %llu mappings, %llu "
		      "inodes\n",
		      when, z->fds, z->heap >> 10, (unsigned long long)z->files,
		      (unsigned long long)z->tables, (unsigned long long)z->mappings,
		      (unsigned long long)z->inodes);
}

static void a_round_of_copies(struct rig *r, struct profile *p)
{
	struct pollfd fd = { .fd = r->from, .events = POLLIN };
	char byte = 'x';

	assert_int_equal(write(r->to, &byte, 1), 1);
	while (!poll(&fd, 1, 0)) {
		assert_int_equal(session__wait(r->s, now_ns() + 5000000), 0);
		drain_if_wanted(r, p);
	}
	assert_int_equal(read(r->from, &byte, 1), 1);
}

static void start_child(struct rig *r, struct shell *sh)
{
	int to[2], from[2];

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	r->child = fork();
	assert_true(r->child >= 0);
	if (!r->child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to[1]);
		run_copies(sh, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	r->to = to[1];
	r->from = from[0];
}

/* ---- tests ----------------------------------------------------------------------------------- */

/*
 * Each process has an executable of its own, which is gone after it. The budget of unwind tables is
 * that of some fifty of them, so they have to give way.
 */
static void files_that_come_and_go(void **state)
{
	struct sizes warm = { 0 }, last;
	struct shell sh = { 0 };
	struct rig r = { 0 };
	struct file_stats fs;
	unsigned named = 0;

	(void)state;
	read_shell(&sh);
	start_child(&r, &sh);
	rig_open(&r, true, 1);
	for (int round = 0; round < ROUNDS; round++) {
		struct profile *p = profile__new();

		a_round_of_copies(&r, p);
		/* A profile of several windows is not finished: files wait for it. */
		for (int i = 0; i < round % 3 * 3; i++)
			assert_int_equal(session__drain(r.s, p), 0);
		finish(&r, p);
		named += copies_in(p);
		assert_int_equal(frames_without_file(p), 0);
		profile__free(p);
		session__forget(r.s);
		if (round + 1 == WARM_UP)
			warm = measure(&r);
	}
	last = measure(&r);
	process_table__file_stats(session__procs(r.s), &fs);
	print_message("%llu files, %u named in profiles, %llu released, %llu tables gave way\n",
		      (unsigned long long)fs.files, named, (unsigned long long)fs.released,
		      (unsigned long long)fs.tables_evicted);
	print_sizes("warm", &warm);
	print_sizes("last", &last);
	/* On a busy machine not every process is sampled, or analysed, before its end. */
	assert_true(named > ROUNDS * PER_ROUND / 4);
	assert_true(fs.released > ROUNDS * PER_ROUND / 4);
	assert_true(fs.tables_evicted > 0);
	/* Files live for three rounds. */
	assert_true(last.files < 4 * PER_ROUND && last.fds < 6 * PER_ROUND);
	assert_true(last.mappings < 2000 && last.inodes < 5000);
	assert_true(last.heap < warm.heap + warm.heap / 2);
	assert_false(session__worn(r.s));
	rig_close(&r);
	close(r.to);
	close(r.from);
	free(sh.bytes);
}

/* A function with a long name, used once, and the next one. The loop around them stays. */
static const char generator[] =
	"import sys\n"
	"i = 0\n"
	"def that_stays():\n"
	"    global i\n"
	"    while True:\n"
	"        i += 1\n"
	"        name = 'f%d_' % i + 'x' * 20000\n"
	"        exec('def %s():\\n for j in range(30000): pass\\n%s()' % (name, name), {})\n"
	"that_stays()\n";

#define GENERATED 120 /* MiB, of names, at least */

static void start_generator(struct rig *r, const struct pythons *py)
{
	r->child = fork();
	assert_true(r->child >= 0);
	if (r->child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl(py->path[py->cnt - 1], "python", "-E", "-c", generator, (char *)NULL);
	_exit(127);
}

static size_t bytes_of_names(const struct profile *p, bool *stays, unsigned *unknown)
{
	size_t bytes = 0;

	for (size_t i = 0; i < p->sym_cnt; i++) {
		const char *name = profile__str(p, p->syms[i].func);

		if (p->syms[i].kind != SYM_PYTHON)
			continue;
		bytes += strlen(name);
		*stays |= !strcmp(name, "that_stays");
		*unknown += !strcmp(name, "<unknown>");
	}
	return bytes;
}

/* What BPF still knows has its name, however much is forgotten around it. */
static void code_that_comes_and_goes(void **state)
{
	struct pythons py = { 0 };
	size_t bytes = 0, most = 0;
	unsigned unknown = 0, rounds = 0, with = 0;
	struct rig r = { 0 };

	(void)state;
	pythons_find(&py);
	if (!py.cnt) {
		printf("skip: no Python interpreter here\n");
		skip();
	}
	start_generator(&r, &py);
	rig_open(&r, true, 0);
	for (; bytes < (size_t)GENERATED << 20; rounds++) {
		struct profile *p = profile__new();
		uint64_t end = now_ns() + 200000000;
		bool stays = false;
		size_t heap;

		while (now_ns() < end) {
			assert_int_equal(session__wait(r.s, end), 0);
			drain_if_wanted(&r, p);
		}
		finish(&r, p);
		bytes += bytes_of_names(p, &stays, &unknown);
		with += stays;
		profile__free(p);
		session__forget(r.s);
		heap = mallinfo2().uordblks + mallinfo2().hblkhd;
		most = heap > most ? heap : most;
	}
	print_message("%zu MiB of names in %u rounds, at most %zu KiB kept\n", bytes >> 20, rounds,
		      most >> 10);
	assert_int_equal(unknown, 0);
	assert_true(with > rounds / 2);
	/* What a fast machine makes in a few rounds is kept. */
	assert_true(most < ((size_t)GENERATED << 20) / 2);
	rig_close(&r);
	pythons_free(&py);
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(workdir) ? 0 : -1;
}

static int clean_up(void **state)
{
	(void)state;
	return rmdir(workdir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_that_come_and_go),
		cmocka_unit_test(code_that_comes_and_goes),
	};

	return cmocka_run_group_tests(tests, set_up, clean_up);
}
