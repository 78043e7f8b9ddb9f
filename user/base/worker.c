/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/worker.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/resources.h"
#include "base/rights.h"
#include "base/sanitized.h"
#include "base/selfmem.h"

#define NOBODY	  65534
/* It retires when it has computed for the first time, and is ended at the second. */
#define CPU_S	  60
#define CPU_MAX_S 120

#if defined(__x86_64__)
#define AUDIT_ARCH_OURS AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define AUDIT_ARCH_OURS AUDIT_ARCH_AARCH64
#endif

/* ---- its rights ------------------------------------------------------------------------------ */

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

static uint64_t caps_of(const struct worker_kind *kind)
{
	return kind->files ? caps_of_files() : CAP_BIT(CAP_SYS_PTRACE);
}

static int drop_rights(const struct worker_kind *kind)
{
	if (kind->files)
		own_nothing();
	return rights__keep(caps_of(kind), false); /* setfsuid() takes some of the effective ones */
}

#define SIZE_MOST (256U << 20) /* with which it begins, where the kernel does not say it */

static void drop_limits(const struct worker_kind *kind)
{
	struct self_memory now;

	self_memory(&now);
	if (!SANITIZED)
		resources__limit(RLIMIT_AS, (now.size ? now.size : SIZE_MOST) + kind->memory_max);
	resources__limit(RLIMIT_CPU, CPU_MAX_S);
	resources__limit(RLIMIT_CORE, 0);
	resources__limit(RLIMIT_FSIZE, 0);
	resources__limit(RLIMIT_NPROC, 0);
	resources__limit(RLIMIT_MEMLOCK, 0);
	resources__limit(RLIMIT_NOFILE, kind->fd_max);
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
#if SANITIZED
#define TO_REPORT ALLOW_WITH(write, 0, STDERR_FILENO),
#else
#define TO_REPORT
#endif

/* include/uapi/linux/fs.h of Linux 6.11: PROCMAP_QUERY. */
#define QUERY_MAPS _IOC(_IOC_READ | _IOC_WRITE, 'f', 17, 104)

/*
 * All other system calls fail with EPERM. openat2() among them: the filter does not see its flags,
 * and with O_CREAT it makes files.
 */
static int allow_calls(const struct worker_kind *kind)
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
		TO_REPORT REFUSE,
	};
	const struct sock_fprog program = {
		kind->files ? sizeof(files) / sizeof(files[0]) : sizeof(memory) / sizeof(memory[0]),
		(struct sock_filter *)(kind->files ? files : memory),
	};

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

/* ---- which build it is ---------------------------------------------------------------------- */

static bool fold_build_id(const uint8_t *notes, size_t size, uint64_t *hash)
{
	ElfW(Nhdr) n;

	for (size_t at = 0, next; size - at >= sizeof(n); at = next) {
		memcpy(&n, notes + at, sizeof(n));
		at += sizeof(n);
		next = at + (n.n_namesz + 3U) / 4 * 4 + (n.n_descsz + 3U) / 4 * 4;
		if (next > size)
			break;
		if (n.n_type != NT_GNU_BUILD_ID || n.n_namesz != 4 || memcmp(notes + at, "GNU", 4))
			continue;
		for (size_t i = 0; i < n.n_descsz; i++)
			*hash = (*hash ^ notes[at + 4 + i]) * 0x100000001b3ULL;
		return true;
	}
	return false;
}

/* The first one is the program, also where the dynamic linker was started with it. */
static int take_build_id(struct dl_phdr_info *info, size_t size, void *hash)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_NOTE && p->p_align <= 4 &&
		    fold_build_id((const uint8_t *)(uintptr_t)(info->dlpi_addr + p->p_vaddr),
				  p->p_memsz, hash))
			break;
	}
	return 1;
}

uint64_t worker__build(void)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	dl_iterate_phdr(take_build_id, &hash);
	return hash;
}

/* ---- what it answers ------------------------------------------------------------------------- */

