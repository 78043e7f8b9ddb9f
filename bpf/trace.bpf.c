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
#include "taskinfo.bpf.h"
#include "trace.h"

char LICENSE[] SEC("license") = "GPL";

#define TRACE_UNSETTLED 4096

/* Not global: a kernel before 5.13 gives those no pointers to the stack (e5069b9c23b3). */
#define TRACE_NOINLINE	static __attribute__((noinline))

#define TRACE_REFUSED	16384 /* a power of two */

const volatile struct trace_cfg cfg = { .spot_cnt = 1 };

/* By spot. User space reads it. */
struct trace_way ways[TRACE_SPOTS];

/*
 * Code object -> its counts. BPF writes; user space writes to refuse one, and empties it at the
 * end. Full: counted as lost_full. 88 B each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct trace_key);
	__type(value, struct trace_count);
} codes SEC(".maps");

/*
 * Refused code objects, by mark_of(). BPF writes them when `codes` says so, and reads this first,
 * because an array costs less than a hash. A slot has the last code object that came; others are
 * looked up in `codes` again. 128 KiB.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TRACE_REFUSED);
	__type(key, __u32);
	__type(value, __u64);
} refused SEC(".maps");

/*
 * Names of new code objects: struct trace_code. Full: user space reads the names later, if they are
 * still there.
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

/*
 * Events for user space, which pairs beginnings and ends. Full: counted in `lost`, and the next
 * event says so. 16 MiB, only if events are wanted (else a page).
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} events SEC(".maps");

/* Events without room. */
__u32 lost;

/*
 * User space sets it when the trace is over: removing all breakpoints can take seconds, and calls
 * meanwhile belong to no rate.
 */
__u32 over;

/*
 * Thread -> the frame that it runs: until the register is known that has the frame where functions
 * end. Full: nothing is learned from the thread. 32 B each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} running SEC(".maps");

/*
 * Up to 3.10: place where the eval function was entered -> the frame. Deleted where it is left.
 * Full: the end of that call is not seen. 64 B each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct trace_entry);
	__type(value, __u64);
} frames_by_sp SEC(".maps");

/*
 * Thread -> its PyThreadState at its last exception. Full: the least recently used entry goes. 64 B
 * each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} states SEC(".maps");

/*
 * Thread -> the collection that it is in. Deleted at its end. Full: the collection is not seen.
 * 64 B each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct trace_collecting);
} collecting SEC(".maps");

/* By spot: the registers that have held the frame at each hit for which it was known. */
__u32 candidates[TRACE_SPOTS];

/* Number of further beginnings to note in `running`, because some spot is still to be learned. */
__u32 unsettled = TRACE_UNSETTLED;

/* A function that begins or continues. */
struct place {
	__u64 frame;
	__u64 code;
	__u64 type; /* PyCode_Type, in this process */
	__u32 resumed;
	__u32 other;  /* it is another opcode */
	__u32 callee; /* not wanted itself, but called by what is */
};

/* Preemptible: two programs of one CPU may meet here. */
BPF_INLINE void count(enum trace_counter which)
{
	__u32 zero = 0;
	struct trace_counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (c)
		__sync_fetch_and_add(&c->n[which], 1);
}

/* The process and, in the low half, its thread, as the caller's PID namespace sees them. */
BPF_INLINE __u64 this_task(void)
{
	struct bpf_pidns_info here;

	if (cfg.pidns_inum &&
	    !bpf_get_ns_current_pid_tgid(cfg.pidns_dev, cfg.pidns_inum, &here, sizeof(here)))
		return (__u64)here.tgid << 32 | here.pid;
	return bpf_get_current_pid_tgid();
}

BPF_INLINE __u32 this_process(void)
{
	return this_task() >> 32;
}

BPF_INLINE int is_over(void)
{
	return *(volatile __u32 *)&over;
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
 * Reads RESUME, with its argument, `back` bytes before `instr` in this code object; 0: it is not
 * there. In free-threaded builds from 3.14 on each thread has its own bytecode, which may be
 * anywhere.
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

/* Global, so that the verifier checks it once, not for each pair of registers. */
BPF_NOINLINE __u32 try_instr(__u64 code, __u64 size, __u64 instr, __u32 back)
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

/* Global, as spot_at(): 16 comparisons would be 65,536 paths. */
BPF_NOINLINE __u32 is_same(__u64 a, __u64 b)
{
	return a == b;
}

BPF_INLINE int is_code(__u64 addr, __u64 type)
{
	return addr && is_same(read64(addr + cfg.layout.ob_type), type);
}

/* Decides by the opcode and its argument. */
BPF_INLINE void set_resumed(struct place *p, __u32 word)
{
	__u32 where = word >> 8 & cfg.resume_mask;

	p->resumed = where != 0;
	p->other = where == TRACE_RESUME_GENEXPR || !is_resume((__u8)word);
}

/*
 * Is regs[i] the frame? A function of its own: otherwise clang enters the loop of the caller behind
 * a call, which kernels before 6.1 take for an endless loop.
 */
TRACE_NOINLINE int try_register(const __u64 *regs, __u32 i, struct trace_way *way, struct place *p)
{
	__u64 code = code_of(regs[i]);
	__u32 word = 0;

	if (!is_code(code, p->type) || !search_instr(regs, code, way, &word))
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

/* Equal hits give equal answers: from then on only these registers are read. */
BPF_INLINE void learn(struct trace_way *known, const struct trace_way *way)
{
	struct trace_way next = *way;

	next.agreed = 1;
	if (known->agreed && known->frame == way->frame && known->instr == way->instr &&
	    known->back == way->back)
		next.agreed = known->agreed < TRACE_AGREED ? known->agreed + 1 : TRACE_AGREED;
	*known = next;
}

/* Uses the learned registers. 0: they are wrong for this hit. */
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
	if (!is_code(p->code, p->type))
		return 0;
	known->agreed++;
	return 1;
}

BPF_INLINE int find_frame(user_regs *ctx, __u32 spot, struct place *p)
{
	struct trace_way way = { 0 }, *known = &ways[spot & (TRACE_SPOTS - 1)];

	p->type = cfg.code_type + arch_pc(ctx) - cfg.spots[spot & (TRACE_SPOTS - 1)].pc;
	if (!cfg.by_opcode)
		return entered_frame(ctx, known, p);
	if (known->agreed >= TRACE_AGREED && known_frame(ctx, known, p))
		return 1;
	count(TRACE_CTR_note_searched);
	*p = (struct place){ .type = p->type };
	if (!search_frame(ctx, &way, p))
		return 0;
	learn(known, &way);
	return 1;
}

/* ---- what is called -------------------------------------------------------------------------- */

#define CODE_BYTES 128
#define CODE_MULT  0x9e3779b97f4a7c15ULL /* 2^64 / golden ratio, odd */

/* The fields that identify a code object. */
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
 * Identifies code objects like the sampler (codes.bpf.h): by co_version from 3.12 on. Before, by
 * the addresses of its names and its line table, and by the characters of the name, because exec()
 * in a loop makes all of them at the same addresses.
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
	/* Code objects of two children of one process may be equal in all of that. */
	id->fingerprint = mix(id->fingerprint, this_process());
	return 0;
}

