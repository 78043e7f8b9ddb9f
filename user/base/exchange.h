/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXCHANGE_H
#define PYPERF_EXCHANGE_H
/*
 * How this process and its two helpers (reader.h) speak: a question and its answer lie in memory
 * that both share, and a message of fixed size over a socket says that they are there. Descriptors
 * go with the message.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reader.h"

struct worker_kind {
	const char *name, *what; /* of the process; in messages */
	size_t question_max;
	size_t answer_min, answer_max; /* the room for it, see exchange__make() */
	size_t memory_max;	       /* of the process, beyond what it begins with: RLIMIT_AS */
	unsigned int fd_max;	       /* RLIMIT_NOFILE */
	unsigned int hang_ms;	       /* without a CPU's time: then it waits for a tenant */
	bool files;
};

extern const struct worker_kind worker_of_memory, worker_of_files;

struct exchange_head {
	uint32_t operation; /* its number */
	uint32_t retires;   /* not 0: this was the last answer of that process */
	int64_t result;
};

/* The memory as one of the two has mapped it. */
struct exchange {
	struct exchange_head *head; /* NULL: none */
	uint8_t *question, *answer;
	size_t answer_max, size;
};

/*
 * Makes and maps it; returns its descriptor, or negative errno. Nobody can shorten it. The room for
 * an answer is smaller where RLIMIT_FSIZE is: -EFBIG, if it would be too small.
 */
int exchange__make(const struct worker_kind *kind, struct exchange *x);
/* Maps what exchange__make() has made. 0 or negative errno. */
int exchange__map(const struct worker_kind *kind, int fd, struct exchange *x);
/* Memory of this process alone. 0 or negative errno. */
int exchange__alone(const struct worker_kind *kind, struct exchange *x);
void exchange__unmap(struct exchange *x);

/*
 * A helper that has started sends worker__build() for the number. Questions count from 1. Both
 * return 0; -EPIPE: the other process has ended, or sends what was not agreed; else what this one
 * lacks: -ENOMEM, -EMFILE ...
 */
int exchange__send(int socket, uint64_t number, const int *fds, size_t fd_cnt);
/* The descriptors are the caller's also if the message is refused. `flags`: of recvmsg(). */
int exchange__receive(int socket, uint64_t *number, int fds[READER_FDS_MAX], size_t *fd_cnt,
		      int flags);

void exchange__close(const int *fds, size_t cnt);

#endif /* PYPERF_EXCHANGE_H */
