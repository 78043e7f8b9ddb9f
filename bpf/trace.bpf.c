// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls of Python functions, counted by code object at breakpoints in the interpreter
 * (user/trace/points.h).
 *
 * Input:   the registers at a breakpoint: a function begins, or goes on behind yield or await.
 * Output:  its count in `codes`; for a new one, its names in the ring buffer `news`.
 * Cost:    four reads of the process, one look-up. The trap itself costs twice as much.
 * Fails:   the frame is not found: counted as `unknown`.
 *
 * An object of its own, because the sampler does not need it, and a sample may come in the middle
 * of it. Programs at breakpoints can be preempted by each other, so there is no scratch: what is
 * needed fits on the stack.
 */
#include "seam.bpf.h"
#include "kernel_types.bpf.h"
#include "trace.h"

char LICENSE[] SEC("license") = "GPL";

/* Not global: a kernel before 5.13 gives those no pointers to the stack (e5069b9c23b3). */
#define TRACE_NOINLINE static __attribute__((noinline))

const volatile struct trace_cfg cfg = { .spot_cnt = 1 };

/* By spot. User space reads it. */
struct trace_way ways[TRACE_SPOTS];

/*
 * Code object -> its counts. Written here, emptied by the end. Full: counted as lost_full. 80 B
 * each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct trace_key);
	__type(value, struct trace_count);
} codes SEC(".maps");

/*
 * What new code objects are called: struct trace_code. Full: user space reads the names later, if
 * they are there.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} news SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct trace_counters);
} counters SEC(".maps");

/* A function that begins or goes on. */
struct place {
	__u64 frame;
	__u64 code;
	__u32 resumed;
	__u32 other; /* it is another opcode */
};

/* Preemptible: two programs of one CPU may meet here. */
BPF_INLINE void count(enum trace_counter which)
{
	__u32 zero = 0;
	struct trace_counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (c)
		__sync_fetch_and_add(&c->n[which], 1);
}

BPF_INLINE __u64 read64(__u64 addr)
{
	__u64 word;

	return read_user(&word, sizeof(word), addr) ? 0 : word;
}

/* The low bits of the pointer to the code object are a tag from 3.14 on (_PyStackRef). */
BPF_INLINE __u64 code_of(__u64 frame)
{
	return read64(frame + cfg.layout.frame_code) & ~7ULL;
}

BPF_INLINE int is_resume(__u8 opcode)
{
	for (int i = 0; i < TRACE_OPCODES; i++)
		if (cfg.opcodes[i] && cfg.opcodes[i] == opcode)
			return 1;
	return 0;
}

/* ---- where the frame is ---------------------------------------------------------------------- */

/*
 * Bytes of the bytecode: ob_size (Include/cpython/code.h, _PyCode_NBYTES()), which is behind
 * ob_type.
 */
BPF_INLINE __u64 code_bytes(__u64 code)
{
	return 2 * read64(code + cfg.layout.ob_type + 8);
}

/*
 * RESUME, with its argument, `back` bytes before `instr` in this code object; 0: it is not there.
 * In free-threaded builds from 3.14 on each thread has its own bytecode, which may be anywhere.
 */
BPF_INLINE __u32 resume_before(__u64 code, __u64 size, __u64 instr, __u32 back)
{
	__u64 at = instr - back;
	__u16 word;

	if (at & 1)
		return 0;
	if (cfg.layout.code_tlbc == PY_OFF_NONE && at - code - cfg.layout.code_bytecode >= size)
		return 0;
	if (read_user(&word, sizeof(word), at) || !is_resume((__u8)word))
		return 0;
	return word;
}

TRACE_NOINLINE __u32 try_instr(__u64 code, __u64 size, __u64 instr, __u32 back)
{
	return resume_before(code, size, instr, back);
}

/*
 * Finds the register that has the next instruction of `code`, behind RESUME or still at it. 0:
 * none.
 */
