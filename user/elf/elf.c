/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One ELF file. See elf.h.
 *
 * Own parsing rather than libelf: what is needed is five tables, all of them plain arrays; the
 * contents must be read, not mapped, section by section, and given back early (the .eh_frame of a
 * large library is larger than all the rest of this program).
 *
 * Program headers are what the kernel and ld.so believe, so a file whose program headers are wrong
 * is refused. Section headers are a courtesy: wrong ones are treated as absent.
 */
#include "elf/elf.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/log.h"
#include "elf/elf_parts.h"

#define MAX_PHDRS      1170 /* 64 KiB of them, as the kernel: fs/binfmt_elf.c, load_elf_phdrs() */
#define MAX_SHDRS      (1U << 20)
#define MAX_CONTENTS   (256U << 20) /* of one section; beyond every .symtab and .eh_frame seen */
/*
 * A file may claim contents that it does not have on its disk: holes cost it nothing, and us the
 * memory. File systems that compress pack code and symbols to a quarter.
 */
#define MAX_SPARSENESS 16
#define SPARE_CONTENTS (4U << 20) /* beyond that */
#define EXTRA_CONTENTS 2 /* beside those of sections: .eh_frame without headers, .eh_frame_hdr */
#define MAX_NOTES      (64U << 10)
#define MAX_DYNAMIC    (64U << 10)
#define MAX_SONAME     256
#define MAX_EH_RECORDS (4U << 20) /* only without section headers */
#define EH_PE_PCREL_S4 0x1b

static bool in_file(const struct elf_file *ef, uint64_t off, uint64_t size)
{
	return off <= ef->size && size <= ef->size - off;
}

/* The block that has the byte at `off`, as much of it as there is. */
static bool fill_block(const struct elf_file *ef, uint64_t off)
{
	struct block *b = ef->block;
	ssize_t n;

	if (off >= b->off && off - b->off < b->len)
		return true;
	b->off = off - off % BLOCK_SZ;
	n = opened__read(&ef->file, b->bytes, BLOCK_SZ, b->off);
	b->len = n > 0 ? (size_t)n : 0;
	return off - b->off < b->len;
}

static int read_blocks(const struct elf_file *ef, uint64_t off, uint8_t *buf, size_t size)
{
	for (size_t done = 0, n; done < size; done += n) {
		if (!fill_block(ef, off + done))
			return -EIO;
		n = ef->block->off + ef->block->len - (off + done);
		n = n < size - done ? n : size - done;
		memcpy(buf + done, ef->block->bytes + (off + done - ef->block->off), n);
	}
	return 0;
}

int elf_file__read_at(const struct elf_file *ef, uint64_t off, void *buf, size_t size)
{
	if (!in_file(ef, off, size))
		return -ERANGE;
	if (ef->image) {
		if (size)
			memcpy(buf, ef->image + off, size);
		return 0;
	}
	if (ef->block && size < BLOCK_SZ)
		return read_blocks(ef, off, buf, size);
	return opened__read(&ef->file, buf, size, off) == (ssize_t)size ? 0 : -EIO;
}

/* A copy of part of the file, with one NUL byte behind it. NULL and errno. */
static void *read_alloc(const struct elf_file *ef, uint64_t off, uint64_t size)
{
	char *buf;
	int err;

	if (!in_file(ef, off, size)) {
		errno = EBADMSG;
		return NULL;
	}
	if (size > ef->room) {
		log_debug("%s: contents of %llu KiB are not read: more than the file takes on its "
			  "disk",
			  elf_file__path(ef), (unsigned long long)size >> 10);
		errno = EFBIG;
		return NULL;
	}
	buf = malloc(size + 1);
	if (!buf)
		return NULL;
	err = elf_file__read_at(ef, off, buf, size);
	if (err) {
		free(buf);
		errno = -err;
		return NULL;
	}
	buf[size] = '\0';
	return buf;
}

/* ---- Program headers ---------------------------------------------------------------------- */

