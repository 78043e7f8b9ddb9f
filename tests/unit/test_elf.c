/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ELF files: one made by hand, real ones against libelf, and damaged ones. */
#include "elf/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <libelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

#include "elfgen.h"

static const uint8_t eh[] = { 8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 99 };

static struct elfgen plain(void)
{
	return (struct elfgen){
		.machine = EM_X86_64, .text_size = 4096, .eh = eh, .eh_size = sizeof(eh)
	};
}

static struct elf_file *open_gen(const struct elfgen *g)
{
	size_t size;
	uint8_t *image = elfgen_make(g, &size);
	struct elf_file *ef = elf_file__open_memory(image, size, "made by hand");

	free(image);
	return ef;
}

static struct elf_file *open_path(const char *path)
{
	return elf_file__open(open(path, O_RDONLY | O_CLOEXEC), path);
}

/* ---- By hand ------------------------------------------------------------------------------- */

static void identity(void **state)
{
	struct elfgen g = plain();
	struct elf_file *ef = open_gen(&g);
	char hex[2 * BUILD_ID_MAX + 1];

	(void)state;
	assert_non_null(ef);
	elf_file__id_hex(ef, hex);
	assert_string_equal(hex, "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3");
	assert_int_equal(elf_file__id(ef)->size, 20);
	assert_string_equal(elf_file__path(ef), "made by hand");
	assert_string_equal(elf_file__soname(ef), "libx.so.1");
	assert_int_equal(elf_file__machine(ef), EM_X86_64);
	assert_int_equal(elf_file__fd(ef), -1);
	assert_true(elf_file__is_pie_or_so(ef));
	assert_int_equal(elf_file__pltgot(ef), GEN_TEXT_ADDR);
	elf_file__close(ef);
	elf_file__close(NULL);
}

static void conversions(void **state)
{
	struct elfgen g = plain();
	struct elf_file *ef = open_gen(&g);
	uint64_t v = 0, limit;
	uint8_t byte;

	(void)state;
	assert_true(elf_file__addr_to_off(ef, GEN_TEXT_ADDR + 5, &v));
	assert_int_equal(v, GEN_TEXT_OFF + 5);
	assert_true(elf_file__off_to_addr(ef, GEN_TEXT_OFF + 4095, &v));
	assert_int_equal(v, GEN_TEXT_ADDR + 4095);
	assert_false(elf_file__addr_to_off(ef, GEN_TEXT_ADDR + 4096, &v));
	assert_false(elf_file__addr_to_off(ef, GEN_TEXT_ADDR - 1, &v));
	assert_false(elf_file__off_to_addr(ef, 0, &v));
	assert_false(elf_file__off_to_addr(ef, UINT64_MAX, &v));
	assert_true(elf_file__text(ef, &v, &limit));
	assert_int_equal(v, GEN_TEXT_OFF);
	assert_int_equal(limit, GEN_TEXT_OFF + 4096);
	assert_int_equal(elf_file__read(ef, GEN_TEXT_ADDR + 4095, &byte, 1), 0);
	assert_int_equal(byte, 0x90);
	assert_int_equal(elf_file__read(ef, GEN_TEXT_ADDR + 4095, &byte, 2), -ERANGE);
	assert_int_equal(elf_file__read(ef, GEN_TEXT_ADDR, &byte, SIZE_MAX), -ERANGE);
	assert_int_equal(elf_file__read(ef, 0, &byte, 1), -ERANGE);
	elf_file__close(ef);
	g.no_text = true;
	ef = open_gen(&g);
	assert_false(elf_file__text(ef, &v, &limit));
	elf_file__close(ef);
}

static void sections(void **state)
{
	struct elfgen g = plain();
	struct elf_file *ef = open_gen(&g);
	struct elf_section s;

	(void)state;
	assert_true(elf_file__section(ef, ".eh_frame", &s));
	assert_int_equal(s.size, sizeof(eh));
	assert_int_equal(s.addr, GEN_EH_ADDR);
	assert_memory_equal(s.data, eh, sizeof(eh));
	assert_true(elf_file__section_info(ef, ".eh_frame", &s));
	assert_null(s.data);
	assert_true(elf_file__section(ef, ".bss", &s));
	assert_true(s.nobits);
	assert_null(s.data);
	assert_int_equal(s.size, 0);
	assert_int_equal(s.mem_size, 1 << 20);
	assert_false(elf_file__section(ef, ".bs", &s));
	assert_false(elf_file__section(ef, "", &s));
	elf_file__forget(ef);
	assert_true(elf_file__eh_frame(ef, &s));
	assert_memory_equal(s.data, eh, sizeof(eh));
	elf_file__close(ef);
}

