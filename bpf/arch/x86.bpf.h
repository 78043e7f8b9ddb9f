/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_ARCH_X86_H
#define PYPERF_ARCH_X86_H
/*
 * x86-64: the verbs that arch.bpf.h lists. "ABI" is the System V ABI, AMD64 Architecture Processor
 * Supplement; "SDM" is Intel's Software Developer's Manual.
 */
#include "bpf/arch/arch.bpf.h"

#define ARCH_USER_MAX	  (1ULL << 47)
#define ARCH_CALLEE_SAVED 0xf008 /* rbx, r12 - r15; the ABI, 3.2.1 */
#define ARCH_RA_BELOW	  8	 /* a call pushes it: SDM vol. 2, CALL */

/* ---- frames ---------------------------------------------------------------------------------- */

BPF_INLINE __u64 arch_code_address(__u64 ra)
{
	return ra;
}

BPF_INLINE int arch_ra_in_register(const struct unwind_rule *rule)
{
	(void)rule;
	return 0;
}

BPF_INLINE __u64 arch_ra_register(const __u64 *regs)
{
	(void)regs;
	return 0;
}

BPF_INLINE int arch_ra_is_plain(const struct unwind_rule *rule)
{
	return rule->ra_off == -ARCH_RA_BELOW;
}

BPF_INLINE __u64 arch_ra_at(__u64 cfa, __u64 fp_at)
{
	(void)fp_at;
	return cfa - ARCH_RA_BELOW;
}

BPF_INLINE __u64 arch_saved_end(__u64 cfa, __u64 fp_at)
{
	(void)fp_at;
	return cfa;
}

/* The return address lies in between. */
BPF_INLINE int arch_rule_fits(const struct unwind_rule *rule, __u64 cfa, __u64 sp, int leaf)
{
	(void)rule, (void)leaf;
	return cfa > sp;
}

/*
 * struct rt_sigframe: gregs of the ucontext in the order of sys/ucontext.h, REG_R8 to REG_RIP (the
 * kernel's struct sigcontext, arch/x86/include/uapi/asm/sigcontext.h).
 */
#define ARCH_UC_REGS 40
#define ARCH_UC_SIZE (17 * 8)

BPF_INLINE void arch_signal_regs(__u64 *regs, const __u64 *saved)
{
	for (int i = 0; i < 8; i++)
		regs[8 + i] = saved[i];
	regs[5] = saved[8];  /* rdi */
	regs[4] = saved[9];  /* rsi */
	regs[6] = saved[10]; /* rbp */
	regs[3] = saved[11]; /* rbx */
	regs[1] = saved[12]; /* rdx */
	regs[0] = saved[13]; /* rax */
	regs[2] = saved[14]; /* rcx */
	regs[7] = saved[15]; /* rsp */
}

BPF_INLINE __u64 arch_signal_pc(const __u64 *saved)
{
	return saved[16];
}

/* ---- instructions ---------------------------------------------------------------------------- */

/*
 * A call: rel32, or indirect through a register or memory, two to seven bytes long (SDM vol. 2,
 * CALL: E8, FF /2).
 */
BPF_INLINE int arch_is_call_before(uaddr_t addr)
{
	__u64 b = 0; /* its lowest byte is at addr - 7 */

	if (read_user(&b, 7, addr - 7))
		return 0;
	return (b >> 16 & 0xff) == 0xe8 || (b >> 40 & 0x38ff) == 0x10ff ||
	       (b >> 32 & 0x38ff) == 0x10ff || (b >> 24 & 0x38ff) == 0x10ff ||
	       (b >> 8 & 0x38ff) == 0x10ff || (b & 0x38ff) == 0x10ff;
}

BPF_INLINE int arch_is_syscall_before(uaddr_t addr)
{
	__u8 insn[2];

	return !read_user(insn, 2, addr - 2) && insn[0] == 0x0f && insn[1] == 0x05;
}

