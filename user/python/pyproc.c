/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/pyproc.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/ehframe.h"

/* PY_RELEASE_LEVEL_* of Include/patchlevel.h. */
#define LEVEL_ALPHA 0xaU
#define LEVEL_BETA  0xbU
#define LEVEL_RC    0xcU
#define LEVEL_FINAL 0xfU

#define VERSION_MAX 32 /* limit of bytes read of a version string */

/* ---- Version strings ---------------------------------------------------------------------- */

/* One or more digits, at most `max`; advances *s. */
static bool parse_number(const char **s, unsigned max, unsigned *out)
{
	const char *p = *s;
	unsigned value = 0;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		value = value * 10 + (unsigned)(*p - '0');
		if (value > max)
			return false;
	}
	*s = p;
	*out = value;
	return true;
}

/* "3.8": the start of every version, and what file names have. */
static bool parse_minor(const char **s, uint32_t *hex)
{
	unsigned major, minor;

	if (!parse_number(s, 3, &major) || major < 2 || *(*s)++ != '.' ||
	    !parse_number(s, 99, &minor))
		return false;
	*hex = PY_VERSION_MINOR_HEX(major, minor);
	return true;
}

/* PY_VERSION: "3.8.18", "3.13.0rc2", "3.9.2+". The whole string. */
static bool parse_version(const char *s, uint32_t *hex)
{
	unsigned micro, level = LEVEL_FINAL, serial = 0;

	if (!parse_minor(&s, hex) || *s++ != '.' || !parse_number(&s, 255, &micro))
		return false;
	if (*s == 'a' || *s == 'b') {
		level = *s++ == 'a' ? LEVEL_ALPHA : LEVEL_BETA;
	} else if (s[0] == 'r' && s[1] == 'c') {
		level = LEVEL_RC;
		s += 2;
	}
	if (level != LEVEL_FINAL && !parse_number(&s, 15, &serial))
		return false;
	if (*s == '+') /* built from a checkout behind the release */
		s++;
	*hex |= micro << 8 | level << 4 | serial;
	return *s == '\0';
}

static void format_version(struct py_binary *bin)
{
	static const char *const levels[16] = {
		[LEVEL_ALPHA] = "a", [LEVEL_BETA] = "b", [LEVEL_RC] = "rc"
	};
	unsigned major = bin->version_hex >> 24, minor = bin->version_hex >> 16 & 0xff;
	unsigned micro = bin->version_hex >> 8 & 0xff, level = bin->version_hex >> 4 & 0xf;

	if (!level)
		snprintf(bin->version, sizeof(bin->version), "%u.%u", major, minor);
	else if (!levels[level])
		snprintf(bin->version, sizeof(bin->version), "%u.%u.%u", major, minor, micro);
	else
		snprintf(bin->version, sizeof(bin->version), "%u.%u.%u%s%u", major, minor, micro,
			 levels[level], bin->version_hex & 0xf);
}

/* "libpython3.7m.so.1.0" or "python3.8": prefix, version, ABI flags (m d u t), suffix. */
static bool parse_name(const char *name, const char *prefix, const char *suffix, uint32_t *hex)
{
	size_t len = strlen(prefix);

	if (strncmp(name, prefix, len))
		return false;
	name += len;
	if (!parse_minor(&name, hex))
		return false;
	name += strspn(name, "mdut");
	return !strncmp(name, suffix, strlen(suffix)) && (*suffix || !*name);
}

/* ---- Code --------------------------------------------------------------------------------- */
/*
 * What a few short exported functions refer to. x86-64 only: elsewhere the names of the file have
 * to do (find_version), and 2.7 and 3.6 need their symbol table.
 */

static int32_t get_s32(const uint8_t *p)
{
	int32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static bool is_x86(const struct elf_file *ef)
{
	return elf_file__machine(ef) == EM_X86_64;
}

/* A NUL-terminated string of the file; false when it is longer than the buffer. */
static bool read_string(const struct elf_file *ef, uint64_t addr, char *buf, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (elf_file__read(ef, addr + i, buf + i, 1))
			return false;
		if (!buf[i])
			return true;
	}
	return false;
}

