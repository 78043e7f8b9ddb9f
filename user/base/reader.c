/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/ending.h"
#include "base/hangs.h"
#include "base/log.h"
#include "base/readmem.h"
#include "base/resources.h"
#include "base/rights.h"
#include "base/tenant.h"

#define LOOK_MS		  20
#define PATIENCE_MS	  10000 /* even if it is only a machine that is too busy */
#define PATIENCE_ROOT	  4	/* times as long for this machine's root: a slow disk, no tenant */
#define GIVEN_UP_MAX	  32 /* readers that hang now: each keeps what this process had in memory */
#define FORGIVEN_MS	  600000 /* after so long without a hang */
#define HANGS_MAX	  2	 /* of one tenant; then its processes are not read any more */
#define TENANTS_MAX	  64
#define FAILURES_MAX	  8	/* in a row, before any answer: it may not live here */
#define RETRY_MS	  10000 /* after so many */

#define FILE_QUESTION_MAX (256U << 10)
#define KEPT_ANSWER	  (1U << 20) /* of the memory of a longer answer */
#define NOBODY		  65534

#if defined(__x86_64__)
#define AUDIT_ARCH_OURS AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define AUDIT_ARCH_OURS AUDIT_ARCH_AARCH64
#endif

/* In memory that both share: this, then the question, then the answer. */
struct exchange {
	reader_fn read;	    /* of memory */
	reader_job_fn open; /* of files */
	int64_t result;
};

struct kind {
	const char *name, *what; /* of the process; in messages */
	size_t question_max, answer_max;
	unsigned int hang_ms; /* without a CPU's time: then the reader waits for a tenant */
	bool files;
};

struct helper {
	const struct kind *kind;
	pthread_mutex_t lock;
	pid_t pid; /* 0: none */
	int fd;
	struct exchange *x;
	uint64_t number;		    /* of the question */
	pid_t given_up[GIVEN_UP_MAX];	    /* 0: free */
	uint64_t given_up_by[GIVEN_UP_MAX]; /* payers */
	unsigned int failures;		    /* in a row */
	uint64_t retry_ms;		    /* it cannot be had until then */
	bool answered;			    /* once */
	bool hurries;			    /* runs before all programs of normal priority */
	bool has_warned;		    /* that it cannot be had; until it answers */
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
	pthread_mutex_t lock; /* of what follows */
	struct hangs hangs[TENANTS_MAX];
	struct hang_notes notes; /* what was logged of them */
	unsigned int tenant_cnt;
};

#define HEAD 64 /* of the memory that both share */

static const struct kind of_memory = { .name = "pyperf-reader",
				       .what = "memory",
				       .question_max = READER_MESSAGE_MAX,
				       .answer_max = READER_MESSAGE_MAX,
				       .hang_ms = 250 };
/* A disk may be slower than that, too. */
static const struct kind of_files = { .name = "pyperf-opener",
				      .what = "files",
				      .question_max = FILE_QUESTION_MAX,
				      .answer_max = READER_ANSWER_MAX,
				      .hang_ms = 500,
				      .files = true };

static uint8_t *question_of(struct exchange *x)
{
	return (uint8_t *)x + HEAD;
}

static uint8_t *answer_of(const struct kind *kind, struct exchange *x)
{
	return (uint8_t *)x + HEAD + kind->question_max;
}

static size_t exchange_size(const struct kind *kind)
{
	return HEAD + kind->question_max + kind->answer_max;
}

/* ---- messages: the number of the question, and descriptors --------------------------------- */

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(int) * READER_FDS_MAX)];
};

static int send_number(int fd, uint64_t n, const int *fds, size_t fd_cnt)
{
	struct iovec part = { &n, sizeof(n) };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
	union control c = { 0 };

	if (fd_cnt) {
		msg.msg_control = &c;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_cnt);
		c.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int) * fd_cnt),
					    .cmsg_level = SOL_SOCKET,
					    .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&c.align), fds, sizeof(int) * fd_cnt);
	}
	return sendmsg(fd, &msg, MSG_NOSIGNAL) == sizeof(n) ? 0 : -EPIPE;
}

/* The descriptors of a message are the caller's, whatever else is wrong with it. */
static size_t take_fds(struct msghdr *msg, int fds[READER_FDS_MAX])
{
	size_t cnt = 0, n;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		n = n < READER_FDS_MAX - cnt ? n : READER_FDS_MAX - cnt;
		memcpy(fds + cnt, CMSG_DATA(c), n * sizeof(int));
		cnt += n;
	}
	return cnt;
}