BPF_INLINE __u64 number_of(const struct trace_key *key)
{
	return mix(key->fingerprint, key->addr) | 1;
}

/* ---- what is not wanted ---------------------------------------------------------------------- */

BPF_INLINE __u64 *refused_slot(__u64 mark)
{
	__u32 slot = (__u32)(mark >> 32) & (TRACE_REFUSED - 1);

	return bpf_map_lookup_elem(&refused, &slot);
}

/*
 * The mark of a code object in `refused`. From 3.12 on two small reads are enough; before, or when
 * the interpreter has run out of versions, all fields that identify() reads. 0: it cannot be read.
 */
BPF_INLINE __u64 mark_of(const struct place *p)
{
	struct identity id = { 0 };
	struct trace_key key;
	__u32 version = 0;

	if (cfg.layout.code_version != PY_OFF_NONE &&
	    read_user(&version, sizeof(version), p->code + cfg.layout.code_version))
		return 0;
	if (version)
		return mix(version | (__u64)this_process() << 32, p->code) | 1;
	if (identify(p, &id))
		return 0;
	key = (struct trace_key){ .addr = p->code, .fingerprint = id.fingerprint };
	return number_of(&key);
}

/* Global, so that the verifier checks it once. */
BPF_NOINLINE int is_refused_frame(__u64 frame)
{
	struct place p = { .code = code_of(frame) };
	__u64 mark = mark_of(&p), *slot = refused_slot(mark);

	return mark && slot && *slot == mark;
}

/* As it was learned. */
BPF_INLINE __u64 frame_at(user_regs *ctx, __u32 spot)
{
	const struct trace_way *known = &ways[spot & (TRACE_SPOTS - 1)];

	return arch_reg(ctx, cfg.by_opcode ? known->frame : cfg.entry_reg);
}

/* Says no as long as it is not known where the frame is. */
BPF_INLINE int is_refused(user_regs *ctx, __u32 spot)
{
	if (ways[spot & (TRACE_SPOTS - 1)].agreed < TRACE_AGREED)
		return 0;
	return is_refused_frame(frame_at(ctx, spot));
}

BPF_INLINE int is_shim(__u64 frame)
{
	__u8 owner = 0;

	return cfg.layout.frame_owner != PY_OFF_NONE &&
	       !read_user(&owner, 1, frame + cfg.layout.frame_owner) && owner >= 3;
}

/* From 3.12 on, a call from C has a frame of its own in between (FRAME_OWNED_BY_CSTACK). */
BPF_INLINE __u64 caller_of(__u64 frame)
{
	__u64 caller = read64(frame + cfg.layout.frame_back);

	return caller && is_shim(caller) ? read64(caller + cfg.layout.frame_back) : caller;
}

/* Global, as is_refused_frame(). The frame runs a function that has been called and is wanted. */
BPF_NOINLINE int is_wanted_frame(__u64 frame)
{
	struct place p = { .code = code_of(frame) };
	struct identity id = { 0 };
	struct trace_count *c;
	struct trace_key key;

	if (!p.code || identify(&p, &id))
		return 0;
	key = (struct trace_key){ .addr = p.code, .fingerprint = id.fingerprint };
	c = bpf_map_lookup_elem(&codes, &key);
	return c && !c->refused;
}

/* Nobody wants this frame's function itself, but the function that calls it. */
BPF_INLINE int is_callee(__u64 frame)
{
	__u64 caller = cfg.callees ? caller_of(frame) : 0;

	return caller && !is_refused_frame(caller) && is_wanted_frame(caller);
}

TRACE_NOINLINE int refuse(const struct place *p)
{
	__u64 mark, *slot;

	if (!p)
		return 0;
	mark = mark_of(p);
	slot = refused_slot(mark);
	if (slot)
		*slot = mark;
	return 0;
}

/* ---- first sight ----------------------------------------------------------------------------- */

struct string {
	__u32 size; /* in bytes */
	__u8 width; /* of a character */
	__u8 flags;
};

/* The same for a `str` that is no name: as long as there are. */
BPF_INLINE __u64 text_data(__u64 uaddr, struct string *n)
{
	__u32 shift = cfg.layout.str == PY_STR_STATE_T14 ? 8 : 2, state = 0, kind = 1, ascii;
	__u64 length = read64(uaddr + cfg.layout.str_length);

	if (length >> 30 || read_user(&state, sizeof(state), uaddr + cfg.layout.str_state))
		return 0;
	kind = (state >> shift) & 7;
	ascii = (state >> (shift + 4)) & 1;
	if (!((state >> (shift + 3)) & 1) || (kind != 1 && kind != 2 && kind != 4))
		return 0;
	n->flags = ascii ? BLOB_ASCII : 0;
	n->width = (__u8)kind;
	n->size = (__u32)length * kind;
	return uaddr + (ascii ? cfg.layout.str_ascii : cfg.layout.str_compact);
}

/* Size and place of the characters. 0: it cannot be read. As string_info() in codes.bpf.h. */
BPF_INLINE __u64 string_data(__u64 uaddr, struct string *n)
{
	__u64 length, data;

	if (cfg.layout.str == PY_STR_BYTES) {
		length = read64(uaddr + cfg.layout.bytes_size);
		n->flags = BLOB_PY2;
		n->width = 1;
		n->size = (__u32)length;
		return length > BLOB_DATA * MAX_BLOB_PIECES ? 0 : uaddr + cfg.layout.bytes_data;
	}
	data = text_data(uaddr, n);
	return n->size > 4 * BLOB_DATA * MAX_BLOB_PIECES ? 0 : data;
}

