/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_CODES_BPF_H
#define PYPERF_TRACE_CODES_BPF_H
/*
 * The code object of a frame: what identifies it, whether it is wanted, and its names at first
 * sight.
 *
 * Input:   a frame, or what trace_frame.bpf.h has found.
 * Output:  its entry in `codes`; its names in the ring buffer `news`; `refused`.
 * Fails:   no room in `codes`: it has no entry. No room in `news`: counted as note_nameless; it
 *          is asked for again at the next call.
 */
#include "trace_frame.bpf.h"

/* ---- what is called -------------------------------------------------------------------------- */

#define CODE_BYTES 128

/* The fields that identify a code object. */
struct identity {
	__u64 name, file, linetable;
	__s32 firstlineno;
	__u32 version;
	__u64 fingerprint;
};

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

/* A function of its own, so that its copy of the code object is on nobody else's stack. */
TRACE_NOINLINE int read_identity(const struct place *p, struct identity *id)
{
	return p && id ? identify(p, id) : -14; /* EFAULT */
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

/* 0: there is none, or the interpreter has run out of them. */
BPF_INLINE int read_version(__u32 *version, __u64 code)
{
	*version = 0;
	return cfg.layout.code_version == PY_OFF_NONE
		       ? 0
		       : read_user(version, sizeof(*version), code + cfg.layout.code_version);
}

BPF_INLINE __u64 mark_by(const struct place *p, const struct identity *id)
{
	const struct trace_key key = { .addr = p->code, .fingerprint = id->fingerprint };

	if (id->version)
		return mix(id->version | (__u64)this_process() << 32, p->code) | 1;
	return number_of(&key);
}

/*
 * The mark of a code object in `refused`. From 3.12 on two small reads are enough; before, or when
 * the interpreter has run out of versions, all fields that identify() reads. 0: it cannot be read.
 */
BPF_INLINE __u64 mark_of(const struct place *p)
{
	struct identity id = { 0 };

	if (read_version(&id.version, p->code) || (!id.version && identify(p, &id)))
		return 0;
	return mark_by(p, &id);
}

BPF_INLINE int is_refused(__u64 mark)
{
	__u64 *slot = refused_slot(mark);

	return mark && slot && *slot == mark;
}

/* Global, so that the verifier checks it once. */
BPF_NOINLINE int is_refused_code(__u64 code)
{
	struct place p = { .code = code };

	return is_refused(mark_of(&p));
}

/* Global, as is_refused_code(). The frame runs a function that has been called and is wanted. */
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

	return caller && !is_refused_code(code_of(caller)) && is_wanted_frame(caller);
}

BPF_INLINE void put_refused(__u64 mark)
{
	__u64 *slot = refused_slot(mark);

	if (slot && *slot != mark)
		*slot = mark;
}

BPF_INLINE struct trace_key key_of(const struct place *p)
{
	return (struct trace_key){ .addr = p->code, .fingerprint = p->fingerprint };
}

/* ---- where functions begin ------------------------------------------------------------------- */

enum start_flag {
	START_RESUMED = 1, /* it goes on there */
	START_REFUSED = 2,
	START_FLAGS = 7,
};

BPF_INLINE struct trace_start *start_slot(__u64 instr)
{
	__u32 slot = (__u32)(mix(instr, this_process()) >> 32) & (TRACE_STARTS - 1);

	return bpf_map_lookup_elem(&starts, &slot);
}

/* Half of a slot may be of another program, which writes it at the same time: the mark tells. */
BPF_INLINE __u64 start_mark(const struct trace_start *s, __u64 instr, __u32 version)
{
	return mix(mix(mix(instr, version | (__u64)this_process() << 32), s->code), s->fingerprint);
}

/*
 * Finds in `starts` what begins here. The code object is read again, as another one may be at its
 * address: one with another version, or with another fingerprint. `frame` is wanted: the register
 * is not right at each hit where the compiler keeps the frame in memory.
 */
TRACE_NOINLINE int known_start(user_regs *ctx, __u32 spot, struct place *p, __u32 frame)
{
	const struct trace_way *way = &ways[spot & (TRACE_SPOTS - 1)];
	struct trace_start *slot, s;
	struct identity id = { 0 };

	if (!p)
		return 0;
	p->instr = arch_reg(ctx, way->instr) - way->back;
	slot = start_slot(p->instr);
	if (!slot)
		return 0;
	s = *slot;
	p->code = s.code & ~(__u64)START_FLAGS;
	if (!p->code || identify(p, &id) || id.fingerprint != s.fingerprint ||
	    s.mark != start_mark(&s, p->instr, id.version))
		return 0;
	p->frame = arch_reg(ctx, way->frame);
	p->fingerprint = s.fingerprint;
	p->resumed = s.code & START_RESUMED;
	p->refused = (s.code & START_REFUSED) != 0;
	if (frame && (!p->refused || cfg.from || cfg.callees) && code_of(p->frame) != p->code)
		return 0;
	if (p->refused) /* its end is looked up there, and another one may have had the slot */
		put_refused(mark_by(p, &id));
	return 1;
}

