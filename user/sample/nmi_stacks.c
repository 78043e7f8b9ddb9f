/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/nmi_stacks.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static int add_stack(struct nmi_stacks *h, uint64_t hash, const uint64_t *words, uint32_t cnt)
{
	struct nmi_stack *s;

	if (idmap__get(&h->stacks, hash))
		return 0;
	s = malloc(sizeof(*s) + cnt * sizeof(s->words[0]));
	if (!s)
		return -ENOMEM;
	s->cnt = cnt;
	for (uint32_t i = 0; i < cnt; i++)
		s->words[i] = words[cnt - 1 - i];
	if (!idmap__set(&h->stacks, hash, s))
		return 0;
	free(s);
	return -ENOMEM;
}

int nmi_stacks__add(struct nmi_stacks *h, const struct ev_stack *ev, size_t size)
{
	if (size < sizeof(*ev) || !ev->cnt || ev->cnt > MAX_FRAMES ||
	    (size - sizeof(*ev)) / sizeof(uint64_t) < ev->cnt)
		return -EBADMSG;
	if (ARRAY_GROW(h->keys, h->cap, h->cnt, INT_MAX) ||
	    ARRAY_GROW(h->vals, h->val_cap, h->cnt, INT_MAX) ||
	    add_stack(h, COUNT_HASH(ev->key.stack), (const uint64_t *)(ev + 1), ev->cnt))
		return -ENOMEM;
	h->keys[h->cnt] = ev->key;
	h->vals[h->cnt++] = (struct count_val){ .samples = 1, .value = ev->value };
	return 0;
}

const struct nmi_stack *nmi_stacks__stack(const struct nmi_stacks *h, uint64_t hash)
{
	return idmap__get(&h->stacks, hash);
}

void nmi_stacks__clear(struct nmi_stacks *h)
{
	void *stack;

	for (size_t at = 0; (stack = idmap__next(&h->stacks, &at));)
		free(stack);
	idmap__free(&h->stacks);
	free(h->keys);
	free(h->vals);
	*h = (struct nmi_stacks){ 0 };
}
