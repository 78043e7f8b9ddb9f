/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * End to end proof of the layouts: starts every interpreter of this machine with pyproc_target.py,
 * finds its Python frames with nothing but py_binary__analyse() and process_vm_readv(), and
 * compares them with what the interpreter itself says about its frames.
 */
#include "python/pyproc.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pythons.h"

#define MAX_WALK   1024
#define MAX_STR	   4096
#define MAX_TABLE  16384
#define MAX_LINE   (16 * MAX_STR + 2 * MAX_TABLE + 256)
#define OWNER_GEN  1
#define OWNER_SHIM 3
#define NONE	   PY_OFF_NONE

/* ---- The target --------------------------------------------------------------------------- */

struct target {
	pid_t pid;
	int in;	 /* its stdin: closing it ends it */
	int out; /* its stdout */
	struct py_binary bin;
	uint64_t bias;
	/* Link addresses: interpreter_lock (2.7), gil_cond and gil_locked (3.6); 0: no symbol. */
	uint64_t lock_symbol, locked_symbol;
};

static bool spawn_target(struct target *t, const char *exe, const char *script)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return false;
	t->pid = fork();
	if (!t->pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(exe, exe, "-B", "-E", script, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	t->in = in[1];
	t->out = out[0];
	return t->pid > 0;
}

/* What the target says, up to its last line. Freed by the caller. */
static char *read_report(struct target *t)
{
	size_t len = 0, cap = 1 << 20;
	char *text = malloc(cap);
	ssize_t n;

	while (text && len < cap - 1 && (n = read(t->out, text + len, cap - 1 - len)) > 0) {
		len += (size_t)n;
		if (len >= 3 && !memcmp(text + len - 3, "\nE\n", 3))
			break;
	}
	if (text)
		text[len] = '\0';
	return text;
}

static void end_target(struct target *t)
{
	close(t->in);
	close(t->out);
	waitpid(t->pid, NULL, 0);
}

/* Address of a file's first executable segment in a process, minus its link address. */
static bool file_bias(const struct elf_file *ef, uint64_t start, uint64_t end, uint64_t off,
		      uint64_t *bias)
{
	uint64_t text, limit, addr;

	if (!elf_file__text(ef, &text, &limit) || text < off || text >= off + (end - start) ||
	    !elf_file__off_to_addr(ef, text, &addr))
		return false;
	*bias = start + (text - off) - addr;
	return true;
}

/* By a symbol; 0: there is none. */
static uint64_t address_of(const struct elf_file *ef, const char *name)
{
	struct elf_symbol sym;

	return elf_file__symbol(ef, name, &sym) ? sym.addr : 0;
}

/* The file among the executable mappings that is an interpreter. */
static int find_interpreter(struct target *t)
{
	char maps_path[64], line[4608], path[4096], perms[8], last[4096] = "";
	int err = -ENOENT;
	FILE *maps;

	snprintf(maps_path, sizeof(maps_path), "/proc/%d/maps", t->pid);
	maps = fopen(maps_path, "re");
	while (err == -ENOENT && maps && fgets(line, sizeof(line), maps)) {
		uint64_t start, end, off;
		struct elf_file *ef;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %4095[^\n]",
			   &start, &end, perms, &off, path) != 5 ||
		    perms[2] != 'x' || path[0] != '/' || !strcmp(path, last))
			continue;
		strcpy(last, path);
		ef = elf_file__open(open(path, O_RDONLY | O_CLOEXEC), path);
		if (!ef)
			continue;
		err = py_binary__analyse(ef, &t->bin);
		t->lock_symbol = address_of(ef, "interpreter_lock");
		if (!t->lock_symbol)
			t->lock_symbol = address_of(ef, "gil_cond");
		t->locked_symbol = address_of(ef, "gil_locked");
		if (!err && !file_bias(ef, start, end, off, &t->bias))
			err = -EINVAL;
		elf_file__close(ef);
	}
	if (maps)
		fclose(maps);
	return err;
}