BPF_INLINE int search_instr(const __u64 *regs, __u64 code, struct trace_way *way, __u32 *word)
{
	__u64 size = code_bytes(code);

	for (__u32 i = 0; i < TRACE_REG_CNT; i++) {
		__u32 back = cfg.resume_size;

		*word = try_instr(code, size, regs[i], back);
		if (!*word) {
			back = 0;
			*word = try_instr(code, size, regs[i], back);
		}
		if (*word) {
			way->instr = (__u8)i;
			way->back = (__u8)back;
			return 1;
		}
	}
	return 0;
}

BPF_INLINE int is_code(__u64 addr)
{
	return addr && read64(addr + cfg.layout.ob_type) == cfg.code_type;
}

/* What the opcode and its argument say. */
BPF_INLINE void set_resumed(struct place *p, __u32 word)
{
	__u32 where = word >> 8 & cfg.resume_mask;

	p->resumed = where != 0;
	p->other = where == TRACE_RESUME_GENEXPR || !is_resume((__u8)word);
}

/*
 * Is regs[i] the frame? A function of its own: clang would enter the loop of the caller behind a
 * call, which kernels before 6.1 take for a loop without an end.
 */
TRACE_NOINLINE int try_register(const __u64 *regs, __u32 i, struct trace_way *way, struct place *p)
{
	__u64 code = code_of(regs[i]);
	__u32 word = 0;

	if (!is_code(code) || !search_instr(regs, code, way, &word))
		return 0;
	way->frame = (__u8)i;
	p->frame = regs[i];
	p->code = code;
	set_resumed(p, word);
	return 1;
}

TRACE_NOINLINE int search_frame(user_regs *ctx, struct trace_way *way, struct place *p)
{
	__u64 regs[GREG_CNT];

	arch_copy_regs(regs, ctx);
	for (__u32 i = 0; i < TRACE_REG_CNT; i++)
		if (try_register(regs, i, way, p))
			return 1;
	return 0;
}

/* The same hits again give the same answer: from then on only these registers are read. */
BPF_INLINE void learn(struct trace_way *known, const struct trace_way *way)
{
	struct trace_way next = *way;

	next.agreed = 1;
	if (known->agreed && known->frame == way->frame && known->instr == way->instr &&
	    known->back == way->back)
		next.agreed = known->agreed < TRACE_AGREED ? known->agreed + 1 : TRACE_AGREED;
	*known = next;
}

/* By what was learned. 0: it does not hold for this hit. */
BPF_INLINE int known_frame(user_regs *ctx, const struct trace_way *way, struct place *p)
{
	__u64 instr;
	__u16 word = 0;

	p->frame = arch_reg(ctx, way->frame);
	p->code = code_of(p->frame);
	if (!p->code)
		return 0;
	instr = arch_reg(ctx, way->instr);
	if (read_user(&word, sizeof(word), instr - way->back))
		return 0;
	set_resumed(p, word);
	return 1;
}

#define FRAME_BYTES 128

/*
 * Up to 3.10: the frame is an argument of the eval function. f_lasti is -1 until it has run; both
 * fields are read at once.
 */
BPF_INLINE int entered_frame(user_regs *ctx, struct trace_way *known, struct place *p)
{
	__u32 size = (cfg.layout.frame_lasti + 4 - cfg.layout.frame_code) & (FRAME_BYTES - 1);
	__u32 at = (cfg.layout.frame_lasti - cfg.layout.frame_code) & (FRAME_BYTES - 4);
	__u8 buf[FRAME_BYTES] __attribute__((aligned(8))) = { 0 };
	__s32 lasti;

	p->frame = arch_reg(ctx, cfg.entry_reg);
	if (read_user(buf, size, p->frame + cfg.layout.frame_code))
		return 0;
	__builtin_memcpy(&p->code, buf, 8);
	__builtin_memcpy(&lasti, buf + at, 4);
	p->resumed = lasti >= 0;
	if (known->agreed >= TRACE_AGREED)
		return p->code != 0;
	count(TRACE_CTR_note_searched);
	if (!is_code(p->code))
		return 0;
	known->agreed++;
	return 1;
}