/* Without section headers .eh_frame ends with its terminator, and .dynsym is found by its hash. */
/*
 * What copy_section says of .debug_frame with these contents, which are an Elf64_Chdr and a stream.
 */
static int copy_compressed(const void *contents, size_t size, uint64_t max, uint64_t *got_size)
{
	struct elfgen g = plain();
	struct elf_section s;
	struct elf_file *ef;
	uint8_t *got;
	int err;

	g.eh = contents;
	g.eh_size = (uint32_t)size;
	g.debug_frame = g.compressed = true;
	ef = open_gen(&g);
	assert_non_null(ef);
	assert_true(elf_file__section_info(ef, ".debug_frame", &s));
	assert_true(s.compressed);
	err = elf_file__copy_section(ef, &s, max, &got, got_size);
	if (!err) {
		for (uint64_t i = 0; i < *got_size; i++)
			assert_int_equal(got[i], (uint8_t)(i / 100));
		free(got);
	} else {
		assert_null(got);
	}
	elf_file__close(ef);
	return err;
}

static void compressed_section(void **state)
{
	enum { SIZE = 20000 };
	struct {
		Elf64_Chdr ch;
		uint8_t stream[SIZE];
	} c = { .ch = { .ch_type = ELFCOMPRESS_ZLIB, .ch_size = SIZE, .ch_addralign = 1 } };
	uLongf packed = sizeof(c.stream);
	uint8_t plain_bytes[SIZE];
	uint64_t got, size;

	(void)state;
	for (size_t i = 0; i < SIZE; i++)
		plain_bytes[i] = (uint8_t)(i / 100);
	assert_int_equal(compress(c.stream, &packed, plain_bytes, SIZE), Z_OK);
	size = sizeof(c.ch) + packed;
	assert_int_equal(copy_compressed(&c, size, SIZE, &got), 0);
	assert_int_equal(got, SIZE);
	assert_int_equal(copy_compressed(&c, size, SIZE - 1, &got), -E2BIG);
	assert_int_equal(copy_compressed(&c, 10, SIZE, &got), -EBADMSG);
	assert_int_equal(copy_compressed(&c, size - 5, SIZE, &got), -EBADMSG);
	c.ch.ch_size = SIZE + 1;
	assert_int_equal(copy_compressed(&c, size, UINT64_MAX, &got), -EBADMSG);
	c.ch.ch_size = SIZE - 1;
	assert_int_equal(copy_compressed(&c, size, UINT64_MAX, &got), -EBADMSG);
	c.ch.ch_size = UINT64_MAX; /* nothing of that size is allocated */
	assert_int_equal(copy_compressed(&c, size, UINT64_MAX, &got), -EBADMSG);
	c.ch.ch_size = SIZE;
	c.stream[packed / 2] ^= 0x55;
	assert_int_equal(copy_compressed(&c, size, SIZE, &got), -EBADMSG);
	c.ch.ch_type = 2; /* zstd */
	assert_int_equal(copy_compressed(&c, size, SIZE, &got), -ENOTSUP);
}

static void no_section_headers(void **state)
{
	struct elfgen g = plain();
	uint8_t hdr[12] = { 1, 0x1b, 0xff, 0xff };
	struct elf_section s;
	struct elf_symbol sym;
	struct elf_file *ef;
	int32_t rel;

	(void)state;
	g.no_sections = true;
	g.hdr = hdr;
	g.hdr_size = sizeof(hdr);
	rel = (int32_t)(GEN_EH_ADDR - elfgen_hdr_addr(&g) - 4);
	memcpy(hdr + 4, &rel, sizeof(rel));
	ef = open_gen(&g);
	assert_non_null(ef);
	assert_false(elf_file__section(ef, ".eh_frame", &s));
	assert_true(elf_file__eh_frame(ef, &s));
	assert_int_equal(s.addr, GEN_EH_ADDR);
	assert_int_equal(s.off, elfgen_eh_off(&g));
	assert_int_equal(s.size, 12);
	assert_memory_equal(s.data, eh, 12);
	assert_true(elf_file__symbol(ef, "answer", &sym));
	assert_int_equal(sym.addr, GEN_TEXT_ADDR + 0x20);
	assert_int_equal(sym.size, 0x30);
	assert_false(elf_file__symbol(ef, "question", &sym));
	assert_false(elf_file__symbol(ef, "", &sym));
	elf_file__close(ef);
}