static bool rd(const struct target *t, uint64_t addr, void *buf, size_t size)
{
	struct iovec to = { buf, size }, from = { (void *)(uintptr_t)addr, size };

	return process_vm_readv(t->pid, &to, 1, &from, 1, 0) == (ssize_t)size;
}

static uint64_t rd_u64(const struct target *t, uint64_t addr)
{
	uint64_t value = 0;

	rd(t, addr, &value, sizeof(value));
	return value;
}

static uint64_t at_u64(const uint8_t *buf, uint16_t off)
{
	uint64_t value;

	memcpy(&value, buf + off, sizeof(value));
	return value;
}

static uint32_t at_u32(const uint8_t *buf, uint16_t off)
{
	uint32_t value;

	memcpy(&value, buf + off, sizeof(value));
	return value;
}

/* ---- The walker --------------------------------------------------------------------------- */

static void put_hex(char **p, const char *end, const uint8_t *bytes, size_t size)
{
	if (!size && end - *p > 1)
		*p += sprintf(*p, "-");
	for (size_t i = 0; i < size && end - *p > 2; i++)
		*p += sprintf(*p, "%02x", bytes[i]);
}

/* A string's characters as hex of UTF-32, or of its bytes in 2.7. */
static bool put_str(const struct target *t, uint64_t addr, char **p, const char *end)
{
	const struct py_layout *l = &t->bin.interp.layout;
	uint64_t length = rd_u64(t, addr + l->str_length);
	unsigned width = 1, compact = 1, ascii = 1;
	uint8_t raw[4 * MAX_STR];

	if (length > MAX_STR)
		return false;
	if (l->str != PY_STR_BYTES) {
		uint8_t state[4];

		if (!rd(t, addr + l->str_state, state, sizeof(state)))
			return false;
		if (l->str == PY_STR_STATE32) {
			width = state[0] >> 2 & 7;
			compact = state[0] >> 5 & 1;
			ascii = state[0] >> 6 & 1;
		} else {
			width = state[1] & 7;
			compact = state[1] >> 3 & 1;
			ascii = state[1] >> 4 & 1;
		}
	}
	if (!compact || (width != 1 && width != 2 && width != 4) ||
	    !rd(t, addr + (ascii ? l->str_ascii : l->str_compact), raw, length * width))
		return false;
	if (l->str == PY_STR_BYTES) {
		put_hex(p, end, raw, length);
		return true;
	}
	if (!length)
		put_hex(p, end, raw, 0);
	for (uint64_t i = 0; i < length; i++) {
		uint8_t utf32[4] = { 0 };

		memcpy(utf32, raw + i * width, width);
		put_hex(p, end, utf32, 4);
	}
	return true;
}

static bool put_bytes(const struct target *t, uint64_t addr, char **p, const char *end)
{
	const struct py_layout *l = &t->bin.interp.layout;
	uint64_t size = rd_u64(t, addr + l->bytes_size);
	static uint8_t raw[MAX_TABLE];

	if (size > MAX_TABLE || !rd(t, addr + l->bytes_data, raw, size))
		return false;
	put_hex(p, end, raw, size);
	return true;
}

/* f_lasti of a frame, in bytes, as sys._getframe() gives it. */
static int64_t lasti(const struct target *t, uint64_t code_addr, const uint8_t *frame)
{
	const struct py_layout *l = &t->bin.interp.layout;

	if (l->lasti == PY_LASTI_BYTES)
		return (int32_t)at_u32(frame, l->frame_lasti);
	if (l->lasti == PY_LASTI_UNITS)
		return 2 * (int64_t)(int32_t)at_u32(frame, l->frame_lasti);
	if (l->code_tlbc != NONE) {
		uint64_t array = rd_u64(t, code_addr + l->code_tlbc);
		uint32_t i = at_u32(frame, l->frame_tlbc_index);

		return (int64_t)(at_u64(frame, l->frame_lasti) - rd_u64(t, array + 8 + 8 * i));
	}
	return (int64_t)(at_u64(frame, l->frame_lasti) - code_addr - l->code_bytecode);
}