/*
 * The address that the instruction at `p` (`left` bytes) puts into a register, by
 * `lea disp32(%rip), %r64` (position-independent code) or `mov $imm32, %r32` (other). Scanned at
 * every byte, so the caller has to recognise what it looks for.
 */
static bool loaded_address(const uint8_t *p, size_t left, uint64_t pc, uint64_t *addr)
{
	if (left >= 7 && (p[0] & 0xfb) == 0x48 && p[1] == 0x8d && (p[2] & 0xc7) == 0x05)
		*addr = pc + 7 + (uint64_t)(int64_t)get_s32(p + 3);
	else if (left >= 5 && (p[0] & 0xf8) == 0xb8)
		*addr = (uint32_t)get_s32(p + 1);
	else
		return false;
	return true;
}

/*
 * Py_GetVersion() formats PY_VERSION, so it holds the literal's address. Looking for the literal
 * itself does not do: linkers merge it into the tail of longer strings ("13.8.18" holds "3.8.18").
 */
static bool version_from_code(const struct elf_file *ef, uint32_t *hex)
{
	struct elf_symbol sym;
	uint8_t code[128];
	size_t size = sizeof(code);
	bool found = false;

	if (!is_x86(ef) || !elf_file__symbol(ef, "Py_GetVersion", &sym) || !sym.size)
		return false;
	if (sym.size < size)
		size = sym.size;
	if (elf_file__read(ef, sym.addr, code, size))
		return false;
	for (size_t i = 0; i < size; i++) {
		char text[VERSION_MAX];
		uint64_t addr;
		uint32_t one;

		if (!loaded_address(code + i, size - i, sym.addr + i, &addr) ||
		    !read_string(ef, addr, text, sizeof(text)) || !parse_version(text, &one))
			continue;
		if (found && one != *hex)
			return false;
		*hex = one;
		found = true;
	}
	return found;
}

/* `ret`, or `pop %rbp; ret`. */
static bool is_return(const uint8_t *p)
{
	return p[0] == 0xc3 || (p[0] == 0x5d && p[1] == 0xc3);
}

#define SHORT_CODE 32 /* bytes of a short function */

/*
 * Reads the beginning of a short function. Returns the place of its first instruction behind an
 * endbr64 if any, and behind the frame that debug builds set up, which are not optimised; NULL:
 * there is no such function.
 */
static const uint8_t *read_short(const struct elf_file *ef, const char *name, uint8_t *code,
				 struct elf_symbol *sym)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	static const uint8_t push_frame[] = { 0x55, 0x48, 0x89, 0xe5 };
	const uint8_t *p = code;

	if (!is_x86(ef) || !elf_file__symbol(ef, name, sym) ||
	    elf_file__read(ef, sym->addr, code, SHORT_CODE))
		return NULL;
	if (!memcmp(p, endbr64, sizeof(endbr64)))
		p += sizeof(endbr64);
	if (!memcmp(p, push_frame, sizeof(push_frame)))
		p += sizeof(push_frame);
	return p;
}

/*
 * The variable that an instruction names, of which `p` is the byte behind the opcode and `reg` what
 * that byte says beside the address: relative to %rip, with `more` bytes behind it, or absolute.
 * Returns how many bytes name it; 0: it is no variable.
 */
static size_t named_variable(const uint8_t *p, uint8_t reg, uint64_t pc, size_t more,
			     uint64_t *addr)
{
	if (p[0] == (reg << 3 | 5)) {
		*addr = pc + 5 + more + (uint64_t)(int64_t)get_s32(p + 1);
		return 5;
	}
	if (p[0] == (reg << 3 | 4) && p[1] == 0x25) {
		*addr = (uint64_t)(int64_t)get_s32(p + 2);
		return 6;
	}
	return 0;
}

/*
 * 2.7, 3.6: interp_head is static. The exported PyInterpreterState_Head() is `mov interp_head,
 * %rax; ret` (Python/pystate.c).
 */
static bool interp_head_from_code(const struct elf_file *ef, uint64_t *addr)
{
	struct elf_symbol sym;
	uint8_t code[SHORT_CODE];
	const uint8_t *p = read_short(ef, "PyInterpreterState_Head", code, &sym);
	size_t len;

	if (!p || p[0] != 0x48 || p[1] != 0x8b)
		return false;
	len = named_variable(p + 2, 0, sym.addr + (uint64_t)(p - code) + 2, 0, addr);
	return len && is_return(p + 2 + len);
}