BPF_INLINE void send_name(struct trace_name *n, __u64 uaddr)
{
	struct string s = { 0 };
	__u64 data = string_data(uaddr, &s);
	__u32 size;

	n->uaddr = uaddr;
	n->sent = 0;
	n->size = s.size;
	n->width = s.width;
	n->flags = s.flags;
	if (!data)
		return;
	size = n->size < TRACE_NAME_BYTES ? n->size : TRACE_NAME_BYTES - 1;
	size = BOUND(size, TRACE_NAME_BYTES);
	if (!read_user(n->data, size, data))
		n->sent = (__u16)size;
}

BPF_INLINE void fill_code(struct trace_code *c, const struct place *p, const struct identity *id,
			  __u64 number)
{
	c->id = number;
	c->key = (struct trace_key){ .addr = p->code, .fingerprint = id->fingerprint };
	c->tgid = this_process();
	c->firstlineno = id->firstlineno;
	c->linetable = id->linetable;
	send_name(&c->name, id->name);
	send_name(&c->file, id->file);
}

/* A line table is `bytes`; in 2.7 `str`, which has the same fields. */
BPF_INLINE void send_lines(struct trace_code_lines *c)
{
	__u64 size = read64(c->code.linetable + cfg.layout.bytes_size);
	__u32 sent = BOUND((__u32)size, TRACE_LINE_BYTES);

	c->size = (__u32)size;
	c->sent = 0;
	if (size && size < TRACE_LINE_BYTES &&
	    !read_user(c->data, sent, c->code.linetable + cfg.layout.bytes_data))
		c->sent = sent;
}

TRACE_NOINLINE int announce(const struct place *p, const struct identity *id, __u64 number)
{
	struct trace_code_lines *lines;
	struct trace_code *c;

	if (!p || !id)
		return 0;
	if (cfg.lines) {
		lines = bpf_ringbuf_reserve(&news, sizeof(*lines), 0);
		if (!lines) {
			count(TRACE_CTR_note_nameless);
			return 0;
		}
		fill_code(&lines->code, p, id, number);
		send_lines(lines);
		bpf_ringbuf_submit(lines, 0);
		return 0;
	}
	c = bpf_ringbuf_reserve(&news, sizeof(*c), 0);
	if (!c) {
		count(TRACE_CTR_note_nameless);
		return 0;
	}
	fill_code(c, p, id, number);
	bpf_ringbuf_submit(c, 0);
	return 0;
}

/* Of what the tuple has at least so many of. */
BPF_NOINLINE __u64 tuple_item(__u64 tuple, __u32 i)
{
	if (i >= read64(tuple + cfg.layout.ob_type + 8))
		return 0;
	return read64(tuple + cfg.values.tuple_items + 8 * (__u64)i);
}

BPF_INLINE void send_param(struct trace_param *p, __u64 name)
{
	struct string s = { 0 };
	__u64 data = name ? string_data(name, &s) : 0;
	__u32 size = s.size < TRACE_PARAM_BYTES ? s.size : TRACE_PARAM_BYTES - 1;

	p->size = s.size;
	p->width = s.width;
	p->flags = s.flags;
	p->sent = 0;
	size = BOUND(size, TRACE_PARAM_BYTES);
	if (data && !read_user(p->data, size, data))
		p->sent = (__u16)size;
}

BPF_INLINE __u32 field_of(__u64 code, __u32 at)
{
	__u32 word;

	return read_user(&word, sizeof(word), code + at) ? 0 : word;
}

TRACE_NOINLINE int announce_params(__u64 code, __u64 number)
{
	struct trace_params *p = bpf_ringbuf_reserve(&news, sizeof(*p), 0);
	__u64 names = read64(code + cfg.values.code_names);

	if (!p) {
		count(TRACE_CTR_note_nameless);
		return 0;
	}
	p->id = number;
	p->argcount = field_of(code, cfg.values.code_argcount);
	/* 2.7 has none. */
	p->kwonly = cfg.values.code_kwonly ? field_of(code, cfg.values.code_kwonly) : 0;
	p->flags = field_of(code, cfg.values.code_flags);
	p->pad = 0;
	for (__u32 i = 0; i < TRACE_ARGS_MAX; i++)
		send_param(&p->at[i], tuple_item(names, i));
	bpf_ringbuf_submit(p, 0);
	return 0;
}

#define IMPORTLIB_FILE	"<frozen importlib._bootstrap>"
#define IMPORTLIB_START 0x206e657a6f72663cULL /* "<frozen " */

/*
 * Refuses all functions but those of the file here: until user space has read their names, all that
 * are called would fill the ring.
 */
BPF_INLINE int may_import(__u64 file)
{
	return read64(file + cfg.layout.str_length) == sizeof(IMPORTLIB_FILE) - 1 &&
	       read64(file + cfg.layout.str_ascii) == IMPORTLIB_START;
}

TRACE_NOINLINE int add_code(const struct place *p, const struct identity *id)
{
	struct trace_key key;
	struct trace_count fresh = { 0 };

	if (!p || !id)
		return 0;
	key = (struct trace_key){ .addr = p->code, .fingerprint = id->fingerprint };
	/*
	 * A running number would need an atomic instruction that returns the old value, which is of
	 * 5.12.
	 */
	fresh.id = number_of(&key);
	fresh.refused = cfg.imports && !may_import(id->file);
	if (bpf_map_update_elem(&codes, &key, &fresh, BPF_NOEXIST))
		return 0;
	announce(p, id, fresh.id);
	if (cfg.values.args)
		announce_params(p->code, fresh.id);
	return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

BPF_INLINE __u32 this_thread(void)
{
	return (__u32)this_task();
}

/*
 * CPU time of the thread. The kernel adds it up at ticks and switches; the time since then is the
 * growth of the difference between the clocks.
 */
BPF_INLINE void set_ran(struct trace_event *e)
{
	struct task_struct *task = (void *)(unsigned long)bpf_get_current_task();
	__u64 lag = e->ns - BPF_CORE_READ(task, se.exec_start);

	e->ran_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	e->ran_lag = (lag & ((1ULL << TRACE_LAG_BITS) - 1)) | (__u64)bpf_get_smp_processor_id()
								      << TRACE_LAG_BITS;
}

BPF_INLINE void fill_event(struct trace_event *e, __u32 kind, __u64 frame, __u64 caller, __u64 code)
{
	e->ns = bpf_ktime_get_ns();
	e->frame = frame;
	e->caller = caller;
	e->code = code;
	e->tid = this_thread();
	e->lost = *(volatile __u32 *)&lost;
	e->kind = kind;
	e->tgid = this_process();
	e->ran_ns = e->ran_lag = 0;
	if (cfg.slow)
		set_ran(e);
}

BPF_INLINE void send_event(__u32 kind, __u64 frame, __u64 caller, __u64 code)
{
	struct trace_event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	fill_event(e, kind, frame, caller, code);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP); /* user space looks often enough */
}