/*
 * vfork() keeps its return address in rdi, because the child would overwrite it on the stack, and
 * pushes it again behind the system call (glibc, sysdeps/unix/sysv/linux/x86_64/vfork.S).
 */
BPF_INLINE int arch_is_vfork_at(uaddr_t addr)
{
	__u8 insn;

	return !read_user(&insn, 1, addr) && insn == 0x57; /* push %rdi */
}

BPF_INLINE __u64 arch_syscall_result(const __u64 *regs)
{
	return regs[0]; /* rax; the ABI, A.2.1 */
}

/*
 * endbr64 (the functions of crt1.o and crtbegin.o have no FDE), [bnd] jmp *GOT(%rip), or push $n on
 * the way to the resolver.
 */
BPF_INLINE int arch_is_entry_at(uaddr_t addr)
{
	__u64 insn;

	if (read_user(&insn, 8, addr))
		return 0;
	if ((insn & 0xff) == 0xf2) /* bnd */
		insn >>= 8;
	return (__u32)insn == 0xfa1e0ff3 || (insn & 0xffff) == 0x25ff || (insn & 0xff) == 0x68;
}

BPF_INLINE int arch_leaf_ra(const __u64 *regs, uaddr_t sp, int in_vfork, __u64 *ra)
{
	*ra = regs[5]; /* rdi */
	return in_vfork ? 0 : read_user(ra, 8, sp);
}

BPF_INLINE __u64 arch_leaf_size(int in_vfork)
{
	return in_vfork ? 0 : 8;
}

/*
 * `pop %rbp; ret` or, in 3.12, `add $8, %rsp; ret`: with these the perf trampolines go on behind
 * their call (Python/asm_trampoline.S).
 */
BPF_INLINE int arch_epilogue_at(uaddr_t addr)
{
	__u64 insn;

	if (read_user(&insn, 8, addr))
		return EPILOGUE_NONE;
	if ((insn & 0xffff) == 0xc35d)
		return EPILOGUE_POPS;
	return (insn & 0xffffffffffULL) == 0xc308c48348ULL ? EPILOGUE_DROPS : EPILOGUE_NONE;
}

/* ---- the kernel's side ----------------------------------------------------------------------- */

#ifdef __bpf__

typedef struct pt_regs user_regs;

#define ARCH_THREAD_SIZE 16384 /* since 6538b8ea886e */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_struct {
	unsigned long fsbase;
};

#pragma clang attribute pop

#define ARCH_TP		 thread.fsbase /* the ABI, 3.4.2 */

/* arch/x86/entry/syscalls/syscall_64.tbl */
#define ARCH_NR_MMAP	 9
#define ARCH_NR_EXECVE	 59
#define ARCH_NR_EXECVEAT 322

/*
 * The stacks of NMIs, machine checks and debug exceptions that interrupt the kernel lie in the CPU
 * entry area, all others elsewhere: Documentation/arch/x86/x86_64/mm.rst.
 */
BPF_INLINE int arch_in_nmi(__u64 sp)
{
	return sp >> 39 == 0xfffffe0000000000ULL >> 39;
}

BPF_INLINE int arch_is_user(const user_regs *r)
{
	return (r->cs & 3) == 3; /* privilege level */
}

#define X86_CS_USER32 0x23 /* __USER32_CS: arch/x86/include/asm/segment.h */

BPF_INLINE int arch_is_compat(const user_regs *r)
{
	return r->cs == X86_CS_USER32;
}

BPF_INLINE __u64 arch_pc(const user_regs *r)
{
	return r->rip;
}

BPF_INLINE __u64 arch_sp(const user_regs *r)
{
	return r->rsp;
}

BPF_INLINE __u64 arch_fp(const user_regs *r)
{
	return r->rbp;
}

