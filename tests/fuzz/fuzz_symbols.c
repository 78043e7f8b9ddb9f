/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any bytes as an ELF file with symbols, as kallsyms, and as a mangled name. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbolize/symbolize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);

static void ask(struct sym_native *s, uint64_t offset)
{
	struct strbuf name = { 0 };
	uint64_t start;

	if (sym_native__find(s, offset, &name, &start) ||
	    sym_native__find_start(s, offset, &name, &start)) {
		if (start > offset || (!name.len && !name.err))
			abort();
	} else if (name.len) {
		abort();
	}
	strbuf__free(&name);
}

static const struct sym_debugfile_places nowhere = { .root = "/nonexistent",
						     .offered = { .fd = -1 } };

static void as_elf(const uint8_t *data, size_t size)
{
	/* A path without a slash has no directory to look for debug files in. */
	struct elf_file *ef = elf_file__open_memory(data, size, "fuzz");
	struct sym_native *s = ef ? sym_native__new(ef) : NULL;
	uint64_t start = 0, limit = 0;

	if (s) {
		sym_native__set_places(s, &nowhere);
		elf_file__text(ef, &start, &limit);
		for (uint64_t i = 0; i < 512; i++)
			ask(s, start + i * ((limit - start) / 512 + 1));
		ask(s, limit);
		ask(s, UINT64_MAX);
	}
	sym_native__free(s);
	elf_file__close(ef);
}

static void as_kallsyms(const uint8_t *data, size_t size)
{
	int fd = memfd_create("kallsyms", MFD_CLOEXEC);
	struct sym_kernel *k;
	char path[64];

	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	k = write(fd, data, size) == (ssize_t)size ? sym_kernel__open(path) : NULL;
	close(fd);
	for (uint64_t i = 0; k && i < 64; i++) {
		uint64_t addr = 0xffffffff81000000 + i * 0x40, offset;
		const char *name = sym_kernel__find(k, addr, &offset);

		if (name && (!*name || offset > addr))
			abort();
	}
	sym_kernel__close(k);
}

static bool has_any(void *ctx, const char *symbol)
{
	const size_t *limit = ctx;

	return strlen(symbol) % 2 == *limit % 2;
}

static void as_name(const uint8_t *data, size_t size)
{
	const struct sym_peers peers = { .has = has_any, .ctx = &size };
	struct strbuf b = { 0 };
	char *name = malloc(size + 1);

	if (!name)
		return;
	memcpy(name, data, size);
	name[size] = '\0';
	sym_demangle(&b, name);
	if (b.len && strlen(b.s) != b.len)
		abort();
	strbuf__clear(&b);
	sym_native_name(&b, name, "/srv/lib/lib.so", &peers);
	if (b.len && strlen(b.s) != b.len)
		abort();
	strbuf__free(&b);
	free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t none;

	data = size ? data : &none;
	as_elf(data, size);
	as_kallsyms(data, size);
	as_name(data, size);
	return 0;
}

size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	static const char *const seeds[] = {
		"ffffffff81000000 T _stext\nffffffff81000000 t a\nffffffff81000040 T b\t[mod]\n"
		"ffffffff81000080 D data\nffffffff810000c0 W w\n0000000000000000 A x\n",
		"_ZSt4moveIRiEONSt16remove_referenceIT_E4typeEOS2_.part.0.cold",
		"_ZN5boost3mpl6vectorIJNS0_4int_ILi1EEEEE3getIXsrT_5valueEEE"
		"NSt9enable_ifIXeqT0_Li3EE"
		"iE4typeEPKcz",
		"_ZZN4deep3runEiENKUlT_DpOT0_E_clIiJRKdEEEDaS0_S3_",
		"_Z1f1a1pIS_S_E1pIS1_S1_E1pIS3_S3_E1pIS5_S5_E1pIS7_S7_E1pIS9_S9_E1pISB_SB_E",
		"_ZN58_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..Drop$GT$4drop17h01234567"
		"89abcdefE.llvm.123",
		"_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate",
		"_RINvNtC3std3mem8align_ofjdEB2_",
		"__pyx_fuse_0__pyx_pw_3lib_3Cls_15method.cold.0",
		"CPyDef_lib___Cls_____init__",
		"_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
	};
	size_t len;

	if (i >= sizeof(seeds) / sizeof(*seeds))
		return 0;
	len = strlen(seeds[i]);
	memcpy(buf, seeds[i], len < cap ? len : cap);
	return len < cap ? len : cap;
}