/*
 * The variable by which PyEval_ThreadsInitialized() tells whether there is a GIL, by `mov VARIABLE,
 * %rax` or `cmpq $0, VARIABLE`, which a `xor %eax, %eax` may precede; of an int %eax and `cmpl`.
 */
static bool created_gil_from_code(const struct elf_file *ef, bool is_int, uint64_t *addr)
{
	static const uint8_t zero[] = { 0x31, 0xc0 };
	struct elf_symbol sym;
	uint8_t code[SHORT_CODE];
	const uint8_t *p = read_short(ef, "PyEval_ThreadsInitialized", code, &sym);
	size_t len;

	if (p && !memcmp(p, zero, sizeof(zero)))
		p += sizeof(zero);
	if (!p || (!is_int && *p++ != 0x48))
		return false;
	if (p[0] == 0x8b)
		return named_variable(p + 1, 0, sym.addr + (uint64_t)(p - code) + 1, 0, addr);
	if (p[0] != 0x83)
		return false;
	len = named_variable(p + 1, 7, sym.addr + (uint64_t)(p - code) + 1, 1, addr);
	return len && !p[1 + len];
}

/* ---- Eval loop ---------------------------------------------------------------------------- */
/*
 * The exported symbol covers the hot part only. The cold part (Debian's 3.13 - 3.15: nearly all of
 * it) is a local symbol, which stripping removes, but it has its own FDE, and the two jump into
 * each other's middle, which no two functions do. So: FDEs that are reached by direct branches from
 * a known part and that branch back into one.
 *
 * Branches are found by scanning for their opcodes at every byte, so some are not real. Measured: 0
 * to 3 false targets for one eval loop, each named once, and none that branches back; Debian's
 * 3.11.2 has 378 true ones and 395 back. MIN_BRANCHES in sum is far below and above that.
 */
#define MIN_BRANCHES  3
#define MAX_PART      (1U << 20) /* bytes of one part */
#define MAX_REJECTED  64
#define MAX_FDE_FINDS 4096

struct range {
	uint64_t start, end;
};

struct eval_search {
	const struct elf_file *ef;
	struct range parts[MAX_EVAL_RANGES];
	unsigned part_cnt;
	struct range rejected[MAX_REJECTED];
	unsigned rejected_cnt;
	unsigned finds;
};

static bool covers(const struct range *r, unsigned cnt, uint64_t addr)
{
	for (unsigned i = 0; i < cnt; i++)
		if (addr >= r[i].start && addr < r[i].end)
			return true;
	return false;
}

/* The target of a `jmp rel32` (e9) or `jcc rel32` (0f 80..8f) at `p`. */
static bool branch_target(const uint8_t *p, size_t left, uint64_t pc, uint64_t *target)
{
	if (left >= 5 && p[0] == 0xe9)
		*target = pc + 5 + (uint64_t)(int64_t)get_s32(p + 1);
	else if (left >= 6 && p[0] == 0x0f && (p[1] & 0xf0) == 0x80)
		*target = pc + 6 + (uint64_t)(int64_t)get_s32(p + 2);
	else
		return false;
	return true;
}

/* The bytes of a part, to be freed; NULL when it cannot be. */
static uint8_t *read_part(const struct elf_file *ef, const struct range *r)
{
	uint8_t *code;

	if (r->end <= r->start || r->end - r->start > MAX_PART)
		return NULL;
	code = malloc(r->end - r->start);
	if (code && elf_file__read(ef, r->start, code, r->end - r->start)) {
		free(code);
		return NULL;
	}
	return code;
}

/*
 * Direct branches of a part that lead into [to->start + 1, to->end): the first byte of a function
 * is where a tail call goes.
 */
static unsigned count_branches(const uint8_t *code, const struct range *from,
			       const struct range *to)
{
	size_t size = from->end - from->start;
	unsigned cnt = 0;

	for (size_t i = 0; i < size; i++) {
		uint64_t target;

		if (branch_target(code + i, size - i, from->start + i, &target) &&
		    target > to->start && target < to->end)
			cnt++;
	}
	return cnt;
}

