/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "symbolize/ksym.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TEXT_MAX 1024 /* a name of 511 bytes, "+0x1234/0x5678", a module's name of 55 */
#define MAP_SZ	 4096
#define BPF_NAME " [bpf]"

static const char format[8] = "%pS";

/* The data of the program, mapped into our memory. */
struct question {
	uint64_t addr;
	char text[TEXT_MAX];
	char room[MAP_SZ - TEXT_MAX - sizeof(uint64_t)];
};
_Static_assert(sizeof(struct question) == MAP_SZ, "a page, so that it can be mapped");

struct ksym {
	int prog_fd; /* it holds both maps */
	struct question *q;
};

/* The helper takes its format from a map that nobody can write any more. */
static int create_format(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_RDONLY_PROG);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ksym_format", 4, sizeof(format), 1, &opts);
	const uint32_t zero = 0;
	int err;

	if (fd < 0)
		return -errno;
	err = bpf_map_update_elem(fd, &zero, format, 0) || bpf_map_freeze(fd) ? -errno : 0;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int create_question(struct question **q)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ksym_question", 4, MAP_SZ, 1, &opts);
	void *at;

	if (fd < 0)
		return -errno;
	at = mmap(NULL, MAP_SZ, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED) {
		*q = at;
		return fd;
	}
	close(fd);
	return -ENOMEM;
}

#define INSN(c, d, s, i)                                                                           \
	((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), .imm = (i) })
/* Two instructions: a register points into the value of a map. */
#define MAP_VALUE(reg, fd, at)                                                                     \
	INSN(BPF_LD | BPF_DW | BPF_IMM, reg, BPF_PSEUDO_MAP_VALUE, fd), INSN(0, 0, 0, at)
#define CONSTANT(reg, value) INSN(BPF_ALU64 | BPF_MOV | BPF_K, reg, 0, value)

/* bpf_snprintf(text, sizeof(text), "%pS", &addr, sizeof(addr)) */
static int load_prog(int format_fd, int question_fd)
{
	const struct bpf_insn insns[] = {
		MAP_VALUE(BPF_REG_1, question_fd, offsetof(struct question, text)),
		CONSTANT(BPF_REG_2, TEXT_MAX),
		MAP_VALUE(BPF_REG_3, format_fd, 0),
		MAP_VALUE(BPF_REG_4, question_fd, offsetof(struct question, addr)),
		CONSTANT(BPF_REG_5, sizeof(uint64_t)),
		INSN(BPF_JMP | BPF_CALL, 0, 0, BPF_FUNC_snprintf),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0),
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "ksym", "GPL", insns,
			       sizeof(insns) / sizeof(insns[0]), NULL);

	return fd < 0 ? -errno : fd;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

struct ksym *ksym__open(void)
{
	struct ksym *k = calloc(1, sizeof(*k));
	int format_fd, question_fd = -1, err;

	if (!k)
		return NULL;
	k->prog_fd = -1;
	err = format_fd = create_format();
	if (err >= 0)
		err = question_fd = create_question(&k->q);
	if (err >= 0)
		err = k->prog_fd = load_prog(format_fd, question_fd);
	close_fd(format_fd);
	close_fd(question_fd);
	if (err >= 0)
		return k;
	ksym__close(k);
	errno = -err;
	return NULL;
}

void ksym__close(struct ksym *k)
{
	if (!k)
		return;
	if (k->q)
		munmap(k->q, MAP_SZ);
	close_fd(k->prog_fd);
	free(k);
}

/*
 * Code that the kernel made of BPF: /proc/kallsyms shows a module "bpf", "%pS" none. The kernel's
 * own functions have no such names.
 */
static bool is_bpf_image(const char *name)
{
	static const char hex[] = "0123456789abcdef", digits[] = "0123456789";
	size_t len = strlen(name);

	if (!strncmp(name, "bpf_prog_", 9))
		return strspn(name + 9, hex) == 16 && (name[25] == '_' || !name[25]);
	if (!strncmp(name, "bpf_trampoline_", 15))
		return len > 15 && strspn(name + 15, digits) == len - 15;
	return !strcmp(name, "bpf_dispatcher_xdp") || !strncmp(name, "bpf__", 5); /* struct_ops */
}

/*
 * "name+0x1a/0x50 [module]" becomes "name [module]". False: an address, the kernel has no symbol
 * there.
 */
static bool read_answer(char *text, uint64_t *offset)
{
	char *plus = strstr(text, "+0x"), *module;

	if (!plus || plus == text || !strstr(plus, "/0x"))
		return false;
	if (offset)
		*offset = strtoull(plus + 3, NULL, 16);
	module = strstr(plus, " [");
	*plus = '\0';
	if (module)
		memmove(plus, module, strlen(module) + 1);
	else if (is_bpf_image(text))
		memcpy(plus, BPF_NAME, sizeof(BPF_NAME));
	return true;
}

const char *ksym__find(struct ksym *k, uint64_t addr, uint64_t *offset)
{
	LIBBPF_OPTS(bpf_test_run_opts, run);

	k->q->addr = addr;
	/* A text that was cut has no length that is known to be right. */
	if (bpf_prog_test_run_opts(k->prog_fd, &run) || (int)run.retval <= 0 ||
	    run.retval > TEXT_MAX - sizeof(BPF_NAME))
		return NULL;
	k->q->text[TEXT_MAX - 1] = '\0';
	return read_answer(k->q->text, offset) ? k->q->text : NULL;
}
