/* Writes the outcome of each frame as a line. */
#ifndef ACAPELLA_P4_FRAMES_H
#define ACAPELLA_P4_FRAMES_H

#include "acapella_p4.h"

struct frames {
    FILE *file; /* NULL if not requested */
    char *part;
    const char *path;
    const struct p4 *p4;
};

/* Opens the file, tab-separated: time_ns port sequence outcome reason kind wire_bytes length hash. Does
 * nothing if `path` is NULL. */
int p4_frames_open(struct frames *frames, const char *path, const struct p4 *p4, struct fault *fault);
void p4_frames_put(const struct frames *frames, const struct p4_verdict *verdict);

/* Syncs and renames the file, or removes it if `keep` is false. */
int p4_frames_close(struct frames *frames, bool keep, struct fault *fault);

#endif