static void add_segment(struct elf_file *ef, const Elf64_Phdr *ph)
{
	struct elf_segment *s = &ef->segments[ef->segment_cnt];

	if (ph->p_vaddr + ph->p_memsz < ph->p_vaddr || ph->p_offset + ph->p_filesz < ph->p_offset)
		return;
	s->addr = ph->p_vaddr;
	s->off = ph->p_offset;
	s->mem_size = ph->p_memsz;
	s->file_size = ph->p_filesz < ph->p_memsz ? ph->p_filesz : ph->p_memsz;
	s->exec = ph->p_flags & PF_X;
	/* The program headers of a separate debug file describe the original. */
	if (s->off > ef->size)
		s->file_size = 0;
	else if (s->file_size > ef->size - s->off)
		s->file_size = ef->size - s->off;
	ef->segment_cnt++;
}

static bool find_build_id(struct elf_file *ef, const uint8_t *notes, size_t size, size_t align)
{
	size_t pos = 0;
	Elf64_Nhdr nh;

	while (size - pos >= sizeof(nh)) {
		size_t name, desc;

		memcpy(&nh, notes + pos, sizeof(nh));
		name = pos + sizeof(nh);
		if (nh.n_namesz > size - name)
			return false;
		desc = (name + nh.n_namesz + align - 1) & ~(align - 1);
		if (desc > size || nh.n_descsz > size - desc)
			return false;
		/* A longer one has no place in the contract, and half of one names nothing. */
		if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) && nh.n_descsz && nh.n_descsz <= BUILD_ID_MAX) {
			memcpy(ef->id.bytes, notes + desc, nh.n_descsz);
			ef->id.size = (uint8_t)nh.n_descsz;
			return true;
		}
		pos = (desc + nh.n_descsz + align - 1) & ~(align - 1);
		if (pos > size)
			return false;
	}
	return false;
}

static void read_notes(struct elf_file *ef, uint64_t off, uint64_t size, uint64_t align)
{
	uint8_t *notes;

	if (ef->id.size || size > MAX_NOTES)
		return;
	notes = read_alloc(ef, off, size);
	if (notes)
		find_build_id(ef, notes, size, align == 8 ? 8 : 4);
	free(notes);
}

static void read_dynamic(struct elf_file *ef, uint64_t off, uint64_t size)
{
	size_t cnt = size / sizeof(Elf64_Dyn);
	uint8_t *data;
	Elf64_Dyn d;

	if (size > MAX_DYNAMIC)
		return;
	data = read_alloc(ef, off, size);
	for (size_t i = 0; data && i < cnt; i++) {
		memcpy(&d, data + i * sizeof(d), sizeof(d));
		if (d.d_tag == DT_NULL)
			break;
		else if (d.d_tag == DT_SYMTAB)
			ef->dyn.symtab = d.d_un.d_ptr;
		else if (d.d_tag == DT_STRTAB)
			ef->dyn.strtab = d.d_un.d_ptr;
		else if (d.d_tag == DT_STRSZ)
			ef->dyn.strsz = d.d_un.d_val;
		else if (d.d_tag == DT_HASH)
			ef->dyn.hash = d.d_un.d_ptr;
		else if (d.d_tag == DT_GNU_HASH)
			ef->dyn.gnu_hash = d.d_un.d_ptr;
		else if (d.d_tag == DT_PLTGOT)
			ef->dyn.pltgot = d.d_un.d_ptr;
		else if (d.d_tag == DT_SONAME) {
			ef->dyn.soname = d.d_un.d_val;
			ef->dyn.has_soname = true;
		}
	}
	free(data);
}

/* A NUL-terminated string at an address, or NULL. */
static char *read_string(const struct elf_file *ef, uint64_t addr, uint64_t room)
{
	size_t size = room < MAX_SONAME ? room : MAX_SONAME;
	char buf[MAX_SONAME];

	if (elf_file__read(ef, addr, buf, size) || !memchr(buf, '\0', size))
		return NULL;
	return strdup(buf);
}

