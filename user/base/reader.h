/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_READER_H
#define PYPERF_READER_H
/*
 * A process of ours that reads the memory of others.
 *
 * A page of a process may lie in a file of FUSE whose server never answers. Who reads it waits
 * where no signal ends the wait. So another process reads: it is forked from this one, keeps no
 * right but to read memory (CAP_SYS_PTRACE), and may make no other system calls than that takes.
 * When it hangs it is given up, another one is started, and after a few such the user's processes
 * are not read any more.
 *
 *	reader__call(tgid, walk_it, &question, sizeof(question), &answer, sizeof(answer));
 *
 * One question at a time, from any thread; each takes some 20 us. Without a reader (fork() fails)
 * this process reads.
 */
#include <stddef.h>
#include <stdint.h>

#define READER_MESSAGE_MAX (64U << 10) /* of a question, and of an answer */

/*
 * What the reader does: a function of ours. It allocates, computes and reads memory by
 * read_process(); it opens nothing. The result of the call, 0 or more, or negative errno.
 */
typedef int (*reader_fn)(const void *question, void *answer);

/*
 * Asks the reader about a process. What fn() returned; of the answer, which is as little to be
 * believed as the process itself, all `answer_size` bytes are set if that is not negative.
 * -ETIMEDOUT: it hangs, and so did others of the process's user before if that comes at once.
 */
int reader__call(uint32_t tgid, reader_fn fn, const void *question, size_t size, void *answer,
		 size_t answer_size);

/* Memory of a process, as read_process() has it; -ETIMEDOUT, too. */
int reader__read(uint32_t tgid, void *dst, size_t size, uint64_t src);

/*
 * Starts it, so that the first question does not wait. A copy is the cheaper the less memory is in
 * use.
 */
void reader__start(void);

#endif /* PYPERF_READER_H */
