/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/pidns.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* PROC_PID_INIT_INO, include/linux/proc_ns.h: fixed since Linux 3.8. */
#define INITIAL_INUM 0xeffffffcU

/* The byte offset of a member in a kernel struct, or negative errno. */
static int member_offset(const struct btf *btf, const char *type_name, const char *member)
{
	int id = btf__find_by_name_kind(btf, type_name, BTF_KIND_STRUCT);
	const struct btf_type *type;
	const struct btf_member *m;

	if (id < 0)
		return -ENOENT;
	type = btf__type_by_id(btf, (uint32_t)id);
	m = btf_members(type);
	for (uint32_t i = 0; i < btf_vlen(type); i++) {
		const char *name = btf__name_by_offset(btf, m[i].name_off);

		if (name && !strcmp(name, member))
			return (int)(btf_member_bit_offset(type, i) / 8);
	}
	return -ENOENT;
}

#define INSN(c, d, s, o, i)                                                                        \
	((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })

/* r0 = helper(r10 - 8, size, r3 + offset); the value is then at r10 - 8 */
#define READ_KERNEL(size, offset)                                                                  \
	INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_3, 0, 0, (offset)),                              \
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_10, 0, 0),                    \
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_1, 0, 0, -8),                            \
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, (size)),                        \
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_probe_read_kernel)

static int load_prog(int thread_pid_offset, int level_offset)
{
	const struct bpf_insn insns[] = {
		INSN(BPF_ST | BPF_MEM | BPF_DW, BPF_REG_10, 0, -8, 0),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_current_task),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_0, 0, 0),
		READ_KERNEL(8, thread_pid_offset),
		INSN(BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_3, BPF_REG_10, -8, 0),
		READ_KERNEL(4, level_offset),
		INSN(BPF_LDX | BPF_MEM | BPF_W, BPF_REG_0, BPF_REG_10, -8, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "pidns_level", "GPL", insns,
			       sizeof(insns) / sizeof(insns[0]), NULL);

	return fd < 0 ? -errno : fd;
}

int pidns__level_by_bpf(void)
{
	LIBBPF_OPTS(bpf_test_run_opts, run);
	struct btf *btf = btf__load_vmlinux_btf();
	int thread_pid, level, fd = -1, err;

	if (!btf)
		return -errno;
	thread_pid = member_offset(btf, "task_struct", "thread_pid");
	level = member_offset(btf, "pid", "level");
	btf__free(btf);
	if (thread_pid < 0 || level < 0)
		return -ENOENT;
	fd = load_prog(thread_pid, level);
	if (fd < 0)
		return fd;
	err = bpf_prog_test_run_opts(fd, &run);
	if (err)
		err = -errno;
	close(fd);
	/* MAX_PID_NS_LEVEL is 32: anything else is not a level. */
	return err ? err : run.retval > 32 ? -ERANGE : (int)run.retval;
}

int pidns__self(struct pidns *ns)
{
	struct stat st;
	int level;

	*ns = (struct pidns){ 0 };
	if (stat("/proc/self/ns/pid", &st))
		return -errno;
	ns->inum = (uint32_t)st.st_ino;
	if (pidns__is_initial(ns))
		return 0;
	level = pidns__level_by_bpf();
	if (level < 0)
		return level;
	ns->level = (uint32_t)level;
	return 0;
}

bool pidns__is_initial(const struct pidns *ns)
{
	return ns->inum == INITIAL_INUM;
}

struct pidns_file pidns__file(void)
{
	struct pidns ns;
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) ||
	    pidns__is_initial(&(struct pidns){ .inum = (uint32_t)st.st_ino }))
		return (struct pidns_file){ 0 };
	pidns__self(&ns); /* without its level, processes in namespaces within it are not known */
	return (struct pidns_file){ .dev = st.st_dev,
				    .inum = (uint32_t)st.st_ino,
				    .level = ns.level };
}
