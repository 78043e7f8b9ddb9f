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
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/readmem.h"

#define HANG_MS	     250 /* without a CPU's time: then the reader waits for a tenant */
#define LOOK_MS	     20
#define PATIENCE_MS  10000  /* even if it is only a machine that is too busy */
#define GIVEN_UP_MAX 8	    /* readers that hang now: each keeps what this process had in memory */
#define FORGIVEN_MS  600000 /* after so long without a hang */
#define HANGS_MAX    2	    /* of one tenant; then its processes are not read any more */
#define TENANTS_MAX  64
#define ENDS_MAX     8 /* without an answer: it may not live here */

#if defined(__x86_64__)
#define AUDIT_ARCH_OURS AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define AUDIT_ARCH_OURS AUDIT_ARCH_AARCH64
#endif

/* In memory that both share. */
struct exchange {
	reader_fn fn;
	int64_t result;
	_Alignas(16) uint8_t question[READER_MESSAGE_MAX];
	_Alignas(16) uint8_t answer[READER_MESSAGE_MAX];
};

struct hangs {
	uint64_t tenant;
	uint64_t last_ms;
	unsigned int cnt;
};

/* One for the whole program: what hangs, hangs for all who ask. */
static struct {
	pthread_mutex_t lock;
	pid_t pid; /* 0: none; our own: it cannot be had, we read ourselves */
	int fd;
	struct exchange *x;
	pid_t given_up[GIVEN_UP_MAX]; /* 0: free */
	unsigned int ended;
	struct hangs hangs[TENANTS_MAX];
	unsigned int tenant_cnt;
	bool warned;
} reader = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

/* ---- the other process ---------------------------------------------------------------------- */

static void set_limit(int what, rlim_t value)
{
	const struct rlimit limit = { value, value };

	setrlimit(what, &limit);
}

/*
 * It can read memory of others, and what it needs for that; files and the network it cannot reach.
 */
static int drop_rights(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	set_limit(RLIMIT_CORE, 0);
	set_limit(RLIMIT_FSIZE, 0);
	set_limit(RLIMIT_NPROC, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capget, &head, caps))
		return -errno;
	caps[0].effective &= 1U << CAP_SYS_PTRACE;
	caps[0].permitted &= 1U << CAP_SYS_PTRACE;
	caps[0].inheritable = 0;
	caps[1] = (struct __user_cap_data_struct){ 0 };
	return syscall(SYS_capset, &head, caps) ? -errno : 0;
}

#define ALLOW(name)                                                                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1),                                    \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* All other system calls fail with EPERM. */
static int allow_calls(void)
{
	static const struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_OURS, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(process_vm_readv),
		ALLOW(read),
		ALLOW(write),
		ALLOW(futex),
		ALLOW(brk),
		ALLOW(mmap),
		ALLOW(mremap),
		ALLOW(munmap),
		ALLOW(mprotect),
		ALLOW(madvise),
		ALLOW(clock_gettime),
		ALLOW(getpid),
		ALLOW(gettid),
		ALLOW(rt_sigreturn),
		ALLOW(sigaltstack),
		ALLOW(restart_syscall),
		ALLOW(exit),
		ALLOW(exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]),
					    (struct sock_filter *)filter };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

static void serve(struct exchange *x)
{
	uint64_t n;

	while (read(CHILD_IN, &n, sizeof(n)) == sizeof(n)) {
		x->result = x->fn(x->question, x->answer);
		if (write(CHILD_OUT, &n, sizeof(n)) != sizeof(n))
			break;
	}
}

static void become_reader(struct exchange *x)
{
	static const int of_the_group[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGXFSZ };

	prctl(PR_SET_NAME, "pyperf-reader");
	/* Ctrl-C is for all of the terminal's; the last window is read after it. */
	for (size_t i = 0; i < sizeof(of_the_group) / sizeof(of_the_group[0]); i++)
		signal(of_the_group[i], SIG_IGN);
	reader.pid = getpid(); /* it reads itself */
	if (!drop_rights() && !allow_calls())
		serve(x);
	_exit(0);
}

