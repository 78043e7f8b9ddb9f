/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/values.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "python/pylines.h"

#define CHARACTERS_MAX 32  /* shown of a string */
#define PARAMS_MAX     255 /* believed of a function */
#define CODES_MAX      1000000
#define CO_VARARGS     4 /* Include/code.h, later Include/cpython/code.h */
#define CO_VARKEYWORDS 8
#define HIDDEN	       "***"

struct param {
	char *name; /* as it is shown, with stars; NULL: not known */
	bool secret;
};

struct params {
	uint64_t code;
	uint32_t cnt; /* of which so many are in `at`, as far as they fit */
	struct param at[TRACE_ARGS_MAX];
};

struct values {
	bool py2, tagged; /* an int has lv_tag: 3.12 */
	struct params *all;
	size_t cnt, cap;
	struct hash_index by_code;
	struct hash_key key;
	struct strbuf text, raw;
};

/* ---- the interpreter ------------------------------------------------------------------------- */

/* PyCodeObject: Include/code.h, from 3.8 on Include/cpython/code.h; with ob_type at 8. */
static const struct {
	uint32_t below; /* PY_VERSION_HEX >> 16 */
	uint16_t argcount, kwonly, flags, names, nlocals, consts, cell2arg, cell2arg_width;
} codes[] = {
	{ 0x0300, 16, 0, 28, 56, 20, 40, 0, 0 },   /* co_varnames, co_nlocals */
	{ 0x0307, 16, 20, 32, 64, 24, 48, 88, 1 }, /* unsigned char *co_cell2arg */
	{ 0x0308, 16, 20, 32, 64, 24, 48, 88, 8 }, /* Py_ssize_t * */
	{ 0x030b, 16, 24, 36, 72, 28, 56, 96, 8 },
	{ 0x030c, 56, 64, 48, 96, 76, 24, 0, 0 }, /* co_localsplusnames, co_nlocalsplus */
	{ 0x0310, 52, 60, 48, 96, 72, 24, 0, 0 },
};

/* Include/opcode.h, later Include/opcode_ids.h: RETURN_CONST, with INSTRUMENTED_, EXTENDED_ARG. */
static const struct {
	uint32_t version;
	uint8_t returns[2], extended;
} constants[] = {
	{ 0x030c, { 121, 247 }, 144 },
	{ 0x030d, { 103, 240 }, 71 },
};

uint8_t values__constant_opcode(const struct target *t, uint8_t opcode)
{
	for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
		if (constants[i].version == t->py.version_hex >> 16 &&
		    (constants[i].returns[0] == opcode || constants[i].returns[1] == opcode))
			return opcode;
	return 0;
}

static uint64_t address_of(const struct target *t, const char *name)
{
	struct elf_symbol sym;

	return elf_file__symbol(t->ef, name, &sym) ? t->bias + sym.addr : 0;
}

static void set_types(struct trace_values_cfg *cfg, const struct target *t, bool py2)
{
	__u64 *types = cfg->types, *singles = cfg->singles;

	types[VALUE_INT] = address_of(t, "PyLong_Type");
	types[VALUE_FLOAT] = address_of(t, "PyFloat_Type");
	types[VALUE_CELL] = address_of(t, "PyCell_Type");
	types[VALUE_BYTES] = address_of(t, py2 ? "PyString_Type" : "PyBytes_Type");
	types[py2 ? VALUE_WIDE : VALUE_STR] = address_of(t, "PyUnicode_Type");
	types[VALUE_WORD] = py2 ? address_of(t, "PyInt_Type") : 0;
	cfg->wide_width = address_of(t, "PyUnicodeUCS2_FromObject") ? 2 : 4;
	singles[VALUE_NONE - VALUE_TYPES] = address_of(t, "_Py_NoneStruct");
	singles[VALUE_TRUE - VALUE_TYPES] = address_of(t, "_Py_TrueStruct");
	singles[VALUE_FALSE - VALUE_TYPES] =
		address_of(t, py2 ? "_Py_ZeroStruct" : "_Py_FalseStruct");
}

static uint16_t moved(const struct target *t, uint16_t at)
{
	return at ? (uint16_t)(at + t->py.interp.layout.ob_type - 8) : 0;
}

