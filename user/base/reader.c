/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/due.h"
#include "base/ending.h"
#include "base/exchange.h"
#include "base/hangs.h"
#include "base/log.h"
#include "base/readmem.h"
#include "base/resources.h"
#include "base/tenant.h"
#include "base/worker.h"

#define LOOK_MS	      20
#define LOOK_DUE_MS   5		      /* while something is due, see readers__due() */
#define CHARGED_NS    (NS_PER_MS / 5) /* a shorter wait counts as none */
#define LATE_NS	      (150 * NS_PER_MS)
#define PATIENCE_MS   10000 /* even if it is only a machine that is too busy */
#define PATIENCE_ROOT 10    /* times as long for this machine's root: a slow disk, no tenant */
#define GIVEN_UP_MAX  32    /* helpers that hang now */
#define HANGS_MAX     2	    /* of one tenant; then its processes are not read any more */
#define TENANTS_MAX   64
#define SOON_HANG_MS  100 /* for who has let one hang just now, see readers__shorten() */
#define FAILURES_MAX  8	  /* in a row, before any answer: it may not live here */
#define TRIES	      2	  /* for one question: what fails may be there again */
#define RETRY_S	      10  /* after so many */
#define RETRY_MS      (RETRY_S * 1000)
#define TEXT_OF_(x)   #x
#define TEXT_OF(x)    TEXT_OF_(x)
#define KEPT_ANSWER   (1U << 20) /* of the memory of a longer answer */

struct helper {
	const struct worker_kind *kind;
	pthread_mutex_t lock;
	pid_t pid; /* 0: none */
	int fd;
	struct exchange x;
	bool ready, retires;		    /* it has begun; it answers no more questions */
	uint64_t number;		    /* of the question */
	uint64_t hang_ms;		    /* how long that one may wait for somebody */
	pid_t given_up[GIVEN_UP_MAX];	    /* 0: free */
	uint64_t given_up_by[GIVEN_UP_MAX]; /* payers */
	unsigned int failures;		    /* in a row */
	const char *failed;		    /* what of the last one, and why; 0: another build */
	int err;
	uint64_t retry_ms; /* it cannot be had until then */
	bool answered;	   /* once */
	bool hurries;	   /* runs before all programs of normal priority */
	bool has_warned;   /* that it cannot be had; until it answers */
};

struct hangs {
	uint64_t tenant;
	uint64_t last_ms;
	unsigned int cnt;
	uint32_t tgid; /* the last one */
	const char *why;
};

struct readers {
	struct helper memory, files;
	bool realtime;
	uint64_t shortened_ms;
	pthread_mutex_t lock; /* of what follows */
	struct due due;
	uint64_t put_off; /* questions */
	struct hangs hangs[TENANTS_MAX];
	struct hang_notes notes; /* what was logged of them */
	unsigned int tenant_cnt;
};

/* ---- its life ------------------------------------------------------------------------------- */

static void say_failure(struct helper *h, const char *then)
{
	if (!h->has_warned)
		log_warn("%s of others cannot be read: the process that does it cannot be had: "
			 "%s: %s%s",
			 h->kind->what, h->failed,
			 h->err ? strerror(h->err) : "start this one again", then);
	h->has_warned = true;
}

/* Nobody else may read in its place: what it reads may hold up whoever does. `err` may be 0. */
static void no_reader(struct helper *h, const char *what, int err)
{
	h->failed = what;
	h->err = err;
	if (++h->failures < FAILURES_MAX)
		return;
	h->failures = 0;
	h->retry_ms = now_ms() + RETRY_MS;
	say_failure(h, "; trying again every " TEXT_OF(RETRY_S) " s");
}

static void forget_helper(struct helper *h)
{
	close(h->fd);
	exchange__unmap(&h->x);
	h->pid = 0;
	h->fd = -1;
	h->hurries = h->ready = h->retires = false;
}

