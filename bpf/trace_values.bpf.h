/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_VALUES_BPF_H
#define PYPERF_TRACE_VALUES_BPF_H
/*
 * Events with values: the arguments of a call, what a function returns.
 *
 * Input:   a frame, or the word that a local variable, a cell or the stack has.
 * Output:  struct trace_valued in the ring buffer `events`.
 * Fails:   no room: counted in `lost`. What cannot be read is VALUE_UNSET.
 */
#include "trace_codes.bpf.h"
#include "trace_events.bpf.h"

/* PyTypeObject.tp_name, behind ob_size. */
BPF_INLINE __u64 type_name(__u64 type)
{
	return read64(type + cfg.layout.ob_type + 16);
}

/* Global, as spot_at(). `moved`: how far this process has its addresses from those in cfg. */
BPF_NOINLINE __u32 kind_of(__u64 obj, __u64 moved)
{
	__u64 type;

	if (!obj)
		return VALUE_UNSET;
	for (__u32 i = VALUE_TYPES; i < VALUE_SINGLES; i++)
		if (cfg.values.singles[i - VALUE_TYPES] + moved == obj)
			return i;
	type = read64(obj + cfg.layout.ob_type);
	if (!type)
		return VALUE_UNSET;
	for (__u32 i = 1; i < VALUE_TYPES; i++)
		if (cfg.values.types[i] && cfg.values.types[i] + moved == type)
			return i;
	return VALUE_OTHER;
}

BPF_INLINE void send_data(struct trace_value *v, __u64 data, __u64 size)
{
	__u32 some = BOUND((__u32)size, TRACE_VALUE_BYTES);

	v->size = size >> 32 ? ~0U : (__u32)size;
	if (!data)
		return;
	if (size >= TRACE_VALUE_BYTES)
		v->sent = read_user(v->data, TRACE_VALUE_BYTES, data) ? 0 : TRACE_VALUE_BYTES;
	else
		v->sent = read_user(v->data, some, data) ? 0 : (__u16)some;
}

/*
 * PyLongObject: up to 3.11 the sign of ob_size is the number's; from 3.12 on lv_tag has it in three
 * low bits (Include/cpython/longintrepr.h).
 */
BPF_INLINE void send_int(struct trace_value *v, __u64 at)
{
	__s64 n = (__s64)read64(at);

	v->number = (__u64)n;
	if (cfg.layout.version >= 0x030c)
		n = (__s64)((__u64)n >> 3);
	else if (n < 0)
		n = -n;
	send_data(v, at + 8, 4 * ((__u64)n & 0xffffffff));
}

BPF_INLINE void send_text(struct trace_value *v, __u64 obj)
{
	struct string s = { 0 };
	__u64 data = text_data(obj, &s);

	v->width = s.width;
	send_data(v, data, s.size);
}

/* 2.7: PyUnicodeObject has a length and a pointer to its characters. */
BPF_INLINE void send_wide(struct trace_value *v, __u64 at)
{
	v->kind = VALUE_STR;
	v->width = (__u8)cfg.values.wide_width;
	send_data(v, read64(at + 8), (read64(at) & 0x3fffffff) * cfg.values.wide_width);
}

BPF_INLINE void send_type(struct trace_value *v, __u64 obj)
{
	__u64 name = type_name(read64(obj + cfg.layout.ob_type));
	long size = bpf_probe_read_user_str(v->data, sizeof(v->data), (void *)(unsigned long)name);

	v->sent = size < 1 ? 0 : (__u16)(size - 1);
}

/* `bits`: what a local variable, a cell or the stack has. */
TRACE_NOINLINE int read_value(struct trace_value *v, __u64 bits, __u64 moved)
{
	__u64 obj = bits & ~7ULL, at;
	__u32 kind;

	if (!v)
		return 0;
	*v = (struct trace_value){ 0 };
	if (cfg.values.tagged && (bits & 3) == cfg.values.tagged) {
		v->kind = VALUE_WORD;
		v->number = (__u64)((__s64)bits >> 2);
		return 0;
	}
	kind = kind_of(obj, moved);
	if (kind == VALUE_CELL) {
		obj = read64(obj + cfg.layout.ob_type + 8);
		kind = kind_of(obj, moved);
	}
	at = obj + cfg.layout.ob_type + 8;
	v->kind = (__u8)kind;
	if (kind == VALUE_INT)
		send_int(v, at);
	else if (kind == VALUE_STR)
		send_text(v, obj);
	else if (kind == VALUE_BYTES)
		send_data(v, obj + cfg.layout.bytes_data, read64(at));
	else if (kind == VALUE_WIDE)
		send_wide(v, at);
	else if (kind == VALUE_FLOAT || kind == VALUE_WORD)
		v->number = read64(at);
	else if (kind == VALUE_OTHER || kind == VALUE_CELL)
		send_type(v, obj);
	return 0;
}