static void read_soname(struct elf_file *ef)
{
	const struct dynamic *d = &ef->dyn;

	if (d->has_soname && d->soname < d->strsz)
		ef->soname = read_string(ef, d->strtab + d->soname, d->strsz - d->soname);
}

static int read_phdrs(struct elf_file *ef, const Elf64_Ehdr *eh)
{
	uint8_t *table;
	Elf64_Phdr ph;

	if (!eh->e_phnum)
		return 0; /* a relocatable file: harmless, no text */
	if (eh->e_phnum > MAX_PHDRS || eh->e_phentsize != sizeof(ph))
		return -EBADMSG;
	table = read_alloc(ef, eh->e_phoff, eh->e_phnum * sizeof(ph));
	ef->segments = calloc(eh->e_phnum, sizeof(*ef->segments));
	if (!table || !ef->segments) {
		free(table);
		return -errno;
	}
	for (size_t i = 0; i < eh->e_phnum; i++) {
		memcpy(&ph, table + i * sizeof(ph), sizeof(ph));
		if (ph.p_type == PT_LOAD)
			add_segment(ef, &ph);
		else if (ph.p_type == PT_NOTE)
			read_notes(ef, ph.p_offset, ph.p_filesz, ph.p_align);
		else if (ph.p_type == PT_DYNAMIC)
			read_dynamic(ef, ph.p_offset, ph.p_filesz);
		else if (ph.p_type == PT_GNU_EH_FRAME && in_file(ef, ph.p_offset, ph.p_filesz)) {
			ef->eh_frame_hdr.addr = ph.p_vaddr;
			ef->eh_frame_hdr.off = ph.p_offset;
			ef->eh_frame_hdr.file_size = ph.p_filesz;
		}
	}
	free(table);
	read_soname(ef);
	return 0;
}

/* ---- Section headers ---------------------------------------------------------------------- */

static void drop_sections(struct elf_file *ef)
{
	free(ef->sections);
	free(ef->names);
	ef->sections = NULL;
	ef->names = NULL;
	ef->section_cnt = 0;
	ef->names_size = 0;
}

/* The number of section headers and of the one with their names, which may not fit the header. */
static bool section_counts(const struct elf_file *ef, const Elf64_Ehdr *eh, uint64_t *cnt,
			   uint64_t *names)
{
	Elf64_Shdr first;

	if (!eh->e_shoff || eh->e_shentsize != sizeof(first) ||
	    elf_file__read_at(ef, eh->e_shoff, &first, sizeof(first)))
		return false;
	*cnt = eh->e_shnum ? eh->e_shnum : first.sh_size;
	*names = eh->e_shstrndx == SHN_XINDEX ? first.sh_link : eh->e_shstrndx;
	return *cnt <= MAX_SHDRS && *names < *cnt && in_file(ef, eh->e_shoff, *cnt * sizeof(first));
}

static int read_shdrs(struct elf_file *ef, const Elf64_Ehdr *eh)
{
	uint64_t cnt, names;
	uint8_t *table;
	Elf64_Shdr sh;

	if (!section_counts(ef, eh, &cnt, &names))
		return 0;
	table = read_alloc(ef, eh->e_shoff, cnt * sizeof(sh));
	if (!table)
		return errno == EFBIG ? 0 : -errno;
	ef->sections = calloc(cnt, sizeof(*ef->sections));
	if (!ef->sections) {
		free(table);
		return -ENOMEM;
	}
	for (size_t i = 0; i < cnt; i++) {
		memcpy(&sh, table + i * sizeof(sh), sizeof(sh));
		ef->sections[i] = (struct section){ .addr = sh.sh_addr,
						    .off = sh.sh_offset,
						    .size = sh.sh_size,
						    .name = sh.sh_name,
						    .type = sh.sh_type,
						    .link = sh.sh_link,
						    .compressed = sh.sh_flags & SHF_COMPRESSED };
	}
	free(table);
	ef->section_cnt = cnt;
	ef->names = read_alloc(ef, ef->sections[names].off, ef->sections[names].size);
	if (!ef->names) {
		drop_sections(ef);
		return errno == ENOMEM ? -ENOMEM : 0;
	}
	ef->names_size = ef->sections[names].size;
	return 0;
}