/* The linker's names for the ends of that section. */
extern const struct reader_operation __start_reader_operations[], __stop_reader_operations[];

static const struct reader_operation *find_operation(uint32_t number)
{
	const struct reader_operation *op = __start_reader_operations;

	return number < (size_t)(__stop_reader_operations - op) ? op + number : NULL;
}

uint32_t worker__number(const struct reader_operation *op)
{
	return (uint32_t)(op - __start_reader_operations);
}

void worker__run_job(const struct reader_operation *op, struct exchange *x, struct reader_job *job)
{
	int result;

	job->question = x->question;
	job->answer = x->answer;
	job->answer_max = x->answer_max;
	result = op->job(job);
	if (result < 0) {
		exchange__close(job->out, job->out_cnt);
		job->out_cnt = 0;
	}
	x->head->result = result;
}

static void answer(const struct worker_kind *kind, struct exchange *x, struct reader_job *job)
{
	const struct reader_operation *op = find_operation(x->head->operation);

	if (op && kind->files && op->job)
		worker__run_job(op, x, job);
	else if (op && !kind->files && op->read)
		x->head->result = op->read(x->question, x->answer);
	else
		x->head->result = -ENOSYS;
}

/* It must not come to its limit with a question, whose tenant would be blamed. */
static bool has_served(const struct rlimit *cpu)
{
	rlim_t most = cpu->rlim_cur / 2 < CPU_S ? cpu->rlim_cur / 2 : CPU_S;
	struct timespec used;

	return !clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) && (rlim_t)used.tv_sec >= most;
}

static int serve(const struct worker_kind *kind, struct exchange *x, const struct rlimit *cpu)
{
	struct reader_job job;
	int in[READER_FDS_MAX];
	bool retires;
	size_t in_cnt;
	uint64_t n;

	if (exchange__send(CHILD_IN, worker__build(), NULL, 0))
		return -WORKER_CUT_OFF;
	do {
		if (exchange__receive(CHILD_IN, &n, in, &in_cnt, 0))
			return -WORKER_CUT_OFF;
		job = (struct reader_job){ .in = in_cnt ? in[0] : -1 };
		answer(kind, x, &job);
		retires = has_served(cpu);
		x->head->retires = retires;
		if (exchange__send(CHILD_IN, n, job.out, job.out_cnt)) {
			x->head->result = -EMFILE; /* no tenant's files are to blame */
			if (exchange__send(CHILD_IN, n, NULL, 0))
				return -WORKER_CUT_OFF;
		}
		exchange__close(job.out, job.out_cnt);
		exchange__close(in, in_cnt);
	} while (!retires);
	return 0;
}

/* ---- its beginning --------------------------------------------------------------------------- */

pid_t worker__start(const struct worker_kind *kind, int socket, int memory)
{
	/* Ctrl-C is for all of the terminal's; the last window is read after it. */
	return child__execute(&(struct child_program){ .name = kind->name,
						       .caps = caps_of(kind),
						       .in = socket,
						       .out = memory,
						       .is_deaf = true });
}

/* 0 when it has served, or a negative errno. */
static int work(const struct worker_kind *kind)
{
	struct rlimit cpu = { 0 };
	struct exchange x;
	int err = exchange__map(kind, CHILD_OUT, &x);

	close(CHILD_OUT);
	drop_limits(kind);
	err = err ? err : drop_rights(kind);
	if (err || getrlimit(RLIMIT_CPU, &cpu) || prctl(PR_SET_DUMPABLE, 0) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL)) /* a change of rights has taken it back */
		return err ? err : -errno;
	err = allow_calls(kind);
	return err ? err : serve(kind, &x, &cpu);
}

/* Before main(), so that each program that has helpers can be one. */
__attribute__((constructor(101))) static void be_worker(void)
{
	static const struct worker_kind *const kinds[] = { &worker_of_memory, &worker_of_files };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (child__is(kinds[i]->name))
			_exit(-work(kinds[i]));
}
