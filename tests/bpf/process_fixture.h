/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TESTS_PROCESS_FIXTURE_H
#define PYPERF_TESTS_PROCESS_FIXTURE_H
/* The BPF maps of the process table, without the programs; and Pythons that do as they are told. */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/process.h"
#include "symbolize/symbolize.h"

struct fixture {
	struct process_maps maps;
	struct symbolizer *sym;
	__u64 draft;
};

#define FIXTURE_MAPPINGS 65536

static inline int fixture_map(enum bpf_map_type type, uint32_t value_size, uint32_t cnt,
			      uint32_t flags, int inner_fd)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags,
		    .inner_map_fd = inner_fd < 0 ? 0 : (uint32_t)inner_fd);

	return bpf_map_create(type, "test", 4, value_size, cnt, &opts);
}

/* As bpf/maps.bpf.h has them. 0 or negative errno. */
static inline int fixture_open(struct fixture *f)
{
	int inner = fixture_map(BPF_MAP_TYPE_ARRAY, UW_CHUNK_BYTES, 1, BPF_F_INNER_MAP, -1);
	int mappings = fixture_map(BPF_MAP_TYPE_ARRAY, sizeof(struct mapping), FIXTURE_MAPPINGS,
				   BPF_F_MMAPABLE, -1);

	*f = (struct fixture){ .maps = { .draft = &f->draft,
					 .mapping_cap = FIXTURE_MAPPINGS,
					 .table_cap = 4096,
					 .interp_cap = 64 } };
	if (inner < 0 || mappings < 0)
		return -EPERM;
	f->maps.procs_fd = fixture_map(BPF_MAP_TYPE_HASH, sizeof(struct proc), 16384, 0, -1);
	f->maps.images_fd = fixture_map(BPF_MAP_TYPE_HASH, sizeof(struct image), 16384, 0, -1);
	f->maps.tables_fd = fixture_map(BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, f->maps.table_cap, 0, inner);
	f->maps.interps_fd =
		fixture_map(BPF_MAP_TYPE_ARRAY, sizeof(struct interp), f->maps.interp_cap, 0, -1);
	f->maps.mappings = mmap(NULL, FIXTURE_MAPPINGS * sizeof(struct mapping),
				PROT_READ | PROT_WRITE, MAP_SHARED, mappings, 0);
	close(inner);
	close(mappings);
	f->sym = symbolizer__new(NULL);
	return f->maps.procs_fd < 0 || f->maps.images_fd < 0 || f->maps.tables_fd < 0 ||
			       f->maps.interps_fd < 0 || f->maps.mappings == MAP_FAILED || !f->sym
		       ? -ENOMEM
		       : 0;
}

static inline void fixture_close(struct fixture *f)
{
	symbolizer__free(f->sym);
	munmap(f->maps.mappings, FIXTURE_MAPPINGS * sizeof(struct mapping));
	close(f->maps.procs_fd);
	close(f->maps.images_fd);
	close(f->maps.tables_fd);
	close(f->maps.interps_fd);
}

/*
 * Each test has its own table and its own Pythons, which are all that is analysed. NULL and errno.
 */
static inline struct process_table *fixture_table(struct fixture *f,
						  const struct process_opts *opts)
{
	uint32_t key, *prev = NULL;

	while (!bpf_map_get_next_key(f->maps.procs_fd, prev, &key))
		bpf_map_delete_elem(f->maps.procs_fd, &key);
	while (!bpf_map_get_next_key(f->maps.images_fd, prev, &key))
		bpf_map_delete_elem(f->maps.images_fd, &key);
	symbolizer__free(f->sym);
	f->sym = symbolizer__new(NULL);
	return process_table__new(&f->maps, symbolizer__sink(f->sym), opts);
}

static inline void fixture_table_done(struct fixture *f, struct process_table *pt)
{
	symbolizer__free(f->sym);
	f->sym = NULL;
	process_table__free(pt);
}

/* ---- children ------------------------------------------------------------------------------- */

/*
 * Runs each line that it is told and answers with what `out` is then, or with the exception. It
 * reads no further than the line: what follows is for the program that it executes.
 */
static const char child_script[] =
	"import sys, os\n"
	"lines = os.fdopen(0, 'rb', 0)\n"
	"out = ''\n"
	"while True:\n"
	"    line = lines.readline()\n"
	"    if not line: break\n"
	"    out = ''\n"
	"    try: exec(line)\n"
	"    except Exception: out = 'error: %s' % (sys.exc_info()[1],)\n"
	"    sys.stdout.write('%s\\n' % out); sys.stdout.flush()\n";

struct child {
	pid_t pid;
	FILE *to, *from;
	char answer[1024];
};

/* The answer to one line, borrowed until the next; NULL when the child is gone. */
static inline const char *child_ask(struct child *c, const char *line)
{
	fprintf(c->to, "%s\n", line);
	fflush(c->to);
	if (!fgets(c->answer, sizeof(c->answer), c->from))
		return NULL;
	c->answer[strcspn(c->answer, "\n")] = '\0';
	return c->answer;
}

/* Starts an interpreter; it runs Python code when this returns. 0 or negative errno. */
static inline int child_start(struct child *c, const char *python)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return -errno;
	c->pid = fork();
	if (!c->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails does not stop it */
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(python, python, "-c", child_script, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	c->to = fdopen(in[1], "w");
	c->from = fdopen(out[0], "r");
	return child_ask(c, "out = 'ready'") && !strcmp(c->answer, "ready") ? 0 : -ECHILD;
}

static inline void child_stop(struct child *c)
{
	if (c->to)
		fclose(c->to); /* the end of its input ends it */
	if (c->from)
		fclose(c->from);
	waitpid(c->pid, NULL, 0);
	*c = (struct child){ 0 };
}

#endif /* PYPERF_TESTS_PROCESS_FIXTURE_H */
