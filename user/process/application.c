/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/application.h"

#include <string.h>

#define CNT(a)	   (sizeof(a) / sizeof((a)[0]))
#define TITLE_WORD 64 /* of a word so much is shown */

/* ---- words ----------------------------------------------------------------------------------- */

static const char *base_name(const char *path, size_t *len)
{
	size_t end = *len, begin;

	while (end > 1 && path[end - 1] == '/')
		end--;
	for (begin = end; begin && path[begin - 1] != '/'; begin--)
		;
	*len = end - begin;
	return path + begin;
}

static bool ends_with(const char *s, size_t len, const char *tail)
{
	size_t n = strlen(tail);

	return len > n && !memcmp(s + len - n, tail, n);
}

static bool is_word(const char *s, size_t len, const char *word)
{
	return strlen(word) == len && !memcmp(s, word, len);
}

/* What programs are called that could be called anything. */
static bool is_generic(const char *name, size_t len)
{
	static const char *const words[] = {
		"__init__", "__main__",	  "api",     "app",    "application", "apps",
		"asgi",	    "backend",	  "cli",     "code",   "config",      "core",
		"default",  "entrypoint", "index",   "main",   "manage",      "module",
		"program",  "python",	  "run",     "runner", "runserver",   "script",
		"serve",    "server",	  "service", "site",   "src",	      "start",
		"task",	    "tasks",	  "test",    "tests",  "web",	      "webapp",
		"worker",   "workers",	  "wsgi"
	};

	for (size_t i = 0; i < CNT(words); i++)
		if (is_word(name, len, words[i]))
			return true;
	return !len || !strncmp(name, "python", 6);
}

static bool name_of_path(const char *path, size_t len, struct strbuf *out)
{
	const char *name = base_name(path, &len);

	if (is_word(name, len, "__main__.py") && name > path + 1) { /* dir/__main__.py */
		len = (size_t)(name - path);
		name = base_name(path, &len);
	} else if (ends_with(name, len, ".py")) {
		len -= 3;
	} else if (ends_with(name, len, ".pyc") || ends_with(name, len, ".pyz")) {
		len -= 4;
	}
	strbuf__add(out, name, len);
	return len > 0;
}

static bool name_of_module(const char *module, struct strbuf *out)
{
	size_t len = strlen(module);

	if (ends_with(module, len, ".__main__"))
		len -= 9;
	strbuf__add(out, module, len);
	return len > 0;
}

/*
 * A program of its own, or a title it gave itself: "gunicorn: worker [app]", "[celeryd: a@b] -A
 * proj".
 */
static bool name_of_program(const char *arg, struct strbuf *out)
{
	size_t len;

	arg += *arg == '[';
	len = strcspn(arg, " :");
	arg = base_name(arg, &len);
	strbuf__add(out, arg, len);
	return len > 0;
}

/* ---- what is run ----------------------------------------------------------------------------- */

enum kind {
	PROGRAM, /* no interpreter: the program itself, or a title */
	SCRIPT,
	MODULE,
};

struct program {
	enum kind kind;
	const char *word;
	const char *rest, *end; /* what is behind it, NUL-terminated words */
};

static bool is_interpreter(const char *arg)
{
	size_t len = strlen(arg);
	const char *name = base_name(arg, &len);

	return !strncmp(name, "python", 6) || !strncmp(name, "-python", 7);
}

/*
 * Parses one option of the interpreter. 1: its argument is the next word; 0: it is complete; -1: no
 * script follows. `*module`: the argument of -m, if it is in the same word.
 */
static int parse_option(const char *arg, const char **module)
{
	if (!strncmp(arg, "--", 2))
		return !strcmp(arg, "--check-hash-based-pycs");
	for (arg++; *arg; arg++) {
		if (*arg == 'c')
			return -1;
		if (*arg == 'm') {
			*module = arg + 1;
			return !arg[1];
		}
		if (*arg == 'X' || *arg == 'W')
			return !arg[1];
	}
	return 0;
}

static const char *next_word(const char *word)
{
	return word + strlen(word) + 1;
}

static bool take(struct program *p, enum kind kind, const char *word, const char *rest)
{
	p->kind = kind;
	p->word = word;
	p->rest = rest;
	return true;
}

static bool find_program(const char *args, size_t len, struct program *p)
{
	const char *arg = args, *module = NULL;
	bool value = false;

	if (!len || args[len - 1]) /* cut, or not arguments */
		return false;
	p->end = args + len;
	if (!is_interpreter(arg))
		return take(p, PROGRAM, arg, next_word(arg));
	for (arg = next_word(arg); arg < p->end; arg = next_word(arg)) {
		int more;

		if (module) /* -m, and its argument */
			return take(p, MODULE, arg, next_word(arg));
		if (value) {
			value = false;
			continue;
		}
		if (arg[0] != '-')
			return take(p, SCRIPT, arg, next_word(arg));
		if (!arg[1])
			return false;
		more = parse_option(arg, &module);
		if (more < 0)
			return false;
		if (module && !more)
			return take(p, MODULE, module, next_word(arg));
		value = more && !module;
	}
	return false;
}

