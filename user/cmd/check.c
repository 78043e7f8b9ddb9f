/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/check.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rights.h"
#include "base/terminal.h"
#include "elf/elf.h"
#include "follow/follow.h"
#include "process/unsupported.h"
#include "profile/export_text.h"
#include "python/pyproc.h"
#include "sample/source_set.h"

#define SAMPLE_HZ    99
#define SAMPLE_MS    300
#define SETTLE_MS    500 /* what a running interpreter has until its self-check has passed */
#define LISTED_PROCS 10

enum verdict { OK, NOTE, FAIL };

struct checker {
	const struct check_opts *o;
	struct text_out out;
	bool failed;
	struct follow *follow;
	struct process_table *procs; /* of `follow` */
	struct source_set sampler;
};

/* ---- lines ----------------------------------------------------------------------------------- */

static void title(struct checker *k, const char *text)
{
	text_out__puts(&k->out, SGR_BOLD, text);
	text_out__newline(&k->out);
}

/* The text may have foreign names in it. */
__attribute__((format(printf, 3, 4))) static void say(struct checker *k, enum verdict v,
						      const char *fmt, ...)
{
	static const struct {
		const char *word, *sgr;
	} looks[] = { { "  ok   ", SGR_GREEN }, { "  note ", SGR_YELLOW }, { "  FAIL ", SGR_RED } };
	char text[1024];
	struct strbuf b = { 0 };
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	str_sanitise(&b, text, strlen(text), sizeof(text));
	text_out__puts(&k->out, looks[v].sgr, looks[v].word);
	text_out__fill(&k->out, 8, 8, b.err ? "" : b.s);
	strbuf__free(&b);
	k->failed |= v == FAIL;
}

static void blank(struct checker *k)
{
	text_out__newline(&k->out);
}

/* ---- asked ----------------------------------------------------------------------------------- */

static void check_kernel(struct checker *k)
{
	struct utsname un;

	title(k, "Kernel");
	if (!uname(&un))
		say(k, OK, "Linux %s, %s", un.release, un.machine);
	if (access(BTF_PATH, R_OK))
		say(k, FAIL, "%s: %s (the kernel must be built with CONFIG_DEBUG_INFO_BTF=y)",
		    BTF_PATH, strerror(errno));
	else
		say(k, OK, "it describes its types: %s", BTF_PATH);
	if (rights__locked_down())
		say(k, FAIL,
		    "lockdown is in confidentiality mode, which forbids BPF to read memory (boot "
		    "with lockdown=integrity)");
}

static void check_rights(struct checker *k)
{
	bool complete = true;

	title(k, "Rights");
	for (const struct right *r = rights__needed; r->name; r++) {
		if (rights__has(r))
			continue;
		complete = false;
		say(k, r->essential ? FAIL : NOTE, "%s is missing: %s", r->name, r->without);
	}
	if (complete)
		say(k, OK, "all that are of use");
	else
		say(k, NOTE, "remedy: %s", RIGHTS_REMEDY);
	if (rights__sysctl("kernel/yama/ptrace_scope") == 3)
		say(k, NOTE,
		    "kernel.yama.ptrace_scope is 3: no process can be looked into from outside, so "
		    "no interpreter is validated before it is walked (boot with another value)");
}

static void check_limits(struct checker *k)
{
	long rate = rights__sysctl("kernel/perf_event_max_sample_rate");
	long percent = rights__sysctl("kernel/perf_cpu_time_max_percent");

	if (rate >= 0 && rate < 1000)
		say(k, NOTE,
		    "at most %ld samples per second (sysctl kernel.perf_event_max_sample_rate; the "
		    "kernel lowers it when it finds sampling too slow)",
		    rate);
	else if (rate >= 0)
		say(k, OK, "up to %ld samples per second and CPU", rate);
	if (percent > 0 && percent < 5)
		say(k, NOTE,
		    "sampling is throttled beyond %ld%% of a CPU (sysctl "
		    "kernel.perf_cpu_time_max_percent)",
		    percent);
}

/* ---- tried ----------------------------------------------------------------------------------- */