#define CELLS_MAX 16 /* of a code object, looked at */

/*
 * Up to 3.10 an argument that a closure has is in a cell behind the local variables, and its own
 * place is empty (_PyEval_EvalCode(), Python/ceval.c). 0: it is not.
 */
BPF_NOINLINE __u64 cell_of(__u64 frame, __u64 code, __u32 arg)
{
	__u64 map = read64(code + cfg.values.code_cell2arg), of, cnt;
	__u32 nlocals = field_of(code, cfg.values.code_nlocals), i;

	if (!map)
		return 0;
	/* co_cellvars is before co_cell2arg. */
	cnt = read64(read64(code + cfg.values.code_cell2arg - 8) + cfg.layout.ob_type + 8);
	for (i = 0; i < CELLS_MAX && i < cnt; i++) {
		of = cfg.values.cell2arg_width == 1 ? read64(map + i) & 0xff : read64(map + 8 * i);
		if (is_same(of, arg))
			return read64(frame + cfg.local_at + 8 * ((__u64)nlocals + i));
	}
	return 0;
}

TRACE_NOINLINE int send_args(__u64 frame, __u64 id, __u64 moved)
{
	const __u32 size =
		sizeof(struct trace_event) + cfg.values.args * sizeof(struct trace_value);
	__u64 code = code_of(frame);
	struct trace_valued *e;
	__u32 before;

	e = RESERVE_EVENT(size, &before);
	if (!e)
		return 0;
	e->e.lost = before;
	for (__u32 i = 0; i < TRACE_ARGS_MAX && i < cfg.values.args; i++) {
		__u64 bits = read64(frame + cfg.local_at + 8 * i);

		if (!bits && cfg.values.code_cell2arg)
			bits = cell_of(frame, code, i);
		read_value(&e->at[i], bits, moved);
	}
	/* What reads them takes no time of the function. */
	fill_event(&e->e, EVENT_CALL, frame, caller_of(frame), id);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * RETURN_CONST: its argument is at the instruction that the frame is at, or, as long as the handler
 * has not noted it, behind that.
 */
BPF_NOINLINE __u64 constant_of(__u64 frame, __u64 code, __u32 opcode)
{
	__u64 at = read64(frame + cfg.layout.frame_lasti);
	__u64 consts = read64(code + cfg.values.code_consts), wide;
	__u16 words[3] = { 0 };

	if (read_user(words, sizeof(words), at - 2))
		return 0;
	if ((words[1] & 0xff) != opcode) {
		words[0] = words[1];
		words[1] = words[2];
	}
	if ((words[1] & 0xff) != opcode)
		return 0;
	wide = (words[0] & 0xff) == cfg.values.opcode_extended ? words[0] & 0xff00 : 0;
	wide = wide ? tuple_item(consts, (__u32)wide | words[1] >> 8) : 0;
	return wide ? wide : tuple_item(consts, words[1] >> 8);
}

/*
 * RETURN_VALUE: the only value on the stack of the frame, which begins behind its local variables.
 */
BPF_NOINLINE __u64 returned_bits(__u64 frame, __u32 constant)
{
	__u64 code = code_of(frame);

	if (constant)
		return constant_of(frame, code, constant);
	return read64(frame + cfg.local_at + 8 * (__u64)field_of(code, cfg.values.code_nlocals));
}

TRACE_NOINLINE int send_return(__u64 frame, __u64 bits, __u32 kind, __u64 moved)
{
	struct trace_valued *e;
	__u32 before;

	e = RESERVE_EVENT(sizeof(struct trace_event) + sizeof(struct trace_value), &before);
	if (!e)
		return 0;
	e->e.lost = before;
	fill_event(&e->e, kind, frame, 0, 0);
	read_value(&e->at[0], bits, moved);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif /* PYPERF_TRACE_VALUES_BPF_H */
