// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A library for states.py: hide() works, and nine tenths of the time nobody can read the page of
 * `object`, as when the kernel moves it, but who cannot wait. Who touches it all the same has it
 * back for good.
 */
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE	  4096UL
#define HIDDEN_NS 54000000L /* longer than dump waits for its first samples */
#define SEEN_NS	  6000000L

static void *volatile page;
static volatile sig_atomic_t touched;

static void on_touch(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (((uintptr_t)info->si_addr & -PAGE) != (uintptr_t)page)
		signal(sig, SIG_DFL);
	touched = 1;
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

static void work(long ns)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < ns);
}

void hide(uintptr_t object)
{
	struct sigaction action = { .sa_sigaction = on_touch, .sa_flags = SA_SIGINFO };

	page = (void *)(object & -PAGE);
	sigaction(SIGSEGV, &action, NULL);
	for (;;) {
		mprotect(page, PAGE, touched ? PROT_READ | PROT_WRITE : PROT_NONE);
		work(HIDDEN_NS);
		mprotect(page, PAGE, PROT_READ | PROT_WRITE);
		work(SEEN_NS);
	}
}