/* 0, or a negative errno, of *what. */
static int start_worker(struct helper *h, const char **what)
{
	int ends[2], memory = exchange__make(h->kind, &h->x);
	pid_t pid;

	*what = "memfd_create";
	if (memory < 0)
		return memory;
	*what = "socketpair";
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		int err = -errno;

		close(memory);
		exchange__unmap(&h->x);
		return err;
	}
	*what = "fork";
	pid = worker__start(h->kind, ends[1], memory);
	close(ends[1]);
	close(memory);
	h->fd = ends[0];
	if (pid < 0)
		forget_helper(h);
	else
		h->pid = pid;
	return pid < 0 ? pid : 0;
}

/* Forgets helpers that have ended after all. Returns how many still hang. */
static unsigned int count_given_up(struct helper *h)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < GIVEN_UP_MAX; i++) {
		if (h->given_up[i] && waitpid(h->given_up[i], NULL, WNOHANG))
			h->given_up[i] = 0;
		cnt += h->given_up[i] != 0;
	}
	return cnt;
}

/* It ends as soon as it can, perhaps never: nobody waits for it. */
static void give_up(struct helper *h, uint64_t payer)
{
	unsigned int i = 0;

	kill(h->pid, SIGKILL);
	while (i + 1 < GIVEN_UP_MAX && h->given_up[i])
		i++;
	h->given_up[i] = h->pid;
	h->given_up_by[i] = payer;
	forget_helper(h);
}

static void start(struct helper *h)
{
	const char *what;
	int err;

	if (h->retires) {
		give_up(h, 0);
		count_given_up(h);
	}
	if (h->pid || now_ms() < h->retry_ms)
		return;
	err = start_worker(h, &what);
	if (err)
		no_reader(h, what, -err);
}

/* What a file of our helper says, or nothing. */
static void helper_file(pid_t pid, const char *name, char *text, size_t size)
{
	char path[48];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

/*
 * 'R': it computes, or waits for a CPU; or we cannot see what it does, which is no tenant's fault.
 * 't': whoever debugs us (strace) holds it.
 */
static char state_of(pid_t pid)
{
	char text[64], *end;

	helper_file(pid, "stat", text, sizeof(text));
	end = strrchr(text, ')');
	return end && end[1] ? end[2] : 'R';
}

/* How often it has come to a CPU; 0: the kernel does not tell (sched-stats.rst). */
static unsigned long long turns_of(pid_t pid)
{
	unsigned long long turns = 0;
	char text[64];

	helper_file(pid, "schedstat", text, sizeof(text));
	return sscanf(text, "%*u %*u %llu", &turns) == 1 ? turns : 0;
}

/* ---- whose processes let it hang ------------------------------------------------------------ */

static uint64_t tenant_of(const struct reader_whose *whose)
{
	return whose->tgid ? tenant__of_process(whose->tgid) : whose->tenant;
}

static struct hangs *find_hangs(struct readers *rs, uint64_t tenant)
{
	for (unsigned int i = 0; i < rs->tenant_cnt; i++)
		if (tenant__payer(rs->hangs[i].tenant) == tenant__payer(tenant))
			return &rs->hangs[i];
	return NULL;
}

static unsigned int count_given_up_by(const struct helper *h, uint64_t payer)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < GIVEN_UP_MAX; i++)
		cnt += h->given_up[i] && h->given_up_by[i] == payer;
	return cnt;
}

/*
 * Also sets how long the question may wait. Nobody has more than his share of those that hang, be
 * it that he was not blamed, for there was no time to wait.
 */
static bool is_refused(struct readers *rs, struct helper *helper, const struct reader_whose *whose)
{
	unsigned int hanging;
	uint64_t tenant;
	struct hangs *h;
	bool refused;

	helper->hang_ms = helper->kind->hang_ms;
	if (ending__late())
		return true;
	if (!count_given_up(helper) && !__atomic_load_n(&rs->tenant_cnt, __ATOMIC_RELAXED))
		return false;
	tenant = tenant_of(whose);
	hanging = tenant ? count_given_up_by(helper, tenant__payer(tenant)) : 0;
	pthread_mutex_lock(&rs->lock);
	h = find_hangs(rs, tenant);
	/* Nobody has more than his share of those that hang, however long it lasts. */
	if (h && now_ms() - h->last_ms > READER_FORGIVEN_MS)
		h->cnt = hanging;
	refused = hanging >= HANGS_MAX || (h && h->cnt >= HANGS_MAX);
	if (h && now_ms() - h->last_ms < rs->shortened_ms && !tenant__is_roots(h->tenant))
		helper->hang_ms = SOON_HANG_MS;
	pthread_mutex_unlock(&rs->lock);
	return refused;
}

