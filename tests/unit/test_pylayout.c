/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Every number of every layout against the debug information of real interpreters, read with libdw;
 * and _Py_DebugOffsets of versions that are not installed, typed in from their headers.
 */
#include "python/pylayout.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <glob.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug_offsets.h"
#include "pythons.h"

#define NONE	 PY_OFF_NONE
#define MAX_COLS 16

/* ---- Where the truth is ------------------------------------------------------------------- */

/*
 * `paths`: alternatives, separated by '|', of which the first that exists counts: "type.member" is
 * an offset, "type" a size. In versions outside [since, until] the field has to be absent.
 */
struct truth {
	const char *name;
	uint16_t field;
	uint32_t since, until;
	const char *paths;
};

#define T(name, since, until, paths)                                                               \
	{                                                                                          \
#name, offsetof(struct py_layout, name), since, until, paths                       \
	}
#define OLD 0x0207
#define NEW 0x03ff

static const struct truth truths[] = {
	T(interp_next, OLD, NEW, "_is.next"),
	T(interp_threads_head, OLD, NEW, "_is.threads.head|_is.tstate_head"),
	T(interp_id, 0x0307, NEW, "_is.id"),
	T(tstate_next, OLD, NEW, "_ts.next"),
	T(tstate_thread_id, OLD, NEW, "_ts.thread_id"),
	T(tstate_frame, OLD, 0x030a, "_ts.frame"),
	T(tstate_frame, 0x030b, 0x030c, "_ts.cframe"),
	T(tstate_frame, 0x030d, NEW, "_ts.current_frame"),
	T(tstate_chunk, 0x030b, 0x030c, "_ts.datastack_chunk"),
	T(root_cframe, 0x030a, 0x030c, "_ts.root_cframe"),
	T(cframe_frame, 0x030b, 0x030c, "_PyCFrame.current_frame"),
	T(cframe_tstate, 0x030a, 0x030a, "_ts.cframe"),
	T(base_frame, 0x030f, 0x030f, "_ts.base_frame"),
	T(cframe_previous, 0x030a, 0x030c, "_PyCFrame.previous|_cframe.previous"),
	T(frame_back, OLD, NEW, "_PyInterpreterFrame.previous|_frame.f_back"),
	T(frame_code, OLD, NEW,
	  "_PyInterpreterFrame.f_executable|_PyInterpreterFrame.f_code|_frame.f_code"),
	T(frame_lasti, OLD, NEW,
	  "_PyInterpreterFrame.instr_ptr|_PyInterpreterFrame.prev_instr|_frame.f_lasti"),
	T(frame_owner, 0x030b, NEW, "_PyInterpreterFrame.owner"),
	T(frame_locals, 0x030b, 0x030c, "_PyInterpreterFrame.localsplus"),
	T(frame_executing, 0x0306, 0x0309, "_frame.f_executing"),
	T(frame_tlbc_index, 0x030e, NEW, "_PyInterpreterFrame.tlbc_index|absent"),
	T(code_firstlineno, OLD, NEW, "PyCodeObject.co_firstlineno"),
	T(code_stacksize, OLD, 0x030a, "PyCodeObject.co_stacksize"),
	T(code_stacksize, 0x030b, 0x030c, "PyCodeObject.co_stacksize"),
	T(code_nlocalsplus, 0x030b, 0x030c, "PyCodeObject.co_nlocalsplus"),
	T(code_filename, OLD, NEW, "PyCodeObject.co_filename"),
	T(code_name, OLD, NEW, "PyCodeObject.co_name"),
	T(code_qualname, 0x030b, NEW, "PyCodeObject.co_qualname"),
	T(code_linetable, OLD, NEW, "PyCodeObject.co_linetable|PyCodeObject.co_lnotab"),
	T(code_version, 0x030c, NEW, "PyCodeObject.co_version"),
	T(code_firsttraceable, 0x030b, NEW, "PyCodeObject._co_firsttraceable"),
	T(code_bytecode, 0x030b, NEW, "PyCodeObject.co_code_adaptive"),
	T(code_tlbc, 0x030e, NEW, "PyCodeObject.co_tlbc|absent"),
	T(ob_type, OLD, NEW, "_object.ob_type"),
	T(str_length, 0x0306, NEW, "PyASCIIObject.length"),
	T(str_length, OLD, OLD, "PyStringObject.ob_size"),
	T(str_hash, 0x0306, NEW, "PyASCIIObject.hash"),
	T(str_hash, OLD, OLD, "PyStringObject.ob_shash"),
	T(str_state, 0x0306, NEW, "PyASCIIObject.state"),
	T(str_ascii, 0x0306, NEW, "PyASCIIObject"),
	T(str_ascii, OLD, OLD, "PyStringObject.ob_sval"),
	T(str_compact, 0x0306, NEW, "PyCompactUnicodeObject"),
	T(str_compact, OLD, OLD, "PyStringObject.ob_sval"),
	T(bytes_size, 0x0306, NEW, "PyBytesObject.ob_base.ob_size"),
	T(bytes_size, OLD, OLD, "PyStringObject.ob_size"),
	T(bytes_data, 0x0306, NEW, "PyBytesObject.ob_sval"),
	T(bytes_data, OLD, OLD, "PyStringObject.ob_sval"),
};
#define TRUTH_CNT (sizeof(truths) / sizeof(truths[0]))

