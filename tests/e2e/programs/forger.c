/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* For forger.py: jumps to any place with any registers, and comes back from the crash there. */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>

/* By number as DWARF has it; the stack pointer, 7, stays. */
static uint64_t forged[16];
static uint64_t target;
static sigjmp_buf back;

static void come_back(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

/* A crash needs a stack of its own: that of the thread may be anywhere. */
int prepare(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGALRM };
	struct sigaction act = { .sa_handler = come_back, .sa_flags = SA_ONSTACK | SA_NODEFER };
	stack_t stack = { .ss_size = 1 << 16 };

	stack.ss_sp = malloc(stack.ss_size);
	if (!stack.ss_sp || sigaltstack(&stack, NULL))
		return -1;
	for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigaction(signals[i], &act, NULL))
			return -1;
	return 0;
}

/* With all registers 0, but two. */
void jump(uint64_t place, unsigned frame_at, uint64_t frame, unsigned instr_at, uint64_t instr)
{
	/* Without a crash it may run for ever. */
	const struct itimerval limit = { .it_value.tv_usec = 2000 }, none = { 0 };

	target = place;
	for (unsigned i = 0; i < 16; i++)
		forged[i] = 0;
	forged[frame_at & 15] = frame;
	forged[instr_at & 15] = instr;
	if (sigsetjmp(back, 1)) {
		setitimer(ITIMER_REAL, &none, NULL);
		return;
	}
	setitimer(ITIMER_REAL, &limit, NULL);
	__asm__ volatile("mov 0x00+forged(%%rip), %%rax\n\t"
			 "mov 0x08+forged(%%rip), %%rdx\n\t"
			 "mov 0x10+forged(%%rip), %%rcx\n\t"
			 "mov 0x18+forged(%%rip), %%rbx\n\t"
			 "mov 0x20+forged(%%rip), %%rsi\n\t"
			 "mov 0x28+forged(%%rip), %%rdi\n\t"
			 "mov 0x30+forged(%%rip), %%rbp\n\t"
			 "mov 0x40+forged(%%rip), %%r8\n\t"
			 "mov 0x48+forged(%%rip), %%r9\n\t"
			 "mov 0x50+forged(%%rip), %%r10\n\t"
			 "mov 0x58+forged(%%rip), %%r11\n\t"
			 "mov 0x60+forged(%%rip), %%r12\n\t"
			 "mov 0x68+forged(%%rip), %%r13\n\t"
			 "mov 0x70+forged(%%rip), %%r14\n\t"
			 "mov 0x78+forged(%%rip), %%r15\n\t"
			 "jmp *%0"
			 :
			 : "m"(target), "m"(forged)
			 : "memory");
}