/* Makes room by forgetting the tenant that was blamed longest ago. */
static struct hangs *add_hangs(struct readers *rs, uint64_t tenant)
{
	struct hangs *h = rs->hangs;

	if (rs->tenant_cnt < TENANTS_MAX)
		h = &rs->hangs[rs->tenant_cnt++];
	for (unsigned int i = 0; rs->tenant_cnt == TENANTS_MAX && i < TENANTS_MAX; i++)
		h = rs->hangs[i].last_ms < h->last_ms ? &rs->hangs[i] : h;
	*h = (struct hangs){ .tenant = tenant };
	return h;
}

static const char *why_refused(const struct worker_kind *kind, int err)
{
	if (err != -ETIMEDOUT)
		return kind->files ? "its files ended the process that read them"
				   : "its memory ended the process that read it";
	return kind->files ? READER_FILES_HANG : "its memory does not answer when it is read";
}

/* "process 17 of user 65534: its memory does not answer when it is read" */
static void say_hang(uint32_t uid, uint32_t tgid, unsigned int processes, const char *why,
		     bool enough)
{
	char process[32] = "a process", user[32] = "", others[64] = "";

	if (uid != TENANT_USER_UNKNOWN)
		snprintf(user, sizeof(user), " of user %u", uid);
	if (tgid)
		snprintf(process, sizeof(process), "process %u", tgid);
	if (processes > 1)
		snprintf(others, sizeof(others), " (so do %u of its processes, in an hour)",
			 processes);
	log_warn("%s%s: %s%s%s", process, user, why, others,
		 enough ? ": its user's files and memory are not read any more" : "");
}

static void note_hang(struct readers *rs, const struct worker_kind *kind,
		      const struct reader_whose *whose, int err)
{
	uint64_t tenant = tenant_of(whose);
	uint32_t tgid = whose->tgid ? whose->tgid : tenant__is_roots(tenant) ? (uint32_t)tenant : 0;
	const char *why = why_refused(kind, err);
	unsigned int processes = 0;
	struct hangs *h;
	bool enough, say;

	pthread_mutex_lock(&rs->lock);
	h = find_hangs(rs, tenant);
	if (!h)
		h = add_hangs(rs, tenant);
	h->cnt++;
	h->tenant = tenant;
	h->last_ms = now_ms();
	h->tgid = tgid;
	h->why = why;
	enough = h->cnt >= HANGS_MAX;
	say = hangs__note(&rs->notes, tenant__user(tenant), tgid, enough, now_ns(), &processes);
	pthread_mutex_unlock(&rs->lock);
	if (say)
		say_hang(tenant__user(tenant), tgid, processes, why, enough);
}

size_t readers__hung(struct readers *rs, bool refused,
		     struct reader_refused out[READER_REFUSED_MAX])
{
	size_t cnt = 0;

	if (!rs)
		return 0;
	pthread_mutex_lock(&rs->lock);
	for (unsigned int i = 0; i < rs->tenant_cnt; i++) {
		const struct hangs *h = &rs->hangs[i];

		if (h->cnt < (refused ? HANGS_MAX : 1) ||
		    now_ms() - h->last_ms > READER_FORGIVEN_MS)
			continue;
		if (cnt++ < READER_REFUSED_MAX)
			out[cnt - 1] = (struct reader_refused){
				.uid = tenant__user(h->tenant),
				.tgid = h->tgid,
				.namespace_id = h->tenant >> 32,
				.why = h->why,
			};
	}
	pthread_mutex_unlock(&rs->lock);
	return cnt;
}