static uint16_t field_of(const struct py_layout *l, uint16_t field)
{
	uint16_t value;

	memcpy(&value, (const uint8_t *)l + field, sizeof(value));
	return value;
}

/* ---- libdw -------------------------------------------------------------------------------- */

/* Through typedefs and qualifiers to the structure itself. */
static bool peel(Dwarf_Die *die)
{
	while (dwarf_tag(die) == DW_TAG_typedef || dwarf_tag(die) == DW_TAG_const_type) {
		Dwarf_Attribute attr;

		if (!dwarf_attr_integrate(die, DW_AT_type, &attr) || !dwarf_formref_die(&attr, die))
			return false;
	}
	return true;
}

/* A complete structure, or a typedef of one, by name; the first of the file. */
static bool find_type(Dwarf *dw, const char *name, Dwarf_Die *out)
{
	Dwarf_Off off = 0, next;
	size_t hsize;

	for (; !dwarf_nextcu(dw, off, &next, &hsize, NULL, NULL, NULL); off = next) {
		Dwarf_Die cu, die;

		if (!dwarf_offdie(dw, off + hsize, &cu) || dwarf_child(&cu, &die))
			continue;
		do {
			int tag = dwarf_tag(&die);
			const char *its = dwarf_diename(&die);
			Dwarf_Die type = die;

			if ((tag != DW_TAG_structure_type && tag != DW_TAG_typedef) || !its ||
			    strcmp(its, name) || !peel(&type))
				continue;
			if (dwarf_tag(&type) == DW_TAG_structure_type &&
			    !dwarf_hasattr(&type, DW_AT_declaration)) {
				*out = type;
				return true;
			}
		} while (!dwarf_siblingof(&die, &die));
	}
	return false;
}

/* The offset of "a.b.c" in a structure, or -1. */
static long member_offset(Dwarf_Die *type, const char *path)
{
	size_t len = strcspn(path, ".");
	Dwarf_Die die;

	if (dwarf_child(type, &die))
		return -1;
	do {
		const char *name = dwarf_diename(&die);
		Dwarf_Attribute attr;
		Dwarf_Word off = 0;
		Dwarf_Die inner;
		long rest;

		if (dwarf_tag(&die) != DW_TAG_member || !name || strlen(name) != len ||
		    strncmp(name, path, len))
			continue;
		if (dwarf_attr(&die, DW_AT_data_member_location, &attr))
			dwarf_formudata(&attr, &off);
		if (!path[len])
			return (long)off;
		if (!dwarf_attr(&die, DW_AT_type, &attr) || !dwarf_formref_die(&attr, &inner) ||
		    !peel(&inner))
			return -1;
		rest = member_offset(&inner, path + len + 1);
		return rest < 0 ? -1 : (long)off + rest;
	} while (!dwarf_siblingof(&die, &die));
	return -1;
}