/* Is `r` a part of the same function as `part`, whose bytes are `code`? */
static bool is_cold_part(const struct eval_search *s, const uint8_t *code, const struct range *part,
			 const struct range *r)
{
	uint8_t *cold = read_part(s->ef, r);
	unsigned there, back;

	if (!cold)
		return false;
	there = count_branches(code, part, &(struct range){ r->start - 1, r->end });
	back = count_branches(cold, r, part);
	free(cold);
	return there && back && there + back >= MIN_BRANCHES;
}

/* Adds the parts that `part` branches to. */
static void follow_part(struct eval_search *s, const struct range *part)
{
	uint8_t *code = read_part(s->ef, part);
	size_t size = code ? part->end - part->start : 0;

	for (size_t i = 0; i < size; i++) {
		struct range r;
		uint64_t target;

		if (s->part_cnt == MAX_EVAL_RANGES || s->rejected_cnt == MAX_REJECTED ||
		    s->finds == MAX_FDE_FINDS)
			break;
		if (!branch_target(code + i, size - i, part->start + i, &target) ||
		    covers(s->parts, s->part_cnt, target) ||
		    covers(s->rejected, s->rejected_cnt, target))
			continue;
		s->finds++;
		if (!ehframe__fde_at(s->ef, target, &r.start, &r.end))
			continue;
		if (is_cold_part(s, code, part, &r))
			s->parts[s->part_cnt++] = r;
		else
			s->rejected[s->rejected_cnt++] = r;
	}
	free(code);
}

/*
 * Elsewhere than on x86-64 the list of cold parts stays empty; then native frames in a cold part
 * are shown as native code instead of being replaced. From 3.10 on, frames are paired by address
 * and nothing else depends on it.
 */
static bool find_eval(const struct elf_file *ef, const struct elf_symbol *eval,
		      struct py_binary *out)
{
	struct eval_search s = { .ef = ef };
	struct range *hot = &s.parts[0];

	if (!ehframe__fde_at(ef, eval->addr, &hot->start, &hot->end)) {
		hot->start = eval->addr;
		hot->end = eval->addr + eval->size;
	}
	if (hot->end <= hot->start)
		return false;
	s.part_cnt = 1;
	for (unsigned i = 0; i < s.part_cnt && is_x86(ef); i++)
		follow_part(&s, &s.parts[i]);
	for (unsigned i = 0; i < s.part_cnt; i++) {
		out->interp.eval[i].start = s.parts[i].start;
		out->interp.eval[i].end = s.parts[i].end;
	}
	out->eval_cnt = s.part_cnt;
	return true;
}

/* ---- Interpreter -------------------------------------------------------------------------- */

static int refuse(struct py_binary *bin, const char *why)
{
	bin->why_not = why;
	return -ENOTSUP;
}

/* sizeof(_PyRuntime) with the mutexes of x86-64; they are 16 bytes larger in all on aarch64. */
static bool runtime_size_fits(const struct py_binary *bin)
{
	static const struct {
		uint16_t version, size;
	} known[] = { { 0x0307, 1520 }, { 0x0308, 1464 }, { 0x0309, 656 }, { 0x030a, 672 } };
	uint16_t version = (uint16_t)(bin->version_hex >> 16);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].version == version)
			return bin->runtime_size == known[i].size ||
			       bin->runtime_size == known[i].size + 16U;
	return version < 0x0307;
}

/*
 * The version, best source first: Py_Version (3.11+), the code of Py_GetVersion(), DT_SONAME, the
 * file's name. The last one is a mere label, so the size of _PyRuntime has to agree with it.
 */
static int find_version(const struct elf_file *ef, struct py_binary *out)
{
	const char *soname = elf_file__soname(ef), *path = elf_file__path(ef);
	const char *base = path && strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	uint32_t named = 0;
	bool has_soname = soname && parse_name(soname, "libpython", ".so", &named);
	struct elf_symbol sym;
	uint64_t exported;

	if (elf_file__symbol(ef, "Py_Version", &sym) &&
	    !elf_file__read(ef, sym.addr, &exported, sizeof(exported)) && exported <= UINT32_MAX) {
		out->version_hex = (uint32_t)exported;
	} else if (!version_from_code(ef, &out->version_hex)) {
		if (!has_soname && (!base || !parse_name(base, "python", "", &named)))
			return refuse(out, "its version cannot be told from its file");
		out->version_hex = named;
		if (!has_soname && !runtime_size_fits(out))
			return refuse(out, "its version is only known from its file name, which "
					   "does not fit its contents");
	}
	if (has_soname && (named ^ out->version_hex) >> 16)
		return refuse(out, "its library name and its contents name different versions");
	return 0;
}

