/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What auditor__find() looks for, made up: the seeds of fuzz_auditor.
 *	gcc -shared -nostdlib -s -Wl,-Bsymbolic -Wl,--build-id=none -Wl,-z,noseparate-code \
 *		[-DOLD | -DINLINED | -DLONG] -o tests/fuzz/corpus/auditor/NAME.so tests/fuzz/fuzz_auditor.S
 *
 * As from 3.9 on (new.so), as 3.8 (old.so: PySys_Audit() calls nothing), with all of it in a copy of
 * _PySys_Audit() (inlined.so), and with a PySys_Audit() that is no small function (long.so).
 */

.macro FUNC name
	.type \name, @function
	.p2align 4
\name:
	.cfi_startproc
.endm
.macro END name
	.cfi_endproc
	.size \name, . - \name
.endm
.macro VARIADIC
	subq $0xd8, %rsp
	testb %al, %al
	je 1f
	movaps %xmm0, 0x50(%rsp)
1:
.endm

.text
FUNC sys_audit_tstate
	nop
	ret
END sys_audit_tstate
FUNC _PySys_Audit
	VARIADIC
#ifdef INLINED
	nop
#else
	call sys_audit_tstate
#endif
	addq $0xd8, %rsp
	ret
END _PySys_Audit
	.globl PySys_Audit
FUNC PySys_Audit
	VARIADIC
#ifndef OLD
	call sys_audit_tstate
#endif
#ifdef LONG
	.nops 600
#endif
	addq $0xd8, %rsp
	ret
END PySys_Audit
FUNC importer
	leaq import_text(%rip), %rsi
	xorl %eax, %eax
	call _PySys_Audit
	ret
END importer
FUNC sys_audit
	ret
END sys_audit

/* Where no code is, or the texts are not looked for: without a segment of their own. */
.section .data.rel, "aw", @progbits
import_text:
	.string "import"
	.string "sys.addaudithook"
audit_text:
	.string "audit"

	.p2align 3
	.quad audit_text
	.quad sys_audit
	.quad 0x80
	.quad 0
.section .note.GNU-stack, "", @progbits