/* One "F" line; false when something cannot be what it should. */
static bool put_frame(const struct target *t, const uint8_t *code, int64_t offset, bool innermost,
		      char *p, const char *end)
{
	const struct py_layout *l = &t->bin.interp.layout;
	uint64_t name = at_u64(code, l->code_name);
	uint16_t qualname = l->code_qualname == NONE ? l->code_name : l->code_qualname;

	p += sprintf(p, "F ");
	if (!put_str(t, name, &p, end))
		return false;
	p += sprintf(p, " ");
	if (!put_str(t, at_u64(code, l->code_filename), &p, end))
		return false;
	p += sprintf(p, " %d %" PRId64 " ", (int)at_u32(code, l->code_firstlineno),
		     innermost ? -9 : offset);
	if (!put_bytes(t, at_u64(code, l->code_linetable), &p, end))
		return false;
	p += sprintf(p, " %" PRId64 " ", (int64_t)rd_u64(t, name + l->str_hash));
	return put_str(t, at_u64(code, qualname), &p, end);
}

struct walk {
	uint64_t frames[MAX_WALK];
	size_t cnt, shown, shims, hidden, cframes;
};

static bool read_chain(const struct target *t, uint64_t tstate, struct walk *w)
{
	const struct py_layout *l = &t->bin.interp.layout;
	uint64_t at = rd_u64(t, tstate + l->tstate_frame);

	memset(w, 0, sizeof(*w));
	if (l->chain == PY_CHAIN_CFRAME || l->chain == PY_CHAIN_CFRAME_SHIM)
		at = rd_u64(t, at + l->cframe_frame);
	for (; at && w->cnt < MAX_WALK; at = rd_u64(t, at + l->frame_back))
		w->frames[w->cnt++] = at;
	return w->cnt < MAX_WALK;
}

/* CFrames end at the root, and each but the root names a frame of the chain. */
static bool check_cframes(const struct target *t, uint64_t tstate, struct walk *w)
{
	const struct py_layout *l = &t->bin.interp.layout;
	uint64_t root = tstate + l->root_cframe, c, next;
	uint16_t head = l->cframe_tstate == NONE ? l->tstate_frame : l->cframe_tstate;
	size_t k = 0;

	if (l->root_cframe == NONE)
		return true;
	for (c = rd_u64(t, tstate + head); c && c != root; c = next) {
		next = rd_u64(t, c + l->cframe_previous);
		if (++w->cframes > MAX_WALK)
			return false;
		if (l->cframe_frame == NONE)
			continue;
		while (k < w->cnt && w->frames[k] != rd_u64(t, c + l->cframe_frame))
			k++;
	}
	return c == root && (k < w->cnt || !w->cnt) &&
	       (l->chain != PY_CHAIN_FRAME_C || w->cframes == w->cnt);
}

/* The thread's "F" lines into `text`. False: a frame that makes no sense. */
static bool walk_thread(const struct target *t, uint64_t tstate, struct walk *w, FILE *text)
{
	const struct py_layout *l = &t->bin.interp.layout;
	static char line[MAX_LINE];

	if (!read_chain(t, tstate, w) || !check_cframes(t, tstate, w))
		return false;
	for (size_t i = 0; i < w->cnt; i++) {
		uint8_t frame[256], code[256];
		uint64_t code_addr;
		uint8_t owner = 0;
		int64_t offset;

		if (!rd(t, w->frames[i], frame, l->frame_read))
			return false;
		if (l->frame_owner != NONE)
			owner = frame[l->frame_owner];
		if (owner >= OWNER_SHIM) {
			w->shims++;
			continue;
		}
		if (l->frame_executing != NONE && frame[l->frame_executing] != 1)
			return false;
		code_addr = at_u64(frame, l->frame_code) & ~3ULL;
		if (!rd(t, code_addr, code, l->code_read) ||
		    at_u64(code, l->ob_type) != t->bin.interp.code_type + t->bias)
			return false;
		offset = lasti(t, code_addr, frame);
		/* Not started, as CPython's _PyFrame_IsIncomplete(): 3.13's frames between a class
		 * and its __init__ are for ever. */
		if (l->code_firsttraceable != NONE && owner != OWNER_GEN &&
		    offset < 2 * (int64_t)at_u32(code, l->code_firsttraceable)) {
			w->hidden++;
			continue;
		}
		if (!put_frame(t, code, offset, !w->shown, line, line + sizeof(line)))
			return false;
		w->shown++;
		fprintf(text, "%s\n", line);
	}
	return true;
}