/* Things that only some versions export: a table for another version cannot fit. */
static bool fits_symbols(const struct elf_file *ef, const struct py_binary *bin)
{
	uint32_t version = bin->version_hex >> 16;
	struct elf_symbol sym;

	if ((version >= 0x0307) != (bin->runtime != 0))
		return false;
	if (elf_file__symbol(ef, "PyString_Type", &sym) != (version < 0x0300))
		return false;
	return version < 0x0306 || elf_file__symbol(ef, "_PyEval_EvalFrameDefault", &sym);
}

/* With Py_TRACE_REFS every object begins with two more pointers; 3.13 keeps them elsewhere. */
static bool traces_refs(const struct elf_file *ef, const struct py_binary *bin)
{
	struct elf_symbol sym;

	return bin->version_hex < PY_VERSION_MINOR_HEX(3, 13) &&
	       elf_file__symbol(ef, "_Py_GetObjects", &sym);
}

/* So that a wait for it can be distinguished from one for another lock. */
static void set_gil(struct py_binary *bin)
{
	struct py_gil gil;

	if (py_layout__gil(&gil, bin->version_hex, bin->free_threaded))
		return;
	bin->interp.gil_locks = gil.locks;
	bin->interp.gil_size = gil.locks_size;
	bin->interp.gil_interp = gil.tstate_interp;
	bin->interp.gil_holder = gil.last_holder;
	bin->interp.gil_locked = gil.locked;
	if (gil.interp_gil != PY_OFF_NONE)
		bin->interp.gil_of_interp = gil.interp_gil;
	else
		bin->interp.gil = bin->runtime + gil.runtime_gil;
}

/* `bytes`: _Py_DebugOffsets, or NULL before 3.13. */
static int set_layout(struct py_binary *bin, const void *bytes, size_t size)
{
	const char *why;
	int head;

	if (py_layout__get(&bin->interp.layout, bin->version_hex, bin->free_threaded, bytes, size,
			   &why))
		return refuse(bin, why);
	if (bin->trace_refs && py_layout__trace_refs(&bin->interp.layout))
		return refuse(bin, "it was built with Py_TRACE_REFS");
	if (!bin->runtime)
		return 0;
	head = py_layout__interp_head(bin->version_hex, bytes, size);
	if (head < 0 || bin->runtime_size < 8 || (uint64_t)head > bin->runtime_size - 8)
		return refuse(bin, "_PyRuntime is smaller than its version's should be");
	bin->interp.interp_head = bin->runtime + (uint64_t)head;
	set_gil(bin);
	return 0;
}

int py_binary__from_process(struct py_binary *bin, const void *bytes, size_t size)
{
	uint32_t before = bin->version_hex;
	int err;

	err = py_debug_offsets__identify(bytes, size, &bin->version_hex, &bin->free_threaded);
	if (err == -ENODATA)
		return -EAGAIN;
	if (err)
		return refuse(bin, "the debug offsets make no sense");
	if (before && (before >> 16 != bin->version_hex >> 16))
		return refuse(bin, "the debug offsets are those of another CPython");
	bin->why_not = NULL;
	format_version(bin);
	return set_layout(bin, bytes, size);
}

static int analyse_version(const struct elf_file *ef, struct py_binary *out)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX] = { 0 };
	size_t size = out->runtime_size < sizeof(bytes) ? out->runtime_size : sizeof(bytes);
	struct py_layout ignored;
	const char *why;
	int err = find_version(ef, out);

	format_version(out);
	if (!err && !fits_symbols(ef, out))
		err = refuse(out, "its symbols are not those of its version");
	if (err)
		return err;
	out->trace_refs = traces_refs(ef, out);
	err = py_layout__get(&ignored, out->version_hex, false, NULL, 0, &why);
	if (err == -ENOTSUP)
		return refuse(out, why);
	if (out->version_hex < PY_VERSION_MINOR_HEX(3, 13))
		return set_layout(out, NULL, 0);
	if (elf_file__read(ef, out->runtime, bytes, size))
		return -EAGAIN;
	return py_binary__from_process(out, bytes, size);
}