static uint32_t find_section(const struct elf_file *ef, const char *name)
{
	for (size_t i = 1; i < ef->section_cnt; i++) {
		/* names has a NUL behind its end */
		if (ef->sections[i].name < ef->names_size &&
		    !strcmp(ef->names + ef->sections[i].name, name))
			return (uint32_t)i;
	}
	return NO_SECTION;
}

static const uint8_t *load_contents(const struct elf_file *ef, size_t slot, uint64_t off,
				    uint64_t size)
{
	if (!ef->contents[slot])
		ef->contents[slot] = read_alloc(ef, off, size);
	return ef->contents[slot];
}

const uint8_t *elf_file__section_data(const struct elf_file *ef, uint32_t i)
{
	if (i >= ef->section_cnt || ef->sections[i].type == SHT_NOBITS)
		return NULL;
	return load_contents(ef, i, ef->sections[i].off, ef->sections[i].size);
}

static bool section_info(const struct elf_file *ef, uint32_t i, struct elf_section *out)
{
	const struct section *s = &ef->sections[i];
	bool nobits = s->type == SHT_NOBITS;

	*out = (struct elf_section){ .addr = s->addr,
				     .off = s->off,
				     .size = nobits ? 0 : s->size,
				     .mem_size = s->size,
				     .type = s->type,
				     .nobits = nobits,
				     .compressed = s->compressed };
	return nobits || in_file(ef, s->off, s->size);
}

bool elf_file__section_info(const struct elf_file *ef, const char *name, struct elf_section *out)
{
	uint32_t i = find_section(ef, name);

	return i != NO_SECTION && section_info(ef, i, out);
}

bool elf_file__has(const struct elf_file *ef, const char *section)
{
	struct elf_section sec;

	return elf_file__section_info(ef, section, &sec) && !sec.nobits && sec.size;
}

bool elf_file__section(const struct elf_file *ef, const char *name, struct elf_section *out)
{
	uint32_t i = find_section(ef, name);

	if (i == NO_SECTION || !section_info(ef, i, out))
		return false;
	out->data = elf_file__section_data(ef, i);
	return out->data || out->nobits;
}

/* All of `in`, to `size` bytes exactly. */
static int inflate_to(const uint8_t *in, uint64_t in_size, uint8_t *out, uint64_t size)
{
	uLongf got = size;
	uLong used = in_size;
	int err = uncompress2(out, &got, in, &used);

	if (err == Z_MEM_ERROR)
		return -ENOMEM;
	return err == Z_OK && got == size ? 0 : -EBADMSG;
}

/*
 * Elf64_Chdr and a zlib stream. A stream is at most 1032 times smaller than what is in it, so a
 * size that a small file cannot have is not allocated.
 */
static int inflate_section(const uint8_t *in, uint64_t in_size, uint64_t max, uint8_t **data,
			   uint64_t *size)
{
	Elf64_Chdr ch;
	int err;

	if (in_size < sizeof(ch))
		return -EBADMSG;
	memcpy(&ch, in, sizeof(ch));
	in += sizeof(ch);
	in_size -= sizeof(ch);
	if (ch.ch_type != ELFCOMPRESS_ZLIB)
		return -ENOTSUP;
	if (ch.ch_size > max)
		return -E2BIG;
	if (ch.ch_size / 1032 > in_size)
		return -EBADMSG;
	*data = malloc(ch.ch_size ? ch.ch_size : 1);
	if (!*data)
		return -ENOMEM;
	err = inflate_to(in, in_size, *data, ch.ch_size);
	*size = ch.ch_size;
	return err;
}

