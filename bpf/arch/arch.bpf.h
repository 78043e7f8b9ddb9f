/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_ARCH_BPF_H
#define PYPERF_ARCH_BPF_H
/*
 * The verbs: all that the BPF half asks of the machine. Each architecture has one file that defines
 * every verb and names the source of each fact. No other file of bpf/ names a register, compares an
 * instruction or assumes a distance from the CFA.
 *
 * Units: addresses and sizes are in bytes. `regs` are the GREG_CNT registers of the leaf, `rule` is
 * a struct unwind_rule. A verb that returns int answers 0 or 1, unless its line says otherwise. A
 * verb that looks at instructions reads them with read_user(), and answers 0 if it cannot.
 *
 * For the walkers; the host compiles them, too:
 *
 *   ARCH_USER_MAX               no code of a process lies at or above this address
 *   ARCH_CALLEE_SAVED           mask by DWARF number: registers that calls preserve, but sp and fp
 *   ARCH_UC_REGS, ARCH_UC_SIZE  place and size (at most BUF_BYTES) of the registers in a ucontext
 *   ARCH_RA_BELOW               the return address lies so far below the CFA, if a plain rule says
 *                               that fp is the caller's
 *
 *   arch_code_address(ra)       the address in a return address, which may be signed
 *   arch_ra_in_register(rule)   the return address is still in a register; only a leaf has it
 *   arch_ra_register(regs)      the return address of such a leaf
 *   arch_ra_is_plain(rule)      the return address lies at arch_ra_at(): walk_known_frames() can
 *                               read it
 *   arch_ra_at(cfa, fp_at)      address of the return address, in a frame that saves fp at fp_at
 *   arch_saved_end(cfa, fp_at)  end of the two words, in a frame with a plain rule
 *   arch_rule_fits(rule, cfa, sp, leaf)
 *                               the rule can be true of a frame with this CFA and stack pointer
 *   arch_signal_regs(regs, saved)
 *                               copies all registers from what was read at ARCH_UC_REGS
 *   arch_signal_pc(saved)       the program counter that was read there
 *
 *   arch_is_call_before(addr)   a call ends at addr
 *   arch_is_syscall_before(addr)
 *                               an instruction that enters the kernel ends at addr
 *   arch_is_vfork_at(addr)      vfork() goes on at addr, behind its system call
 *   arch_syscall_result(regs)   what the system call returned; 0 in a new thread or process
 *   arch_is_entry_at(addr)      a function or a stub of .plt begins at addr: it has no frame yet
 *   arch_leaf_ra(regs, sp, in_vfork, &ra)
 *                               the return address at such a place or behind a system call; not 0
 *                               if it cannot be read
 *   arch_leaf_size(in_vfork)    bytes of stack to drop there
 *   arch_epilogue_at(addr)      enum arch_epilogue: the code at addr leaves a frame of two words
 *
 * For the programs, under __bpf__. `r` is a user_regs that can be read directly:
 *
 *   user_regs                   what the kernel saves of a thread that enters it
 *   ARCH_THREAD_SIZE            size of a kernel stack; the user_regs lie at its end
 *   struct thread_struct        the kernel's, as far as ARCH_TP needs it
 *   ARCH_TP                     the member of task_struct that is the thread pointer
 *   ARCH_NR_MMAP, ARCH_NR_EXECVE, ARCH_NR_EXECVEAT
 *                               numbers of system calls
 *   arch_in_nmi(sp)             a program with this stack pointer may have interrupted anything,
 *                               also one that holds a lock of a map
 *   arch_is_user(r)             the thread was in user mode
 *   arch_is_compat(r)           the thread runs a 32-bit program
 *   arch_pc(r), arch_sp(r), arch_fp(r)
 *                               one register
 *   arch_copy_regs(to, r)       all GREG_CNT registers
 *   arch_reg(r, n)              the one with this DWARF number, but sp
 *   arch_condition(r, code)     a conditional branch with this condition code would be taken
 *   arch_syscall(r)             number of the system call that the thread is in; negative: none
 *   ARCH_CALL_AT, ARCH_CALL_SIZE
 *                               the part of `r` that arch_syscall(), arch_syscall_arg0() and
 *                               arch_is_compat() need
 *   arch_syscall_at(r)          where that number lies, of an `r` that cannot be read directly
 *   arch_forget_syscall(&r)     makes arch_syscall() none of ARCH_NR_*
 *   arch_syscall_arg0(r), arch_syscall_arg2(r), arch_syscall_arg3(r)
 *                               first, third and fourth argument of the system call
 */
#include "bpf/seam.bpf.h"

enum arch_epilogue {
	EPILOGUE_NONE = 0,
	EPILOGUE_DROPS = 1, /* the word below the return address is of no interest */
	EPILOGUE_POPS = 2,  /* ... is the caller's frame pointer */
};

#if PYPERF_ARCH == PYPERF_X86
#include "bpf/arch/x86.bpf.h"
#elif PYPERF_ARCH == PYPERF_ARM64
#include "bpf/arch/arm64.bpf.h"
#else
#error "no such architecture: see CONTRIBUTING.md, An architecture"
#endif

#endif /* PYPERF_ARCH_BPF_H */
