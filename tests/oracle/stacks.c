/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Whole stacks against libdwfl (elfutils): a program is stopped at random instants by ptrace, and
 * the stack that the sampler's walkers find is compared with the one that libdwfl finds.
 *
 *	stacks [-n STOPS] [-s STEPS] [-r SEED] [-v SHOWN] [-N NAME] COMMAND [ARG...]
 *
 * Each stop is followed by a few single steps (-s), each of them compared: so prologues, epilogues
 * and stubs of .plt are met as well, which random instants rarely hit. COMMAND is started again
 * when it ends. Prints one line for the table, then what differed, by cause. Exit status 1: nothing
 * could be compared.
 *
 * Native frames are compared one by one. The merged stack must be the same without the eval loop's
 * frames, each of which its Python frames have replaced. Which Python frames these are is compared
 * from step to step: one instruction enters one function or leaves one.
 */
#include <errno.h>
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ours.h"
#include "theirs.h"

#define MAX_CAUSES  64
#define MAX_THREADS 512
#define MAX_UNSEEN  100 /* runs of a program in a row that are over before the first stop */

/*
 * JUMPED: ours has left out the frames between code without rows and the next Python activation,
 * which the sampler counts as note_shim_jump; behind it both are equal.
 */
enum outcome { EQUAL, JUMPED, OURS_SHORTER, THEIRS_SHORTER, DIFFERENT, OUTCOME_CNT };

static const char *const outcome_names[OUTCOME_CNT] = { "equal", "ours jumped", "ours shorter",
							"theirs shorter", "different" };

struct cause {
	char text[256];
	uint64_t cnt;
};

/* The code objects of a stack's Python frames, innermost first. */
struct codes {
	uint32_t cnt;
	uint64_t id[STACK_DEPTH_DEFAULT];
};

struct oracle {
	/* options */
	uint64_t stops;
	unsigned int steps, shown;
	unsigned int begin_ms; /* CPU time that a process has before it is stopped */
	uint64_t rng;
	const char *name;
	char **command;
	/* the process */
	pid_t pid;
	struct ours *ours;
	struct theirs *theirs;
	/* results */
	uint64_t done, frames, outcomes[OUTCOME_CNT];
	uint64_t merged, merged_different, python_frames, starts;
	struct cause causes[MAX_CAUSES];
	size_t cause_cnt;
	struct our_stack mine;
	struct their_stack other;
	/*
	 * of the step before; nothing is known after a stop, and after a stack that is not complete
	 */
	bool have_codes;
	struct codes codes;
};

static uint64_t rng(struct oracle *o, uint64_t below)
{
	o->rng ^= o->rng << 13;
	o->rng ^= o->rng >> 7;
	o->rng ^= o->rng << 17;
	return o->rng % below;
}

/* ---- comparison ------------------------------------------------------------------------------ */

static void add_cause(struct oracle *o, const char *text)
{
	size_t i = 0;

	while (i < o->cause_cnt && strcmp(o->causes[i].text, text))
		i++;
	if (i == MAX_CAUSES)
		return;
	if (i == o->cause_cnt)
		snprintf(o->causes[o->cause_cnt++].text, sizeof(o->causes[i].text), "%s", text);
	o->causes[i].cnt++;
}

static void show_word(struct oracle *o, uint64_t word)
{
	switch (FRAME_TAG(word)) {
	case FRAME_NATIVE:
		printf("%s+0x%" PRIx64, ours__file(o->ours, word), (uint64_t)NATIVE_OFFSET(word));
		break;
	case FRAME_MARKER:
		printf("[marker %u]", MARKER_WHY(word));
		break;
	case FRAME_PYTHON:
		printf("Python");
		break;
	default:
		printf("0x%" PRIx64, (uint64_t)(word & FRAME_PAYLOAD));
	}
}

static void show_stacks(struct oracle *o, const char *what)
{
	if (!o->shown)
		return;
	o->shown--;
	printf("  %s: %s\n", o->name, what);
	for (uint32_t i = 0; i < o->mine.cnt || i < o->other.cnt; i++) {
		printf("    %3u  ", i);
		if (i < o->mine.cnt)
			show_word(o, o->mine.native[i]);
		printf("  |  ");
		if (i < o->other.cnt) {
			show_word(o, ours__word(o->ours, o->other.addr[i]));
			printf(" %s", theirs__symbol(o->theirs, o->other.addr[i]));
		}
		printf("\n");
	}
	printf("    ours: %s, marker %u; theirs: %s\n", o->mine.whole ? "whole" : "cut",
	       MARKER_WHY(o->mine.marker), o->other.whole ? "whole" : o->other.why);
}