/* The thread state with frames and this thread_id; counts interpreters. 0: none, or two. */
static uint64_t find_tstate(const struct target *t, uint64_t ident, unsigned *interps)
{
	const struct py_layout *l = &t->bin.interp.layout;
	uint64_t interp = rd_u64(t, t->bin.interp.interp_head + t->bias), found = 0;
	unsigned looked = 0;

	for (*interps = 0; interp && *interps < 100; interp = rd_u64(t, interp + l->interp_next)) {
		uint64_t ts = rd_u64(t, interp + l->interp_threads_head);

		for ((*interps)++; ts && looked++ < 1000; ts = rd_u64(t, ts + l->tstate_next)) {
			struct walk w;

			if (rd_u64(t, ts + l->tstate_thread_id) != ident ||
			    !read_chain(t, ts, &w) || !w.cnt)
				continue;
			if (found)
				return 0;
			found = ts;
		}
	}
	return found;
}

/* ---- Comparison --------------------------------------------------------------------------- */

struct verdict {
	unsigned long hexversion;
	unsigned interps, threads;
	size_t frames, shims, hidden, cframes;
	const char *wrong; /* NULL: all equal */
};

/* Compares one thread's lines, starting behind its "T" line; returns the first behind them. */
static const char *compare_thread(const struct target *t, uint64_t ident, const char *said,
				  struct verdict *v)
{
	unsigned interps;
	uint64_t tstate = find_tstate(t, ident, &interps);
	char *walked = NULL;
	size_t size = 0, len = 0;
	struct walk w;
	FILE *text;

	while (said[len] == 'F') {
		len += strcspn(said + len, "\n");
		len += said[len] == '\n';
	}
	if (!tstate) {
		v->wrong = "thread state not found";
		return said + len;
	}
	if (interps != v->interps)
		v->wrong = "number of interpreters";
	text = open_memstream(&walked, &size);
	if (!walk_thread(t, tstate, &w, text))
		v->wrong = "a frame makes no sense";
	fclose(text);
	if (size != len || memcmp(walked, said, len)) {
		v->wrong = "frames differ";
		print_error("walked:\n%s\nsaid:\n%.*s\n", walked, (int)len, said);
	}
	free(walked);
	v->threads++;
	v->frames += w.shown;
	v->shims += w.shims;
	v->hidden += w.hidden;
	v->cframes += w.cframes;
	return said + len;
}

static void compare_report(const struct target *t, const char *said, struct verdict *v)
{
	const struct py_layout *l = &t->bin.interp.layout;
	unsigned ft;
	uint64_t ident;

	if (sscanf(said, "V %lx %u %u", &v->hexversion, &v->interps, &ft) != 3) {
		v->wrong = "the target said nothing";
		return;
	}
	if (v->hexversion != t->bin.version_hex)
		v->wrong = "version";
	if (ft != t->bin.free_threaded)
		v->wrong = "free-threaded";
	said += strcspn(said, "\n") + 1;
	while (!v->wrong && sscanf(said, "T %" SCNu64, &ident) == 1)
		said = compare_thread(t, ident, said + strcspn(said, "\n") + 1, v);
	if (!v->wrong && (strcmp(said, "E\n") || v->threads != 3))
		v->wrong = "the target's report is incomplete";
	if (!v->wrong && (l->chain >= PY_CHAIN_CFRAME_SHIM) != (v->shims > 0))
		v->wrong = "shims";
}

