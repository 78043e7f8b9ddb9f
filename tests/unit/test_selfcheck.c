/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The self-check against real interpreters: each passes with its own layout, at rest and while it
 * runs as fast as it can; none with another one's, and none with one field wrong.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/readmem.h"
#include "elf/elf.h"
#include "python/selfcheck.h"
#include "pythons.h"

/* Waits in a method of a class, in a generator, called through C, in a thread as well. */
static const char waits[] = "import os, sys, threading\n"
			    "class K(object):\n"
			    "    def wait(self, x):\n"
			    "        os.write(1, b'r'); os.read(0, 1)\n"
			    "def gen():\n"
			    "    yield K().wait(1)\n"
			    "def through_c(n):\n"
			    "    if n: return list(map(lambda x: through_c(n - 1), [1]))\n"
			    "    for x in gen(): pass\n"
			    "t = threading.Thread(target=lambda: threading.Event().wait())\n"
			    "t.daemon = True; t.start()\n"
			    "through_c(5); os._exit(0)\n";

/* Processes that are like few others. Each waits with its stack. */
static const struct {
	const char *name, *script;
} odd[] = {
	{ "900 frames", "import os, sys\n"
			"sys.setrecursionlimit(5000)\n"
			"def deep(n):\n"
			"    if n: return deep(n - 1)\n"
			"    os.write(1, b'r'); os.read(0, 1)\n"
			"deep(900)\n" },
	{ "150 frames through C", "import os, sys, threading\n"
				  "sys.setrecursionlimit(9000)\n"
				  "threading.stack_size(256 << 20)\n"
				  "def deep(n):\n"
				  "    if n: return max(map(deep, [n - 1]))\n"
				  "    os.write(1, b'r'); os.read(0, 1)\n"
				  "threading.Thread(target=deep, args=(150,)).start()\n" },
	{ "hostile names", "import os\n"
			   "def f(): os.write(1, b'r'); os.read(0, 1)\n"
			   "c = f.__code__\n"
			   "if hasattr(c, 'replace'):\n"
			   "    n = '\\033[31m\\n\\0' * 50; e = {'co_filename': n}\n"
			   "    if hasattr(c, 'co_qualname'): e['co_qualname'] = n\n"
			   "    f.__code__ = c.replace(co_name=n, **e)\n"
			   "def g(): f()\n"
			   "def h(): g()\n"
			   "h()\n" },
	{ "wide names", "# -*- coding: utf-8 -*-\n"
			"import os, sys\n"
			"s = 'def %s(g): return g()\\n'\n"
			"n = 'f' if sys.version_info[0] < 3 else "
			"b'\\xe6\\xbc\\xa2\\xf0\\x90\\x90\\x80'.decode('utf-8')\n"
			"exec(compile(s % n, 'f', 'exec'))\n"
			"def g(): os.write(1, b'r'); os.read(0, 1)\n"
			"globals()[n](g)\n" },
	{ "traced", "import os, sys\n"
		    "def trace(*a): return trace\n"
		    "sys.settrace(trace); sys.setprofile(trace)\n"
		    "def f(): os.write(1, b'r'); os.read(0, 1)\n"
		    "f()\n" },
	{ "signal handler", "import os, signal\n"
			    "def on(s, f): os.write(1, b'r'); os.read(0, 1)\n"
			    "signal.signal(signal.SIGALRM, on)\n"
			    "def f():\n"
			    "    signal.setitimer(signal.ITIMER_REAL, 0.01)\n"
			    "    while True: pass\n"
			    "f()\n" },
	{ "finalizer", "import os\n"
		       "class D(object):\n"
		       "    def __del__(self): os.write(1, b'r'); os.read(0, 1)\n"
		       "def f(x): del x\n"
		       "f(D())\n" },
	{ "throw", "import os\n"
		   "def inner():\n"
		   "    try: yield 1\n"
		   "    except KeyError: os.write(1, b'r'); os.read(0, 1)\n"
		   "def outer():\n"
		   "    for x in inner(): yield x\n"
		   "g = inner(); next(g); g.throw(KeyError)\n" },
	{ "module alone", "import os\n"
			  "os.write(1, b'r'); os.read(0, 1)\n" },
	{ "50 threads", "import os, threading\n"
			"e = threading.Event()\n"
			"for i in range(50):\n"
			"    t = threading.Thread(target=e.wait); t.daemon = True; t.start()\n"
			"os.write(1, b'r'); os.read(0, 1); os._exit(0)\n" },
	{ "forked from a thread", "import os, threading\n"
				  "def child(): os.write(1, b'r'); os.read(0, 1); os._exit(0)\n"
				  "def f():\n"
				  "    p = os.fork()\n"
				  "    if p: os.waitpid(p, 0)\n"
				  "    else: child()\n"
				  "t = threading.Thread(target=f); t.start(); t.join()\n" },
};

