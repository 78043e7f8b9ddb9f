/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What py_binary__analyse() looks for, made up. Included by test_pyproc.c, and by itself the seed
 * of fuzz_pyproc:
 *	gcc -shared -nostdlib -s -Wl,-Bsymbolic -Wl,--build-id=none -Wl,-z,noseparate-code \
 *		-o tests/fuzz/corpus/pyproc/fake.so tests/unit/fake_python.S
 * (fake310.so is the same with 0x030a0df0 in Py_Version)
 *
 *   hot   -> cold (2 branches), lone (3 tail calls), mutual (2 tail calls), false_hit (an
 *            immediate that looks like a branch into its middle)
 *   cold  -> hot (2, into its middle), colder (1)
 *   colder -> cold (2)
 *   mutual -> hot (2, at its first byte)
 *   hot and coincidence: one into the middle of the other each, as immediates may look like
 */

.macro FAKE_FUNC name
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	.nops 16
.endm
.macro FAKE_END name
	ret
	.cfi_endproc
	.size \name, . - \name
.endm
.macro FAR_JMP target
	.byte 0xe9
	.long \target - . - 4
.endm
.macro FAR_JE target
	.byte 0x0f, 0x84
	.long \target - . - 4
.endm
.section .text.fake, "ax", @progbits
FAKE_FUNC fake_colder
	FAR_JE fake_cold + 3
	FAR_JMP fake_cold + 7
FAKE_END fake_colder
FAKE_FUNC _PyEval_EvalFrameDefault
	FAR_JE fake_cold
	FAR_JMP fake_cold + 9
	FAR_JMP fake_lone
	FAR_JE fake_lone
	FAR_JE fake_lone
	FAR_JMP fake_mutual
	FAR_JE fake_mutual
	.byte 0xb8 /* mov $imm32, %eax: no branch, but its bytes look like one */
	.byte 0xe9
	.long fake_false_hit + 5 - . - 4
	.byte 0xb8
	.byte 0xe9
	.long fake_coincidence + 5 - . - 4
FAKE_END _PyEval_EvalFrameDefault
FAKE_FUNC fake_coincidence
	.byte 0xb8
	.byte 0xe9
	.long _PyEval_EvalFrameDefault + 5 - . - 4
FAKE_END fake_coincidence
FAKE_FUNC fake_lone
FAKE_END fake_lone
FAKE_FUNC fake_cold
	FAR_JMP _PyEval_EvalFrameDefault + 5
	FAR_JE _PyEval_EvalFrameDefault + 9
	FAR_JMP fake_colder + 2
FAKE_END fake_cold
FAKE_FUNC fake_false_hit
FAKE_END fake_false_hit
FAKE_FUNC fake_mutual
	FAR_JE _PyEval_EvalFrameDefault
	FAR_JMP _PyEval_EvalFrameDefault
FAKE_END fake_mutual
FAKE_FUNC Py_GetVersion
	lea fake_format(%rip), %rdx
	lea fake_version + 5(%rip), %rcx
FAKE_END Py_GetVersion
FAKE_FUNC PyInterpreterState_Head
FAKE_END PyInterpreterState_Head
FAKE_FUNC PyEval_ThreadsInitialized
FAKE_END PyEval_ThreadsInitialized
FAKE_FUNC _PyEval_FiniThreads
	lea fake_gil_cond(%rip), %rdi
	lea fake_gil_mutex(%rip), %rdi
	lea fake_switch_cond(%rip), %rdi
	lea fake_switch_mutex(%rip), %rdi
	lea fake_format(%rip), %rdi
FAKE_END _PyEval_FiniThreads
.section .data.fake, "aw", @progbits
	.balign 8
.macro FAKE_OBJ name
	.globl \name
	.type \name, @object
\name:
.endm
FAKE_OBJ _PyRuntime
	.fill 672, 1, 0x55 /* the size it has in 3.10, and in 3.9 on aarch64 */
	.size _PyRuntime, . - _PyRuntime
FAKE_OBJ PyCode_Type
	.quad 0
	.size PyCode_Type, 8
FAKE_OBJ Py_Version
	.quad 0x030d00f0
	.size Py_Version, 8
FAKE_OBJ fake_spare_symbol_number_one
FAKE_OBJ fake_spare_symbol_number_two
FAKE_OBJ fake_format
	.asciz "%.80s (%.80s) %.80s"
	.size fake_format, . - fake_format
/* "3.9.18rc1" at the end of another string, as linkers merge tails */
FAKE_OBJ fake_version
	.asciz "2.7.13.9.18rc1"
	.size fake_version, . - fake_version
	.balign 4
FAKE_OBJ fake_gil_locked
	.long -1
	.size fake_gil_locked, 4
.section .bss.fake, "aw", @nobits
	.balign 8
FAKE_OBJ fake_switch_mutex
	.skip 64
FAKE_OBJ fake_gil_cond
	.skip 64
FAKE_OBJ fake_gil_mutex
	.skip 64
FAKE_OBJ fake_switch_cond
	.skip 64
FAKE_OBJ fake_interpreter_lock
	.skip 8
	.size fake_interpreter_lock, 8
.text