/* The eval loop's parts: the first holds the symbol, none overlap, all are whole FDEs. */
static const char *check_eval(const struct py_binary *bin)
{
	const struct interp *it = &bin->interp;

	if (!bin->eval_cnt || bin->eval_cnt > MAX_EVAL_RANGES)
		return "eval ranges";
	for (unsigned i = 0; i < MAX_EVAL_RANGES; i++) {
		if (i >= bin->eval_cnt && (it->eval[i].start || it->eval[i].end))
			return "unused eval range";
		if (i < bin->eval_cnt && it->eval[i].start >= it->eval[i].end)
			return "empty eval range";
	}
	return NULL;
}

/* Where code says that the GIL is, against symbols; nothing is said of free-threaded builds. */
static const char *check_gil(const struct target *t)
{
	const struct interp *in = &t->bin.interp;
	bool known = t->bin.version_hex >> 16 <= 0x0306 || t->bin.version_hex >= 0x030704f0;

	if ((known && !t->bin.free_threaded) != (in->gil_size > 0))
		return "whether it has a GIL";
	if (t->lock_symbol && t->lock_symbol - in->gil - in->gil_locks >= in->gil_size)
		return "where the GIL's locks are";
	if (t->locked_symbol && in->gil + in->gil_locked != t->locked_symbol)
		return "where the GIL's state is";
	return NULL;
}

static void print_row(const char *exe, const struct target *t, const struct verdict *v)
{
	printf("%-44s %-9s %7u %7u %6zu %5zu %6zu %7zu  ", exe, t->bin.version, v->interps,
	       v->threads, v->frames, v->shims, v->hidden, v->cframes);
	for (unsigned i = 0; i < t->bin.eval_cnt; i++)
		printf("%s%llu", i ? "+" : "",
		       t->bin.interp.eval[i].end - t->bin.interp.eval[i].start);
	printf("  %s\n", v->wrong ? v->wrong : "equal");
}

static bool check_python(const char *exe, const char *script)
{
	struct verdict v = { 0 };
	struct target t = { 0 };
	char *said;
	int err;

	if (!spawn_target(&t, exe, script))
		return false;
	said = read_report(&t);
	err = find_interpreter(&t);
	if (err)
		v.wrong = t.bin.why_not ? t.bin.why_not : strerror(-err);
	else if (!(v.wrong = check_eval(&t.bin)) && !(v.wrong = check_gil(&t)))
		compare_report(&t, said ? said : "", &v);
	print_row(exe, &t, &v);
	free(said);
	end_target(&t);
	return !v.wrong;
}

static void frames_are_what_python_says(void **state)
{
	struct pythons py = { 0 };
	char script[4096];
	size_t wrong = 0;

	(void)state;
	snprintf(script, sizeof(script), "%.*s/pyproc_target.py",
		 (int)(strrchr(__FILE__, '/') - __FILE__), __FILE__);
	pythons_find(&py);
	alarm(300); /* a target that neither talks nor dies */
	printf("%-44s %-9s %7s %7s %6s %5s %6s %7s  %s\n", "interpreter", "version", "interps",
	       "threads", "frames", "shims", "hidden", "cframes", "eval loop");
	for (size_t i = 0; i < py.cnt; i++)
		wrong += !check_python(py.path[i], script);
	alarm(0);
	pythons_free(&py);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_are_what_python_says),
	};

	struct pythons py = { 0 };

	pythons_find(&py);
	if (!py.cnt) {
		puts("skipped: no Python interpreter (PYPERF_PYTHONS)");
		return 77;
	}
	pythons_free(&py);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