static int receive_number(int fd, uint64_t *n, int fds[READER_FDS_MAX], size_t *fd_cnt, int flags)
{
	struct iovec part = { n, sizeof(*n) };
	union control c = { 0 };
	struct msghdr msg = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
	};
	ssize_t got = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | flags);

	*fd_cnt = got >= 0 ? take_fds(&msg, fds) : 0;
	return got == sizeof(*n) && !(msg.msg_flags & MSG_CTRUNC) ? 0 : -EPIPE;
}

static void close_fds(const int *fds, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		close(fds[i]);
}

/* ---- the other process ---------------------------------------------------------------------- */

/* Keeps of the capabilities we have those in a mask; by number, 64 of them. */
static int keep_caps(uint64_t mask)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_capget, &head, caps))
		return -errno;
	for (int i = 0; i < 2; i++) {
		caps[i].permitted &= (uint32_t)(mask >> (32 * i));
		caps[i].effective = caps[i].permitted;
		caps[i].inheritable = 0;
	}
	return syscall(SYS_capset, &head, caps) ? -errno : 0;
}

#define CAP_BIT(cap) (1ULL << (cap))

static bool is_permitted(int cap)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	return !syscall(SYS_capget, &head, caps) && caps[cap / 32].permitted & (1U << (cap % 32));
}

/*
 * Capabilities to find a file, to read it as its user, and to read /proc/PID/map_files: for that
 * the one that permits less, if we have it.
 */
static uint64_t caps_of_files(void)
{
	int map_files = is_permitted(RIGHT_CHECKPOINT) ? RIGHT_CHECKPOINT : CAP_SYS_ADMIN;

	return CAP_BIT(CAP_SYS_PTRACE) | CAP_BIT(CAP_DAC_READ_SEARCH) | CAP_BIT(CAP_SETUID) |
	       CAP_BIT(CAP_SETGID) | CAP_BIT(map_files);
}

/*
 * What root may write, nobody may not: a second wall behind the filter of system calls. Without
 * CAP_DAC_READ_SEARCH we would lose what root owns.
 */
static void own_nothing(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	if (!syscall(SYS_capget, &head, caps) &&
	    caps[0].permitted & (uint32_t)CAP_BIT(CAP_DAC_READ_SEARCH) &&
	    caps[0].permitted & (uint32_t)CAP_BIT(CAP_SETUID))
		setfsuid(NOBODY);
}

static int drop_rights(const struct kind *kind)
{
	uint64_t caps = kind->files ? caps_of_files() : CAP_BIT(CAP_SYS_PTRACE);

	resources__limit(RLIMIT_CORE, 0);
	resources__limit(RLIMIT_FSIZE, 0);
	resources__limit(RLIMIT_NPROC, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	if (kind->files)
		own_nothing();
	return keep_caps(caps); /* behind setfsuid(), which takes some of the effective ones */
}

#define NR	  offsetof(struct seccomp_data, nr)
#define ARG(i)	  (offsetof(struct seccomp_data, args) + 8 * (i)) /* its lower half */
#define LOAD(at)  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
#define RETURN(k) BPF_STMT(BPF_RET | BPF_K, k)
#define REFUSE	  RETURN(SECCOMP_RET_ERRNO | EPERM)

#define ALLOW(name)                                                                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1), RETURN(SECCOMP_RET_ALLOW)
/* `test` compares one argument with `k`; allowed if it jumps by `yes` to 0. */
#define ALLOW_IF(name, i, test, k, yes, no)                                                        \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 4), LOAD(ARG(i)),                      \
		BPF_JUMP(BPF_JMP | (test) | BPF_K, k, yes, no), RETURN(SECCOMP_RET_ALLOW), REFUSE
#define ALLOW_WITH(name, i, value)     ALLOW_IF(name, i, BPF_JEQ, value, 0, 1)
#define ALLOW_NOT_WITH(name, i, value) ALLOW_IF(name, i, BPF_JEQ, value, 1, 0)
#define ALLOW_WITHOUT(name, i, bits)   ALLOW_IF(name, i, BPF_JSET, bits, 1, 0)

#define BEGIN                                                                                      \
	LOAD(offsetof(struct seccomp_data, arch)),                                                 \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_OURS, 1, 0),                        \
		RETURN(SECCOMP_RET_KILL_PROCESS), LOAD(NR)
#define TO_LIVE                                                                                    \
	ALLOW(recvmsg), ALLOW(sendmsg), ALLOW(futex), ALLOW(brk), ALLOW(mmap), ALLOW(mremap),      \
		ALLOW(munmap), ALLOW(mprotect), ALLOW(madvise), ALLOW(clock_gettime),              \
		ALLOW(getpid), ALLOW(gettid), ALLOW(rt_sigreturn), ALLOW(sigaltstack),             \
		ALLOW(restart_syscall), ALLOW(exit), ALLOW(exit_group)