/* Never the same stack twice. */
static const char runs[] = "import os, sys\n"
			   "def f(n, k):\n"
			   "    if not n: return k\n"
			   "    if k & 1: return sum(f(n - 1, k >> 1) for _ in (1,))\n"
			   "    return max(map(lambda q: f(n - 1, q), [k >> 1]))\n"
			   "f(2, 3)\n"
			   "os.write(1, b'r')\n"
			   "k = 0\n"
			   "while True:\n"
			   "    k += 1; exec('def made(): return f(12, k)\\nmade()')\n";

struct target {
	pid_t pid;
	int in, out;
	struct py_binary bin;
	uint64_t bias;
};

static struct pythons pythons;

/* Where the first interpreter among the mappings of the process is. 0 or negative errno. */
static int find_interpreter(struct target *t)
{
	char maps_path[64], line[4608], path[4096], perms[8];
	int err = -ENOENT;
	FILE *maps;

	snprintf(maps_path, sizeof(maps_path), "/proc/%d/maps", t->pid);
	maps = fopen(maps_path, "re");
	while (err == -ENOENT && maps && fgets(line, sizeof(line), maps)) {
		uint64_t start, end, off, first, limit, addr;
		struct elf_file *ef;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %4095[^\n]",
			   &start, &end, perms, &off, path) != 5 ||
		    perms[2] != 'x' || path[0] != '/')
			continue;
		ef = elf_file__open(open(path, O_RDONLY | O_CLOEXEC), path);
		if (!ef)
			continue;
		err = py_binary__analyse(ef, &t->bin);
		if (!err && elf_file__text(ef, &first, &limit) &&
		    elf_file__off_to_addr(ef, first, &addr))
			t->bias = start + (first - off) - addr;
		elf_file__close(ef);
	}
	if (maps)
		fclose(maps);
	return err;
}

