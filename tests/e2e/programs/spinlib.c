// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* A library for libs.c: spin() calls the function NAME, PAD bytes behind the start of the text. */
#define STR_(x) #x
#define STR(x)	STR_(x)

__asm__(".text\n.skip " STR(PAD) ", 0x90\n");

__attribute__((noinline)) static void NAME(long loops)
{
	for (volatile long i = 0; i < loops; i++)
		;
}

void spin(long loops)
{
	NAME(loops);
	__asm__ volatile("" ::: "memory");
}