/* include/uapi/linux/fs.h of Linux 6.11: PROCMAP_QUERY. */
#define QUERY_MAPS _IOC(_IOC_READ | _IOC_WRITE, 'f', 17, 104)

/*
 * All other system calls fail with EPERM. openat2() among them: the filter does not see its flags,
 * and with O_CREAT it makes files.
 */
static int allow_calls(const struct kind *kind)
{
	static const struct sock_filter memory[] = {
		BEGIN, TO_LIVE, ALLOW(process_vm_readv), ALLOW(read), ALLOW(write), REFUSE,
	};
	static const struct sock_filter files[] = {
		BEGIN,
		TO_LIVE,
		ALLOW_WITHOUT(openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC),
		ALLOW(read),
		ALLOW(pread64),
		ALLOW(close),
		ALLOW(statx),
		ALLOW(fstat),
		ALLOW(newfstatat),
		ALLOW(fstatfs),
		ALLOW(readlinkat),
		ALLOW(lseek),
		ALLOW_WITH(ioctl, 1, QUERY_MAPS),
		ALLOW(capget),
		ALLOW(capset),
		ALLOW(getgroups),
		ALLOW(setgroups),
		ALLOW(setfsgid),
		ALLOW_NOT_WITH(setfsuid, 0, 0),
		ALLOW(geteuid),
		REFUSE,
	};
	const struct sock_fprog program = {
		kind->files ? sizeof(files) / sizeof(files[0]) : sizeof(memory) / sizeof(memory[0]),
		(struct sock_filter *)(kind->files ? files : memory),
	};

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

static void answer_memory(struct exchange *x)
{
	x->result = x->read(question_of(x), answer_of(&of_memory, x));
}

static void run_job(struct exchange *x, struct reader_job *job)
{
	int result;

	job->question = question_of(x);
	job->answer = answer_of(&of_files, x);
	result = x->open(job);
	if (result < 0) {
		close_fds(job->out, job->out_cnt);
		job->out_cnt = 0;
	}
	x->result = result;
}

static void serve(const struct kind *kind, struct exchange *x)
{
	struct reader_job job;
	int in[READER_FDS_MAX];
	size_t in_cnt;
	uint64_t n;

	while (!receive_number(CHILD_IN, &n, in, &in_cnt, 0)) {
		job = (struct reader_job){ .in = in_cnt ? in[0] : -1 };
		if (kind->files)
			run_job(x, &job);
		else
			answer_memory(x);
		if (send_number(CHILD_OUT, n, job.out, job.out_cnt))
			break;
		close_fds(job.out, job.out_cnt);
		close_fds(in, in_cnt);
	}
}

/*
 * A helper that hangs must not keep our standard files: a program that reads our output, or waits
 * for our files to be closed, would wait for it.
 */
static void give_back_standard_files(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > CHILD_OUT)
		close(null);
}

static void become_reader(const struct kind *kind, struct exchange *x)
{
	static const int of_the_group[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGXFSZ };

	prctl(PR_SET_NAME, kind->name);
	/* Ctrl-C is for all of the terminal's; the last window is read after it. */
	for (size_t i = 0; i < sizeof(of_the_group) / sizeof(of_the_group[0]); i++)
		signal(of_the_group[i], SIG_IGN);
	give_back_standard_files();
	if (!drop_rights(kind) && !allow_calls(kind))
		serve(kind, x);
	_exit(0);
}

/* ---- its life ------------------------------------------------------------------------------- */

/* Nobody else may read in its place: what it reads may hold up whoever does. */
static void no_reader(struct helper *h, const char *what, int err)
{
	if (++h->failures < FAILURES_MAX)
		return;
	h->failures = 0;
	h->retry_ms = now_ms() + RETRY_MS;
	if (!h->has_warned)
		log_warn("%s of others cannot be read: the process that does it cannot be had: "
			 "%s: %s; trying again every %d s",
			 h->kind->what, what, strerror(err), RETRY_MS / 1000);
	h->has_warned = true;
}

static void forget_helper(struct helper *h)
{
	close(h->fd);
	munmap(h->x, exchange_size(h->kind));
	h->pid = 0;
	h->fd = -1;
	h->x = NULL;
	h->hurries = false;
}

