/* One capture file, from its .part name to its own.
 *
 * A queue's thread opens a file and lets a store write it; when all but a rest is on the disk, the file is
 * handed over, and the main thread writes the rest, cuts what was allocated ahead, syncs and renames
 * (file_finish), so that receiving never waits for any of these. */
#ifndef ACAPELLA_FILE_H
#define ACAPELLA_FILE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/fault.h"
#include "common/format.h"

#define FILE_ALIGN 4096 /* O_DIRECT: a multiple of every logical block size in use */

/* A place between two records. */
struct mark {
    uint64_t offset, frames;
};

/* Removed: it failed before a frame was in it. */
enum file_state { FILE_OPEN, FILE_WHOLE, FILE_CUT, FILE_REMOVED };

struct file {
    char *path, *part;
    int fd; /* -1: a sink's */
    unsigned queue, number;
    const struct format *format;
    _Atomic uint64_t put_bytes, put_frames; /* given to the store; the other counts say where they got to */
    _Atomic uint64_t safe_frames;           /* wholly on the disk, as far as is known while it is written */
    uint64_t disk_bytes;                    /* on the disk without a gap */
    struct mark good;                       /* a mark within these */
    uint64_t first_ns, last_ns;             /* stamps of its first and latest frame */
    _Atomic uint64_t allocated;             /* bytes allocated ahead */
    uint8_t *rest;                          /* bytes after disk_bytes, shorter than FILE_ALIGN, malloc'd */
    uint32_t rest_bytes;
    int error; /* errno of what failed, 0: nothing */
    const char *failed;
    enum file_state state;
    uint64_t kept_bytes, kept_frames; /* once finished */
    struct file *next, *next_handed;
};

/* All files of a capture, and those that wait to be finished. */
struct files {
    pthread_mutex_t lock;
    struct file *first, *last;
    struct file *handed, *last_handed; /* in this order */
    bool failed;                       /* one that was finished could not be written */
    uint64_t preallocate;              /* bytes */
    uint64_t largest;                  /* a file will not grow beyond this; 0: unknown */
    bool abandon;                      /* the capture did not begin: files go instead of being finished */
};

/* A file of a sink: counts without bytes. */
struct file *file_of_sink(struct files *files, unsigned queue, const struct format *format);

/* Creates PATH.part, 0600; neither name may exist. `direct` is tried first where it is set, and unset where
 * the file system has no O_DIRECT. Owned by `files`. NULL: see fault. */
struct file *file_open(struct files *files, const char *path, unsigned queue, unsigned number,
                       const struct format *format, bool *direct, struct fault *fault);

/* From any thread: nothing more will be written to it, but for its rest. */
void file_hand_over(struct files *files, struct file *file);

/* Main thread: finishes those handed over, and allocates ahead for those still open. */
void files_attend(struct files *files);

/* Cuts an open file to whole records, walking on from its mark. */
int file_trim(struct file *file, struct fault *fault);

void files_free(struct files *files);

#endif