/* ---- values ---------------------------------------------------------------------------------- */

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
	struct trace_valued *e = bpf_ringbuf_reserve(&events, size, 0);
	__u64 code = code_of(frame);

	if (!e) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
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
	struct trace_valued *e = bpf_ringbuf_reserve(
		&events, sizeof(struct trace_event) + sizeof(struct trace_value), 0);

	if (!e) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	fill_event(&e->e, kind, frame, 0, 0);
	read_value(&e->at[0], bits, moved);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* ---- beginnings and ends --------------------------------------------------------------------- */

/* Notes the frame that the thread runs; 0: not known. */
BPF_INLINE void note_running(__u64 frame)
{
	__u32 tid = this_thread();

	bpf_map_update_elem(&running, &tid, &frame, BPF_ANY);
}

enum begin_with {
	BEGIN_WITH_STACK = 1,  /* send_call() */
	BEGIN_WITH_VALUES = 2, /* send_args() */
};

/*
 * Notes a beginning, by which the ends of functions find the frame. Not 0: the caller sends the
 * beginning, by a function whose BPF stack must not add to this one's.
 */
BPF_NOINLINE int take_begin(__u64 frame, __u64 id, __u64 sp, __u32 kind, __u32 callee)
{
	struct trace_entry at = { .sp = sp, .tid = this_thread() };

	if (!cfg.by_opcode) {
		bpf_map_update_elem(&frames_by_sp, &at, &frame, BPF_ANY);
	} else if (unsettled) {
		unsettled--;
		note_running(frame);
	}
	if (cfg.slow && !callee)
		return BEGIN_WITH_STACK;
	if (cfg.values.args && kind == EVENT_CALL)
		return BEGIN_WITH_VALUES;
	send_event(kind, frame, caller_of(frame), id);
	return 0;
}

/* A bit for each register that has this value. */
BPF_INLINE __u32 registers_with(user_regs *ctx, __u64 value)
{
	__u64 regs[GREG_CNT];
	__u32 mask = 0;

	arch_copy_regs(regs, ctx);
	for (__u32 i = 0; i < TRACE_REG_CNT; i++)
		mask |= (is_same(regs[i], value) & 1) << i;
	return mask;
}

/* The register that has the frame where functions begin; another number: not known. */
BPF_INLINE __u32 entry_register(void)
{
	for (__u32 i = 0; i < TRACE_SPOTS && i < cfg.spot_cnt; i++)
		if (cfg.spots[i].kind == POINT_RESUME && ways[i].agreed)
			return ways[i].frame;
	return TRACE_REG_CNT;
}

/* Global, as spot_at(). */
BPF_NOINLINE __u32 choose_register(__u32 mask)
{
	__u32 entry = entry_register();

	if (entry < TRACE_REG_CNT && (mask >> entry & 1))
		return entry;
	for (__u32 i = 0; i < TRACE_REG_CNT; i++)
		if (mask >> i & 1)
			return i;
	return TRACE_REG_CNT;
}

/*
 * Learns the registers that have held the frame at this spot each time: a register with it by
 * chance, or left over, does not each time.
 */
BPF_INLINE void learn_register(__u32 spot, __u32 same)
{
	struct trace_way *known = &ways[spot & (TRACE_SPOTS - 1)];
	__u32 both = same & candidates[spot & (TRACE_SPOTS - 1)];

	if (known->agreed && both)
		same = both;
	else
		known->agreed = 0;
	candidates[spot & (TRACE_SPOTS - 1)] = same;
	known->frame = (__u8)choose_register(same);
	known->agreed++;
}

/* A function ends: its frame is the one that the thread runs. */
TRACE_NOINLINE int learn_end(user_regs *ctx, __u32 spot)
{
	__u32 tid = this_thread(), same;
	__u64 *last = bpf_map_lookup_elem(&running, &tid);

	unsettled = TRACE_UNSETTLED;
	if (!last || !*last)
		return 0;
	same = registers_with(ctx, *last);
	if (same)
		learn_register(spot, same);
	return 0;
}

/* `frame`: 0: it is not known. 1: the caller sends the end with its value. */
BPF_NOINLINE int take_end(__u64 frame, __u32 kind)
{
	if (unsettled)
		note_running(frame ? caller_of(frame) : 0);
	if (!frame)
		count(TRACE_CTR_unknown_end);
	else if (cfg.filtered && is_refused_frame(frame) && !is_callee(frame))
		count(TRACE_CTR_refused);
	else if (cfg.values.returns && kind == EVENT_RETURN)
		return 1;
	else
		send_event(kind, frame, 0, 0);
	return 0;
}

BPF_INLINE int on_end(user_regs *ctx, __u32 spot, __u32 kind)
{
	struct trace_way *known = &ways[spot & (TRACE_SPOTS - 1)];
	const volatile struct trace_spot *s = &cfg.spots[BOUND(spot, TRACE_SPOTS)];
	__u64 frame;

	if (known->agreed < TRACE_AGREED)
		learn_end(ctx, spot);
	frame = known->agreed ? arch_reg(ctx, known->frame) : 0;
	if (!take_end(frame, kind))
		return 0;
	return send_return(frame, returned_bits(frame, s->constant), kind, arch_pc(ctx) - s->pc);
}

/* Does the branch that is about to be executed leave the function? */
BPF_INLINE int leaves(user_regs *ctx, __u32 condition)
{
	if (condition == CONDITION_ALWAYS)
		return 1;
	return arch_condition(ctx, condition & 15) == !!(condition & CONDITION_TAKEN);
}

/* Like learn_end(), if the stack pointer tells the frame. */
TRACE_NOINLINE int learn_exit(user_regs *ctx, __u32 spot, __u64 frame)
{
	struct trace_way *known = &ways[spot & (TRACE_SPOTS - 1)];
	__u32 same = registers_with(ctx, frame);

	/* No register: that does not change any more. */
	if (known->agreed)
		same &= candidates[spot & (TRACE_SPOTS - 1)];
	candidates[spot & (TRACE_SPOTS - 1)] = same;
	known->frame = (__u8)choose_register(same);
	known->agreed++;
	return 0;
}