/* The first alternative that exists; NONE for "absent", -1 when there is none. */
static long lookup(Dwarf *dw, const char *paths)
{
	char copy[256], *save = NULL;

	snprintf(copy, sizeof(copy), "%s", paths);
	for (char *p = strtok_r(copy, "|", &save); p; p = strtok_r(NULL, "|", &save)) {
		char *dot = strchr(p, '.');
		Dwarf_Die type;
		long off;

		if (!strcmp(p, "absent"))
			return NONE;
		if (dot)
			*dot = '\0';
		if (!find_type(dw, p, &type))
			continue;
		off = dot ? member_offset(&type, dot + 1) : dwarf_bytesize(&type);
		if (off >= 0)
			return off;
	}
	return -1;
}

/* ---- Real interpreters -------------------------------------------------------------------- */

struct column {
	char name[32];
	uint32_t version_hex;
	struct py_layout layout;
};

/* The bytes of section .PyRuntime (3.10+), which begins with _PyRuntime; 0: none. */
static size_t read_runtime(Dwarf *dw, uint8_t *buf, size_t size)
{
	Elf *elf = dwarf_getelf(dw);
	Elf_Scn *scn = NULL;
	size_t shstr;

	if (elf_getshdrstrndx(elf, &shstr))
		return 0;
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr sh;
		Elf_Data *data;
		const char *name;

		if (!gelf_getshdr(scn, &sh))
			continue;
		name = elf_strptr(elf, shstr, sh.sh_name);
		if (!name || strcmp(name, ".PyRuntime"))
			continue;
		data = elf_rawdata(scn, NULL);
		if (!data || !data->d_buf || data->d_size < size)
			return 0;
		memcpy(buf, data->d_buf, size);
		return size;
	}
	return 0;
}

/* pyenv's directory names carry the version: ".../3.8.18/bin/python3.8". */
static uint32_t version_of(const char *exe)
{
	unsigned major, minor;
	const char *base = strrchr(exe, '/');

	if (!base || sscanf(base, "/python%u.%u", &major, &minor) != 2)
		return 0;
	return PY_VERSION_MINOR_HEX(major, minor);
}

/* The file with the interpreter's code: ../lib/libpythonX.Y*.so.1.0, else the executable. */
static Dwarf *open_debug_info(const char *exe, int *fd)
{
	char pattern[4096], *dir = strdup(exe);
	uint32_t version = version_of(exe);
	Dwarf *dw;
	glob_t g;

	snprintf(pattern, sizeof(pattern), "%s/../lib/libpython%u.%u*.so.1.0", dirname(dir),
		 version >> 24, version >> 16 & 0xff);
	free(dir);
	if (!glob(pattern, 0, NULL, &g)) {
		*fd = open(g.gl_pathv[0], O_RDONLY | O_CLOEXEC);
		globfree(&g);
	} else {
		*fd = open(exe, O_RDONLY | O_CLOEXEC);
	}
	dw = *fd >= 0 ? dwarf_begin(*fd, DWARF_C_READ) : NULL;
	if (!dw && *fd >= 0)
		close(*fd);
	return dw;
}

static int compare(struct column *col, Dwarf *dw, const char *exe)
{
	uint32_t version = col->version_hex >> 16;
	int wrong = 0;

	for (size_t i = 0; i < TRUTH_CNT; i++) {
		const struct truth *t = &truths[i];
		bool in = version >= t->since && version <= t->until;
		bool elsewhere = false;
		long got = field_of(&col->layout, t->field), want = NONE;

		for (size_t k = 0; k < TRUTH_CNT && !in; k++)
			elsewhere |= truths[k].field == t->field && version >= truths[k].since &&
				     version <= truths[k].until;
		if (elsewhere)
			continue;
		if (in)
			want = lookup(dw, t->paths);
		if (got == want)
			continue;
		print_error("%s: %s is %ld, debug info says %ld (%s)\n", exe, t->name, got, want,
			    t->paths);
		wrong++;
	}
	return wrong;
}

