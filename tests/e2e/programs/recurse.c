// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Recursion in C: recurse DEPTH. main() calls down(), which calls itself until DEPTH of it are on
 * the stack; the innermost calls bottom(). Says "ready" and runs until its standard input ends.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static void bottom(void)
{
	for (volatile long i = 0; i < 1000000; i++)
		;
}

__attribute__((noinline)) static void down(long left)
{
	if (left > 1)
		down(left - 1);
	else
		bottom();
	__asm__ volatile("" ::: "memory"); /* no tail call, no loop */
}

int main(int argc, char **argv)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };

	printf("ready\n");
	fflush(stdout);
	while (poll(&p, 1, 0) == 0)
		down(argc > 1 ? atol(argv[1]) : 1);
	printf("{}\n");
	return 0;
}