/* What the eval function is about to return; 0: an exception, or it is not known. */
BPF_INLINE __u64 left_bits(user_regs *ctx, const volatile struct trace_spot *s)
{
	__u64 value = s->reg == ARCH_REG_SP ? arch_sp(ctx) : arch_reg(ctx, s->reg);

	if (s->place == PLACE_REGISTER)
		return value;
	return s->place == PLACE_MEMORY ? read64(value + (__u64)(__s64)s->offset) : 0;
}

/*
 * The frame by the stack pointer at entry. Greenlets have several frames at one address, so a
 * register is better, if one is known.
 */
BPF_INLINE int on_exit_insn(user_regs *ctx, __u32 spot, const volatile struct trace_spot *s)
{
	struct trace_way *known = &ways[spot & (TRACE_SPOTS - 1)];
	struct trace_entry at = { .sp = arch_sp(ctx) + s->sp_below, .tid = this_thread() };
	__u64 *entry, frame;

	if (!leaves(ctx, s->condition))
		return 0;
	entry = bpf_map_lookup_elem(&frames_by_sp, &at);
	if (!entry)
		return 0;
	frame = *entry;
	if (known->agreed < TRACE_AGREED)
		learn_exit(ctx, spot, frame);
	else if (candidates[spot & (TRACE_SPOTS - 1)])
		frame = arch_reg(ctx, known->frame);
	if (cfg.values.returns)
		send_return(frame, left_bits(ctx, s), EVENT_LEFT, arch_pc(ctx) - s->pc);
	else
		send_event(EVENT_LEFT, frame, 0, 0);
	if (frame == *entry)
		bpf_map_delete_elem(&frames_by_sp, &at);
	return 0;
}

/* PyTraceBack_Here(PyFrameObject *) */
BPF_NOINLINE int take_raise(__u64 frame)
{
	if (cfg.frame_of_object)
		frame = read64(frame + cfg.frame_of_object);
	if (cfg.by_opcode && unsettled)
		note_running(frame);
	send_event(EVENT_RAISE, frame, caller_of(frame), 0);
	return 0;
}

/* ---- exceptions ------------------------------------------------------------------------------ */

#define STATES_MAX 1024 /* looked at */

/*
 * All global, like spot_at(), because they are called in loops. 0: there is none, or it cannot be
 * read.
 */
BPF_NOINLINE __u64 next_state(__u64 tstate)
{
	return read64(tstate + cfg.layout.tstate_next);
}

BPF_NOINLINE __u64 first_state(__u64 interp)
{
	return read64(interp + cfg.layout.interp_threads_head);
}

BPF_NOINLINE __u64 next_interpreter(__u64 interp)
{
	return read64(interp + cfg.layout.interp_next);
}

/*
 * Does the state belong to the thread with this thread pointer, and have an exception, if one is
 * wanted?
 */
BPF_NOINLINE __u32 is_meant(__u64 tstate, __u64 tp)
{
	return tstate && read64(tstate + cfg.layout.tstate_thread_id) == tp &&
	       (!cfg.exc_at || read64(tstate + cfg.exc_at));
}

/* A thread may have a state in each of several interpreters. Finds the one with the exception. */
BPF_NOINLINE __u64 search_state(__u64 interp, __u64 tp)
{
	__u64 tstate = interp ? first_state(interp) : 0;

	for (__u32 i = 0; i < STATES_MAX && interp; i++) {
		if (is_meant(tstate, tp))
			return tstate;
		if (tstate)
			tstate = next_state(tstate);
		if (!tstate) {
			interp = next_interpreter(interp);
			tstate = first_state(interp);
		}
	}
	return 0;
}

/* `moved`: distance of this process's addresses from those in cfg. */
BPF_INLINE __u64 find_state(__u64 moved)
{
	__u64 tp = task_tp((void *)(unsigned long)bpf_get_current_task());
	__u32 tid = this_thread();
	__u64 *known = bpf_map_lookup_elem(&states, &tid), tstate = known ? *known : 0;

	if (is_meant(tstate, tp))
		return tstate;
	tstate = search_state(read64(cfg.interp_head + moved), tp);
	if (tstate)
		bpf_map_update_elem(&states, &tid, &tstate, BPF_ANY);
	return tstate;
}

/*
 * The type of the exception, if this is the first frame that it reaches. 0: it has a traceback. Up
 * to 3.11 type, value and traceback are three fields of the state.
 */
BPF_INLINE __u64 fresh_type(__u64 tstate)
{
	__u64 exc = read64(tstate + cfg.exc_at);

	if (!cfg.exc_traceback)
		return read64(tstate + cfg.exc_at + 16) ? 0 : exc;
	return read64(exc + cfg.exc_traceback) ? 0 : read64(exc + cfg.layout.ob_type);
}

#define CLASSOBJ 0x6a626f7373616c63ULL /* "classobj", a type */

/* 2.7: a class without `object` is a PyClassObject: cl_name, behind cl_bases and cl_dict. */
BPF_INLINE void read_type(struct trace_raise *e, __u64 type)
{
	__u64 at = type_name(type);

	if (cfg.layout.str == PY_STR_BYTES &&
	    read64(type_name(read64(type + cfg.layout.ob_type))) == CLASSOBJ)
		at = read64(type + cfg.layout.ob_type + 24) + cfg.layout.bytes_data;
	if (bpf_probe_read_user_str(e->type, sizeof(e->type), (void *)(unsigned long)at) < 0)
		e->type[0] = 0;
}

/*
 * 3.13+: below __init__() of a class that is called there is a frame that runs nothing of the
 * program: is_init_shim() of codes.bpf.h. No id is even.
 */
#define CODE_OF_SHIM 2

/* Its copy of the code object must not lie on the BPF stack while names are sent. */
TRACE_NOINLINE int identify_apart(const struct place *p, struct identity *id)
{
	return p && id ? identify(p, id) : -1;
}