static int compare_head(const struct column *col, Dwarf *dw, const void *bytes, size_t size)
{
	long want = lookup(dw, "pyruntimestate.interpreters.head");
	int got;

	if (col->version_hex < PY_VERSION_MINOR_HEX(3, 7))
		return 0;
	got = py_layout__interp_head(col->version_hex, bytes, size);
	if (got != want)
		print_error("%s: interpreters.head is %d, debug info says %ld\n", col->name, got,
			    want);
	return got != want;
}

/* Where the GIL is, of 3.7 and later. */
static int compare_gil(const struct column *col, Dwarf *dw, bool free_threaded)
{
	uint32_t version_hex = col->version_hex | 0xfff0; /* the newest of the minor version */
	struct py_gil gil;
	int err = py_layout__gil(&gil, version_hex, free_threaded), wrong = 0;

	if (version_hex >> 16 < 0x0307 || free_threaded)
		return err != -ENOTSUP;
	if (err)
		return 1;
	const struct {
		long got;
		const char *paths;
	} all[] = {
		{ gil.tstate_interp, "_ts.interp" },
		{ gil.interp_gil, version_hex >> 16 < 0x030c ? "absent" : "_is.ceval.gil" },
		{ gil.runtime_gil,
		  version_hex >> 16 < 0x030c ? "pyruntimestate.ceval.gil" : "absent" },
		{ gil.last_holder, "_gil_runtime_state.last_holder" },
		{ gil.locked, "_gil_runtime_state.locked" },
		{ gil.locks, "_gil_runtime_state.cond" },
		{ gil.locks + gil.locks_size, "_gil_runtime_state" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		long want = lookup(dw, all[i].paths);

		if (all[i].got == want)
			continue;
		print_error("%s: %s is %ld, debug info says %ld\n", col->name, all[i].paths,
			    all[i].got, want);
		wrong++;
	}
	return wrong;
}

/* Negative: no debug information here. Else how many numbers are wrong. */
static int check_python(struct column *col, const char *exe)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	bool free_threaded = false;
	const char *why = NULL;
	Dwarf *dw;
	size_t size;
	int fd, wrong = -1;

	dw = open_debug_info(exe, &fd);
	if (!dw)
		return -1;
	if (lookup(dw, "_ts.next") < 0)
		goto out;
	col->version_hex = version_of(exe);
	size = read_runtime(dw, bytes, sizeof(bytes));
	if (size)
		py_debug_offsets__identify(bytes, size, &col->version_hex, &free_threaded);
	snprintf(col->name, sizeof(col->name), "%u.%u%s", col->version_hex >> 24,
		 col->version_hex >> 16 & 0xff, free_threaded ? "t" : "");
	if (py_layout__get(&col->layout, col->version_hex, free_threaded, bytes, size, &why)) {
		print_error("%s: %s\n", exe, why);
		wrong = 1;
		goto out;
	}
	wrong = compare(col, dw, exe) + compare_head(col, dw, bytes, size) +
		compare_gil(col, dw, free_threaded);
out:
	dwarf_end(dw);
	close(fd);
	return wrong;
}

static int by_version(const void *a, const void *b)
{
	uint32_t va = ((const struct column *)a)->version_hex;
	uint32_t vb = ((const struct column *)b)->version_hex;

	return (va > vb) - (va < vb);
}

static void print_table(const struct column *cols, size_t cnt)
{
	printf("%-20s", "field");
	for (size_t c = 0; c < cnt; c++)
		printf("%7s", cols[c].name);
	printf("\n");
	for (size_t i = 0; i < TRUTH_CNT; i++) {
		if (i && truths[i].field == truths[i - 1].field)
			continue;
		printf("%-20s", truths[i].name);
		for (size_t c = 0; c < cnt; c++) {
			uint16_t v = field_of(&cols[c].layout, truths[i].field);

			if (v == NONE)
				printf("%7s", "-");
			else
				printf("%7u", v);
		}
		printf("\n");
	}
}