int values__configure(struct trace_values_cfg *cfg, const struct target *t, uint32_t args,
		      bool returns, const char **why_not)
{
	uint32_t version = t->py.version_hex >> 16;
	size_t i = 0;

	if (!args && !returns)
		return 0;
	while (i < sizeof(codes) / sizeof(*codes) && version >= codes[i].below)
		i++;
	if (i == sizeof(codes) / sizeof(*codes)) {
		*why_not = "where its version has arguments is not known";
		return -ENOTSUP;
	}
	cfg->args = args;
	cfg->returns = returns;
	cfg->tagged = version >= 0x030e ? 3 : 0; /* Py_INT_TAG, pycore_stackref.h */
	cfg->code_argcount = moved(t, codes[i].argcount);
	cfg->code_kwonly = moved(t, codes[i].kwonly);
	cfg->code_flags = moved(t, codes[i].flags);
	cfg->code_names = moved(t, codes[i].names);
	cfg->code_nlocals = moved(t, codes[i].nlocals);
	cfg->code_consts = moved(t, codes[i].consts);
	cfg->code_cell2arg = moved(t, codes[i].cell2arg);
	cfg->cell2arg_width = codes[i].cell2arg_width;
	/* 3.14: behind ob_hash. */
	cfg->tuple_items = moved(t, version >= 0x030e ? 32 : 24);
	for (i = 0; i < sizeof(constants) / sizeof(*constants); i++)
		if (constants[i].version == version)
			cfg->opcode_extended = constants[i].extended;
	set_types(cfg, t, version < 0x0300);
	return 0;
}

/* ---- parameters ------------------------------------------------------------------------------ */

struct values *values__new(const struct py_layout *l)
{
	struct values *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->py2 = l->str == PY_STR_BYTES;
	v->tagged = l->version >= 0x030c;
	v->key = hash_key();
	return v;
}

static void free_params(struct params *p)
{
	for (size_t i = 0; i < TRACE_ARGS_MAX; i++)
		free(p->at[i].name);
}

void values__free(struct values *v)
{
	if (!v)
		return;
	for (size_t i = 0; i < v->cnt; i++)
		free_params(&v->all[i]);
	hash_index__free(&v->by_code);
	strbuf__free(&v->text);
	strbuf__free(&v->raw);
	free(v->all);
	free(v);
}

/* ASCII letters are the same in both cases. */
static bool has_word(const char *s, size_t len, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= len; i++) {
		size_t k = 0;

		while (k < n && (s[i + k] | 0x20) == word[k])
			k++;
		if (k == n)
			return true;
	}
	return false;
}

bool values__looks_secret(const char *s, size_t len)
{
	static const char *const words[] = { "pass", "secret", "token",	 "key",
					     "auth", "cookie", "session" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (has_word(s, len, words[i]))
			return true;
	return false;
}

/* -ENOMEM, or 0: the name may be unknown then. */
static int set_param(struct values *v, struct param *out, const struct trace_param *p,
		     const char *stars)
{
	struct strbuf *raw = &v->raw, *text = &v->text;

	out->secret = true;
	if ((p->width != 1 && p->width != 2 && p->width != 4) || p->sent > sizeof(p->data))
		return 0;
	strbuf__clear(raw);
	strbuf__clear(text);
	if (p->flags & BLOB_PY2)
		strbuf__add(raw, p->data, p->sent);
	else
		py_utf8(raw, p->data, p->sent, p->width);
	strbuf__addz(text, stars);
	if (raw->len)
		str_sanitise(text, raw->s, raw->len, 0);
	if (p->sent < p->size)
		strbuf__addz(text, "...");
	if (raw->err || text->err)
		return -ENOMEM;
	/* What is behind the part that was sent may tell more. */
	out->secret = p->sent < p->size || !raw->len || values__looks_secret(raw->s, raw->len);
	out->name = strdup(text->len ? text->s : "");
	return out->name ? 0 : -ENOMEM;
}

/* "*", "**" or nothing, for the parameter of this number. */
static const char *stars_of(const struct trace_params *p, uint64_t i)
{
	uint64_t named = (uint64_t)p->argcount + p->kwonly;

	if (i < named)
		return "";
	return i == named && p->flags & CO_VARARGS ? "*" : "**";
}

static const struct params *find(const struct values *v, uint64_t code)
{
	uint64_t hash = hash_bytes(&v->key, &code, sizeof(code));
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&v->by_code, hash, &at)) != HASH_NONE;)
		if (v->all[i].code == code)
			return &v->all[i];
	return NULL;
}

bool values__knows(const struct values *v, uint64_t code)
{
	return find(v, code) != NULL;
}