/* Loads everything and analyses the processes. The stages print what they fail for. */
static int open_stages(struct checker *k)
{
	const struct follow_opts opts = {
		.object = {
			.flags = CFG_NATIVE | CFG_KERNEL | (k->o->pid ? CFG_TARGETS : 0),
			.frequency_hz = SAMPLE_HZ,
		},
		.processes = { .all = true, .pids = &k->o->pid, .pid_cnt = k->o->pid ? 1 : 0 },
		.watch = FOLLOW_WATCH_EACH,
	};

	k->follow = follow__open(&opts);
	if (!k->follow || object__wait_loaded(follow__object(k->follow)))
		return -EIO;
	k->procs = follow__procs(k->follow);
	return follow__scan(k->follow);
}

static int start_sampler(struct checker *k)
{
	const struct sample_spec spec = {
		.sources = { { .source = source__of_event(EVENT_CPU_CLOCK) } },
		.source_cnt = 1,
		.frequency_hz = SAMPLE_HZ,
	};
	struct world world;
	int err;

	follow__world(k->follow, &world);
	err = source_set__open(&k->sampler, &spec, &world);
	return err ? err : source_set__start(&k->sampler);
}

/* Samples like record for at most `ms`, until `done`. */
static void run_for(struct checker *k, unsigned ms, bool (*done)(struct checker *k))
{
	uint64_t end = now_ms() + ms;

	while (now_ms() < end && !(done && done(k))) {
		struct pollfd fds[] = {
			{ .fd = follow__fd(k->follow), .events = POLLIN },
			{ .fd = follow__watch_fd(k->follow), .events = POLLIN },
		};

		poll(fds, 2, 10);
		follow__look(k->follow);
	}
}

static bool all_checked(struct checker *k)
{
	struct process_interp in;
	struct process *p;

	for (size_t at = 0; (p = process_table__next(k->procs, &at));)
		if (!p->exited && process_table__interp_of(k->procs, p, &in) &&
		    in.check == SELFCHECK_TRUSTED)
			return false;
	return true;
}

static bool some_sample(struct checker *k)
{
	uint64_t counters[CTR_CNT];

	object__counters(follow__object(k->follow), counters);
	return counters[CTR_delivered] > 0;
}