static void target_start(struct target *t, const char *exe, const char *script)
{
	int in[2], out[2];
	char byte;

	memset(t, 0, sizeof(*t));
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	t->pid = fork();
	assert_true(t->pid >= 0);
	if (!t->pid) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also of a failed test */
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(exe, exe, "-B", "-E", "-c", script, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	t->in = in[1];
	t->out = out[0];
	assert_int_equal(read(t->out, &byte, 1), 1);
	assert_int_equal(find_interpreter(t), 0);
}

static void target_stop(struct target *t)
{
	kill(-t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	close(t->in);
	close(t->out);
}

static int check(const struct target *t, struct py_binary *bin, char *why)
{
	return selfcheck__walk(NULL, bin, (uint32_t)t->pid, t->bias, why);
}

/* ---- true layouts ---------------------------------------------------------------------------- */

static void each_passes_at_rest(void **state)
{
	char why[SELFCHECK_WHY_LEN];
	size_t wrong = 0;

	(void)state;
	for (size_t i = 0; i < pythons.cnt; i++) {
		struct target t;
		uint64_t start, best = UINT64_MAX;
		int err = 0;

		target_start(&t, pythons.path[i], waits);
		for (int k = 0; k < 20 && !err; k++) {
			start = now_ns();
			err = check(&t, &t.bin, why);
			start = now_ns() - start;
			best = start < best ? start : best;
		}
		printf("%-44s %-10s %6.1f us  %s\n", pythons.path[i], t.bin.version,
		       (double)best / 1e3, err ? why[0] ? why : strerror(-err) : "holds");
		wrong += err != 0;
		target_stop(&t);
	}
	assert_int_equal(wrong, 0);
}

static const char makes_code[] = "import gc, os\n"
				 "def wait():\n"
				 "    os.write(1, b'r'); os.read(0, 1)\n"
				 "def main():\n"
				 "    wait()\n"
				 "    for i in range(1000): compile('x', 'y', 'exec')\n"
				 "    gc.collect(); wait()\n" /* without GIL it frees them */
				 "main(); os._exit(0)\n";

static uint64_t code_count(const struct target *t)
{
	uint64_t interp, count;

	assert_int_equal(
		read_process((uint32_t)t->pid, &interp, 8, t->bias + t->bin.interp.interp_head), 0);
	interp += 8 * (uint64_t)t->bin.interp.layout.interp_codes;
	assert_int_equal(read_process((uint32_t)t->pid, &count, 8, interp), 0);
	return count;
}

/* From 3.13 on it is known where an interpreter counts the code objects that it makes, or frees. */
static void code_objects_are_counted(void **state)
{
	char why[SELFCHECK_WHY_LEN], byte = 'g';
	unsigned counting = 0;

	(void)state;
	for (size_t i = 0; i < pythons.cnt; i++) {
		struct target t;
		uint64_t before, more;

		target_start(&t, pythons.path[i], makes_code);
		assert_int_equal(check(&t, &t.bin, why), 0);
		if (t.bin.interp.layout.version < 0x030d ||
		    (t.bin.free_threaded && t.bin.interp.layout.version == 0x030d)) {
			assert_int_equal(t.bin.interp.layout.interp_codes, 0);
			target_stop(&t);
			continue;
		}
		assert_int_not_equal(t.bin.interp.layout.interp_codes, 0);
		before = code_count(&t);
		assert_int_equal(write(t.in, &byte, 1), 1);
		assert_int_equal(read(t.out, &byte, 1), 1);
		more = code_count(&t) - before;
		assert_in_range(more, 1000, 1100);
		counting++;
		target_stop(&t);
	}
	if (!counting)
		skip();
}

static void odd_ones_pass(void **state)
{
	char why[SELFCHECK_WHY_LEN];
	size_t wrong = 0;

	(void)state;
	for (size_t k = 0; k < sizeof(odd) / sizeof(odd[0]); k++) {
		for (size_t i = 0; i < pythons.cnt; i++) {
			uint64_t start, took;
			struct target t;
			int err;

			target_start(&t, pythons.path[i], odd[k].script);
			start = now_ns();
			err = check(&t, &t.bin, why);
			took = now_ns() - start;
			if (err)
				printf("%s: %s: %s\n", pythons.path[i], odd[k].name,
				       why[0] ? why : strerror(-err));
			printf("%-24s %-8s %6.0f us\n", odd[k].name, t.bin.version,
			       (double)took / 1e3);
			wrong += err != 0;
			target_stop(&t);
		}
	}
	assert_int_equal(wrong, 0);
}

/* Time that the main thread has been on a CPU, ns. */
static uint64_t ran_ns(const struct target *t)
{
	unsigned long long ns = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)t->pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llu", &ns), 1);
	fclose(f);
	return ns;
}

/* Beside others it may be off the CPU, between two frames, for many looks. */
static void let_it_run(const struct target *t)
{
	uint64_t before = ran_ns(t), since = now_ns();

	while (ran_ns(t) == before && now_ns() - since < 10 * NS_PER_S)
		sched_yield();
}

static void each_passes_while_it_runs(void **state)
{
	char why[SELFCHECK_WHY_LEN];
	size_t wrong = 0;

	(void)state;
	for (size_t i = 0; i < pythons.cnt; i++) {
		uint64_t sum = 0, start, most = 0;
		int refused = 0, none = 0, err;
		struct target t;

		target_start(&t, pythons.path[i], runs);
		for (int k = 0; k < 300; k++) {
			start = now_ns();
			err = check(&t, &t.bin, why);
			start = now_ns() - start;
			sum += start;
			most = start > most ? start : most;
			refused += err == -EBADMSG;
			none += err == -EAGAIN; /* caught between two frames */
			if (err == -EAGAIN)
				let_it_run(&t);
			if (err == -EBADMSG)
				printf("    %s\n", why);
		}
		printf("%-44s refused %d of 300, %d without a frame; %.0f us, at most %.0f\n",
		       pythons.path[i], refused, none, (double)sum / 300e3, (double)most / 1e3);
		wrong += refused || none > 30;
		target_stop(&t);
	}
	assert_int_equal(wrong, 0);
}

/* ---- wrong ones ------------------------------------------------------------------------------ */

/* What the walkers go by, without what only names the version. */
static struct py_layout bare(const struct py_layout *lay)
{
	struct py_layout l = *lay;

	l.version = 0;
	l.linetable_kind = 0;
	l.tstate_read = l.frame_read = l.code_read = 0;
	l.code_firsttraceable = 0;
	l.interp_id = 0; /* not looked at */
	return l;
}

/* Every process with every interpreter's layout: its own and equal ones hold, no others. */
static void no_other_layout_holds(void **state)
{
	struct target t[PYTHONS_MAX];
	char why[SELFCHECK_WHY_LEN];
	size_t wrong = 0, pairs = 0;

	(void)state;
	for (size_t i = 0; i < pythons.cnt; i++)
		target_start(&t[i], pythons.path[i], waits);
	for (size_t i = 0; i < pythons.cnt; i++) {
		for (size_t k = 0; k < pythons.cnt; k++) {
			struct py_binary forged = t[i].bin;
			struct py_layout own = bare(&t[i].bin.interp.layout);
			struct py_layout other = bare(&t[k].bin.interp.layout);
			bool same = !memcmp(&own, &other, sizeof(own));
			int err;

			forged.interp.layout = t[k].bin.interp.layout;
			err = check(&t[i], &forged, why);
			printf("%-10s as %-10s %s\n", t[i].bin.version, t[k].bin.version,
			       err ? why[0] ? why : strerror(-err) : "holds");
			pairs++;
			wrong += same != !err;
		}
	}
	for (size_t i = 0; i < pythons.cnt; i++)
		target_stop(&t[i]);
	printf("%zu pairs, %zu wrong\n", pairs, wrong);
	assert_int_equal(wrong, 0);
}

#define FIELD(name)                                                                                \
	{                                                                                          \
#name, offsetof(struct py_layout, name)                                            \
	}

/* Neighbours that are right in their way, and fields that the version does without. */
static bool is_as_good(const struct py_layout *lay, const char *field, int by)
{
	if (lay->str == PY_STR_BYTES && !strncmp(field, "str_", 4))
		return true;
	/* Up to 3.9 nothing in a line table tells where it begins. */
	if (!strcmp(field, "bytes_data") && lay->linetable_kind <= PY_LINES_LNOTAB && by > 0)
		return true;
	/* 3.13: threads.main, the main thread alone */
	if (!strcmp(field, "interp_threads_head") && lay->version >= 0x030d && by > 0)
		return true;
	/*
	 * co_name for co_qualname is a name without its class; co_name itself finds hidden frames
	 */
	if (!strcmp(field, "code_qualname") && by < 0)
		return true;
	return !strcmp(field, "code_name") && lay->code_qualname != PY_OFF_NONE && by > 0;
}

/* One field at a time is moved by one word. */
static void no_wrong_field_holds(void **state)
{
	static const struct {
		const char *name;
		size_t at;
	} fields[] = {
		FIELD(interp_threads_head), FIELD(tstate_thread_id), FIELD(tstate_frame),
		FIELD(frame_back),	    FIELD(frame_code),	     FIELD(frame_lasti),
		FIELD(frame_owner),	    FIELD(code_filename),    FIELD(code_name),
		FIELD(code_qualname),	    FIELD(code_linetable),   FIELD(ob_type),
		FIELD(str_length),	    FIELD(str_state),	     FIELD(str_ascii),
		FIELD(bytes_size),	    FIELD(bytes_data),	     FIELD(cframe_frame),
	};
	char why[SELFCHECK_WHY_LEN];
	size_t held = 0;

	(void)state;
	for (size_t i = 0; i < pythons.cnt; i++) {
		struct target t;

		target_start(&t, pythons.path[i], waits);
		for (size_t f = 0; f < sizeof(fields) / sizeof(fields[0]); f++) {
			for (int by = -8; by <= 8; by += 16) {
				struct py_binary forged = t.bin;
				uint8_t *lay = (uint8_t *)&forged.interp.layout;
				uint16_t value;
				int err;

				memcpy(&value, lay + fields[f].at, sizeof(value));
				if (value == PY_OFF_NONE || value + by < 0 ||
				    is_as_good(&t.bin.interp.layout, fields[f].name, by))
					continue;
				value = (uint16_t)(value + by);
				memcpy(lay + fields[f].at, &value, sizeof(value));
				err = check(&t, &forged, why);
				printf("%-8s %s%+d: %s\n", t.bin.version, fields[f].name, by,
				       err ? why[0] ? why : strerror(-err) : "HOLDS");
				held += !err;
			}
		}
		target_stop(&t);
	}
	assert_int_equal(held, 0);
}

/* ---- processes without a stack --------------------------------------------------------------- */

/*
 * An interpreter that has executed nothing yet: its program is one file, so it is mapped by then.
 */
static void a_starting_one_is_not_judged(void **state)
{
	char why[SELFCHECK_WHY_LEN];
	size_t seen = 0;

	(void)state;
	for (size_t i = 0; i < pythons.cnt; i++) {
		struct target t = { 0 };

		t.pid = fork();
		if (!t.pid) {
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
			execl(pythons.path[i], pythons.path[i], "-c", "pass", NULL);
			_exit(127);
		}
		waitpid(t.pid, NULL, 0); /* stopped behind its exec */
		if (!find_interpreter(&t)) {
			assert_int_equal(check(&t, &t.bin, why), -EAGAIN);
			seen++;
		}
		kill(t.pid, SIGKILL);
		waitpid(t.pid, NULL, 0);
	}
	if (!seen) {
		puts("skipped: there is no interpreter in one file");
		skip();
	}
}

static void a_dead_one_is_not_judged(void **state)
{
	char why[SELFCHECK_WHY_LEN];
	struct target t;

	(void)state;
	target_start(&t, pythons.path[0], waits);
	target_stop(&t);
	assert_int_equal(check(&t, &t.bin, why), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_passes_at_rest),
		cmocka_unit_test(code_objects_are_counted),
		cmocka_unit_test(odd_ones_pass),
		cmocka_unit_test(each_passes_while_it_runs),
		cmocka_unit_test(no_other_layout_holds),
		cmocka_unit_test(no_wrong_field_holds),
		cmocka_unit_test(a_starting_one_is_not_judged),
		cmocka_unit_test(a_dead_one_is_not_judged),
	};
	int failed;

	pythons_find(&pythons);
	if (!pythons.cnt) {
		puts("skipped: no Python interpreter (PYPERF_PYTHONS)");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	alarm(300);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	pythons_free(&pythons);
	return failed;
}