/* Before 3.7 there is no _PyRuntime, and interp_head is not exported. */
static int find_interp_head(const struct elf_file *ef, struct py_binary *out)
{
	struct elf_symbol sym;
	uint64_t addr;

	if (out->runtime)
		return 0;
	if (!interp_head_from_code(ef, &addr)) {
		if (!elf_file__symbol(ef, "interp_head", &sym))
			return refuse(out, "its list of interpreters was not found");
		addr = sym.addr;
	}
	out->interp.interp_head = addr;
	return 0;
}

/* It begins as zero, so it is not in the file. */
static bool is_zeroed(const struct elf_file *ef, uint64_t addr)
{
	size_t cnt;
	const struct elf_segment *s = elf_file__segments(ef, &cnt);

	for (size_t i = 0; i < cnt; i++)
		if (addr - s[i].addr >= s[i].file_size && addr - s[i].addr < s[i].mem_size)
			return true;
	return false;
}

/* `locked` 0: there is no such int. */
static void place_gil(struct interp *in, const struct range *locks, uint64_t holder,
		      uint64_t locked)
{
	uint64_t first = locks->start < holder ? locks->start : holder;

	if (locked && locked < first)
		first = locked;
	in->gil = first;
	in->gil_locks = (uint32_t)(locks->start - first);
	in->gil_size = (uint16_t)(locks->end - locks->start);
	in->gil_holder = (uint32_t)(holder - first);
	in->gil_locked = locked ? (uint32_t)(locked - first) : PY_OFF_NONE;
}

/*
 * 2.7: interpreter_lock (Python/ceval.c) is static, a pointer to a semaphore that threads make
 * (Python/thread_pthread.h). A build without semaphores has a larger lock there, whose waiters
 * sleep behind these bytes: they are not recognised.
 */
#define SEM_SIZE 32 /* sizeof(sem_t): glibc and musl */

static bool find_lock_27(const struct elf_file *ef, struct range *lock)
{
	struct elf_symbol sym;

	if (!created_gil_from_code(ef, false, &lock->start) || lock->start % 8 ||
	    !is_zeroed(ef, lock->start)) {
		if (!elf_file__symbol(ef, "interpreter_lock", &sym))
			return false;
		lock->start = sym.addr;
	}
	lock->end = lock->start + SEM_SIZE;
	return true;
}

/*
 * 3.6: static variables (Python/ceval_gil.h). The exported _PyEval_FiniThreads() destroys the four
 * locks, so it loads their addresses and no others but those of its messages, which are constants.
 */
#define LOCK_CNT   4	    /* gil_cond, gil_mutex, switch_cond, switch_mutex */
#define LOCK_SIZE  48	    /* sizeof(pthread_cond_t), which is not less than a mutex */
#define LOCKS_SIZE (8 * 64) /* of all: they stand together, each in a cache line or two */

static void add_lock(uint64_t *locks, unsigned *cnt, uint64_t addr)
{
	for (unsigned i = 0; i < *cnt; i++)
		if (locks[i] == addr)
			return;
	if (*cnt <= LOCK_CNT)
		locks[(*cnt)++] = addr;
}

/* `locks` has room for one that is too many. */
static unsigned locks_from_code(const struct elf_file *ef, uint64_t *locks)
{
	struct elf_symbol sym;
	uint8_t code[256];
	size_t size = sizeof(code);
	unsigned cnt = 0;

	if (!is_x86(ef) || !elf_file__symbol(ef, "_PyEval_FiniThreads", &sym) || !sym.size)
		return 0;
	if (sym.size < size)
		size = sym.size;
	if (elf_file__read(ef, sym.addr, code, size))
		return 0;
	for (size_t i = 0; i < size; i++) {
		uint64_t addr;

		if (loaded_address(code + i, size - i, sym.addr + i, &addr) && !(addr % 8) &&
		    is_zeroed(ef, addr))
			add_lock(locks, &cnt, addr);
	}
	return cnt;
}

