/* A capture file, named .part until it is complete. The thread of a queue opens a file and a store writes it.
 * When all but the last bytes are written, the main thread takes over the file: it writes these bytes,
 * releases unused space, syncs and renames the file (file_finish). Thus the thread that receives frames never
 * waits for these steps. */
#ifndef ACAPELLA_FILE_H
#define ACAPELLA_FILE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/fault.h"
#include "common/files/format.h"

#define FILE_ALIGN 4096 /* O_DIRECT: a multiple of every logical block size in use */

/* A position between two records. */
struct mark {
    uint64_t offset, frames;
};

/* FILE_REMOVED: the file contained no complete frame after a failure, or the capture did not start. */
enum file_state { FILE_OPEN, FILE_WHOLE, FILE_TRUNCATED, FILE_REMOVED };

struct file {
    char *path, *part;
    int fd; /* -1 for a sink, which has no file */
    unsigned queue, number;
    const struct format *format;
    _Atomic uint64_t put_bytes, put_frames; /* passed to the store */
    _Atomic uint64_t safe_frames;           /* completely written; a lower bound until the file is finished */
    uint64_t disk_bytes;                    /* bytes written, without gaps */
    struct mark good;                       /* the last known end of a record in these bytes */
    uint64_t first_ns, last_ns;             /* timestamps of the first and the last frame */
    _Atomic uint64_t allocated;             /* bytes allocated */
    uint8_t *rest;                          /* bytes after disk_bytes, shorter than FILE_ALIGN, malloc'd */
    uint32_t rest_bytes;
    int error;          /* errno of the call that failed; 0 if none */
    const char *failed; /* name of this call */
    enum file_state state;
    uint64_t kept_bytes, kept_frames; /* set when the file is finished */
    struct file *next, *next_handed;
};

/* All files of a capture, and the queue of files to be finished. */
struct files {
    pthread_mutex_t lock;
    struct file *first, *last;
    struct file *handed, *last_handed; /* first in, first out */
    bool failed;                       /* a file could not be written */
    uint64_t preallocate;              /* bytes */
    uint64_t largest;                  /* maximum size of a file; 0 if unknown */
    bool abandon;                      /* the capture did not start: remove files instead of finishing them */
};

/* Creates an entry for a sink, which has counts and no file on the disk. */
struct file *sink_file_open(struct files *files, unsigned queue, const struct format *format);

/* Creates PATH.part with mode 0600; PATH must not exist either. Clears `direct` if the file system has no
 * O_DIRECT. Owned by `files`. Returns NULL with the reason in fault on error. */
struct file *file_open(struct files *files, const char *path, unsigned queue, unsigned number,
                       const struct format *format, bool *direct, struct fault *fault);

/* Returns what to do about an error of a write to a capture file: "; ...", or "". */
const char *capture_file_advice(int error);

/* Passes a file to the main thread; may be called by any thread. */
void file_hand_over(struct files *files, struct file *file);

/* Called by the main thread: finishes files that were passed to it, and allocates space for open files. */
void files_finish_pending(struct files *files);

/* Truncates an open file to whole records. */
int file_trim(struct file *file, struct fault *fault);

void files_free(struct files *files);

#endif
