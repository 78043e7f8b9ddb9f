/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SYM_TABLES_H
#define PYPERF_SYM_TABLES_H
/*
 * Names functions without a symbol, by the tables that an interpreter or an extension passes to
 * CPython: methods, types with their slots and attributes, modules.
 *
 *	PyMethodDef in a table of PyTypeObject "list"		list.sort
 *	PyMethodDef in a table of PyModuleDef "_hashlib"	_hashlib.pbkdf2_hmac
 *	PyMethodDef of an unknown owner				sort
 *	a slot of PyTypeObject or PyType_Spec "dict"		dict (mp_subscript)
 *	PyGetSetDef of "frame"					frame.f_locals (get)
 *
 * A function in several tables has the name of the base class, or the first, and the number of the
 * others: "BaseException (tp_str) +34". Stripping keeps these tables, because CPython reads them.
 *
 * The file is hostile: reading is bounded by the limits below, and a table is used only if every
 * word of it is as in CPython's headers. Methods: PyMethodDef (methodobject.h); types: PyTypeObject
 * (cpython/object.h); specs: PyType_Spec (object.h), slots: typeslots.h.
 */
#include <stddef.h>
#include <stdint.h>

#include "elf/ehframe.h"
#include "elf/elf.h"

#define SYM_TABLES_DATA_MAX   (64U << 20) /* bytes that are not code */
#define SYM_TABLES_RELOCS_MAX (4U << 20)
#define SYM_TABLES_READS_MAX  (64U << 20) /* words looked at: some 0.3 s */
#define SYM_TABLES_CLAIMS_MAX (1U << 18)  /* (function, name) pairs */

struct table_name {
	uint64_t addr; /* link address of a function */
	uint32_t name; /* in `names` */
};

struct sym_tables {
	struct table_name *v; /* ascending by address, one for each function */
	size_t cnt;
	char *names; /* each ends in NUL */
	size_t names_sz;
};

/*
 * Reads the tables of a file. `functions`: from ehframe__ranges(). Without a table, or with a file
 * beyond the limits: 0 and nothing in `out`. -ENOMEM, -EIO. The caller frees `*out` in any case.
 */
int sym_tables__read(const struct elf_file *ef, const struct fde_range *functions, size_t cnt,
		     struct sym_tables *out);
void sym_tables__free(struct sym_tables *t);

#endif /* PYPERF_SYM_TABLES_H */