static bool name_of(const struct program *p, struct strbuf *out)
{
	switch (p->kind) {
	case SCRIPT:
		return name_of_path(p->word, strlen(p->word), out);
	case MODULE:
		return name_of_module(p->word, out);
	default:
		return name_of_program(p->word, out);
	}
}

/* The code by which libraries start their processes, and the names for these. */
static const struct starter {
	const char *line; /* behind -c: its beginning */
	const char *title;
} starters[] = {
	/* pytest -n, for one (execnet/gateway_io.py) */
	{ "import sys;exec(eval(sys.stdin.readline()))", "execnet worker" },
	/* Lib/multiprocessing/spawn.py, forkserver.py, resource_tracker.py: the same from 3.8 on */
	{ "from multiprocessing.spawn import spawn_main; ", "multiprocessing worker" },
	{ "from multiprocessing.forkserver import main; ", "multiprocessing forkserver" },
	{ "from multiprocessing.resource_tracker import main;",
	  "multiprocessing resource tracker" },
};

static const char *started_title(const char *args, size_t len)
{
	const char *arg = args, *line;

	if (!len || args[len - 1])
		return NULL;
	while (arg < args + len && strcmp(arg, "-c") != 0)
		arg = next_word(arg);
	line = arg < args + len ? next_word(arg) : arg;
	for (size_t i = 0; line < args + len && i < CNT(starters); i++)
		if (!strncmp(line, starters[i].line, strlen(starters[i].line)))
			return starters[i].title;
	return NULL;
}

bool application__script(const char *args, size_t len, struct strbuf *out)
{
	struct program p;

	return find_program(args, len, &p) && name_of(&p, out);
}

/* ---- what a launcher runs -------------------------------------------------------------------- */

/* Programs that run the application that an argument names. */
struct launcher {
	const char *name;
	const char *options[4]; /* that have it as their value */
	bool last;		/* it may be the last word, without a colon */
	bool verb;		/* another word says what it does: "celery worker" */
};

static const struct launcher launchers[] = {
	{ "gunicorn", { NULL }, true, false },
	{ "uvicorn", { "--app", NULL }, false, false },
	{ "hypercorn", { NULL }, true, false },
	{ "daphne", { NULL }, false, false },
	{ "granian", { NULL }, false, false },
	{ "waitress-serve", { "--app", NULL }, false, false },
	{ "uwsgi", { "-w", "--module", "--wsgi-file", NULL }, false, false },
	{ "uwsgi-core", { "-w", "--module", "--wsgi-file", NULL }, false, false },
	{ "celery", { "-A", "--app", NULL }, false, true },
	{ "celeryd", { "-A", "--app", NULL }, false, true },
	{ "faust", { "-A", "--app", NULL }, false, true },
	{ "flask", { "-A", "--app", NULL }, false, true },
	{ "dramatiq", { NULL }, true, false },
	{ "arq", { NULL }, true, false },
	{ "huey_consumer", { NULL }, true, false },
	{ "fastapi", { NULL }, false, true },
	{ "streamlit", { NULL }, false, true },
	{ "django-admin", { NULL }, false, true },
	{ "rq", { NULL }, false, true },
};