BPF_INLINE int find_frame(user_regs *ctx, __u32 spot, struct place *p)
{
	struct trace_way way = { 0 }, *known = &ways[spot & (TRACE_SPOTS - 1)];

	if (!cfg.by_opcode)
		return entered_frame(ctx, known, p);
	if (known->agreed >= TRACE_AGREED && known_frame(ctx, known, p))
		return 1;
	count(TRACE_CTR_note_searched);
	*p = (struct place){ 0 };
	if (!search_frame(ctx, &way, p))
		return 0;
	learn(known, &way);
	return 1;
}

/* ---- what is called -------------------------------------------------------------------------- */

#define CODE_BYTES 128
#define CODE_MULT  0x9e3779b97f4a7c15ULL /* 2^64 / golden ratio, odd */

/* What names a code object. */
struct identity {
	__u64 name, file, linetable;
	__s32 firstlineno;
	__u32 version;
	__u64 fingerprint;
};

BPF_INLINE __u64 mix(__u64 h, __u64 x)
{
	h = (h ^ x) * CODE_MULT;
	return h ^ (h >> 32);
}

/* The verifier knows cfg, so each offset is a constant to it. */
BPF_INLINE __u64 field64(const __u8 *buf, __u32 offset)
{
	__u64 word;

	__builtin_memcpy(&word, buf + ((offset - cfg.layout.code_first) & (CODE_BYTES - 8)), 8);
	return word;
}

BPF_INLINE __u32 field32(const __u8 *buf, __u32 offset)
{
	__u32 word;

	__builtin_memcpy(&word, buf + ((offset - cfg.layout.code_first) & (CODE_BYTES - 4)), 4);
	return word;
}

/*
 * As the sampler tells them apart (codes.bpf.h): by co_version from 3.12 on. Below, by where its
 * names and its line table are, and by the name's characters: exec() in a loop makes all of them at
 * the same places.
 */
BPF_INLINE int identify(const struct place *p, struct identity *id)
{
	__u32 size = (cfg.layout.code_last - cfg.layout.code_first) & (CODE_BYTES - 1);
	__u8 buf[CODE_BYTES] __attribute__((aligned(8))) = { 0 };

	if (read_user(buf, size, p->code + cfg.layout.code_first))
		return -14; /* EFAULT */
	id->name = field64(buf, cfg.layout.code_qualname != PY_OFF_NONE ? cfg.layout.code_qualname
									: cfg.layout.code_name);
	id->file = field64(buf, cfg.layout.code_filename);
	id->linetable = field64(buf, cfg.layout.code_linetable);
	id->firstlineno = (__s32)field32(buf, cfg.layout.code_firstlineno);
	if (cfg.layout.code_version != PY_OFF_NONE)
		id->version = field32(buf, cfg.layout.code_version);
	if (id->version)
		id->fingerprint = mix(id->version, id->name);
	else
		id->fingerprint =
			mix(mix(mix(id->name, id->file), id->linetable + (__u32)id->firstlineno),
			    read64(id->name + cfg.layout.str_hash));
	return 0;
}

/* ---- first sight ----------------------------------------------------------------------------- */

/* Size and place of the characters. 0: it cannot be read. As string_info() in codes.bpf.h. */
BPF_INLINE __u64 string_data(struct trace_name *n)
{
	__u32 shift = cfg.layout.str == PY_STR_STATE_T14 ? 8 : 2, state = 0, kind = 1, ascii;
	__u64 length;

	if (cfg.layout.str == PY_STR_BYTES) {
		length = read64(n->uaddr + cfg.layout.bytes_size);
		n->flags = BLOB_PY2;
		n->width = 1;
		n->size = (__u32)length;
		return length > BLOB_DATA * MAX_BLOB_PIECES ? 0 : n->uaddr + cfg.layout.bytes_data;
	}
	length = read64(n->uaddr + cfg.layout.str_length);
	if (length > BLOB_DATA * MAX_BLOB_PIECES ||
	    read_user(&state, sizeof(state), n->uaddr + cfg.layout.str_state))
		return 0;
	kind = (state >> shift) & 7;
	ascii = (state >> (shift + 4)) & 1;
	if (!((state >> (shift + 3)) & 1) || (kind != 1 && kind != 2 && kind != 4))
		return 0;
	n->flags = ascii ? BLOB_ASCII : 0;
	n->width = (__u8)kind;
	n->size = (__u32)length * kind;
	return n->uaddr + (ascii ? cfg.layout.str_ascii : cfg.layout.str_compact);
}