static void show_merged(struct oracle *o, const char *what)
{
	if (!o->shown)
		return;
	show_stacks(o, what);
	printf("    merged:");
	for (uint32_t i = 0; i < o->mine.merged_cnt; i++) {
		printf(" ");
		show_word(o, o->mine.merged[i]);
	}
	printf("\n");
}

/*
 * Of a signal's return trampoline libdwfl gives the address itself, not that of the byte before it.
 */
static bool same_frame(uint64_t ours, uint64_t theirs)
{
	return ours == theirs || ours + 1 == theirs;
}

static bool same_at(struct oracle *o, uint32_t mine, uint32_t other)
{
	return same_frame(o->mine.native[mine], ours__word(o->ours, o->other.addr[other]));
}

/*
 * Our frame `at` stands for an activation of the eval loop; all that lies behind it is as in
 * theirs.
 */
static bool same_behind_jump(struct oracle *o, uint32_t at)
{
	uint32_t rest = o->mine.cnt - at, first = o->other.cnt - rest;

	if (!o->mine.jumped || o->other.cnt < rest + at ||
	    !ours__in_eval(o->ours, o->other.addr[first]))
		return false;
	for (uint32_t i = 1; i < rest; i++) {
		if (!same_at(o, at + i, first + i))
			return false;
	}
	return true;
}

/*
 * Where there are no rows libdwfl takes any rbp for a frame pointer. What it gives last before it
 * gives up, at an address where no code is, is no frame.
 */
static void forget_guess(const struct oracle *o, struct their_stack *other)
{
	if (!other->whole && other->cnt && !ours__executable(o->ours, other->addr[other->cnt - 1]))
		other->cnt--;
}

static enum outcome compare_native(struct oracle *o, uint32_t *at)
{
	uint32_t i = 0;

	while (i < o->mine.cnt && i < o->other.cnt && same_at(o, i, i))
		i++;
	*at = i;
	if (i == o->mine.cnt && i == o->other.cnt)
		return EQUAL;
	if (i == o->mine.cnt)
		return OURS_SHORTER;
	if (i == o->other.cnt)
		return THEIRS_SHORTER;
	return same_behind_jump(o, i) ? JUMPED : DIFFERENT;
}

static void describe_difference(struct oracle *o, enum outcome what, uint32_t at)
{
	uint64_t word = at && at <= o->mine.cnt ? o->mine.native[at - 1] : 0;
	uint64_t addr = at && at <= o->other.cnt ? o->other.addr[at - 1] : 0;
	char text[256];

	snprintf(text, sizeof(text), "%s behind %s%s (%s); ours %s%s, theirs: %s",
		 outcome_names[what], at == 1 ? "the leaf " : "", theirs__symbol(o->theirs, addr),
		 ours__file(o->ours, word), o->mine.whole ? "whole" : "cut",
		 o->mine.jumped ? " after a jump" : "", o->other.whole ? "whole" : o->other.why);
	add_cause(o, text);
	show_stacks(o, text);
}

/*
 * The merged stack against libdwfl's: native frames are the same but for the eval loop's, and where
 * these were, there is Python. An activation that has no frame yet or no more stays native: the
 * innermost one.
 */
static const char *compare_merged(struct oracle *o)
{
	const struct our_stack *m = &o->mine;
	uint32_t at = 0, evals = 0;

	for (uint32_t i = 0; i < o->other.cnt; i++) {
		uint64_t word = ours__word(o->ours, o->other.addr[i]);
		bool eval = ours__in_eval(o->ours, o->other.addr[i]);

		if (eval && at < m->merged_cnt && FRAME_TAG(m->merged[at]) == FRAME_PYTHON) {
			while (at < m->merged_cnt && FRAME_TAG(m->merged[at]) == FRAME_PYTHON)
				at++;
			evals++;
			continue;
		}
		if (at == m->merged_cnt)
			return "merged: frames are missing";
		if (FRAME_TAG(m->merged[at]) == FRAME_PYTHON)
			return "merged: Python frames where there is no eval loop";
		if (!same_frame(m->merged[at++], word))
			return "merged: a marker or another frame";
		if (eval && evals)
			return "merged: an activation without Python frames that is not the "
			       "innermost";
	}
	return at < m->merged_cnt ? "merged: more frames than there are" : NULL;
}