void reader_refused__print(const struct reader_refused *r, struct strbuf *out)
{
	if (r->uid == TENANT_USER_UNKNOWN)
		strbuf__addz(out, "a user of processes that have ended");
	else
		strbuf__addf(out, "user %u", r->uid);
	if (r->namespace_id > TENANT_NO_NAMESPACE)
		strbuf__addf(out, " (mount namespace %llu)", (unsigned long long)r->namespace_id);
	if (r->tgid)
		strbuf__addf(out, ": process %u", r->tgid);
	strbuf__addf(out, ": %s", r->why);
}

/* ---- what is due ---------------------------------------------------------------------------- */

/* What it has had a CPU, or waited for one; 0: the kernel does not tell. */
static uint64_t busy_ns(pid_t pid)
{
	unsigned long long cpu = 0, ready = 0;
	char text[64];

	helper_file(pid, "schedstat", text, sizeof(text));
	return sscanf(text, "%llu %llu", &cpu, &ready) == 2 ? cpu + ready : 0;
}

/* A question by which a tenant may hold up what is due. */
struct hold {
	const struct reader_whose *whose; /* NULL: it is no question, and never counts */
	pid_t pid;
	uint64_t from_ns, busy_ns; /* 0: nothing is due yet */
	uint64_t payer;		   /* 0: not known yet; or this machine's root's */
	bool roots;
};

static bool counts(struct readers *rs, struct hold *k)
{
	uint64_t now = now_ns();

	if (!k->from_ns && k->whose) {
		pthread_mutex_lock(&rs->lock);
		k->from_ns = due__has_begun(&rs->due, now) ? now : 0;
		pthread_mutex_unlock(&rs->lock);
		k->busy_ns = k->from_ns ? busy_ns(k->pid) : 0;
	}
	return k->from_ns && !k->roots;
}

/* How long the helper has waited for a tenant. */
static uint64_t waited_ns(struct hold *k)
{
	uint64_t took = now_ns() - k->from_ns, busy, tenant;

	if (took < CHARGED_NS)
		return 0;
	busy = busy_ns(k->pid);
	busy = busy > k->busy_ns ? busy - k->busy_ns : 0;
	took = took > busy ? took - busy : 0;
	if (took < CHARGED_NS)
		return 0;
	if (!k->payer && !k->roots) {
		tenant = tenant_of(k->whose);
		k->roots = tenant__is_roots(tenant);
		k->payer = tenant__payer(tenant);
	}
	return k->roots ? 0 : took;
}

/* While it computes, or waits for a CPU, nobody is to blame. */
static bool is_over(struct readers *rs, struct hold *k, char state)
{
	uint64_t waited;
	bool over;

	if (!counts(rs, k) || state == 'R' || state == 't')
		return false;
	waited = waited_ns(k);
	if (!waited)
		return false;
	pthread_mutex_lock(&rs->lock);
	over = waited >= due__left(&rs->due, k->payer);
	if (over)
		due__note_over(&rs->due, k->payer, now_ns());
	pthread_mutex_unlock(&rs->lock);
	return over;
}

static void charge(struct readers *rs, struct hold *k)
{
	uint64_t waited = counts(rs, k) ? waited_ns(k) : 0;

	if (!waited)
		return;
	pthread_mutex_lock(&rs->lock);
	due__charge(&rs->due, k->payer, waited);
	pthread_mutex_unlock(&rs->lock);
}

static int put_off(struct readers *rs)
{
	__atomic_fetch_add(&rs->put_off, 1, __ATOMIC_RELAXED);
	return -EBUSY;
}

/* Something is due, and who is asked about has taken his part of its time. */
static bool has_no_time(struct readers *rs, const struct reader_whose *whose)
{
	bool spent;

	pthread_mutex_lock(&rs->lock);
	spent = due__has_begun(&rs->due, now_ns()) && rs->due.spent_ns >= DUE_LEAST_MS * NS_PER_MS;
	pthread_mutex_unlock(&rs->lock);
	return spent && !readers__left(rs, tenant_of(whose));
}

/* ---- questions ------------------------------------------------------------------------------ */

/*
 * Something can be read, or the reader is gone; -ETIMEDOUT: it waits for somebody; -EBUSY: so it
 * does, and something is due; -ECANCELED: we have to end; else we cannot wait.
 */
