/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/blocks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/idmap.h"
#include "base/str.h"
#include "base/stream.h"

#define BLOCKS_MAX    65536
#define PENDING_BYTES (1 << 20)

struct block {
	pid_t pid;
	struct strbuf text;
};

struct blocks {
	const char *(*name)(void *ctx, pid_t pid, uint64_t ns);
	void *ctx;
	const char *mark;  /* before the name of a process */
	struct block *all; /* those behind `cnt` are free */
	size_t cnt, made, cap;
	struct idmap by_pid; /* one more than the number of the block */
	size_t bytes;
	pid_t last; /* whose block is the last one that was written; 0: none */
	bool headed;
	int err;
};

struct blocks *blocks__new(const char *(*name)(void *ctx, pid_t pid, uint64_t ns), void *ctx)
{
	struct blocks *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->name = name;
	b->ctx = ctx;
	b->mark = "";
	return b;
}

void blocks__set_mark(struct blocks *b, const char *mark)
{
	b->mark = mark;
}

void blocks__free(struct blocks *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->made; i++)
		strbuf__free(&b->all[i].text);
	idmap__free(&b->by_pid);
	free(b->all);
	free(b);
}

static void put(struct blocks *b, const char *s, size_t len)
{
	if (!b->err)
		b->err = stream__put(stdout, s, len);
}

static void write_block(struct blocks *b, struct block *of)
{
	struct strbuf head = { 0 };

	if (of->pid != b->last)
		strbuf__addf(&head, "%sprocess %d (%s)\n", b->mark, of->pid,
			     b->name(b->ctx, of->pid, UINT64_MAX));
	b->err = b->err ? b->err : head.err ? head.err : of->text.err;
	if (head.len)
		put(b, head.s, head.len);
	if (of->text.len)
		put(b, of->text.s, of->text.len);
	b->last = of->pid;
	strbuf__free(&head);
	strbuf__free(&of->text); /* the next process here may be a quiet one */
}

int blocks__flush(struct blocks *b)
{
	for (size_t i = 0; i < b->cnt; i++)
		write_block(b, &b->all[i]);
	b->cnt = b->bytes = 0;
	idmap__free(&b->by_pid);
	return b->err;
}

/* NULL: no memory. */
static struct block *block_of(struct blocks *b, pid_t pid)
{
	size_t i = (size_t)(uintptr_t)idmap__get(&b->by_pid, (uint64_t)pid);

	if (i)
		return &b->all[i - 1];
	if (b->cnt == b->made) {
		if (ARRAY_GROW(b->all, b->cap, b->made, BLOCKS_MAX))
			return NULL;
		b->all[b->made++] = (struct block){ 0 };
	}
	if (idmap__set(&b->by_pid, (uint64_t)pid, (void *)(b->cnt + 1)))
		return NULL;
	b->all[b->cnt].pid = pid;
	return &b->all[b->cnt++];
}

void blocks__add(struct blocks *b, pid_t pid, const char *lines, size_t len)
{
	struct block *of = block_of(b, pid);

	if (!of) {
		b->err = -ENOMEM;
		return;
	}
	strbuf__add(&of->text, lines, len);
	b->bytes += len;
	if (b->bytes > PENDING_BYTES)
		blocks__flush(b);
}

void blocks__end(struct blocks *b)
{
	blocks__flush(b);
	b->last = 0;
}

void blocks__remark(struct blocks *b, const char *line, size_t len)
{
	blocks__end(b);
	put(b, line, len);
}

const char *blocks__name(const struct blocks *b, pid_t pid, uint64_t ns)
{
	return b->name(b->ctx, pid, ns);
}

bool *blocks__headed(struct blocks *b)
{
	return &b->headed;
}