static void take_codes(const struct our_stack *m, struct codes *out)
{
	out->cnt = 0;
	for (uint32_t i = 0; i < m->merged_cnt && out->cnt < STACK_DEPTH_DEFAULT; i++) {
		if (FRAME_TAG(m->merged[i]) == FRAME_PYTHON)
			out->id[out->cnt++] = PYTHON_CODE(m->merged[i]);
	}
}

/*
 * The callers are the same, and at most one frame is in front of them in one of both that is not in
 * the other.
 */
static bool one_call_apart(const struct codes *a, const struct codes *b)
{
	const struct codes *more = a->cnt > b->cnt ? a : b, *less = more == a ? b : a;

	return more->cnt - less->cnt <= 1 && !memcmp(more->id + (more->cnt - less->cnt), less->id,
						     less->cnt * sizeof(less->id[0]));
}

static const char *compare_steps(struct oracle *o)
{
	struct codes now;
	bool same;

	take_codes(&o->mine, &now);
	same = !o->have_codes || one_call_apart(&o->codes, &now);
	o->codes = now;
	o->have_codes = true;
	return same ? NULL : "merged: in one step more than one Python frame has changed";
}

/*
 * Python frames are left out, and the stack says so: the eval loop is being entered, and no stack
 * before it has taught where an activation keeps its CFrame. A process that is stopped first thing
 * has none.
 */
static bool says_in_setup(const struct our_stack *m)
{
	uint64_t last = m->merged_cnt ? m->merged[m->merged_cnt - 1] : 0;

	return FRAME_TAG(last) == FRAME_MARKER && MARKER_WHY(last) == MARK_PY_SETUP;
}

static void compare(struct oracle *o, const struct user_regs_struct *regs, pid_t tid)
{
	enum outcome what;
	const char *wrong;
	uint32_t at;

	ours__walk(o->ours, regs, &o->mine);
	theirs__walk(o->theirs, tid, &o->other);
	forget_guess(o, &o->other);
	what = compare_native(o, &at);
	o->done++;
	o->frames += o->other.cnt;
	o->outcomes[what]++;
	if (what != EQUAL) {
		o->have_codes = false;
		describe_difference(o, what, at);
		return;
	}
	if (!o->mine.whole || !o->other.whole || says_in_setup(&o->mine)) {
		o->have_codes = false;
		return;
	}
	o->merged++;
	o->python_frames += o->mine.python_cnt;
	wrong = compare_merged(o);
	if (!wrong)
		wrong = compare_steps(o);
	if (wrong) {
		o->merged_different++;
		add_cause(o, wrong);
		show_merged(o, wrong);
	}
}

/* ---- stopping a thread ----------------------------------------------------------------------- */

static pid_t random_thread(struct oracle *o)
{
	pid_t tids[MAX_THREADS];
	struct dirent *entry;
	char path[64];
	size_t cnt = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", o->pid);
	dir = opendir(path);
	if (!dir)
		return 0;
	while (cnt < MAX_THREADS && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			tids[cnt++] = atoi(entry->d_name);
	}
	closedir(dir);
	return cnt ? tids[rng(o, cnt)] : 0;
}

/*
 * Waits for the thread's next stop. *sig: a signal that is about to be delivered. False: it ended.
 */
static bool wait_stop(pid_t tid, int *sig)
{
	int status;

	while (waitpid(tid, &status, __WALL) < 0) {
		if (errno != EINTR)
			return false;
	}
	if (!WIFSTOPPED(status))
		return false;
	if (status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP)
		*sig = WSTOPSIG(status);
	return true;
}

/* A step over it might wait for something that only happens when other threads are looked at. */
static bool at_syscall(const struct oracle *o, uint64_t pc)
{
	uint8_t insn[2] = { 0 };
	struct iovec local = { insn, sizeof(insn) }, remote = { (void *)(uintptr_t)pc, 2 };

	return process_vm_readv(o->pid, &local, 1, &remote, 1, 0) != 2 ||
	       (insn[0] == 0x0f && insn[1] == 0x05);
}

static bool look(struct oracle *o, pid_t tid, uint64_t *pc)
{
	struct user_regs_struct regs;
	int changed;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs))
		return false;
	*pc = regs.rip;
	changed = ours__refresh(o->ours);
	if (changed < 0 || (changed && theirs__refresh(o->theirs)))
		return false;
	compare(o, &regs, tid);
	return true;
}