static void agrees_with_debug_info(void **state)
{
	struct column cols[MAX_COLS] = { 0 };
	struct pythons py = { 0 };
	size_t cnt = 0;
	int wrong = 0;

	(void)state;
	pythons_find(&py);
	for (size_t i = 0; i < py.cnt && cnt < MAX_COLS; i++) {
		int n = check_python(&cols[cnt], py.path[i]);

		if (n < 0)
			continue;
		wrong += n;
		cnt++;
	}
	pythons_free(&py);
	if (!cnt) {
		puts("no Python with debug information (PYPERF_PYTHONS)");
		skip();
	}
	qsort(cols, cnt, sizeof(cols[0]), by_version);
	print_table(cols, cnt);
	assert_int_equal(wrong, 0);
}

/* ---- Debug offsets by hand ---------------------------------------------------------------- */

static int get(struct py_layout *l, const uint8_t *bytes)
{
	uint32_t version;
	bool ft;

	if (py_debug_offsets__identify(bytes, PY_DEBUG_OFFSETS_MAX, &version, &ft))
		return -ENODATA;
	return py_layout__get(l, version, ft, bytes, PY_DEBUG_OFFSETS_MAX, NULL);
}

static void reads_debug_offsets(void **state)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	struct py_layout l;

	(void)state;
	make_image(bytes, IMAGE(313));
	assert_int_equal(get(&l, bytes), 0);
	assert_int_equal(l.version, 0x030d);
	assert_int_equal(l.chain, PY_CHAIN_SHIM);
	assert_int_equal(l.str, PY_STR_STATE32);
	assert_int_equal(l.code_firsttraceable, 184);
	assert_int_equal(l.code_version, 92);
	assert_int_equal(l.str_compact, 56);
	assert_int_equal(l.tstate_read, 160);
	assert_int_equal(l.frame_read, 72);
	assert_int_equal(l.code_read, 192);
	assert_int_equal(l.code_first, 64); /* firstlineno is at 68 */
	assert_int_equal(l.code_last, 144); /* linetable at 136 */
	assert_int_equal(py_layout__interp_head(0x030d00f0, bytes, sizeof(bytes)), 632);

	make_image(bytes, IMAGE(314));
	assert_int_equal(get(&l, bytes), 0);
	assert_int_equal(l.frame_owner, 74);
	assert_int_equal(l.code_firsttraceable, 192);
	assert_int_equal(l.frame_tlbc_index, NONE);
	assert_int_equal(l.code_tlbc, NONE);
	assert_int_equal(l.frame_read, 80);

	make_image(bytes, IMAGE(314t));
	assert_int_equal(get(&l, bytes), 0);
	assert_int_equal(l.str, PY_STR_STATE_T14);
	assert_int_equal(l.code_version, 108);
	assert_int_equal(l.code_firsttraceable, 208);
	assert_int_equal(l.code_tlbc, 224);
	assert_int_equal(l.frame_tlbc_index, 72);
	assert_int_equal(l.frame_owner, 78);
	assert_int_equal(l.code_read, 232);
	assert_int_equal(l.str_hash, 40);
	assert_int_equal(l.str_ascii, 56);
	assert_int_equal(l.str_compact, 72);
	assert_int_equal(l.bytes_data, 48);

	make_image(bytes, IMAGE(315));
	assert_int_equal(get(&l, bytes), 0);
	assert_int_equal(l.tstate_thread_id, 176);
	assert_int_equal(l.str_compact, 56);
	assert_int_equal(l.code_firsttraceable, 192);
	assert_int_equal(py_layout__interp_head(0x030f02f0, bytes, sizeof(bytes)), 936);
}

/* Positions of structure sizes in the three versions; the rest are offsets. */
static bool is_size(uint32_t version_hex, uint16_t at)
{
	static const uint16_t sizes[][7] = {
		{ 48, 152, 224, 272, 352, 512, 536 },
		{ 48, 176, 248, 312, 400, 592, 616 },
		{ 48, 176, 312, 376, 464, 688, 712 },
	};

	for (size_t i = 0; i < 7; i++)
		if (sizes[(version_hex >> 16) - 0x030d][i] == at)
			return true;
	return false;
}