static void refused(void **state)
{
	struct elfgen g = plain();
	size_t size;
	uint8_t *image = elfgen_make(&g, &size);

	(void)state;
	image[4] = 1; /* ELFCLASS32 */
	assert_null(elf_file__open_memory(image, size, "32"));
	assert_int_equal(errno, ENOEXEC);
	image[4] = 2;
	image[18] = 40; /* EM_ARM */
	assert_null(elf_file__open_memory(image, size, "arm"));
	assert_int_equal(errno, ENOEXEC);
	image[18] = EM_X86_64;
	image[32] = 0xff; /* e_phoff behind the end */
	image[35] = 0x7f;
	assert_null(elf_file__open_memory(image, size, "phdrs"));
	assert_int_equal(errno, EBADMSG);
	free(image);
	assert_null(elf_file__open_memory("", 0, "empty"));
	assert_int_equal(errno, ENOEXEC);
	assert_null(open_path("/dev/null"));
	assert_int_equal(errno, ENOEXEC);
	assert_null(open_path("/"));
	assert_int_equal(errno, ENOEXEC);
	assert_null(elf_file__open(-1, "none"));
	assert_int_equal(errno, EBADF);
}

/* ---- Damage -------------------------------------------------------------------------------- */

static void ask_everything(const uint8_t *image, size_t size)
{
	struct elf_file *ef = elf_file__open_memory(image, size, "damaged");
	struct elf_section s;
	struct elf_symbol sym;
	uint64_t a, b;
	char buf[64];

	if (!ef) {
		assert_true(errno == ENOEXEC || errno == EBADMSG);
		return;
	}
	elf_file__text(ef, &a, &b);
	elf_file__section(ef, ".bss", &s);
	elf_file__eh_frame(ef, &s);
	elf_file__symbol(ef, "answer", &sym);
	elf_file__read(ef, GEN_TEXT_ADDR, buf, sizeof(buf));
	elf_file__close(ef);
}

static void damaged(void **state)
{
	static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff };
	struct elfgen g = plain();
	size_t size, meta_end = GEN_META_OFF + sizeof(struct elfgen_meta);
	uint8_t *image = elfgen_make(&g, &size), good;

	(void)state;
	for (size_t n = 0; n < size; n += n < 2048 ? 1 : 13)
		ask_everything(image, n);
	for (size_t i = 0; i < size; i++) {
		if (i == meta_end) /* text and .eh_frame say nothing here */
			i = GEN_TEXT_OFF + 4096 + sizeof(eh);
		good = image[i];
		for (size_t k = 0; k < sizeof(values); k++) {
			image[i] = values[k];
			ask_everything(image, size);
		}
		image[i] = good;
	}
	free(image);
}

/* A file that shrinks while it is open: calls fail, nothing is killed. */
static void truncated(void **state)
{
	struct elfgen g = plain();
	size_t size;
	uint8_t *image = elfgen_make(&g, &size);
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct elf_section s;
	struct elf_symbol sym;
	struct elf_file *ef;
	char buf[8];

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, image, size), size);
	ef = elf_file__open(fd, "shrinks");
	assert_non_null(ef);
	assert_int_equal(elf_file__fd(ef), fd);
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_false(elf_file__section(ef, ".eh_frame", &s));
	assert_false(elf_file__symbol(ef, "answer", &sym));
	assert_int_equal(elf_file__read(ef, GEN_TEXT_ADDR, buf, sizeof(buf)), -EIO);
	elf_file__close(ef);
	free(image);
}

/*
 * The file ends at 600 MiB, of which it has some KiB: a section that claims the hole is not read,
 * and takes no memory.
 */
static void sparse(void **state)
{
	struct elfgen g = plain();
	size_t size;
	uint8_t *image = elfgen_make(&g, &size);
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct elf_section s;
	struct elf_file *ef;
	Elf64_Ehdr eh;
	Elf64_Shdr sh;
	uint8_t *data;
	uint64_t at;

	(void)state;
	memcpy(&eh, image, sizeof(eh));
	for (int i = 1; i < eh.e_shnum; i++) {
		at = eh.e_shoff + (uint64_t)i * sizeof(sh);
		memcpy(&sh, image + at, sizeof(sh));
		if (sh.sh_type == SHT_STRTAB)
			continue;
		sh.sh_offset = 100 << 20;
		sh.sh_size = 120 << 20;
		memcpy(image + at, &sh, sizeof(sh));
	}
	assert_int_equal(write(fd, image, size), size);
	assert_int_equal(ftruncate(fd, 600 << 20), 0);
	ef = elf_file__open(fd, "sparse");
	assert_non_null(ef);
	assert_true(elf_file__section_info(ef, ".eh_frame", &s));
	assert_int_equal(s.size, 120 << 20);
	assert_false(elf_file__section(ef, ".eh_frame", &s));
	assert_true(elf_file__section_info(ef, ".eh_frame", &s));
	assert_int_equal(elf_file__copy_section(ef, &s, 512 << 20, &data, &at), -E2BIG);
	elf_file__close(ef);
	free(image);
}