/* The id of the code object of a frame; its names are sent at first sight. */
BPF_NOINLINE __u64 code_id_of(__u64 frame)
{
	struct place p = { .frame = frame, .code = code_of(frame) };
	struct identity id = { 0 };
	struct trace_key key;

	if (!p.code || identify_apart(&p, &id))
		return 0;
	if (id.name == id.file)
		return CODE_OF_SHIM;
	key = (struct trace_key){ .addr = p.code, .fingerprint = id.fingerprint };
	if (!bpf_map_lookup_elem(&codes, &key))
		add_code(&p, &id);
	return number_of(&key);
}

/* The frame's own bytecode, in builds where each thread has one (3.14t, _PyCodeArray). */
BPF_INLINE __u64 bytecode_of(__u64 frame, __u64 code)
{
	__u32 index = 0;

	if (cfg.layout.frame_tlbc_index != PY_OFF_NONE)
		read_user(&index, sizeof(index), frame + cfg.layout.frame_tlbc_index);
	if (!index)
		return code + cfg.layout.code_bytecode;
	return read64(read64(code + cfg.layout.code_tlbc) + 8 + 8 * (__u64)index);
}

/*
 * Bytes from the beginning of the bytecode to the frame's instruction; frame_offset() of
 * walk_python.bpf.h explains it.
 */
BPF_NOINLINE __u32 offset_of(__u64 frame)
{
	__u64 code, off;
	__u32 word = 0;

	if (cfg.layout.lasti != PY_LASTI_POINTER) {
		if (read_user(&word, sizeof(word), frame + cfg.layout.frame_lasti) ||
		    (__s32)word < 0)
			return OFFSET_NOT_STARTED;
		return cfg.layout.lasti == PY_LASTI_UNITS ? word * 2 : word;
	}
	code = code_of(frame);
	off = read64(frame + cfg.layout.frame_lasti) - bytecode_of(frame, code);
	return off < OFFSET_NOT_STARTED ? (__u32)off : OFFSET_NOT_STARTED;
}

/* 3.15: below all frames of a thread there is another frame that runs nothing (base_frame). */
BPF_NOINLINE __u64 caller_of_frame(__u64 frame)
{
	__u64 caller = caller_of(frame);

	return caller && is_shim(caller) ? 0 : caller;
}

/*
 * C code (Cython) makes a frame to have its name in the traceback. From 3.11 on such a frame has no
 * caller: that is the frame that the thread runs.
 */
BPF_NOINLINE __u64 running_frame(__u64 tstate)
{
	__u64 frame = read64(tstate + cfg.layout.tstate_frame);

	if (cfg.layout.chain == PY_CHAIN_CFRAME || cfg.layout.chain == PY_CHAIN_CFRAME_SHIM)
		frame = read64(frame + cfg.layout.cframe_frame);
	return is_shim(frame) ? read64(frame + cfg.layout.frame_back) : frame;
}

BPF_INLINE void walk_raise(struct trace_raise *e, __u64 frame, __u64 running)
{
	__u32 cnt = 0;

	if (running && running != frame && !read64(frame + cfg.layout.frame_back)) {
		e->offsets[cnt] = offset_of(frame);
		e->codes[cnt++] = code_id_of(frame);
		frame = running;
	}
	for (__u32 i = 1; i < TRACE_RAISE_FRAMES && i < cfg.frame_max && frame; i++) {
		__u64 id = code_id_of(frame);

		e->codes[cnt & (TRACE_RAISE_FRAMES - 1)] = id;
		e->offsets[cnt & (TRACE_RAISE_FRAMES - 1)] = offset_of(frame);
		/* verifier: a branch here would double the paths with each frame */
		cnt += 1 - is_same(id, CODE_OF_SHIM);
		frame = caller_of_frame(frame);
	}
	e->code_cnt = cnt;
	e->cut = frame != 0;
}

/* Sends a beginning with its stack. The time of the walk is not charged to the function. */
BPF_NOINLINE int send_call(__u64 frame, __u64 id, __u32 kind)
{
	struct trace_call *c = bpf_ringbuf_reserve(&events, sizeof(*c), 0);

	if (!c) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	walk_raise(&c->at, frame, 0);
	fill_event(&c->e, kind, frame, caller_of(frame), id);
	bpf_ringbuf_submit(c, BPF_RB_NO_WAKEUP);
	return 0;
}