int elf_file__copy_section(const struct elf_file *ef, const struct elf_section *s, uint64_t max,
			   uint8_t **data, uint64_t *size)
{
	uint8_t *raw, *inflated = NULL;
	int err;

	*data = NULL;
	if (s->size > max || s->size > ef->room)
		return -E2BIG;
	raw = malloc(s->size ? s->size : 1);
	if (!raw)
		return -ENOMEM;
	err = elf_file__read_at(ef, s->off, raw, s->size);
	*size = s->size;
	if (!err && s->compressed) {
		err = inflate_section(raw, s->size, max, &inflated, size);
		free(raw);
		raw = inflated;
	}
	if (err)
		free(raw);
	else
		*data = raw;
	return err;
}

/* ---- .eh_frame ---------------------------------------------------------------------------- */

bool elf_file__eh_frame_hdr_info(const struct elf_file *ef, struct elf_section *out)
{
	const struct elf_segment *hdr = &ef->eh_frame_hdr;

	if (!hdr->file_size)
		return false;
	*out = (struct elf_section){ .addr = hdr->addr,
				     .off = hdr->off,
				     .size = hdr->file_size,
				     .mem_size = hdr->file_size,
				     .type = SHT_PROGBITS };
	return true;
}

bool elf_file__eh_frame_hdr(const struct elf_file *ef, struct elf_section *out)
{
	if (!elf_file__eh_frame_hdr_info(ef, out))
		return false;
	out->data = load_contents(ef, ef->section_cnt + 1, out->off, out->size);
	return out->data;
}

/* Bytes up to the terminator, which is the only end that .eh_frame has without section headers. */
static uint64_t eh_frame_size(const struct elf_file *ef, uint64_t off, uint64_t room)
{
	uint64_t pos = 0, length;
	uint32_t len32;

	for (uint32_t i = 0; i < MAX_EH_RECORDS && room - pos >= 4; i++) {
		if (elf_file__read_at(ef, off + pos, &len32, 4) || !len32)
			break;
		length = len32 + 4ULL;
		if (len32 == UINT32_MAX) {
			if (room - pos < 12 || elf_file__read_at(ef, off + pos + 4, &length, 8) ||
			    length > UINT64_MAX - 12)
				break;
			length += 12;
		}
		if (length > room - pos)
			break;
		pos += length;
	}
	return pos;
}

/* .eh_frame_hdr: version, encoding of eh_frame_ptr, of the count, of the table; eh_frame_ptr. */
static bool eh_frame_by_hdr(const struct elf_file *ef, struct elf_section *out)
{
	const struct elf_segment *hdr = &ef->eh_frame_hdr, *s;
	uint8_t head[8];
	uint64_t addr;
	int32_t rel;

	if (hdr->file_size < sizeof(head) || elf_file__read_at(ef, hdr->off, head, sizeof(head)) ||
	    head[0] != 1 || head[1] != EH_PE_PCREL_S4)
		return false;
	memcpy(&rel, head + 4, sizeof(rel));
	addr = hdr->addr + 4 + (uint64_t)(int64_t)rel;
	for (size_t i = 0; i < ef->segment_cnt; i++) {
		s = &ef->segments[i];
		if (addr < s->addr || addr - s->addr >= s->file_size)
			continue;
		*out = (struct elf_section){ .addr = addr,
					     .off = s->off + (addr - s->addr),
					     .type = SHT_PROGBITS };
		out->size = eh_frame_size(ef, out->off, s->file_size - (addr - s->addr));
		out->mem_size = out->size;
		return out->size > 0;
	}
	return false;
}

bool elf_file__eh_frame_info(const struct elf_file *ef, struct elf_section *out)
{
	if (elf_file__section_info(ef, ".eh_frame", out) && !out->nobits)
		return true;
	return eh_frame_by_hdr(ef, out);
}

bool elf_file__eh_frame(const struct elf_file *ef, struct elf_section *out)
{
	if (elf_file__section(ef, ".eh_frame", out) && out->data)
		return true;
	if (!eh_frame_by_hdr(ef, out))
		return false;
	out->data = load_contents(ef, ef->section_cnt, out->off, out->size);
	return out->data;
}