/* ---- its life ------------------------------------------------------------------------------- */

static void no_reader(const char *what, int err)
{
	if (!reader.warned)
		log_debug("memory of others is read without a process of its own: %s: %s", what,
			  strerror(err));
	reader.warned = true;
	reader.pid = getpid();
}

static void start(void)
{
	struct exchange *x;
	int ends[2];

	if (reader.pid)
		return;
	x = mmap(NULL, sizeof(*x), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (x == MAP_FAILED) {
		no_reader("mmap", errno);
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		munmap(x, sizeof(*x));
		no_reader("socketpair", errno);
		return;
	}
	reader.pid = child__fork(ends[1], ends[1]);
	if (!reader.pid)
		become_reader(x);
	close(ends[1]);
	reader.fd = ends[0];
	reader.x = x;
	if (reader.pid < 0) {
		close(ends[0]);
		munmap(x, sizeof(*x));
		reader.fd = -1;
		reader.x = NULL;
		no_reader("fork", -reader.pid);
	}
}

/* Those that have ended after all are forgotten. The number that still hang. */
static unsigned int count_given_up(void)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < GIVEN_UP_MAX; i++) {
		if (reader.given_up[i] && waitpid(reader.given_up[i], NULL, WNOHANG))
			reader.given_up[i] = 0;
		cnt += reader.given_up[i] != 0;
	}
	return cnt;
}

/* It ends as soon as it can, perhaps never: nobody waits for it. */
static void give_up(void)
{
	unsigned int i = 0;

	kill(reader.pid, SIGKILL);
	while (i + 1 < GIVEN_UP_MAX && reader.given_up[i])
		i++;
	reader.given_up[i] = reader.pid;
	close(reader.fd);
	munmap(reader.x, sizeof(*reader.x));
	reader.pid = 0;
	reader.fd = -1;
	reader.x = NULL;
}

/* 'R': it computes, or waits for a CPU. */
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

/* Something can be read, or the reader is gone; -ETIMEDOUT: it waits for somebody. */
static int wait_for_answer(void)
{
	struct pollfd p = { .fd = reader.fd, .events = POLLIN };
	uint64_t start_ms = now_ms(), stuck_ms = start_ms, now;

	while (poll(&p, 1, LOOK_MS) <= 0) {
		now = now_ms();
		if (state_of(reader.pid) == 'R')
			stuck_ms = now;
		if (now - stuck_ms >= HANG_MS || now - start_ms >= PATIENCE_MS)
			return -ETIMEDOUT;
	}
	return 0;
}

static int ask(uint64_t n)
{
	uint64_t got = 0;
	int err;

	if (send(reader.fd, &n, sizeof(n), MSG_NOSIGNAL) != sizeof(n))
		return -EPIPE;
	err = wait_for_answer();
	if (err)
		return err;
	return recv(reader.fd, &got, sizeof(got), MSG_DONTWAIT) == sizeof(got) && got == n ? 0
											   : -EPIPE;
}

/* ---- whose processes let it hang ------------------------------------------------------------ */

static uint32_t user_of(uint32_t tgid)
{
	char path[32], text[4096] = "", *line;
	unsigned int uid = UINT32_MAX;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/status", tgid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	line = n > 0 ? strstr(text, "\nUid:") : NULL;
	if (!line || sscanf(line, "\nUid: %u", &uid) != 1)
		return UINT32_MAX;
	return uid;
}

static uint64_t mount_namespace(const char *proc)
{
	char path[48], text[64] = "";
	unsigned long long id = 0;

	snprintf(path, sizeof(path), "%s/ns/mnt", proc);
	if (readlink(path, text, sizeof(text) - 1) < 0 || sscanf(text, "mnt:[%llu]", &id) != 1)
		return 0;
	return id;
}

