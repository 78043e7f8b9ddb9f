/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Functions that note themselves when they begin and end: what trace --native-from has to say. */
#include <setjmp.h>

typedef long (*callback)(long);

#define LOG_MAX 200000
/* The number of a function when it begins, its negative when it ends. */
int notes[LOG_MAX];
long note_cnt;

#define NOTE(n) (void)(note_cnt < LOG_MAX && (notes[note_cnt++] = (n)))

static callback back;
static jmp_buf out;
volatile long sink;

static __attribute__((noinline)) long leaf(long n)
{
	NOTE(2);
	sink += n;
	NOTE(-2);
	return sink;
}

static __attribute__((noinline)) long recurses(long n)
{
	long r;

	NOTE(3);
	r = n ? recurses(n - 1) + leaf(n) : leaf(0);
	NOTE(-3);
	return r;
}

/* It jumps to leaf() in its place, so it has ended when that begins. */
static __attribute__((noinline)) long jumps(long n)
{
	NOTE(4);
	sink += n;
	NOTE(-4);
	return leaf(n + 1);
}

static __attribute__((noinline)) long calls_back(long n)
{
	long r;

	NOTE(5);
	r = back(n) + leaf(n);
	NOTE(-5);
	return r;
}

static __attribute__((noinline)) void throws(void)
{
	sink++;
	longjmp(out, 1);
}

/* It is left without its end, when `n` is odd. */
__attribute__((noinline)) long first(long n)
{
	long r;

	NOTE(1);
	r = recurses(n % 4) + jumps(n) + calls_back(n);
	for (long i = 0; i < n % 3; i++)
		r += leaf(i);
	NOTE(-1);
	if (n % 2)
		throws();
	return r;
}

/* Not from first(): nobody wants to see it. */
__attribute__((noinline)) long other(long n)
{
	sink += n;
	return sink;
}

long run(long n, callback f)
{
	back = f;
	if (setjmp(out))
		return 0;
	return first(n) + other(n);
}