static void start(struct helper *h)
{
	struct exchange *x;
	int ends[2];

	if (h->pid || now_ms() < h->retry_ms)
		return;
	x = mmap(NULL, exchange_size(h->kind), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (x == MAP_FAILED) {
		no_reader(h, "mmap", errno);
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		munmap(x, exchange_size(h->kind));
		no_reader(h, "socketpair", errno);
		return;
	}
	h->pid = child__fork(ends[1], ends[1]);
	if (!h->pid)
		become_reader(h->kind, x);
	close(ends[1]);
	h->fd = ends[0];
	h->x = x;
	if (h->pid < 0) {
		no_reader(h, "fork", -h->pid);
		forget_helper(h);
	}
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

/* 'R': it computes, or waits for a CPU. 't': whoever debugs us (strace) holds it. */
static char state_of(pid_t pid)
{
	char path[32], text[64] = "", *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	end = n > 0 ? strrchr(text, ')') : NULL;
	return end && end[1] ? end[2] : 'X';
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

static bool is_refused(struct readers *rs, struct helper *helper, const struct reader_whose *whose)
{
	struct hangs *h;
	bool refused;

	if (ending__late())
		return true;
	if (!__atomic_load_n(&rs->tenant_cnt, __ATOMIC_RELAXED))
		return false;
	if (count_given_up(helper) >= GIVEN_UP_MAX)
		return true;
	pthread_mutex_lock(&rs->lock);
	h = find_hangs(rs, tenant_of(whose));
	/* Nobody has more than his share of those that hang, however long it lasts. */
	if (h && now_ms() - h->last_ms > FORGIVEN_MS)
		h->cnt = count_given_up_by(helper, tenant__payer(h->tenant));
	refused = h && h->cnt >= HANGS_MAX;
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

static const char *why_refused(const struct kind *kind, int err)
{
	if (err != -ETIMEDOUT)
		return kind->files ? "its files ended the process that read them"
				   : "its memory ended the process that read it";
	return kind->files ? "its files do not answer when they are opened or read"
			   : "its memory does not answer when it is read";
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

static void note_hang(struct readers *rs, const struct kind *kind, const struct reader_whose *whose,
		      int err)
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

		if (h->cnt < (refused ? HANGS_MAX : 1) || now_ms() - h->last_ms > FORGIVEN_MS)
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

/* ---- questions ------------------------------------------------------------------------------ */

/*
 * Something can be read, or the reader is gone; -ETIMEDOUT: it waits for somebody;
 * -ECANCELED: we have to end.
 */
static int wait_for_answer(const struct helper *h, const struct reader_whose *whose)
{
	struct pollfd p = { .fd = h->fd, .events = POLLIN };
	uint64_t start_ms = now_ms(), last_ms = start_ms, stuck_ms = 0, now;
	uint64_t hang_ms = h->kind->hang_ms;
	bool asked = false;
	char state;

	while (poll(&p, 1, LOOK_MS) <= 0) {
		if (ending__late())
			return -ECANCELED;
		now = now_ms();
		state = state_of(h->pid);
		/* A machine that stood still, or had no CPU for us, had none for the reader. */
		stuck_ms += now - last_ms < 2 * LOOK_MS ? now - last_ms : 2 * LOOK_MS;
		if (state == 'R' || state == 't')
			stuck_ms = 0;
		if (stuck_ms >= hang_ms && !asked) {
			asked = true;
			hang_ms *= tenant__is_roots(tenant_of(whose)) ? PATIENCE_ROOT : 1;
		}
		if (stuck_ms >= hang_ms || now - start_ms >= PATIENCE_MS)
			return -ETIMEDOUT;
		last_ms = now;
	}
	return 0;
}

static int ask(struct helper *h, const struct reader_whose *whose, int in, int out[READER_FDS_MAX],
	       size_t *out_cnt)
{
	uint64_t n = ++h->number, got = 0;
	int err = send_number(h->fd, n, &in, in >= 0);

	*out_cnt = 0;
	if (!err)
		err = wait_for_answer(h, whose);
	if (!err)
		err = receive_number(h->fd, &got, out, out_cnt, MSG_DONTWAIT);
	if (!err && got == n)
		return 0;
	close_fds(out, *out_cnt);
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

/* The result, once the exchange has it; the caller has the lock. */
static int64_t put(struct readers *rs, struct helper *h, const struct reader_whose *whose, int in,
		   int out[READER_FDS_MAX], size_t *out_cnt)
{
	int64_t result;
	int err;

	if (__atomic_load_n(&rs->realtime, __ATOMIC_RELAXED))
		keep_pace(h, true);
	err = ask(h, whose, in, out, out_cnt);

	if (!err) {
		h->failures = 0;
		h->answered = true;
		h->has_warned = false;
		result = *(volatile int64_t *)&h->x->result;
		if (result >= -4095 && result <= INT32_MAX)
			return result;
		close_fds(out, *out_cnt);
		*out_cnt = 0;
		return -EBADMSG;
	}
	give_up(h, tenant__payer(tenant_of(whose)));
	if (err == -ECANCELED)
		return -ETIMEDOUT;
	note_hang(rs, h->kind, whose, err);
	if (err != -ETIMEDOUT && !h->answered)
		no_reader(h, "it ends", EPERM);
	return err;
}

static int call_locked(struct readers *rs, uint32_t tgid, reader_fn fn, const void *question,
		       size_t size, void *answer, size_t answer_size)
{
	const struct reader_whose whose = { .tgid = tgid };
	struct helper *h = &rs->memory;
	int fds[READER_FDS_MAX];
	int64_t result;
	size_t cnt;

	start(h);
	if (!h->pid || is_refused(rs, h, &whose))
		return -ETIMEDOUT;
	h->x->read = fn;
	memcpy(question_of(h->x), question, size);
	result = put(rs, h, &whose, -1, fds, &cnt);
	if (result >= 0)
		memcpy(answer, answer_of(&of_memory, h->x), answer_size);
	close_fds(fds, cnt);
	return (int)result;
}

int reader__call(struct readers *rs, uint32_t tgid, reader_fn fn, const void *question, size_t size,
		 void *answer, size_t answer_size)
{
	int err;

	if (size > READER_MESSAGE_MAX || answer_size > READER_MESSAGE_MAX)
		return -E2BIG;
	if (!rs)
		return fn(question, answer);
	pthread_mutex_lock(&rs->memory.lock);
	err = call_locked(rs, tgid, fn, question, size, answer, answer_size);
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

int reader__read(struct readers *rs, uint32_t tgid, void *dst, size_t size, uint64_t src)
{
	int err = 0;

	for (size_t done = 0, n; !err && done < size; done += n) {
		n = size - done < READER_MESSAGE_MAX ? size - done : READER_MESSAGE_MAX;
		err = reader__call(rs, tgid, read_range,
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
	struct exchange *x = mmap(NULL, exchange_size(&of_files), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct reader_job job = { .in = c->in };
	int result;

	if (x == MAP_FAILED)
		return -errno;
	memcpy(question_of(x), c->question, c->size);
	x->open = c->fn;
	run_job(x, &job);
	result = (int)x->result;
	if (result >= 0)
		result = take_answer(c, job.answer, (size_t)result);
	munmap(x, exchange_size(&of_files));
	if (result < 0) {
		close_fds(job.out, job.out_cnt);
		return result;
	}
	*c->out_cnt = job.out_cnt;
	memcpy(c->out, job.out, job.out_cnt * sizeof(int));
	return result;
}

static int files_locked(struct readers *rs, const struct reader_call *c)
{
	struct helper *h = &rs->files;
	int64_t result;
	int err;

	start(h);
	if (!h->pid || is_refused(rs, h, &c->whose))
		return -ETIMEDOUT;
	h->x->open = c->fn;
	memcpy(question_of(h->x), c->question, c->size);
	result = put(rs, h, &c->whose, c->in, c->out, c->out_cnt);
	if (result < 0)
		return (int)result;
	err = result > READER_ANSWER_MAX ? -EBADMSG
					 : take_answer(c, answer_of(h->kind, h->x), (size_t)result);
	if (result > KEPT_ANSWER)
		madvise((uint8_t *)h->x + KEPT_ANSWER, exchange_size(h->kind) - KEPT_ANSWER,
			MADV_REMOVE);
	if (err < 0) {
		close_fds(c->out, *c->out_cnt);
		*c->out_cnt = 0;
	}
	return err;
}

int reader__files(struct readers *rs, const struct reader_call *call)
{
	struct reader_call c = *call;
	int none[READER_FDS_MAX], err;
	size_t cnt = 0;

	if (c.size > FILE_QUESTION_MAX)
		return -E2BIG;
	c.out_cnt = c.out ? c.out_cnt : &cnt;
	c.out = c.out ? c.out : none;
	*c.out_cnt = 0;
	if (!rs)
		return do_it_here(&c);
	pthread_mutex_lock(&rs->files.lock);
	err = files_locked(rs, &c);
	pthread_mutex_unlock(&rs->files.lock);
	close_fds(none, cnt);
	return err;
}

bool reader__has_opener(struct readers *rs)
{
	return rs;
}

/* ---- both ----------------------------------------------------------------------------------- */

static void init(struct helper *h, const struct kind *kind)
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
	init(&rs->memory, &of_memory);
	init(&rs->files, &of_files);
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