/* A user of a container, or of this machine; each process of this machine's root for itself. */
static uint64_t tenant_of(uint32_t tgid)
{
	uint32_t uid = user_of(tgid);
	char proc[32];
	uint64_t space;

	snprintf(proc, sizeof(proc), "/proc/%u", tgid);
	space = mount_namespace(proc);
	if (!uid && space == mount_namespace("/proc/self"))
		return 1ULL << 63 | tgid;
	return space << 32 | uid;
}

static struct hangs *find_hangs(uint64_t tenant)
{
	for (unsigned int i = 0; i < reader.tenant_cnt; i++)
		if (reader.hangs[i].tenant == tenant)
			return &reader.hangs[i];
	return NULL;
}

static bool is_refused(uint32_t tgid)
{
	struct hangs *h;

	if (!reader.tenant_cnt)
		return false;
	if (count_given_up() >= GIVEN_UP_MAX)
		return true;
	h = find_hangs(tenant_of(tgid));
	if (h && now_ms() - h->last_ms > FORGIVEN_MS)
		h->cnt = 0;
	return h && h->cnt >= HANGS_MAX;
}

/* The one that was blamed longest ago makes room. */
static struct hangs *add_hangs(uint64_t tenant)
{
	struct hangs *h = reader.hangs;

	if (reader.tenant_cnt < TENANTS_MAX)
		h = &reader.hangs[reader.tenant_cnt++];
	for (unsigned int i = 0; reader.tenant_cnt == TENANTS_MAX && i < TENANTS_MAX; i++)
		h = reader.hangs[i].last_ms < h->last_ms ? &reader.hangs[i] : h;
	*h = (struct hangs){ .tenant = tenant };
	return h;
}

static void note_hang(uint32_t tgid)
{
	uint64_t tenant = tenant_of(tgid);
	struct hangs *h = find_hangs(tenant);

	if (!h)
		h = add_hangs(tenant);
	h->cnt++;
	h->last_ms = now_ms();
	log_warn("process %u of user %u: its memory does not answer when it is read%s", tgid,
		 user_of(tgid),
		 h->cnt >= HANGS_MAX
			 ? ": what it runs is not read any more, nor others of its user there"
			 : "");
}

/* ---- questions ------------------------------------------------------------------------------ */

static int call_locked(uint32_t tgid, reader_fn fn, const void *question, size_t size, void *answer,
		       size_t answer_size)
{
	static uint64_t n;
	int64_t result;
	int err;

	start();
	if (reader.pid == getpid())
		return fn(question, answer);
	if (is_refused(tgid))
		return -ETIMEDOUT;
	reader.x->fn = fn;
	memcpy(reader.x->question, question, size);
	err = ask(++n);
	if (err) {
		give_up();
		if (err == -ETIMEDOUT)
			note_hang(tgid);
		else if (++reader.ended >= ENDS_MAX)
			no_reader("it ends", EPERM);
		return err;
	}
	result = *(volatile int64_t *)&reader.x->result;
	if (result < -4095 || result > INT32_MAX)
		return -EBADMSG;
	if (result >= 0)
		memcpy(answer, reader.x->answer, answer_size);
	return (int)result;
}

int reader__call(uint32_t tgid, reader_fn fn, const void *question, size_t size, void *answer,
		 size_t answer_size)
{
	int err;

	if (size > READER_MESSAGE_MAX || answer_size > READER_MESSAGE_MAX)
		return -E2BIG;
	pthread_mutex_lock(&reader.lock);
	err = call_locked(tgid, fn, question, size, answer, answer_size);
	pthread_mutex_unlock(&reader.lock);
	return err;
}

void reader__start(void)
{
	pthread_mutex_lock(&reader.lock);
	start();
	pthread_mutex_unlock(&reader.lock);
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

int reader__read(uint32_t tgid, void *dst, size_t size, uint64_t src)
{
	int err = 0;

	for (size_t done = 0, n; !err && done < size; done += n) {
		n = size - done < READER_MESSAGE_MAX ? size - done : READER_MESSAGE_MAX;
		err = reader__call(tgid, read_range,
				   &(struct range){ tgid, (uint32_t)n, src + done },
				   sizeof(struct range), (uint8_t *)dst + done, n);
	}
	return err;
}
