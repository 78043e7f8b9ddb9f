/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A library for libs.c with TEXT bytes of code and room for FRAME bytes of .eh_frame. */
	.text
	.globl spin
	.type spin, @function
spin:
1:	dec %rdi
	jg 1b
	ret
	.size spin, . - spin
	.skip TEXT, 0x90
	.section .hh_frame, "a", @progbits
	.skip FRAME
	.section .note.GNU-stack, "", @progbits