TRACE_NOINLINE int send_raise(__u64 tstate, __u64 type, __u64 frame)
{
	struct trace_raise *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	e->ns = bpf_ktime_get_ns();
	e->tgid = this_process();
	e->tid = this_thread();
	e->lost = *(volatile __u32 *)&lost;
	e->pad = 0;
	read_type(e, type);
	walk_raise(e, frame, cfg.frame_of_object ? running_frame(tstate) : 0);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * PyTraceBack_Here(PyFrameObject *): an exception reaches a frame. The first frame is where it was
 * raised.
 */
SEC("uprobe")
int on_raise(user_regs *ctx)
{
	__u64 frame = arch_reg(ctx, ARCH_REG_ARG0), type, tstate;

	if (is_over())
		return 0;
	tstate = find_state(arch_pc(ctx) - cfg.spots[0].pc);
	if (!tstate) {
		count(TRACE_CTR_unknown_raise);
		return 0;
	}
	type = fresh_type(tstate);
	if (!type) {
		count(TRACE_CTR_passed);
		return 0;
	}
	if (cfg.frame_of_object)
		frame = read64(frame + cfg.frame_of_object);
	return send_raise(tstate, type, frame);
}

/*
 * The number of the breakpoint. Global, so that the code after it is verified once for any number,
 * not for each of them.
 */
BPF_NOINLINE __u32 spot_at(__u64 pc)
{
	for (__u32 i = 0; i < TRACE_SPOTS && i < cfg.spot_cnt; i++)
		if (cfg.spots[i].pc == pc)
			return i;
	return TRACE_SPOTS;
}

/* Global, as spot_at(). */
BPF_NOINLINE __u32 spot_by_cookie(__u64 cookie)
{
	return cookie < TRACE_SPOTS ? (__u32)cookie : TRACE_SPOTS;
}

BPF_INLINE __u32 spot_of(user_regs *ctx)
{
	if (cfg.by_cookie)
		return spot_by_cookie(bpf_get_attach_cookie(ctx));
	return spot_at(arch_pc(ctx));
}

/* ---- collections ----------------------------------------------------------------------------- */

/*
 * The generation is the first argument, behind a pointer from 3.8 on that the compiler may have
 * left away.
 */
BPF_INLINE __u32 generation_of(user_regs *ctx)
{
	__u64 first = arch_reg(ctx, ARCH_REG_ARG0), second = arch_reg(ctx, ARCH_REG_ARG1);

	if (first < TRACE_GENERATIONS)
		return (__u32)first;
	return second < TRACE_GENERATIONS ? (__u32)second : TRACE_GENERATIONS;
}

#define GC_STATS_BYTES 24 /* struct gc_generation_stats, Include/internal/pycore_gc.h */

/*
 * 3.15, struct gc_stats in Include/internal/pycore_interp_structs.h: a ring of 11 entries of 64
 * bytes and the number of the newest, and then two rings of three.
 */
#define GC_RING_INDEX  704
#define GC_RING_BYTES  200

/*
 * The number of collections of this generation that the interpreter has counted; with rings, a
 * number that changes with each of them.
 */
BPF_NOINLINE __u64 collections_of(__u64 tstate, __u64 moved, __u32 generation)
{
	__u64 gc = read64(tstate + cfg.tstate_interp) + read64(cfg.gc_said + moved);

	if (!cfg.gc_rings)
		return read64(gc + cfg.gc_stats + (__u64)generation * GC_STATS_BYTES);
	return (__u8)read64(read64(gc + cfg.gc_stats) + GC_RING_INDEX +
			    (__u64)generation * GC_RING_BYTES);
}

/* The generation that has one collection more than before; 0: none. */
BPF_INLINE int set_generation(struct trace_collecting *c, __u64 tstate, __u64 moved)
{
	for (__u32 i = 0; i < TRACE_GENERATIONS; i++) {
		if (collections_of(tstate, moved, i) == c->before[i])
			continue;
		c->generation = i;
		return 1;
	}
	return 0;
}

TRACE_NOINLINE int begin_collection(user_regs *ctx, __u64 moved)
{
	struct trace_collecting fresh = { .generation = generation_of(ctx), .depth = 1 }, *known;
	__u32 tid = this_thread();

	known = bpf_map_lookup_elem(&collecting, &tid);
	if (known) {
		known->depth++;
		return 0;
	}
	if (cfg.gc_stats) {
		__u64 tstate = find_state(moved);

		for (__u32 i = 0; i < TRACE_GENERATIONS; i++)
			fresh.before[i] = collections_of(tstate, moved, i);
	}
	fresh.start_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&collecting, &tid, &fresh, BPF_NOEXIST);
	return 0;
}

/*
 * glibc counts the waiters in a condition variable, above three bits of flags (__wrefs, from 2.25
 * on).
 */
BPF_INLINE __u32 gil_waiters(__u64 tstate, __u64 moved)
{
	__u64 gil = cfg.gil ? cfg.gil + moved
			    : read64(read64(tstate + cfg.tstate_interp) + cfg.interp_gil);
	__u32 refs;

	if (!cfg.gil_waiters || !gil || read_user(&refs, sizeof(refs), gil + cfg.gil_waiters))
		return TRACE_WAITERS_UNKNOWN;
	return refs >> 3;
}