static const struct launcher *find_launcher(const char *name, size_t len)
{
	for (size_t i = 0; i < CNT(launchers); i++)
		if (is_word(name, len, launchers[i].name))
			return &launchers[i];
	return NULL;
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define DIGITS	"0123456789"

/* "svc", "svc.wsgi": the length, or 0. */
static size_t module_len(const char *word)
{
	size_t len = strspn(word, LETTERS DIGITS ".");

	return strspn(word, LETTERS) && len && word[len - 1] != '.' ? len : 0;
}

/* "svc.wsgi:app", "svc:create_app()" */
static bool is_spec(const char *word)
{
	size_t len = module_len(word);

	return len && word[len] == ':' && strspn(word + len + 1, LETTERS);
}

/* Takes the first part of "svc.wsgi:app" or "svc/app.py" that is a name of its own. */
static bool name_of_spec(const char *spec, struct strbuf *out)
{
	size_t len = strcspn(spec, ":");
	const char *name = spec;

	if (ends_with(spec, len, ".py")) {
		size_t before = out->len;

		name_of_path(spec, len, out);
		if (out->len > before && !is_generic(out->s + before, out->len - before))
			return true;
		strbuf__clear(out);
		return false;
	}
	if (module_len(spec) != len)
		return false;
	while (name < spec + len) {
		size_t n = strcspn(name, ".:");

		if (!is_generic(name, n)) {
			strbuf__add(out, name, n);
			return true;
		}
		name += n + 1;
	}
	return false;
}

/* The value of `-A proj`, `-Aproj`, `--app proj` or `--app=proj`; NULL: it is another word. */
static const char *option_value(const char *word, const char *end, const char *option)
{
	size_t len = strlen(option);

	if (strncmp(word, option, len))
		return NULL;
	if (!word[len])
		return next_word(word) < end ? next_word(word) : NULL;
	if (option[1] == '-')
		return word[len] == '=' ? word + len + 1 : NULL;
	return word + len;
}

static const char *by_option(const struct launcher *l, const char *word, const char *end)
{
	const char *value = NULL;

	for (size_t i = 0; !value && i < CNT(l->options) && l->options[i]; i++)
		value = option_value(word, end, l->options[i]);
	return value;
}

/*
 * Finds the word that names the application, or NULL. The value of an option does not, so `-c
 * conf.py` is not an application. `*verb`: the first other free word, or NULL.
 */
static const char *find_spec(const struct launcher *l, const char *rest, const char *end,
			     const char **verb)
{
	const char *last = NULL, *before = "", *spec = NULL;

	*verb = NULL;
	for (const char *word = rest; word < end; word = next_word(word)) {
		bool free_word = *word != '-' && *before != '-';
		const char *value = by_option(l, word, end);

		if (!value && is_spec(word))
			value = word;
		if (!value && free_word && ends_with(word, strlen(word), ".py"))
			value = word;
		if (!spec)
			spec = value;
		if (!*word || word[strlen(word) - 1] == ':') /* of titles */
			continue;
		if (free_word && word != spec && !*verb)
			*verb = word;
		last = free_word ? word : NULL;
		before = word;
	}
	return spec || !l->last ? spec : last;
}

static bool launched(const struct launcher *l, const char *rest, const char *end,
		     struct strbuf *out)
{
	const char *verb, *spec = find_spec(l, rest, end, &verb);

	return spec && name_of_spec(spec, out);
}

/*
 * Splits a title into words: "gunicorn: worker [svc:app]", "[celeryd: a@b:MainProcess] -active-
 * (worker -A proj)".
 */
static void split_title(const char *title, struct strbuf *words)
{
	for (; *title; title++)
		strbuf__addc(words, strchr(" []()", *title) ? '\0' : *title);
	strbuf__addc(words, '\0');
}

/* The words after the launcher's name, up to *end. The caller frees `words`. */
static const char *launcher_words(const struct program *p, struct strbuf *words, const char **end)
{
	const char *rest = p->rest;

	*end = p->end;
	while (rest < p->end && !*rest) /* a title is filled up with NULs */
		rest++;
	if (p->kind != PROGRAM || rest < p->end)
		return rest;
	split_title(p->word + (*p->word == '['), words);
	if (words->err)
		return *end;
	*end = words->s + words->len;
	return next_word(words->s); /* the first is the launcher's name */
}

static bool launched_by(const struct launcher *l, const struct program *p, struct strbuf *out)
{
	struct strbuf words = { 0 };
	const char *end, *rest = launcher_words(p, &words, &end);
	bool found = launched(l, rest, end, out);

	strbuf__free(&words);
	return found;
}

/* "shop.main" is a name, for "shop" is; "app.main" is none. */
static bool is_name(const char *name, size_t len)
{
	size_t n;

	for (; len; name += n, len -= n) {
		for (n = 0; n < len && name[n] != '.'; n++)
			;
		if (!is_generic(name, n))
			return true;
		n += n < len;
	}
	return false;
}

bool application__name(const char *args, size_t len, struct strbuf *out)
{
	const struct launcher *l;
	struct program p;

	if (!find_program(args, len, &p) || !name_of(&p, out))
		return false;
	l = out->err ? NULL : find_launcher(out->s, out->len);
	if (!l && !out->err && is_name(out->s, out->len))
		return true;
	strbuf__clear(out);
	return l && launched_by(l, &p, out);
}

/* ---- as people call it ----------------------------------------------------------------------- */

/* "celery worker proj", "gunicorn shop.wsgi:app" */
static void add_launched(const struct launcher *l, const struct program *p, struct strbuf *out)
{
	struct strbuf words = { 0 };
	const char *end, *verb, *rest = launcher_words(p, &words, &end);
	const char *spec = find_spec(l, rest, end, &verb);

	if (l->verb && verb && module_len(verb))
		strbuf__addf(out, " %.*s", TITLE_WORD, verb);
	if (spec)
		strbuf__addf(out, " %.*s", TITLE_WORD, spec);
	strbuf__free(&words);
}

/* A script with its suffix; "manage.py migrate" with what it does. */
static void add_script(const struct program *p, struct strbuf *out)
{
	size_t len = strlen(p->word);
	const char *name = base_name(p->word, &len);

	if (is_word(name, len, "__main__.py")) {
		name_of(p, out);
		return;
	}
	strbuf__add(out, name, len < TITLE_WORD ? len : TITLE_WORD);
	if (is_word(name, len, "manage.py") && p->rest < p->end && module_len(p->rest))
		strbuf__addf(out, " %.*s", TITLE_WORD, p->rest);
}

bool application__title(const char *args, size_t len, struct strbuf *out)
{
	const struct launcher *l;
	const char *started = started_title(args, len);
	struct program p;

	if (started) {
		strbuf__addz(out, started);
		return !out->err;
	}
	if (!find_program(args, len, &p) || !name_of(&p, out) || out->err)
		return false;
	l = find_launcher(out->s, out->len);
	if (l) {
		add_launched(l, &p, out);
	} else if (p.kind == SCRIPT) {
		strbuf__clear(out);
		add_script(&p, out);
	}
	return !out->err && out->len;
}