/* Into `starts`. In builds where each thread has its own bytecode, that may go before its code. */
TRACE_NOINLINE int note_start(const struct place *p)
{
	struct trace_start *slot, s;
	__u32 version;

	if (!p || !p->instr || cfg.layout.code_tlbc != PY_OFF_NONE ||
	    p->instr - p->code - cfg.layout.code_bytecode >= code_bytes(p->code) ||
	    read_version(&version, p->code))
		return 0;
	slot = start_slot(p->instr);
	if (!slot)
		return 0;
	s.code = p->code | (p->resumed ? START_RESUMED : 0) | (p->refused ? START_REFUSED : 0);
	s.fingerprint = p->fingerprint;
	s.mark = start_mark(&s, p->instr, version);
	*slot = s;
	return 0;
}

/* The function is not wanted: from now on that is known earlier. */
TRACE_NOINLINE int refuse(struct place *p)
{
	if (!p || p->refused)
		return 0;
	p->refused = 1;
	put_refused(mark_of(p));
	return note_start(p);
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

/* Wakes user space when the ring is half full. */
BPF_INLINE __u64 news_flags(void)
{
	__u64 used = bpf_ringbuf_query(&news, BPF_RB_AVAIL_DATA);
	__u64 size = bpf_ringbuf_query(&news, BPF_RB_RING_SIZE);

	return 2 * used >= size ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/* 0: there is no room. */
TRACE_NOINLINE int announce(const struct place *p, const struct identity *id, __u64 number)
{
	struct trace_code_lines *lines;
	struct trace_code *c;

	if (!p || !id)
		return 0;
	if (cfg.lines) {
		lines = bpf_ringbuf_reserve(&news, sizeof(*lines), 0);
		if (!lines)
			return 0;
		fill_code(&lines->code, p, id, number);
		send_lines(lines);
		bpf_ringbuf_submit(lines, news_flags());
		return 1;
	}
	c = bpf_ringbuf_reserve(&news, sizeof(*c), 0);
	if (!c)
		return 0;
	fill_code(c, p, id, number);
	bpf_ringbuf_submit(c, news_flags());
	return 1;
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

/* 0: there is no room. */
TRACE_NOINLINE int announce_params(__u64 code, __u64 number)
{
	struct trace_params *p = bpf_ringbuf_reserve(&news, sizeof(*p), 0);
	__u64 names = read64(code + cfg.values.code_names);

	if (!p)
		return 0;
	p->id = number;
	p->argcount = field_of(code, cfg.values.code_argcount);
	/* 2.7 has none. */
	p->kwonly = cfg.values.code_kwonly ? field_of(code, cfg.values.code_kwonly) : 0;
	p->flags = field_of(code, cfg.values.code_flags);
	p->pad = 0;
	for (__u32 i = 0; i < TRACE_ARGS_MAX; i++)
		send_param(&p->at[i], tuple_item(names, i));
	bpf_ringbuf_submit(p, news_flags());
	return 1;
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

/*
 * Sends the names of a code object that is in `codes`. Without room it is nameless; user space may
 * refuse it as soon as they are sent, so nothing is written behind that.
 */
TRACE_NOINLINE int send_names(const struct place *p, const struct identity *id,
			      struct trace_count *c)
{
	if (!p || !id || !c)
		return 0;
	c->refused = cfg.imports && !may_import(id->file) ? TRACE_UNWANTED : TRACE_WANTED;
	/* The parameters first: the function may be called as soon as it has a name. */
	if ((!cfg.values.args || announce_params(p->code, c->id)) && announce(p, id, c->id))
		return 1;
	count(TRACE_CTR_note_nameless);
	c->refused = TRACE_NAMELESS;
	return 0;
}

/* Its name ends like that of cfg.from, or cannot be read here. */
TRACE_NOINLINE __u32 may_be_from(__u64 name)
{
	struct string s = { 0 };
	__u64 data = string_data(name, &s), tail[2] = { 0 };
	__u32 len = BOUND(cfg.from_len, sizeof(tail));

	if (!data || !len || s.width != 1)
		return 1;
	if (s.size < len)
		return 0;
	if (read_user(tail, len, data + s.size - len))
		return 1;
	return tail[0] == cfg.from_tail[0] && tail[1] == cfg.from_tail[1];
}

TRACE_NOINLINE int add_code(const struct place *p, const struct identity *id)
{
	struct trace_key key;
	struct trace_count fresh = { 0 }, *c;

	if (!p || !id)
		return 0;
	key = (struct trace_key){ .addr = p->code, .fingerprint = id->fingerprint };
	/*
	 * A running number would need an atomic instruction that returns the old value, which is of
	 * 5.12.
	 */
	fresh.id = number_of(&key);
	fresh.tgid = this_process();
	if (cfg.from)
		fresh.from = (__u16)may_be_from(id->name);
	if (bpf_map_update_elem(&codes, &key, &fresh, BPF_NOEXIST))
		return 0;
	c = bpf_map_lookup_elem(&codes, &key);
	return c ? send_names(p, id, c) : 0;
}

#endif /* PYPERF_TRACE_CODES_BPF_H */
