/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls a function whose first instruction the kernel emulates under a breakpoint, or one whose
 * first instruction it single-steps.
 *
 * usage: hot emulated|stepped
 *
 * Says "ready", and for each line on stdin, of two numbers, makes so many calls, each after so many
 * rounds of work, and prints how many ns of CPU time they took. 0 calls: without end.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

__asm__(".globl emulated\n.type emulated, @function\nemulated:\n\tnop\n\tret\n"
	".size emulated, .-emulated\n"
	".globl stepped\n.type stepped, @function\nstepped:\n\tmov %rdi, %rax\n\tret\n"
	".size stepped, .-stepped\n");
long emulated(long), stepped(long);

static long long cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	long (*call)(long) = argc > 1 && !strcmp(argv[1], "stepped") ? stepped : emulated;
	long calls, rounds;

	puts("ready");
	fflush(stdout);
	while (scanf("%ld %ld", &calls, &rounds) == 2) {
		long long start = cpu_ns();

		for (long i = 0; !calls || i < calls; i++) {
			for (volatile long k = 0; k < rounds; k++)
				;
			call(i);
		}
		printf("%lld\n", cpu_ns() - start);
		fflush(stdout);
	}
	return 0;
}