uint64_t elf_file__pltgot(const struct elf_file *ef)
{
	return ef->dyn.pltgot;
}

void elf_file__forget(const struct elf_file *ef)
{
	for (size_t i = 0; i < ef->section_cnt + EXTRA_CONTENTS; i++) {
		free(ef->contents[i]);
		ef->contents[i] = NULL;
	}
}

/* ---- The object --------------------------------------------------------------------------- */

static int check_ehdr(struct elf_file *ef, const Elf64_Ehdr *eh)
{
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0 || eh->e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh->e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	/* Both, whatever this machine is: the tables mean the same everywhere. */
	if (eh->e_machine != EM_X86_64 && eh->e_machine != EM_AARCH64)
		return -ENOEXEC;
	ef->machine = eh->e_machine;
	ef->type = eh->e_type;
	return 0;
}

static void id_by_section(struct elf_file *ef)
{
	struct elf_section s;

	if (!ef->id.size && elf_file__section_info(ef, ".note.gnu.build-id", &s))
		read_notes(ef, s.off, s.size, 4);
}

static int parse(struct elf_file *ef)
{
	Elf64_Ehdr eh;
	int err;

	err = ef->size < sizeof(eh) ? -ENOEXEC : elf_file__read_at(ef, 0, &eh, sizeof(eh));
	if (!err)
		err = check_ehdr(ef, &eh);
	if (!err)
		err = read_phdrs(ef, &eh);
	if (!err)
		err = read_shdrs(ef, &eh);
	if (err)
		return err;
	ef->contents = calloc(ef->section_cnt + EXTRA_CONTENTS, sizeof(*ef->contents));
	if (!ef->contents)
		return -ENOMEM;
	id_by_section(ef);
	return 0;
}

static struct elf_file *finish_open(struct elf_file *ef, const char *path, int err)
{
	if (!err) {
		ef->path = strdup(path);
		err = ef->path ? parse(ef) : -ENOMEM;
	}
	if (err) {
		elf_file__close(ef);
		errno = -err;
		return NULL;
	}
	return ef;
}

/*
 * `on_disk`: bytes that it takes on the disk; on some file systems data that are not written yet
 * are missing in them.
 */
static void set_size(struct elf_file *ef, uint64_t size, uint64_t on_disk)
{
	uint64_t room =
		on_disk < MAX_CONTENTS ? on_disk * MAX_SPARSENESS + SPARE_CONTENTS : MAX_CONTENTS;

	ef->size = size;
	ef->room = room < MAX_CONTENTS ? room : MAX_CONTENTS;
}

struct elf_file *elf_file__open_opened(struct opened *file, const char *path)
{
	struct elf_file *ef = calloc(1, sizeof(*ef));
	struct stat st;
	int err;

	if (!ef) {
		opened__close(file);
		errno = ENOMEM;
		return NULL;
	}
	ef->file = *file;
	*file = OPENED_NONE;
	err = opened__stat(&ef->file, &st);
	if (!err && !S_ISREG(st.st_mode))
		err = -ENOEXEC;
	if (!err && ef->file.may_wait) {
		ef->block = calloc(1, sizeof(*ef->block));
		err = ef->block ? 0 : -ENOMEM;
	}
	if (!err)
		set_size(ef, (uint64_t)st.st_size, (uint64_t)st.st_blocks * 512);
	return finish_open(ef, path, err);
}

struct elf_file *elf_file__open(int fd, const char *path)
{
	struct opened file = opened__of(fd);

	return elf_file__open_opened(&file, path);
}

struct elf_file *elf_file__open_memory(const void *image, size_t size, const char *path)
{
	struct elf_file *ef = calloc(1, sizeof(*ef));

	if (!ef)
		return NULL;
	ef->file = OPENED_NONE;
	ef->image = malloc(size ? size : 1);
	if (ef->image && size)
		memcpy(ef->image, image, size);
	set_size(ef, size, size);
	return finish_open(ef, path, ef->image ? 0 : -ENOMEM);
}