/* One stop of one thread, and the steps behind it. False: there is no such thread any more. */
static bool stop_once(struct oracle *o, pid_t tid)
{
	bool there;
	uint64_t pc;
	int sig = 0;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL))
		return false;
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) || !wait_stop(tid, &sig))
		return false;
	o->have_codes = false;
	there = look(o, tid, &pc);
	for (unsigned int i = 0; there && !sig && i < o->steps && o->done < o->stops; i++) {
		if (at_syscall(o, pc) || ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL))
			break;
		there = wait_stop(tid, &sig);
		if (there)
			there = look(o, tid, &pc);
	}
	ptrace(PTRACE_DETACH, tid, NULL, (void *)(uintptr_t)sig);
	return there;
}

/* ---- the process ----------------------------------------------------------------------------- */

static void end_process(struct oracle *o)
{
	if (o->pid > 0) {
		kill(o->pid, SIGKILL);
		while (waitpid(o->pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	}
	ours__free(o->ours);
	theirs__free(o->theirs);
	o->ours = NULL;
	o->theirs = NULL;
	o->pid = 0;
}

static bool start_process(struct oracle *o)
{
	int fds[2];
	char byte;

	if (pipe2(fds, 02000000 /* O_CLOEXEC */))
		return false;
	o->pid = fork();
	if (!o->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(o->command[0], o->command);
		perror(o->command[0]);
		_exit(127);
	}
	close(fds[1]);
	while (read(fds[0], &byte, 1) < 0 && errno == EINTR)
		; /* until exec closes the other end */
	close(fds[0]);
	if (o->pid < 0)
		return false;
	o->starts++;
	o->ours = ours__new(o->pid);
	o->theirs = theirs__new(o->pid);
	return o->ours && o->theirs;
}

static bool ended(const struct oracle *o)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)o->pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid;
}

/* Until it has begun, however slow the machine is. */
static void let_begin(struct oracle *o)
{
	const struct timespec pause = { 0, 1000000 };
	struct timespec used = { 0, 0 };
	clockid_t clock;

	while (o->begin_ms && !ended(o) && !clock_getcpuclockid(o->pid, &clock) &&
	       !clock_gettime(clock, &used) &&
	       used.tv_sec * 1000 + used.tv_nsec / 1000000 < o->begin_ms)
		nanosleep(&pause, NULL);
}

static void run(struct oracle *o)
{
	unsigned int unseen = 0;
	uint64_t last = 0;

	while (o->done < o->stops) {
		struct timespec pause = { 0, (long)rng(o, 1000000) };

		if (!o->pid) {
			if (!start_process(o))
				break;
			let_begin(o);
		}
		nanosleep(&pause, NULL);
		stop_once(o, random_thread(o));
		if (!ended(o))
			continue;
		end_process(o);
		unseen = o->done == last ? unseen + 1 : 0;
		if (unseen == MAX_UNSEEN)
			break;
		last = o->done;
	}
	end_process(o);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void print_result(const struct oracle *o)
{
	printf("%-12s %8" PRIu64 " %9" PRIu64, o->name, o->done, o->frames);
	for (int i = 0; i < OUTCOME_CNT; i++)
		printf(" %8" PRIu64, o->outcomes[i]);
	printf(" %8.3f%% %8" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n",
	       o->done ? 100.0 * (double)o->outcomes[EQUAL] / (double)o->done : 0.0, o->merged,
	       o->python_frames, o->merged_different);
	for (size_t i = 0; i < o->cause_cnt; i++)
		printf("    %6" PRIu64 "  %s\n", o->causes[i].cnt, o->causes[i].text);
}

static int usage(void)
{
	fprintf(stderr, "usage: stacks [-n STOPS] [-s STEPS] [-b MS] [-r SEED] [-v SHOWN] "
			"[-N NAME] COMMAND [ARG...]\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct oracle *o = calloc(1, sizeof(*o));
	int c;

	if (!o)
		return 1;
	o->stops = 1000;
	o->steps = 4;
	o->rng = 1;
	while ((c = getopt(argc, argv, "+n:s:b:r:v:N:")) != -1) {
		switch (c) {
		case 'n':
			o->stops = strtoull(optarg, NULL, 0);
			break;
		case 's':
			o->steps = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 'b':
			o->begin_ms = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 'r':
			o->rng = strtoull(optarg, NULL, 0) | 1;
			break;
		case 'v':
			o->shown = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 'N':
			o->name = optarg;
			break;
		default:
			return usage();
		}
	}
	if (optind == argc)
		return usage();
	o->command = argv + optind;
	if (!o->name)
		o->name = o->command[0];
	run(o);
	print_result(o);
	c = o->done == 0;
	free(o);
	return c;
}
