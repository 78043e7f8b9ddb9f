/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_ARCH_ARM64_H
#define PYPERF_ARCH_ARM64_H
/*
 * aarch64: the verbs of arch.bpf.h that the walkers ask for. The programs' are missing, so this
 * compiles for the host alone. "PCS" is Arm's Procedure Call Standard for the 64-bit architecture
 * (aapcs64), "ARM" the Architecture Reference Manual (A-profile).
 *
 * Not as on x86-64: a call writes its return address to x30, and the function saves {x29, x30} side
 * by side at the lower end of its frame (PCS, 6.4.6), so nothing lies at a fixed distance from the
 * CFA. A leaf may save nothing: then its CFA is its stack pointer. Return addresses in memory can
 * be signed.
 */
#include "bpf/arch/arch.bpf.h"

#ifdef __bpf__
#error "the programs' verbs are missing: see CONTRIBUTING.md, An architecture"
#endif

/*
 * The kernel gives higher ones, up to 52 bits, only if asked for:
 * Documentation/arch/arm64/memory.rst.
 */
#define ARM64_VA_BITS	  48
#define ARCH_USER_MAX	  (1ULL << ARM64_VA_BITS)
#define ARCH_CALLEE_SAVED 0x1ff80000 /* x19 - x28; PCS, 6.1.1 */
#define ARCH_RA_BELOW	  8	     /* of no use: see arch_ra_is_plain() */

/* ---- frames ---------------------------------------------------------------------------------- */

/*
 * Without its authentication code, which has bits 54 to ARM64_VA_BITS (the kernel's
 * ptrauth_user_pac_mask(), arch/arm64/include/asm/compiler.h). Those above are 0 in an address of
 * code.
 */
BPF_INLINE __u64 arch_code_address(__u64 ra)
{
	return ra & (ARCH_USER_MAX - 1);
}

BPF_INLINE int arch_ra_in_register(const struct unwind_rule *rule)
{
	return rule->ra_rule == REG_SAME;
}

BPF_INLINE __u64 arch_ra_register(const __u64 *regs)
{
	return regs[30];
}

/* The return address lies behind the caller's frame pointer, and both are in memory. */
BPF_INLINE int arch_ra_is_plain(const struct unwind_rule *rule)
{
	return rule->ra_rule == REG_CFA_OFF && rule->fp_rule == REG_CFA_OFF &&
	       rule->ra_off == rule->fp_off + 8;
}

BPF_INLINE __u64 arch_ra_at(__u64 cfa, __u64 fp_at)
{
	(void)cfa;
	return fp_at + 8;
}

BPF_INLINE __u64 arch_saved_end(__u64 cfa, __u64 fp_at)
{
	(void)cfa;
	return fp_at + 16;
}

/* Beyond the leaf, a call has overwritten x30, and somebody has saved it. */
BPF_INLINE int arch_rule_fits(const struct unwind_rule *rule, __u64 cfa, __u64 sp, int leaf)
{
	return leaf ? cfa >= sp : cfa > sp && !arch_ra_in_register(rule);
}

/*
 * struct sigcontext in the ucontext of struct rt_sigframe, from its regs[31] on: sp and pc follow
 * (arch/arm64/include/uapi/asm/sigcontext.h).
 */
#define ARCH_UC_REGS 184
#define ARCH_UC_SIZE (33 * 8)

BPF_INLINE void arch_signal_regs(__u64 *regs, const __u64 *saved)
{
	for (int i = 0; i < 32; i++)
		regs[i] = saved[i];
}

BPF_INLINE __u64 arch_signal_pc(const __u64 *saved)
{
	return saved[32];
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* All are words of 32 bits, aligned. 0, which is none (UDF), if it cannot be read. */
BPF_INLINE __u32 arm64_insn(uaddr_t addr)
{
	__u32 insn = 0;

	return read_user(&insn, 4, addr) ? 0 : insn;
}

/* ARM, C6.2: BL; BLR; BLRAA, BLRAB and those with a zero modifier. */
BPF_INLINE int arch_is_call_before(uaddr_t addr)
{
	__u32 insn = arm64_insn(addr - 4);

	return (insn & 0xfc000000) == 0x94000000 || (insn & 0xfffffc1f) == 0xd63f0000 ||
	       (insn & 0xfffff800) == 0xd73f0800 || (insn & 0xfffff81f) == 0xd63f081f;
}

BPF_INLINE int arch_is_syscall_before(uaddr_t addr)
{
	return arm64_insn(addr - 4) == 0xd4000001; /* svc #0 */
}

/* No system call touches x30. */
BPF_INLINE int arch_is_vfork_at(uaddr_t addr)
{
	(void)addr;
	return 0;
}

BPF_INLINE __u64 arch_syscall_result(const __u64 *regs)
{
	return regs[0];
}

/* bti c, paciasp; adrp x16, with which a stub of .plt begins. */
BPF_INLINE int arch_is_entry_at(uaddr_t addr)
{
	__u32 insn = arm64_insn(addr);

	return insn == 0xd503245f || insn == 0xd503233f || (insn & 0x9f00001f) == 0x90000010;
}

BPF_INLINE int arch_leaf_ra(const __u64 *regs, uaddr_t sp, int in_vfork, __u64 *ra)
{
	(void)sp, (void)in_vfork;
	*ra = regs[30];
	return 0;
}

BPF_INLINE __u64 arch_leaf_size(int in_vfork)
{
	(void)in_vfork;
	return 0;
}

/* ldp x29, x30, [sp], #16; ret: so the perf trampolines go on behind their call. */
BPF_INLINE int arch_epilogue_at(uaddr_t addr)
{
	if (arm64_insn(addr) != 0xa8c17bfd || arm64_insn(addr + 4) != 0xd65f03c0)
		return EPILOGUE_NONE;
	return EPILOGUE_POPS;
}

#endif /* PYPERF_ARCH_ARM64_H */