static int wait_long(struct readers *rs, const struct helper *h, struct hold *k)
{
	const struct reader_whose *whose = k->whose;
	struct pollfd p = { .fd = h->fd, .events = POLLIN };
	uint64_t start_ms = now_ms(), last_ms = start_ms, stuck_ms = 0, now;
	uint64_t hang_ms = whose ? h->hang_ms : h->kind->hang_ms;
	bool asked = false, roots = false;
	unsigned long long turns = 0, last_turns = 0;
	char state;
	int ready;

	while ((ready = poll(&p, 1, counts(rs, k) ? LOOK_DUE_MS : LOOK_MS)) <= 0) {
		if (ending__late())
			return -ECANCELED;
		if (ready < 0 && errno != EINTR)
			return -errno;
		now = now_ms();
		state = state_of(h->pid);
		/* A machine that stood still, or had no CPU for us, had none for the reader. */
		stuck_ms += now - last_ms < 2 * LOOK_MS ? now - last_ms : 2 * LOOK_MS;
		if (state == 'R' || state == 't')
			stuck_ms = 0;
		if (stuck_ms >= hang_ms && !asked) {
			asked = true;
			roots = !whose || tenant__is_roots(tenant_of(whose));
			hang_ms *= roots ? PATIENCE_ROOT : 1;
			last_turns = roots ? turns_of(h->pid) : 0;
		}
		/* A slow disk gets on. A tenant's file would, too, to hold us up. */
		turns = roots ? turns_of(h->pid) : 0;
		stuck_ms = turns == last_turns ? stuck_ms : 0;
		last_turns = turns;
		if (stuck_ms >= hang_ms || now - start_ms >= PATIENCE_MS)
			return -ETIMEDOUT;
		if (is_over(rs, k, state))
			return -EBUSY;
		last_ms = now;
	}
	return 0;
}

/* The same. `whose` is NULL: it has not begun. */
static int wait_for_answer(struct readers *rs, const struct helper *h,
			   const struct reader_whose *whose)
{
	struct hold k = { .whose = whose, .pid = h->pid };
	int err = wait_long(rs, h, &k);

	charge(rs, &k);
	return err;
}

static int read_status(pid_t pid)
{
	int status = 0;

	for (int i = 0; i < LOOK_MS && !waitpid(pid, &status, WNOHANG); i++)
		poll(NULL, 0, 1);
	return status;
}

/* Nobody is to blame where it cannot begin. */
static bool is_ready(struct readers *rs, struct helper *h)
{
	int fds[READER_FDS_MAX], err;
	uint64_t number = 1;
	size_t cnt = 0;
	pid_t pid = h->pid;

	if (h->ready)
		return true;
	err = wait_for_answer(rs, h, NULL);
	if (err == -ECANCELED)
		return false;
	if (!err)
		err = exchange__receive(h->fd, &number, fds, &cnt, MSG_DONTWAIT);
	exchange__close(fds, cnt);
	h->ready = !err && number == worker__build();
	if (h->ready)
		return true;
	give_up(h, 0);
	if (err == -ETIMEDOUT) {
		h->failures = FAILURES_MAX; /* each costs time */
		no_reader(h, "it does not begin", ETIMEDOUT);
	} else if (!err) {
		h->failures = FAILURES_MAX;
		no_reader(h, "the program was replaced by another build", 0);
	} else {
		no_reader(h, "it cannot be executed", child__why_not(read_status(pid)));
	}
	return false;
}

static int ask(struct readers *rs, struct helper *h, const struct reader_whose *whose, int in,
	       int out[READER_FDS_MAX], size_t *out_cnt)
{
	uint64_t n = ++h->number, got = 0;
	int err = exchange__send(h->fd, n, &in, in >= 0);

	*out_cnt = 0;
	if (!err)
		err = wait_for_answer(rs, h, whose);
	if (!err)
		err = exchange__receive(h->fd, &got, out, out_cnt, MSG_DONTWAIT);
	if (!err && got == n)
		return 0;
	exchange__close(out, *out_cnt);
	*out_cnt = 0;
	return err ? err : -EPIPE;
}

