/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_ARCH_BPF_H
#define PYPERF_ARCH_BPF_H
/*
 * The verbs: all that the BPF half asks of the machine. Each architecture has a file with all of them
 * and says there where its facts come from. Outside of bpf/arch/ no register has a name, no instruction
 * is compared with a number, and nothing has a fixed distance from the CFA.
 *
 * For the walkers, which the host compiles, too. Addresses and sizes are in bytes; `regs` are the
 * GREG_CNT registers of the leaf; what returns int says 0 or 1 unless it says otherwise here. What looks at
 * instructions reads them with read_user(); code that cannot be read says no.
 *
 *   ARCH_USER_MAX          no process has code at or above this address
 *   ARCH_CALLEE_SAVED      mask by DWARF number: registers that calls preserve, without sp and fp
 *   ARCH_UC_REGS           where the saved registers lie in the ucontext of a signal frame
 *   ARCH_UC_SIZE           ... how many bytes they are, at most BUF_BYTES
 *   ARCH_RA_BELOW          how far below the CFA a plain rule that keeps fp has the return address
 *
 *   arch_code_address(ra)       a return address as an address: without what the machine has signed it with
 *   arch_ra_in_register(rule)   the return address is still in a register, which only the leaf has
 *   arch_ra_register(regs)      ... this one
 *   arch_ra_is_plain(rule)      walk_known_frames() can find the return address by arch_ra_at()
 *   arch_ra_at(cfa, fp_at)      where a frame keeps its return address that keeps its caller's fp at fp_at
 *   arch_saved_end(cfa, fp_at)  the end of the two, of a plain rule
 *   arch_cfa_fits(cfa, sp, leaf)  a frame with this CFA can have this stack pointer
 *   arch_signal_regs(regs, saved) sets all registers by what lies at ARCH_UC_REGS
 *   arch_signal_pc(saved)         the program counter of the same
 *
 *   arch_is_call_before(addr)     the instruction before `addr` is a call
 *   arch_is_syscall_before(addr)  ... enters the kernel
 *   arch_is_vfork_at(addr)        what follows the system call at `addr` shows that it is vfork()'s, which has
 *                                 its return address in a register
 *   arch_syscall_result(regs)     what the system call returned; 0 in a new thread or process
 *   arch_is_entry_at(addr)        a function, or a stub of .plt, begins here: nothing of its frame is there yet
 *   arch_leaf_ra(regs, sp, in_vfork, &ra)  the return address of such a function, or of one that is right
 *                                 behind its system call: 0, or not to be read
 *   arch_leaf_size(in_vfork)      ... and how many bytes it has on the stack
 *   arch_epilogue_at(addr)        enum arch_epilogue: code that leaves a frame of two words
 *
 * For the programs, under __bpf__. `r` are registers in kernel memory that can be read, or a copy:
 *
 *   user_regs                what the kernel saves of a thread that enters it
 *   ARCH_THREAD_SIZE         size of a kernel stack, at whose end they lie
 *   struct thread_struct     the kernel's, as far as ARCH_TP needs it
 *   ARCH_TP                  the member of task_struct that is the thread pointer
 *   ARCH_NR_MMAP, ...        numbers of system calls
 *   arch_is_user(r)          the thread was in user mode
 *   arch_is_compat(r)        ... of a 32-bit program
 *   arch_pc(r), arch_sp(r), arch_fp(r)
 *   arch_copy_regs(to, r)    all GREG_CNT
 *   arch_syscall(r)          the number of the system call that the thread is in; negative: it is in none
 *   arch_forget_syscall(&r)  makes it one that is none of ARCH_NR_*
 *   arch_syscall_arg2(r), arch_syscall_arg3(r)  its third and its fourth argument
 */
#include "bpf/seam.bpf.h"

enum arch_epilogue {
	EPILOGUE_NONE = 0,
	EPILOGUE_DROPS = 1, /* the word below the return address is of no interest */
	EPILOGUE_POPS = 2,  /* ... is the caller's frame pointer */
};

#if PYPERF_ARCH == PYPERF_X86
#include "bpf/arch/x86.bpf.h"
#else
#error "no such architecture: see CONTRIBUTING.md, An architecture"
#endif

#endif /* PYPERF_ARCH_BPF_H */
