/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CALL_PICTURE_H
#define PYPERF_CALL_PICTURE_H
/*
 * `trace -o FILE`: the calls as a profile, which export/ writes as any other one. A stack is a way
 * of calls, and its amount the own time of all calls that ended there, or, where the ends of
 * functions are not wanted, how many calls there were.
 *
 *	pic = call_picture__new(profile, &opts);
 *	call_picture__name(pic, readers);
 *	word = call_picture__native(pic, number);	a call begins
 *	call_picture__add(pic, words, depth, 1, own_ns);	it has ended
 *	call_picture__finish(pic, duration_ns);		the profile can be written
 *	call_picture__free(pic);
 *
 * Of many processes, with `pid` 0:
 *
 *	proc = call_picture__add_process(pic, pid, title, python);
 *	call_picture__set_process(pic, proc);	what is added from now on is of this one
 *
 * Always: frames are words of profile.h whose payload is the index of their struct sym.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reader.h"
#include "profile/profile.h"
#include "symbolize/symbolize.h"
#include "trace/native_functions.h"

#define CALL_PICTURE_DEPTH     512 /* what is called deeper belongs to the function there */
#define CALL_PICTURE_FUNCTIONS (1U << 20)
#define CALL_PICTURE_NO_ROOM   UINT64_MAX /* the frame of a further function */

struct call_picture_opts {
	pid_t pid;	  /* whose names call_picture__name() reads; 0: it is of many processes */
	const char *path; /* of the file; foreign text, borrowed during the call */
	const struct native_functions *functions; /* borrowed; NULL: only Python's, and no file */
	bool times;				  /* amounts are nanoseconds, else calls */
	bool averages; /* amounts are those of one call, and no difference of them is chance */
};

struct call_picture;

/* What a trace draws: the calls; or, of slow ones, what an average one took, and another one. */
enum { PICTURE_CALLS, PICTURE_OTHERS, PICTURES };

/* `p` is empty, and borrowed. NULL: no memory. */
struct call_picture *call_picture__new(struct profile *p, const struct call_picture_opts *o);
void call_picture__free(struct call_picture *c);
/*
 * Notes the names that the process has now. False: it has no arguments, is gone, or its memory does
 * not answer. `rs` may be NULL.
 */
bool call_picture__name(struct call_picture *c, struct readers *rs);
/*
 * A process, with its command name as it is now, and what people call it. Its number, or negative:
 * no memory, or there are too many.
 */
int call_picture__add_process(struct call_picture *c, pid_t pid, const char *title,
			      const char *python);
void call_picture__set_process(struct call_picture *c, uint32_t proc);
/* From now on functions of Python are numbered anew: they are those of another interpreter. */
void call_picture__renumber(struct call_picture *c);
/* The frames of functions; 0: no memory. A call that has one without room is left out. */
uint64_t call_picture__native(struct call_picture *c, uint32_t number);
uint64_t call_picture__python(struct call_picture *c, const struct py_function *f);
/* ... and of a wait, which is the innermost. */
uint64_t call_picture__wait(struct call_picture *c, const char *reason);
/* So many calls that ended there, outermost first. 0 or -ENOMEM. */
int call_picture__add(struct call_picture *c, const uint64_t *words, size_t cnt, uint64_t calls,
		      uint64_t amount);
/* Is there room for so many more? */
bool call_picture__has_room(const struct call_picture *c, uint64_t functions, uint64_t frames);
/* So many have found no room elsewhere. */
void call_picture__leave_out(struct call_picture *c, uint64_t calls);
/* 0 or -ENOMEM. After a message if there were too many ways of calls. */
int call_picture__finish(struct call_picture *c, uint64_t duration_ns);

/*
 * The pictures of a trace, in time, as far as `profiles` has them: the others are NULL. With
 * PICTURE_OTHERS they are averages. `pid` and `rs`: as above. 0 or -ENOMEM; what was made is to be
 * freed in any case.
 */
int call_pictures__open(struct call_picture *all[PICTURES],
			struct profile *const profiles[PICTURES], pid_t pid, struct readers *rs);
int call_pictures__finish(struct call_picture *const all[PICTURES], uint64_t duration_ns);
void call_pictures__free(struct call_picture *const all[PICTURES]);

#endif /* PYPERF_CALL_PICTURE_H */