BPF_INLINE void send_name(struct trace_name *n, __u64 uaddr)
{
	__u32 size;
	__u64 data;

	n->uaddr = uaddr;
	n->size = n->sent = 0;
	n->width = n->flags = 0;
	data = string_data(n);
	if (!data)
		return;
	size = n->size < TRACE_NAME_BYTES ? n->size : TRACE_NAME_BYTES - 1;
	size = BOUND(size, TRACE_NAME_BYTES);
	if (!read_user(n->data, size, data))
		n->sent = (__u16)size;
}

TRACE_NOINLINE int announce(const struct place *p, const struct identity *id, __u64 number)
{
	struct trace_code *c;

	if (!p || !id)
		return 0;
	c = bpf_ringbuf_reserve(&news, sizeof(*c), 0);
	if (!c) {
		count(TRACE_CTR_note_nameless);
		return 0;
	}
	c->id = number;
	c->addr = p->code;
	c->tgid = bpf_get_current_pid_tgid() >> 32;
	c->firstlineno = id->firstlineno;
	c->linetable = id->linetable;
	send_name(&c->name, id->name);
	send_name(&c->file, id->file);
	bpf_ringbuf_submit(c, 0);
	return 0;
}

TRACE_NOINLINE int add_code(const struct place *p, const struct identity *id)
{
	struct trace_key key;
	struct trace_count fresh = { 0 };

	if (!p || !id)
		return 0;
	key = (struct trace_key){ .addr = p->code, .fingerprint = id->fingerprint };
	/*
	 * A running number would take an atomic instruction that gives the old value, which is of
	 * 5.12.
	 */
	fresh.id = mix(key.fingerprint, key.addr) | 1;
	if (!bpf_map_update_elem(&codes, &key, &fresh, BPF_NOEXIST))
		announce(p, id, fresh.id);
	return 0;
}

/* ---- entry ----------------------------------------------------------------------------------- */

BPF_INLINE void count_call(const struct place *p)
{
	struct identity id = { 0 };
	struct trace_count *c;
	struct trace_key key;

	if (identify(p, &id)) {
		count(TRACE_CTR_unknown);
		return;
	}
	key = (struct trace_key){ .addr = p->code, .fingerprint = id.fingerprint };
	c = bpf_map_lookup_elem(&codes, &key);
	if (!c) {
		add_code(p, &id);
		c = bpf_map_lookup_elem(&codes, &key);
	}
	if (!c) {
		count(TRACE_CTR_lost_full);
		return;
	}
	if (p->resumed)
		__sync_fetch_and_add(&c->resumed, 1);
	else
		__sync_fetch_and_add(&c->calls, 1);
}

/* The number of the breakpoint. */
BPF_INLINE __u32 spot_at(__u64 pc)
{
	for (__u32 i = 0; i < TRACE_SPOTS && i < cfg.spot_cnt; i++)
		if (cfg.spots[i].pc == pc)
			return i;
	return TRACE_SPOTS;
}

SEC("uprobe")
int on_call(user_regs *ctx)
{
	__u32 spot = spot_at(arch_pc(ctx));
	struct place p = { 0 };

	if (spot == TRACE_SPOTS || !find_frame(ctx, spot, &p)) {
		count(TRACE_CTR_unknown);
		return 0;
	}
	if (p.other) {
		count(TRACE_CTR_other);
		return 0;
	}
	count_call(&p);
	return 0;
}

/* For the price of the trap alone. */
SEC("uprobe")
int on_nothing(user_regs *ctx)
{
	(void)ctx;
	return 0;
}