static unsigned locks_from_symbols(const struct elf_file *ef, uint64_t *locks)
{
	static const char *const names[LOCK_CNT] = { "gil_cond", "gil_mutex", "switch_cond",
						     "switch_mutex" };
	struct elf_symbol sym;
	unsigned cnt = 0;

	for (unsigned i = 0; i < LOCK_CNT; i++)
		if (elf_file__symbol(ef, names[i], &sym))
			add_lock(locks, &cnt, sym.addr);
	return cnt;
}

static bool find_locks_36(const struct elf_file *ef, struct range *all)
{
	uint64_t locks[LOCK_CNT + 1];

	if (locks_from_code(ef, locks) != LOCK_CNT && locks_from_symbols(ef, locks) != LOCK_CNT)
		return false;
	*all = (struct range){ locks[0], locks[0] };
	for (unsigned i = 1; i < LOCK_CNT; i++) {
		all->start = locks[i] < all->start ? locks[i] : all->start;
		all->end = locks[i] > all->end ? locks[i] : all->end;
	}
	all->end += LOCK_SIZE;
	return all->end - all->start <= LOCKS_SIZE;
}

/* An int that is -1 until the GIL is created, so it is in the file. */
static bool find_locked_36(const struct elf_file *ef, uint64_t *addr)
{
	struct elf_symbol sym;
	uint32_t value;

	if (!created_gil_from_code(ef, true, addr)) {
		if (!elf_file__symbol(ef, "gil_locked", &sym))
			return false;
		*addr = sym.addr;
	}
	return !(*addr % 4) && !elf_file__read(ef, *addr, &value, sizeof(value)) &&
	       value == UINT32_MAX;
}

/* Before 3.7 it has no struct. Whoever holds it is _PyThreadState_Current. */
static void find_gil(const struct elf_file *ef, struct py_binary *out)
{
	struct elf_symbol holder;
	struct range locks;
	uint64_t locked = 0;

	if (out->runtime || !elf_file__symbol(ef, "_PyThreadState_Current", &holder))
		return;
	if (out->version_hex < PY_VERSION_MINOR_HEX(3, 0)
		    ? find_lock_27(ef, &locks)
		    : find_locks_36(ef, &locks) && find_locked_36(ef, &locked))
		place_gil(&out->interp, &locks, holder.addr, locked);
}

/* Finds types for the self-check, which works without the missing ones. */
static void find_types(const struct elf_file *ef, struct py_binary *out)
{
	struct elf_symbol sym;

	if (elf_file__symbol(ef, "PyString_Type", &sym)) { /* 2.7 */
		out->str_type = out->bytes_type = sym.addr;
		return;
	}
	if (elf_file__symbol(ef, "PyUnicode_Type", &sym))
		out->str_type = sym.addr;
	if (elf_file__symbol(ef, "PyBytes_Type", &sym))
		out->bytes_type = sym.addr;
}

int py_binary__analyse(const struct elf_file *ef, struct py_binary *out)
{
	struct elf_symbol anchor, eval, code_type;
	int err;

	memset(out, 0, sizeof(*out));
	if (!elf_file__symbol(ef, "_PyEval_EvalFrameDefault", &eval) &&
	    !elf_file__symbol(ef, "PyEval_EvalFrameEx", &eval))
		return -ENOENT;
	if (elf_file__symbol(ef, "_PyRuntime", &anchor)) {
		out->runtime = anchor.addr;
		out->runtime_size = anchor.size;
	} else if (!elf_file__symbol(ef, "_PyThreadState_Current", &anchor)) {
		return -ENOENT;
	}
	if (!elf_file__symbol(ef, "PyCode_Type", &code_type))
		return refuse(out, "it does not export PyCode_Type");
	out->interp.code_type = code_type.addr;
	find_types(ef, out);
	if (!find_eval(ef, &eval, out))
		return refuse(out, "its eval loop was not found");
	err = find_interp_head(ef, out);
	if (!err)
		err = analyse_version(ef, out);
	if (!err)
		find_gil(ef, out);
	return err;
}