/* By DWARF number: the ABI, figure 3.36. */
BPF_INLINE void arch_copy_regs(__u64 *to, const user_regs *r)
{
	to[0] = r->rax;
	to[1] = r->rdx;
	to[2] = r->rcx;
	to[3] = r->rbx;
	to[4] = r->rsi;
	to[5] = r->rdi;
	to[6] = r->rbp;
	to[7] = r->rsp;
	to[8] = r->r8;
	to[9] = r->r9;
	to[10] = r->r10;
	to[11] = r->r11;
	to[12] = r->r12;
	to[13] = r->r13;
	to[14] = r->r14;
	to[15] = r->r15;
}

/*
 * One of them. Each is read at a place of its own, by a pointer of its own: the verifier refuses a
 * pointer to the context that was moved by a number, which clang makes of a switch, and of one
 * register that is read at several places.
 */
BPF_INLINE __u64 arch_reg(const user_regs *r, __u32 n)
{
	__u64 value = 0;

#define ARCH_REG(number, name)                                                                     \
	if (n == (number)) {                                                                       \
		const user_regs *at = r;                                                           \
		__asm__ volatile("" : "+r"(at));                                                   \
		value = at->name;                                                                  \
		__asm__ volatile("" : "+r"(value));                                                \
	}
	ARCH_REG(0, rax)
	ARCH_REG(1, rdx)
	ARCH_REG(2, rcx)
	ARCH_REG(3, rbx)
	ARCH_REG(4, rsi)
	ARCH_REG(5, rdi)
	ARCH_REG(6, rbp)
	ARCH_REG(8, r8)
	ARCH_REG(9, r9)
	ARCH_REG(10, r10)
	ARCH_REG(11, r11)
	ARCH_REG(12, r12)
	ARCH_REG(13, r13)
	ARCH_REG(14, r14)
	ARCH_REG(15, r15)
#undef ARCH_REG
	return value;
}

/* SDM vol. 1, appendix B: EFLAGS condition codes; the lowest bit negates. */
BPF_INLINE int arch_condition(const user_regs *r, __u32 code)
{
	__u64 flags = r->eflags;
	int carry = flags & 1, parity = flags >> 2 & 1, zero = flags >> 6 & 1;
	int sign = flags >> 7 & 1, overflow = flags >> 11 & 1, is = 0;

	switch (code >> 1 & 7) {
	case 0:
		is = overflow;
		break;
	case 1:
		is = carry;
		break;
	case 2:
		is = zero;
		break;
	case 3:
		is = carry | zero;
		break;
	case 4:
		is = sign;
		break;
	case 5:
		is = parity;
		break;
	case 6:
		is = sign != overflow;
		break;
	case 7:
		is = zero | (sign != overflow);
		break;
	}
	return is != (int)(code & 1);
}

/* From rdi to cs. */
#define ARCH_CALL_AT   offsetof(user_regs, rdi)
#define ARCH_CALL_SIZE (offsetof(user_regs, cs) + sizeof(__u64) - ARCH_CALL_AT)

/* Below 0 for an interrupt and an exception: arch/x86/entry/entry_64.S. */
BPF_INLINE __s64 arch_syscall(const user_regs *r)
{
	return (__s64)r->orig_rax;
}

BPF_INLINE const void *arch_syscall_at(const user_regs *r)
{
	return &r->orig_rax;
}

BPF_INLINE void arch_forget_syscall(user_regs *r)
{
	r->orig_rax = 0;
}

/* In rdi, rsi, rdx, r10, r8, r9: the ABI, A.2.1. */
BPF_INLINE __u64 arch_syscall_arg0(const user_regs *r)
{
	return r->rdi;
}

BPF_INLINE __u64 arch_syscall_arg2(const user_regs *r)
{
	return r->rdx;
}

BPF_INLINE __u64 arch_syscall_arg3(const user_regs *r)
{
	return r->r10;
}

#endif /* __bpf__ */

#endif /* PYPERF_ARCH_X86_H */