static void check_sampling(struct checker *k)
{
	title(k, "Sampling");
	if (k->failed) {
		say(k, NOTE, "not tried");
		return;
	}
	fflush(stdout); /* the stages print to stderr */
	if (open_stages(k)) {
		say(k, FAIL,
		    "the programs do not load, or cannot be attached: see the message above");
		return;
	}
	say(k, OK, "the programs load, in %.1f MiB of kernel memory",
	    (double)object__map_bytes(follow__object(k->follow)) / 1048576);
	if (start_sampler(k)) {
		say(k, FAIL, "no CPU can be sampled: see the message above");
		return;
	}
	run_for(k, SAMPLE_MS, some_sample);
	if (some_sample(k))
		say(k, OK, "samples arrive, from %" PRIu32 " CPUs", follow__cpu_cnt(k->follow));
	else
		say(k, FAIL,
		    "no sample arrives within %d ms (is another profiler using all events? does "
		    "kernel.perf_cpu_time_max_percent throttle?)",
		    SAMPLE_MS);
	check_limits(k);
	run_for(k, SETTLE_MS, all_checked);
	source_set__stop(&k->sampler);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Reports the owners whose files and memory are not read. */
static void check_refused(struct checker *k)
{
	struct reader_refused refused[READER_REFUSED_MAX];
	size_t cnt = readers__hung(process_table__readers(k->procs), false, refused);
	struct strbuf b = { 0 };

	for (size_t i = 0; i < cnt && i < READER_REFUSED_MAX; i++) {
		strbuf__clear(&b);
		reader_refused__print(&refused[i], &b);
		say(k, NOTE, "%s; nothing of it is read after the second time",
		    b.err ? "a user" : b.s);
	}
	strbuf__free(&b);
}

static void check_processes(struct checker *k)
{
	struct process_stats st;
	unsigned listed = 0;
	struct process *p;

	process_table__stats(k->procs, &st);
	blank(k);
	title(k, "Processes");
	say(k, OK, "%" PRIu64 " processes, %" PRIu64 " of them with Python", st.live, st.python);
	if (st.unreadable)
		say(k, NOTE,
		    "%" PRIu64
		    " could not be looked into: they were ending, or belong to others (for these "
		    "CAP_SYS_PTRACE is needed)",
		    st.unreadable);
	for (size_t at = 0; (p = process_table__next(k->procs, &at));) {
		if (p->exited || !p->native_only)
			continue;
		if (listed++ < LISTED_PROCS)
			say(k, NOTE, "process %u (%s, Python %s) is native only: %s", p->tgid,
			    p->comm, p->python, p->native_only);
	}
	if (listed > LISTED_PROCS)
		say(k, NOTE, "%u more are native only", listed - LISTED_PROCS);
	check_refused(k);
}

static void explain_interp(struct checker *k, const struct process *p,
			   const struct process_interp *in)
{
	char id[2 * BUILD_ID_MAX + 1];

	elf_file__id_hex(in->file, id);
	say(k, OK, "CPython %s%s%s in %s", in->py->version,
	    in->py->free_threaded ? ", free-threaded" : "",
	    in->py->trace_refs ? ", with Py_TRACE_REFS" : "", elf_file__path(in->file));
	say(k, OK, "build id %s", *id ? id : "none: the file is known by its inode");
	if (p->native_only)
		say(k, FAIL, "native only: %s", p->native_only);
	else if (in->check == SELFCHECK_PASSED)
		say(k, OK, "its Python frames are shown: a whole stack was validated");
	else if (process__why_no_python(p))
		say(k, NOTE, "%s: Python frames are shown when there are any",
		    process__why_no_python(p));
	else
		say(k, OK,
		    "its Python frames are shown; no thread has run Python yet that could be "
		    "validated");
}

static void explain_process(struct checker *k)
{
	const struct process *p = process_table__find_tgid(k->procs, (uint32_t)k->o->pid);
	struct readers *rs = process_table__readers(k->procs);
	struct process_interp in;
	char text[64], why[UNSUPPORTED_LEN];

	blank(k);
	snprintf(text, sizeof(text), "Process %d", k->o->pid);
	title(k, text);
	if (!p) {
		say(k, FAIL, "it has ended, or is not visible from this pid namespace");
		return;
	}
	say(k, OK, "%s: %s", p->comm, *p->exe ? p->exe : "its executable cannot be read");
	if (*p->container)
		say(k, OK, "in container %s", p->container);
	if (process_table__interp_of(k->procs, p, &in))
		explain_interp(k, p, &in);
	else if (!p->analysed)
		say(k, FAIL,
		    "its mappings cannot be read (CAP_SYS_PTRACE is needed for processes of "
		    "others)");
	else if (unsupported__explain(rs, k->o->pid, why) ||
		 unsupported__unread(rs, k->o->pid, why))
		say(k, FAIL, "%s", why);
	else
		say(k, FAIL,
		    "no Python: none of the files that it has mapped for execution is a CPython of "
		    "2.7 or 3.6 and later");
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool process_exists(const struct check_opts *o)
{
	if (!o->pid || !kill(o->pid, 0) || errno != ESRCH)
		return true;
	log_err("process %d: there is no such process", o->pid);
	return false;
}

int check(const struct check_opts *o)
{
	struct checker k = { .o = o };
	bool color;
	unsigned width = terminal__width(&color);
	int err;

	if (!process_exists(o))
		return 1;
	text_out__begin(&k.out, stdout, width, color);
	check_kernel(&k);
	blank(&k);
	check_rights(&k);
	blank(&k);
	check_sampling(&k);
	if (k.procs && !k.failed)
		o->pid ? explain_process(&k) : check_processes(&k);
	err = text_out__end(&k.out);
	if (err)
		log_err("standard output: %s", strerror(-err));
	source_set__close(&k.sampler);
	follow__close(k.follow);
	return err || k.failed;
}