void elf_file__close(struct elf_file *ef)
{
	if (!ef)
		return;
	if (ef->contents)
		elf_file__forget(ef);
	free(ef->contents);
	drop_sections(ef);
	free(ef->segments);
	free(ef->soname);
	free(ef->path);
	free(ef->image);
	free(ef->block);
	opened__close(&ef->file);
	free(ef);
}

const char *elf_file__path(const struct elf_file *ef)
{
	return ef->path;
}

int elf_file__fd(const struct elf_file *ef)
{
	return ef->file.fd;
}

const struct opened *elf_file__opened(const struct elf_file *ef)
{
	return &ef->file;
}

uint64_t elf_file__tenant(const struct elf_file *ef)
{
	return ef->file.tenant;
}

const struct elf_id *elf_file__id(const struct elf_file *ef)
{
	return &ef->id;
}

void elf_file__id_hex(const struct elf_file *ef, char *buf)
{
	for (size_t i = 0; i < ef->id.size; i++)
		sprintf(buf + 2 * i, "%02x", ef->id.bytes[i]);
	buf[2 * ef->id.size] = '\0';
}

uint64_t elf_file__size(const struct elf_file *ef)
{
	return ef->size;
}

uint16_t elf_file__machine(const struct elf_file *ef)
{
	return ef->machine;
}

bool elf_file__is_pie_or_so(const struct elf_file *ef)
{
	return ef->type == ET_DYN;
}

const char *elf_file__soname(const struct elf_file *ef)
{
	return ef->soname;
}

const struct elf_segment *elf_file__segments(const struct elf_file *ef, size_t *cnt)
{
	*cnt = ef->segment_cnt;
	return ef->segments;
}

/* ---- Addresses and offsets ---------------------------------------------------------------- */

static const struct elf_segment *segment_at(const struct elf_file *ef, uint64_t addr)
{
	for (size_t i = 0; i < ef->segment_cnt; i++) {
		const struct elf_segment *s = &ef->segments[i];

		if (addr >= s->addr && addr - s->addr < s->file_size)
			return s;
	}
	return NULL;
}

bool elf_file__addr_to_off(const struct elf_file *ef, uint64_t addr, uint64_t *off)
{
	const struct elf_segment *s = segment_at(ef, addr);

	if (s)
		*off = s->off + (addr - s->addr);
	return s;
}

/*
 * If two segments share bytes, takes the executable one, because offsets come from executable
 * mappings.
 */
bool elf_file__off_to_addr(const struct elf_file *ef, uint64_t off, uint64_t *addr)
{
	const struct elf_segment *best = NULL;

	for (size_t i = 0; i < ef->segment_cnt; i++) {
		const struct elf_segment *s = &ef->segments[i];

		if (off >= s->off && off - s->off < s->file_size &&
		    (!best || (s->exec && !best->exec)))
			best = s;
	}
	if (best)
		*addr = best->addr + (off - best->off);
	return best;
}

bool elf_file__text(const struct elf_file *ef, uint64_t *start, uint64_t *limit)
{
	bool found = false;

	for (size_t i = 0; i < ef->segment_cnt; i++) {
		const struct elf_segment *s = &ef->segments[i];

		if (!s->exec || !s->file_size)
			continue;
		if (!found || s->off < *start)
			*start = s->off;
		if (!found || s->off + s->file_size > *limit)
			*limit = s->off + s->file_size;
		found = true;
	}
	return found;
}

int elf_file__read(const struct elf_file *ef, uint64_t addr, void *buf, size_t size)
{
	const struct elf_segment *s = segment_at(ef, addr);

	if (!s || size > s->file_size - (addr - s->addr))
		return -ERANGE;
	return elf_file__read_at(ef, s->off + (addr - s->addr), buf, size);
}

size_t elf_file__section_cnt(const struct elf_file *ef)
{
	return ef->section_cnt;
}

bool elf_file__section_at(const struct elf_file *ef, size_t i, struct elf_section *out)
{
	return i < ef->section_cnt && section_info(ef, (uint32_t)i, out);
}