/* Without memory for the index their arguments are not known: "...". */
void values__tidy(struct values *v, bool (*is_named)(void *ctx, uint64_t code), void *ctx)
{
	size_t kept = 0;

	hash_index__free(&v->by_code);
	for (size_t i = 0; i < v->cnt; i++) {
		uint64_t code = v->all[i].code;

		if (is_named(ctx, code) &&
		    !hash_index__add(&v->by_code, hash_bytes(&v->key, &code, sizeof(code)),
				     (uint32_t)kept))
			v->all[kept++] = v->all[i];
		else
			free_params(&v->all[i]);
	}
	v->cnt = kept;
}

int values__take_params(struct values *v, const struct trace_params *p)
{
	uint64_t cnt = (uint64_t)p->argcount + p->kwonly + !!(p->flags & CO_VARARGS) +
		       !!(p->flags & CO_VARKEYWORDS);
	struct params *params;
	int err = 0;

	if (find(v, p->id) || v->cnt == CODES_MAX)
		return 0;
	if (ARRAY_GROW(v->all, v->cap, v->cnt, CODES_MAX) ||
	    hash_index__add(&v->by_code, hash_bytes(&v->key, &p->id, sizeof(p->id)),
			    (uint32_t)v->cnt))
		return -ENOMEM;
	params = &v->all[v->cnt++];
	*params = (struct params){ .code = p->id,
				   .cnt = cnt < PARAMS_MAX ? (uint32_t)cnt : PARAMS_MAX };
	for (uint32_t i = 0; i < TRACE_ARGS_MAX; i++)
		params->at[i].secret = true;
	for (uint32_t i = 0; i < TRACE_ARGS_MAX && i < params->cnt && !err; i++)
		err = set_param(v, &params->at[i], &p->at[i], stars_of(p, i));
	return err;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Up to 64 bits; of a larger one, how large it is. */
static void add_int(struct strbuf *b, const struct trace_value *value, bool tagged)
{
	uint64_t n;
	bool negative;

	if (trace_int(value, tagged, &negative, &n))
		strbuf__addf(b, "%s%" PRIu64, negative ? "-" : "", n);
	else
		strbuf__addf(b, "<int of up to %" PRIu64 " bits>",
			     (uint64_t)value->size / 4 * DIGIT_BITS);
}

/* As repr() has it: the fewest digits that are this number, without an exponent up to 1e16. */
static void add_float(struct strbuf *b, uint64_t bits)
{
	int digits = 0, exponent;
	char text[40];
	double d;

	memcpy(&d, &bits, sizeof(d));
	if (!isfinite(d)) {
		strbuf__addz(b, isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
		return;
	}
	do
		snprintf(text, sizeof(text), "%.*e", digits, d);
	while (strtod(text, NULL) != d && digits++ < 16);
	exponent = atoi(strchr(text, 'e') + 1);
	if (exponent >= -4 && exponent < 16) {
		digits = digits > exponent ? digits - exponent : 0;
		snprintf(text, sizeof(text), digits ? "%.*f" : "%.*f.0", digits, d);
	}
	strbuf__addz(b, text);
}

/* A character between quotes; of bytes those that are no ASCII by their number. */
static void add_quoted(struct strbuf *b, uint32_t c, bool bytes)
{
	if (c == '\n')
		strbuf__addz(b, "\\n");
	else if (c == '\r')
		strbuf__addz(b, "\\r");
	else if (c == '\t')
		strbuf__addz(b, "\\t");
	else if (c == '\'' || c == '\\')
		strbuf__addf(b, "\\%c", (char)c);
	else if (c < 0x20 || c == 0x7f || (bytes && c > 0x7f))
		strbuf__addf(b, "\\x%02x", c);
	else
		utf8_add(b, c);
}

static uint32_t character(const struct trace_value *v, uint32_t i, uint32_t width)
{
	uint32_t c = 0;

	memcpy(&c, v->data + (size_t)i * width, width); /* little-endian */
	return c;
}

static void add_string(struct values *v, struct strbuf *b, const struct trace_value *value)
{
	bool bytes = value->kind == VALUE_BYTES;
	uint32_t width = bytes ? 1 : value->width, cnt;

	if (width != 1 && width != 2 && width != 4) {
		strbuf__addz(b, "<str>");
		return;
	}
	cnt = value->sent / width < CHARACTERS_MAX ? value->sent / width : CHARACTERS_MAX;
	strbuf__clear(&v->raw);
	for (uint32_t i = 0; i < cnt; i++)
		add_quoted(&v->raw, character(value, i, width), bytes);
	strbuf__addz(b, bytes && !v->py2 ? "b'" : !bytes && v->py2 ? "u'" : "'");
	if (v->raw.len)
		str_sanitise(b, v->raw.s, v->raw.len, 0);
	strbuf__addz(b, (uint64_t)cnt * width < value->size ? "'..." : "'");
	if (v->raw.err)
		b->err = v->raw.err;
}

static void add_type(struct strbuf *b, const struct trace_value *value)
{
	strbuf__addc(b, '<');
	if (value->sent)
		str_sanitise(b, (const char *)value->data, value->sent, CHARACTERS_MAX);
	else
		strbuf__addc(b, '?');
	strbuf__addc(b, '>');
}

static void add_value(struct values *v, struct strbuf *b, const struct trace_value *value)
{
	if (value->sent > sizeof(value->data)) {
		strbuf__addc(b, '?');
		return;
	}
	switch (value->kind) {
	case VALUE_INT:
		add_int(b, value, v->tagged);
		break;
	case VALUE_WORD:
		strbuf__addf(b, "%" PRId64, (int64_t)value->number);
		break;
	case VALUE_STR:
	case VALUE_BYTES:
		add_string(v, b, value);
		break;
	case VALUE_FLOAT:
		add_float(b, value->number);
		break;
	case VALUE_NONE:
		strbuf__addz(b, "None");
		break;
	case VALUE_TRUE:
		strbuf__addz(b, "True");
		break;
	case VALUE_FALSE:
		strbuf__addz(b, "False");
		break;
	case VALUE_OTHER:
	case VALUE_CELL:
		add_type(b, value);
		break;
	default:
		strbuf__addc(b, '?');
	}
}

static void add_arg(struct values *v, struct strbuf *b, const struct param *p,
		    const struct trace_value *value)
{
	if (p->secret)
		strbuf__addz(b, HIDDEN);
	else
		add_value(v, b, value);
}

void values__add_args(struct values *v, struct strbuf *b, uint64_t code,
		      const struct trace_value *at, uint32_t cnt)
{
	const struct params *p = find(v, code);

	strbuf__addc(b, '(');
	for (uint32_t i = 0; p && i < cnt && i < p->cnt && i < TRACE_ARGS_MAX; i++) {
		strbuf__addf(b, "%s%s=", i ? ", " : "", p->at[i].name ? p->at[i].name : "?");
		add_arg(v, b, &p->at[i], &at[i]);
	}
	if (!p)
		strbuf__addz(b, "...");
	else if (p->cnt > cnt)
		strbuf__addz(b, ", ...");
	strbuf__addc(b, ')');
}

void values__args_json(struct values *v, struct json *j, uint64_t code,
		       const struct trace_value *at, uint32_t cnt)
{
	const struct params *p = find(v, code);

	json__array(j, "arguments");
	for (uint32_t i = 0; p && i < cnt && i < p->cnt && i < TRACE_ARGS_MAX; i++) {
		strbuf__clear(&v->text);
		add_arg(v, &v->text, &p->at[i], &at[i]);
		json__object(j, NULL);
		json__stringz(j, "name", p->at[i].name ? p->at[i].name : "?");
		json__string(j, "value", v->text.s ? v->text.s : "", v->text.len);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__bool(j, "more_arguments", !p || p->cnt > cnt);
}

bool values__hold(const struct values *v, uint64_t code, const struct trace_value *at, uint32_t cnt,
		  const struct condition *c)
{
	const struct params *p = find(v, code);

	for (uint32_t i = 0; p && i < cnt && i < p->cnt && i < TRACE_ARGS_MAX; i++)
		if (!p->at[i].secret && p->at[i].name && !strcmp(p->at[i].name, c->name))
			return condition__holds(c, &at[i], v->tagged);
	return false;
}

/* The last part of a qualified name; all of it if that is a <lambda>. */
static bool returns_secret(const char *name, size_t len)
{
	const char *dot = len ? memrchr(name, '.', len) : NULL;
	size_t before = dot ? (size_t)(dot + 1 - name) : 0;

	if (before < len && name[before] == '<')
		before = 0;
	return values__looks_secret(name + before, len - before);
}

bool values__add_return(struct values *v, struct strbuf *b, const char *name, size_t len,
			const struct trace_value *value)
{
	if (value->kind == VALUE_UNSET)
		return false;
	if (returns_secret(name, len))
		strbuf__addz(b, HIDDEN);
	else
		add_value(v, b, value);
	return true;
}