TRACE_NOINLINE int send_collection(user_regs *ctx, struct trace_collecting *c, __u64 moved)
{
	__u64 now = bpf_ktime_get_ns(), tstate = find_state(moved);
	struct trace_collection *e;

	if (!c)
		return 0;
	if (cfg.gc_stats && !set_generation(c, tstate, moved)) {
		count(TRACE_CTR_idle);
		return 0;
	}
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	e->start_ns = c->start_ns;
	e->generation = c->generation;
	e->found = arch_reg(ctx, ARCH_REG_RETURN);
	e->waiters = gil_waiters(tstate, moved);
	e->at.ns = now;
	e->at.tgid = this_process();
	e->at.tid = this_thread();
	e->at.lost = *(volatile __u32 *)&lost;
	e->at.pad = 0;
	e->at.type[0] = 0;
	walk_raise(&e->at, tstate ? running_frame(tstate) : 0, 0);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The collector begins, or returns, in the thread that it interrupts. */
SEC("uprobe")
int on_collect(user_regs *ctx)
{
	__u32 spot = spot_of(ctx), tid = this_thread();
	const volatile struct trace_spot *s = &cfg.spots[BOUND(spot, TRACE_SPOTS)];
	struct trace_collecting *known, ended;

	if (spot == TRACE_SPOTS || is_over())
		return 0;
	if (s->kind == POINT_COLLECT)
		return begin_collection(ctx, arch_pc(ctx) - s->pc);
	known = bpf_map_lookup_elem(&collecting, &tid);
	if (!known) {
		count(TRACE_CTR_unknown_end); /* it had begun before */
		return 0;
	}
	if (--known->depth)
		return 0;
	ended = *known;
	bpf_map_delete_elem(&collecting, &tid);
	return send_collection(ctx, &ended, arch_pc(ctx) - s->pc);
}

/* ---- audit events ---------------------------------------------------------------------------- */

/* Global, as spot_at(). One of the events that are wanted. */
BPF_NOINLINE int is_audited(__u64 event)
{
	union {
		char text[8 * TRACE_AUDIT_WORDS];
		__u64 words[TRACE_AUDIT_WORDS];
	} name = { 0 };
	__u32 found = 0;

	if (bpf_probe_read_user_str(name.text, sizeof(name.text), (void *)(unsigned long)event) < 0)
		return 0;
	for (__u32 i = 0; i < TRACE_AUDITS; i++) {
		__u64 other = 0;

		for (int k = 0; k < TRACE_AUDIT_WORDS; k++)
			other |= (name.words[k] & cfg.audits[i].mask[k]) ^ cfg.audits[i].name[k];
		found |= (i < cfg.audit_cnt) & !other;
	}
	return found;
}

/* The characters of a string of ASCII alone, which a zero ends. 0: it is another one. */
BPF_INLINE __u64 ascii_text(__u64 str)
{
	__u32 shift = cfg.layout.str == PY_STR_STATE_T14 ? 8 : 2, state = 0;

	if (!str || read_user(&state, sizeof(state), str + cfg.layout.str_state))
		return 0;
	return (state >> (shift + 4)) & 1 ? str + cfg.layout.str_ascii : 0;
}

TRACE_NOINLINE int send_audit(__u64 event, __u64 frame)
{
	struct trace_raise *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	e->ns = bpf_ktime_get_ns();
	e->tgid = this_process();
	e->tid = this_thread();
	e->lost = *(volatile __u32 *)&lost;
	e->pad = 0;
	if (bpf_probe_read_user_str(e->type, sizeof(e->type), (void *)(unsigned long)event) < 0)
		e->type[0] = 0;
	walk_raise(e, frame, 0);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * The name of the event here; 0: it has been counted. If there is a hook, sys.audit() raises its
 * event in C, too: with the same characters, next in this thread.
 */
BPF_INLINE __u64 audited_here(user_regs *ctx, __u32 kind)
{
	__u64 event, second = arch_reg(ctx, ARCH_REG_ARG1), *last;
	__u32 tid = this_thread();

	if (kind == POINT_AUDIT_PYTHON) {
		event = ascii_text(read64(second));
		bpf_map_update_elem(&running, &tid, &event, BPF_ANY);
		return event;
	}
	event = kind == POINT_AUDIT ? arch_reg(ctx, ARCH_REG_ARG0) : second;
	last = bpf_map_lookup_elem(&running, &tid);
	if (!last || *last != event)
		return event;
	*last = 0;
	return 0;
}

/* Where an audit event is raised, in the thread that does it. */
SEC("uprobe")
int on_audit(user_regs *ctx)
{
	__u32 spot = spot_of(ctx);
	const volatile struct trace_spot *s = &cfg.spots[BOUND(spot, TRACE_SPOTS)];
	__u64 event, tstate;

	if (spot == TRACE_SPOTS || is_over())
		return 0;
	event = audited_here(ctx, s->kind);
	if (!event || !is_audited(event)) {
		count(TRACE_CTR_refused);
		return 0;
	}
	tstate = find_state(arch_pc(ctx) - s->pc);
	return send_audit(event, tstate ? running_frame(tstate) : 0);
}

/* ---- entry ----------------------------------------------------------------------------------- */

/* The code object's id; 0: it is not counted. */
BPF_INLINE __u64 count_call(struct place *p)
{
	struct identity id = { 0 };
	struct trace_count *c;
	struct trace_key key;

	if (identify(p, &id)) {
		count(TRACE_CTR_unknown);
		return 0;
	}
	key = (struct trace_key){ .addr = p->code, .fingerprint = id.fingerprint };
	c = bpf_map_lookup_elem(&codes, &key);
	if (!c) {
		add_code(p, &id);
		c = bpf_map_lookup_elem(&codes, &key);
	}
	if (!c) {
		count(TRACE_CTR_lost_full);
		return 0;
	}
	if (c->refused) {
		refuse(p);
		p->callee = p->callee || is_callee(p->frame);
		if (p->callee)
			return c->id;
		count(TRACE_CTR_refused);
		return 0;
	}
	if (p->resumed)
		__sync_fetch_and_add(&c->resumed, 1);
	else
		__sync_fetch_and_add(&c->calls, 1);
	return c->id;
}

/*
 * The id of the function that begins or continues here, and its frame. 0: it does not count. A
 * function of its own, because otherwise its BPF stack would add to that of all that follows it
 * (512 bytes).
 */
TRACE_NOINLINE __u64 take_call(user_regs *ctx, __u32 spot, struct place *p)
{
	if (!p)
		return 0;
	if (cfg.filtered && is_refused(ctx, spot)) {
		p->callee = is_callee(frame_at(ctx, spot));
		if (!p->callee) {
			count(TRACE_CTR_refused);
			return 0;
		}
	}
	if (spot == TRACE_SPOTS || !find_frame(ctx, spot, p)) {
		count(TRACE_CTR_unknown);
		return 0;
	}
	if (p->other) {
		count(TRACE_CTR_other);
		return 0;
	}
	return count_call(p);
}

SEC("uprobe")
int on_call(user_regs *ctx)
{
	struct place p = { 0 };

	if (!is_over())
		take_call(ctx, spot_of(ctx), &p);
	return 0;
}

/*
 * A function begins or ends, or an exception comes: sends the event to user space, which pairs
 * them.
 */
SEC("uprobe")
int on_event(user_regs *ctx)
{
	__u32 spot = spot_of(ctx);
	const volatile struct trace_spot *s = &cfg.spots[BOUND(spot, TRACE_SPOTS)];
	struct place p = { 0 };
	__u32 kind, with;
	__u64 id;

	if (spot == TRACE_SPOTS || is_over())
		return 0;
	if (s->kind == POINT_RETURN)
		return on_end(ctx, spot, EVENT_RETURN);
	if (s->kind == POINT_YIELD)
		return on_end(ctx, spot, EVENT_YIELD);
	if (s->kind == POINT_EXIT)
		return on_exit_insn(ctx, spot, s);
	if (s->kind == POINT_RAISE)
		return take_raise(arch_reg(ctx, ARCH_REG_ARG0));
	id = take_call(ctx, spot, &p);
	if (!id)
		return 0;
	kind = p.resumed ? EVENT_RESUME : EVENT_CALL;
	with = take_begin(p.frame, id, arch_sp(ctx), kind, p.callee);
	if (with == BEGIN_WITH_VALUES)
		return send_args(p.frame, id, arch_pc(ctx) - s->pc);
	return with ? send_call(p.frame, id, kind) : 0;
}

/* ---- imports --------------------------------------------------------------------------------- */

TRACE_NOINLINE int send_import(__u64 frame, __u64 id)
{
	struct trace_import *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	e->frame = frame;
	e->caller = caller_of(frame);
	e->at.ns = bpf_ktime_get_ns();
	e->at.tgid = this_process();
	e->at.tid = this_thread();
	e->at.lost = *(volatile __u32 *)&lost;
	e->at.cut = e->at.pad = 0;
	e->at.type[0] = 0;
	e->at.codes[0] = id;
	e->at.offsets[0] = OFFSET_NOT_STARTED;
	e->at.code_cnt = 1;
	/* The low bits of a local variable are a tag from 3.14 on (_PyStackRef). */
	send_name(&e->name, read64(frame + cfg.local_at) & ~7ULL);
	if (e->name.sent)
		walk_raise(&e->at, frame, 0);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("uprobe")
int on_import(user_regs *ctx)
{
	struct place p = { 0 };
	__u64 id;

	if (is_over())
		return 0;
	id = take_call(ctx, spot_of(ctx), &p);
	return id && !p.resumed ? send_import(p.frame, id) : 0;
}

/* Measures the cost of the trap alone. */
SEC("uprobe")
int on_nothing(user_regs *ctx)
{
	(void)ctx;
	return 0;
}