/* No single wrong entry gives a layout: an offset that is too large, a structure too small. */
static void refuses_damaged_offsets(void **state)
{
	static const struct {
		const struct put *puts;
		size_t cnt;
	} images[] = { { IMAGE(313) }, { IMAGE(314) }, { IMAGE(314t) }, { IMAGE(315) } };
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		uint32_t version = images[i].puts[0].value;

		for (size_t k = 0; k < images[i].cnt; k++) {
			uint16_t at = images[i].puts[k].at;
			struct py_layout l, before;

			memset(&l, 0xa5, sizeof(l));
			before = l;
			make_image(bytes, images[i].puts, images[i].cnt);
			put_u64(bytes, at, at == 24 || is_size(version, at) ? 0 : UINT64_MAX);
			if (at == 24 || at == 40)
				assert_int_equal(
					py_layout__interp_head(version, bytes, sizeof(bytes)),
					-EBADMSG);
			else
				assert_true(get(&l, bytes) < 0);
			assert_memory_equal(&l, &before, sizeof(l));
		}
	}
	/* Two fields of one structure at one place. */
	make_image(bytes, IMAGE(313));
	put_u64(bytes, 288, 112);
	assert_int_equal(get(&(struct py_layout){ 0 }, bytes), -EBADMSG);
	/* A field that ends behind its structure. */
	make_image(bytes, IMAGE(313));
	put_u64(bytes, 152, 156);
	assert_int_equal(get(&(struct py_layout){ 0 }, bytes), -EBADMSG);
	/* State not behind hash. */
	make_image(bytes, IMAGE(313));
	put_u64(bytes, 544, 36);
	assert_int_equal(get(&(struct py_layout){ 0 }, bytes), -EBADMSG);
	/* A misaligned pointer. */
	make_image(bytes, IMAGE(313));
	put_u64(bytes, 184, 73);
	assert_int_equal(get(&(struct py_layout){ 0 }, bytes), -EBADMSG);
	/* A structure too large to be read at once. */
	make_image(bytes, IMAGE(313));
	put_u64(bytes, 152, 4096);
	put_u64(bytes, 192, 1024);
	assert_int_equal(get(&(struct py_layout){ 0 }, bytes), -EBADMSG);
}

static void refuses_truncated_offsets(void **state)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	struct py_layout l;
	const char *why;

	(void)state;
	make_image(bytes, IMAGE(313));
	for (size_t size = 0; size < 584; size++) {
		why = NULL;
		assert_int_equal(py_layout__get(&l, 0x030d00f0, false, bytes, size, &why),
				 -EBADMSG);
		assert_non_null(why);
		assert_int_equal(py_layout__interp_head(0x030d00f0, bytes, size), -EBADMSG);
	}
	assert_int_equal(py_layout__get(&l, 0x030d00f0, false, bytes, 584, &why), 0);
	assert_null(why);
	assert_int_equal(py_layout__get(&l, 0x030d00f0, false, NULL, 0, &why), -EBADMSG);
	assert_int_equal(py_layout__get(&l, 0x030d01f0, false, bytes, 584, &why), -EBADMSG);
	assert_int_equal(py_layout__get(&l, 0x030d00f0, true, bytes, 584, &why), -EBADMSG);
}

static void refuses_unknown_versions(void **state)
{
	static const uint32_t unknown[] = {
		0,	    0x01000000, 0x020600f0, 0x02080000, 0x030500f0, 0x031000f0,
		0x040000f0, 0x030c00a1, 0x030b00b3, 0x030d00a6, 0xffffffff,
	};
	struct py_layout l;
	const char *why;

	(void)state;
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		why = NULL;
		assert_int_equal(py_layout__get(&l, unknown[i], false, NULL, 0, &why), -ENOTSUP);
		assert_non_null(why);
	}
	/* There was no such build before 3.13. */
	assert_int_equal(py_layout__get(&l, 0x030c01f0, true, NULL, 0, &why), -ENOTSUP);
	/* A release candidate has the final layout. */
	assert_int_equal(py_layout__get(&l, 0x030c00c2, false, NULL, 0, &why), 0);
	assert_int_equal(py_layout__interp_head(0x030600f0, NULL, 0), -ENOTSUP);
	assert_int_equal(py_layout__interp_head(0x031000f0, NULL, 0), -ENOTSUP);
}

