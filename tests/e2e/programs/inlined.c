/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Functions that are inlined into each other: outer > middle > leaf. The test looks for the lines
 * by their marks.
 */
static volatile unsigned long sink;

static inline __attribute__((always_inline)) unsigned long leaf(unsigned long x)
{
	for (int i = 0; i < 100; i++)	      /* in leaf */
		sink = x = x * 31 + (x >> 7); /* in leaf */
	return x;
}

static inline __attribute__((always_inline)) unsigned long middle(unsigned long x)
{
	return leaf(x ^ 5); /* leaf into middle */
}

__attribute__((noinline)) unsigned long outer(unsigned long x);
unsigned long outer(unsigned long x)
{
	return middle(x) * 3; /* middle into outer */
}

void work(unsigned long n);
void work(unsigned long n)
{
	while (n--)
		sink += outer(n); /* calls outer */
}