/* The helper must not wait for a CPU, or a caller with real-time priority would wait, too. */
static void keep_pace(struct helper *h, bool realtime)
{
	const struct sched_param none = { 0 }, lowest = { sched_get_priority_min(SCHED_FIFO) };

	if (h->pid <= 0 || h->hurries == realtime)
		return;
	if (!sched_setscheduler(h->pid, realtime ? SCHED_FIFO : SCHED_OTHER,
				realtime ? &lowest : &none))
		h->hurries = realtime;
}

/*
 * Starts the helper if need be. The caller has the lock. 0, or as reader__call() -ETIMEDOUT,
 * -EBUSY or -ECHILD.
 */
static int begin(struct readers *rs, struct helper *h, const struct reader_whose *whose)
{
	start(h);
	if (is_refused(rs, h, whose))
		return -ETIMEDOUT;
	if (has_no_time(rs, whose))
		return put_off(rs);
	if (!h->pid || count_given_up(h) >= GIVEN_UP_MAX)
		return -ECHILD;
	if (__atomic_load_n(&rs->realtime, __ATOMIC_RELAXED))
		keep_pace(h, true);
	return is_ready(rs, h) ? 0 : ending__late() ? -ETIMEDOUT : -ECHILD;
}

/* Is it we, or the helper, who lack something, and not a tenant who let it hang or end? */
static bool is_our_fault(int err, pid_t pid)
{
	int status;

	if (err != -EPIPE)
		return err != -ETIMEDOUT;
	status = read_status(pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == WORKER_CUT_OFF;
}

/* The result, once the exchange has it; the caller has the lock. */
static int64_t put(struct readers *rs, struct helper *h, const struct reader_whose *whose, int in,
		   int out[READER_FDS_MAX], size_t *out_cnt)
{
	int64_t result;
	pid_t pid = h->pid;
	int err = ask(rs, h, whose, in, out, out_cnt);

	if (!err) {
		h->failures = 0;
		h->answered = true;
		h->has_warned = false;
		result = *(volatile int64_t *)&h->x.head->result;
		h->retires = *(volatile uint32_t *)&h->x.head->retires;
		if (result >= 0 && result <= INT32_MAX)
			return result;
		/* A failure has none, whatever came with it. */
		exchange__close(out, *out_cnt);
		*out_cnt = 0;
		/* That no helper can be had is ours to say: it would be asked again. */
		return result >= -4095 && result < 0 && result != -ECHILD ? result : -EBADMSG;
	}
	give_up(h, tenant__payer(tenant_of(whose)));
	if (err == -ECANCELED)
		return -ETIMEDOUT;
	if (err == -EBUSY)
		return put_off(rs);
	if (is_our_fault(err, pid)) {
		no_reader(h, "its socket", err == -EPIPE ? WORKER_CUT_OFF : -err);
		return -ECHILD;
	}
	note_hang(rs, h->kind, whose, err);
	if (err != -ETIMEDOUT && !h->answered)
		no_reader(h, "it ends", EPERM);
	return err;
}

/* Asks the helper; the caller has its lock. The result, as of put(). */
static int64_t try(struct readers *rs, struct helper *h, const struct reader_call *c)
{
	int64_t result = -ECHILD;

	for (int i = 0; i < TRIES && result == -ECHILD; i++) {
		result = begin(rs, h, &c->whose);
		if (result)
			continue;
		h->x.head->operation = worker__number(c->op);
		memcpy(h->x.question, c->question, c->size);
		result = put(rs, h, &c->whose, c->in, c->out, c->out_cnt);
	}
	return result;
}

static int call_locked(struct readers *rs, uint32_t tgid, const struct reader_operation *op,
		       const void *question, size_t size, void *answer, size_t answer_size)
{
	int fds[READER_FDS_MAX];
	size_t cnt = 0;
	const struct reader_call c = { .whose = { .tgid = tgid },
				       .op = op,
				       .question = question,
				       .size = size,
				       .in = -1,
				       .out = fds,
				       .out_cnt = &cnt };
	int64_t result = try(rs, &rs->memory, &c);

	if (result >= 0)
		memcpy(answer, rs->memory.x.answer, answer_size);
	exchange__close(fds, cnt);
	return (int)result;
}

int reader__call(struct readers *rs, uint32_t tgid, const struct reader_operation *op,
		 const void *question, size_t size, void *answer, size_t answer_size)
{
	int err;

	if (size > READER_MESSAGE_MAX || answer_size > READER_MESSAGE_MAX)
		return -E2BIG;
	if (!rs)
		return op->read(question, answer);
	pthread_mutex_lock(&rs->memory.lock);
	err = call_locked(rs, tgid, op, question, size, answer, answer_size);
	pthread_mutex_unlock(&rs->memory.lock);
	return err;
}

struct range {
	uint32_t tgid, size;
	uint64_t src;
};

static int read_range(const void *question, void *answer)
{
	const struct range *r = question;

	return read_process(r->tgid, answer, r->size, r->src);
}

READER_OPERATION(read_range);

const char *reader__why(int err)
{
	return err == -ECHILD  ? "the process that reads others cannot be had"
	       : err == -EBUSY ? "there was no time to read it yet"
			       : strerror(-err);
}

int reader__read(struct readers *rs, uint32_t tgid, void *dst, size_t size, uint64_t src)
{
	int err = 0;

	for (size_t done = 0, n; !err && done < size; done += n) {
		n = size - done < READER_MESSAGE_MAX ? size - done : READER_MESSAGE_MAX;
		err = reader__call(rs, tgid, &op_read_range,
				   &(struct range){ tgid, (uint32_t)n, src + done },
				   sizeof(struct range), (uint8_t *)dst + done, n);
	}
	return err;
}

/* ---- files ---------------------------------------------------------------------------------- */

static int take_answer(const struct reader_call *c, const uint8_t *answer, size_t size)
{
	if (c->text)
		strbuf__add(c->text, answer, size);
	else if (size > c->answer_size)
		return -EBADMSG;
	else
		memcpy(c->answer, answer, size);
	return c->text && c->text->err ? c->text->err : (int)size;
}

/* Does the call in this process, for who has no readers. */
static int do_it_here(const struct reader_call *c)
{
	struct reader_job job = { .in = c->in };
	struct exchange x;
	int result = exchange__alone(&worker_of_files, &x);

	if (result)
		return result;
	memcpy(x.question, c->question, c->size);
	worker__run_job(c->op, &x, &job);
	result = (int)x.head->result;
	if (result >= 0)
		result = take_answer(c, job.answer, (size_t)result);
	exchange__unmap(&x);
	if (result < 0) {
		exchange__close(job.out, job.out_cnt);
		return result;
	}
	*c->out_cnt = job.out_cnt;
	memcpy(c->out, job.out, job.out_cnt * sizeof(int));
	return result;
}

static int files_locked(struct readers *rs, const struct reader_call *c)
{
	struct helper *h = &rs->files;
	int64_t result = try(rs, h, c);
	int err;

	err = result < 0			  ? (int)result
	      : result > (int64_t)h->x.answer_max ? -EBADMSG
						  : take_answer(c, h->x.answer, (size_t)result);
	if (result > KEPT_ANSWER)
		madvise((uint8_t *)h->x.head + KEPT_ANSWER, h->x.size - KEPT_ANSWER, MADV_REMOVE);
	if (err < 0) { /* a failure may have come with descriptors */
		exchange__close(c->out, *c->out_cnt);
		*c->out_cnt = 0;
	}
	return err;
}

int reader__files(struct readers *rs, const struct reader_call *call)
{
	struct reader_call c = *call;
	int none[READER_FDS_MAX], err;
	size_t cnt = 0;

	if (c.size > worker_of_files.question_max)
		return -E2BIG;
	c.out_cnt = c.out ? c.out_cnt : &cnt;
	c.out = c.out ? c.out : none;
	*c.out_cnt = 0;
	if (!rs)
		return do_it_here(&c);
	pthread_mutex_lock(&rs->files.lock);
	err = files_locked(rs, &c);
	pthread_mutex_unlock(&rs->files.lock);
	exchange__close(none, cnt);
	return err;
}

bool reader__has_opener(struct readers *rs)
{
	return rs;
}

/* ---- both ----------------------------------------------------------------------------------- */

static void init(struct helper *h, const struct worker_kind *kind)
{
	h->kind = kind;
	h->fd = -1;
	pthread_mutex_init(&h->lock, NULL);
}

struct readers *readers__new(void)
{
	struct readers *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return NULL;
	pthread_mutex_init(&rs->lock, NULL);
	init(&rs->memory, &worker_of_memory);
	init(&rs->files, &worker_of_files);
	return rs;
}

void readers__start(struct readers *rs)
{
	struct helper *const all[] = { &rs->memory, &rs->files };

	for (size_t i = 0; rs && i < 2; i++) {
		pthread_mutex_lock(&all[i]->lock);
		start(all[i]);
		pthread_mutex_unlock(&all[i]->lock);
	}
}

void readers__shorten(struct readers *rs, uint32_t ms)
{
	if (rs)
		rs->shortened_ms = ms;
}

void readers__due(struct readers *rs, uint64_t at_ns)
{
	if (!rs)
		return;
	pthread_mutex_lock(&rs->lock);
	due__set(&rs->due, at_ns);
	pthread_mutex_unlock(&rs->lock);
}

uint64_t readers__left(struct readers *rs, uint64_t tenant)
{
	uint64_t left = UINT64_MAX;

	if (!rs || tenant__is_roots(tenant))
		return left;
	pthread_mutex_lock(&rs->lock);
	if (due__has_begun(&rs->due, now_ns()))
		left = due__left(&rs->due, tenant__payer(tenant));
	pthread_mutex_unlock(&rs->lock);
	return left;
}

void readers__spent(struct readers *rs, uint64_t tenant, uint64_t ns)
{
	if (!rs || tenant__is_roots(tenant))
		return;
	pthread_mutex_lock(&rs->lock);
	if (due__has_begun(&rs->due, now_ns()))
		due__charge(&rs->due, tenant__payer(tenant), ns);
	pthread_mutex_unlock(&rs->lock);
}

bool readers__are_late(struct readers *rs)
{
	uint64_t now = now_ns();
	bool late;

	if (!rs)
		return false;
	pthread_mutex_lock(&rs->lock);
	late = due__has_begun(&rs->due, now) && now - rs->due.at_ns > LATE_NS;
	pthread_mutex_unlock(&rs->lock);
	return late;
}

uint64_t readers__put_off(const struct readers *rs)
{
	return rs ? __atomic_load_n(&rs->put_off, __ATOMIC_RELAXED) : 0;
}

void readers__hurry(struct readers *rs, bool realtime)
{
	if (!rs)
		return;
	__atomic_store_n(&rs->realtime, realtime, __ATOMIC_RELAXED);
	if (realtime) /* when they are asked */
		return;
	keep_pace(&rs->memory, false);
	keep_pace(&rs->files, false);
}

int readers__renice(struct readers *rs, int nice)
{
	struct helper *const all[] = { &rs->memory, &rs->files };
	int err = 0;

	for (size_t i = 0; rs && i < 2; i++) {
		int failed = all[i]->pid > 0 ? resources__set_nice(all[i]->pid, nice) : 0;

		err = failed ? failed : err;
	}
	return err;
}

static void end(struct helper *h)
{
	if (h->failures && !h->answered && !ending__late()) /* too short a run for all attempts */
		say_failure(h, "");
	if (h->pid > 0)
		give_up(h, 0);
	/* It has nothing to do as a rule, and is gone at once; one that hangs is init's. */
	for (int i = 0; count_given_up(h) && i < 20; i++)
		poll(NULL, 0, 1);
	pthread_mutex_destroy(&h->lock);
}

void readers__free(struct readers *rs)
{
	if (!rs)
		return;
	end(&rs->memory);
	end(&rs->files);
	pthread_mutex_destroy(&rs->lock);
	free(rs);
}