/*
 * Py_TRACE_REFS puts two pointers in front of each object (_PyObject_HEAD_EXTRA), so all fields of
 * objects move.
 */
static void traced_objects_are_larger(void **state)
{
	static const uint32_t versions[] = { 0x02071200, 0x03060ff0, 0x030710f0 };
	static const uint16_t spans[][2] = {
		{ offsetof(struct py_layout, frame_back), offsetof(struct py_layout, frame_read) },
		{ offsetof(struct py_layout, code_firstlineno),
		  offsetof(struct py_layout, code_read) },
		{ offsetof(struct py_layout, ob_type), offsetof(struct py_layout, interp_codes) },
	};

	(void)state;
	for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++) {
		struct py_layout plain, traced;

		assert_int_equal(py_layout__get(&plain, versions[v], false, NULL, 0, NULL), 0);
		traced = plain;
		assert_int_equal(py_layout__trace_refs(&traced), 0);
		for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
			for (size_t at = spans[i][0]; at < spans[i][1]; at += 2) {
				uint16_t was, is;

				memcpy(&was, (char *)&plain + at, 2);
				memcpy(&is, (char *)&traced + at, 2);
				assert_int_equal(is, was == NONE ? NONE : was + 16);
			}
		}
	}
}

static void knows_no_gil(void **state)
{
	struct py_gil gil;

	(void)state;
	assert_int_equal(py_layout__gil(&gil, 0x02071200, false), -ENOTSUP);
	assert_int_equal(py_layout__gil(&gil, 0x03060ff0, false), -ENOTSUP);
	assert_int_equal(py_layout__gil(&gil, 0x030703f0, false), -ENOTSUP);
	assert_int_equal(py_layout__gil(&gil, 0x03070000, false), -ENOTSUP); /* 3.7, but which? */
	assert_int_equal(py_layout__gil(&gil, 0x030d00f0, true), -ENOTSUP);
	assert_int_equal(py_layout__gil(&gil, 0x031000f0, false), -ENOTSUP);
	assert_int_equal(py_layout__gil(&gil, 0x030704f0, false), 0);
}

static void identifies_debug_offsets(void **state)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	uint32_t version;
	bool ft;

	(void)state;
	make_image(bytes, IMAGE(314t));
	assert_int_equal(py_debug_offsets__identify(bytes, 24, &version, &ft), 0);
	assert_int_equal(version, 0x030e04f0);
	assert_true(ft);
	assert_int_equal(py_debug_offsets__identify(bytes, 23, &version, &ft), -ENODATA);
	assert_int_equal(py_debug_offsets__identify(NULL, 0, &version, &ft), -ENODATA);
	put_u64(bytes, 16, 2);
	assert_int_equal(py_debug_offsets__identify(bytes, 24, &version, &ft), -EBADMSG);
	put_u64(bytes, 16, 0);
	put_u64(bytes, 8, 0x1030e04f0);
	assert_int_equal(py_debug_offsets__identify(bytes, 24, &version, &ft), -EBADMSG);
	put_u64(bytes, 8, 0x030c00f0);
	assert_int_equal(py_debug_offsets__identify(bytes, 24, &version, &ft), -EBADMSG);
	bytes[7] = 'Y';
	assert_int_equal(py_debug_offsets__identify(bytes, 24, &version, &ft), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_debug_info),
		cmocka_unit_test(reads_debug_offsets),
		cmocka_unit_test(refuses_damaged_offsets),
		cmocka_unit_test(refuses_truncated_offsets),
		cmocka_unit_test(refuses_unknown_versions),
		cmocka_unit_test(identifies_debug_offsets),
		cmocka_unit_test(traced_objects_are_larger),
		cmocka_unit_test(knows_no_gil),
	};

	elf_version(EV_CURRENT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