/* ---- Real files, against libelf ------------------------------------------------------------- */

static void compare_symbols(const struct elf_file *ef, Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t cnt = sh->sh_size / sh->sh_entsize, compared = 0;

	for (size_t i = 1; i < cnt; i += 1 + cnt / 300) {
		struct elf_symbol got;
		const char *name;
		GElf_Sym sym;

		gelf_getsym(data, (int)i, &sym);
		name = elf_strptr(elf, sh->sh_link, sym.st_name);
		if (sym.st_shndx == SHN_UNDEF || !name || !*name ||
		    GELF_ST_TYPE(sym.st_info) > STT_FUNC)
			continue;
		assert_true(elf_file__symbol(ef, name, &got));
		/* Names come in several versions, and static ones more than once. */
		if (got.addr == sym.st_value)
			compared++;
	}
	print_message("  %zu symbols equal\n", compared);
	assert_true(compared > 0);
}

static void compare_sections(const struct elf_file *ef, Elf *elf)
{
	Elf_Scn *scn = NULL;
	size_t names;

	assert_int_equal(elf_getshdrstrndx(elf, &names), 0);
	while ((scn = elf_nextscn(elf, scn))) {
		struct elf_section got;
		GElf_Shdr sh;

		gelf_getshdr(scn, &sh);
		assert_true(elf_file__section(ef, elf_strptr(elf, names, sh.sh_name), &got));
		if (sh.sh_type == SHT_NOTE)
			continue; /* not unique by name everywhere */
		assert_int_equal(got.addr, sh.sh_addr);
		assert_int_equal(got.mem_size, sh.sh_size);
		assert_int_equal(got.nobits, sh.sh_type == SHT_NOBITS);
		if (!got.nobits && sh.sh_size)
			assert_memory_equal(got.data, elf_rawdata(scn, NULL)->d_buf, sh.sh_size);
		if (sh.sh_type == SHT_DYNSYM)
			compare_symbols(ef, elf, scn, &sh);
	}
}

static void compare_file(const char *path)
{
	struct elf_file *ef = open_path(path);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	char hex[2 * BUILD_ID_MAX + 1];

	assert_non_null(ef);
	elf_file__id_hex(ef, hex);
	print_message("%s: build id %s, soname %s\n", path, hex, elf_file__soname(ef));
	compare_sections(ef, elf);
	elf_end(elf);
	close(fd);
	elf_file__close(ef);
}

static void real_files(void **state)
{
	static const char *const paths[] = { "/proc/self/exe", "/bin/sh",
					     "/lib/x86_64-linux-gnu/libc.so.6",
					     "/lib/aarch64-linux-gnu/libc.so.6" };

	(void)state;
	elf_version(EV_CURRENT);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (!access(paths[i], R_OK))
			compare_file(paths[i]);
	}
}

static void vdso(void **state)
{
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct elf_symbol sym;
	struct elf_file *ef;

	(void)state;
	if (!image) {
		print_message("missing: AT_SYSINFO_EHDR (the vdso)\n");
		skip();
	}
	ef = elf_file__open_memory(image, 2 * 4096, "[vdso]");
	assert_non_null(ef);
	assert_string_equal(elf_file__soname(ef), "linux-vdso.so.1");
	assert_true(elf_file__symbol(ef, "__vdso_clock_gettime", &sym) ||
		    elf_file__symbol(ef, "__kernel_clock_gettime", &sym));
	assert_int_equal(elf_file__id(ef)->size, 20);
	elf_file__close(ef);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identity),  cmocka_unit_test(conversions),
		cmocka_unit_test(sections),  cmocka_unit_test(no_section_headers),
		cmocka_unit_test(refused),   cmocka_unit_test(damaged),
		cmocka_unit_test(truncated), cmocka_unit_test(real_files),
		cmocka_unit_test(vdso),	     cmocka_unit_test(compressed_section),
		cmocka_unit_test(sparse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
