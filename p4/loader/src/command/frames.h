/* What became of each frame, a line each. */
#ifndef ACAPELLA_P4_FRAMES_H
#define ACAPELLA_P4_FRAMES_H

#include "acapella_p4.h"

struct frames {
    FILE *file; /* NULL: nobody asked */
    char *part;
    const char *path;
    const struct p4 *p4;
};

/* Tab-separated: time_ns port sequence outcome reason kind wire_bytes length hash; an empty path: none. */
int p4_frames_open(struct frames *frames, const char *path, const struct p4 *p4, struct fault *fault);
void p4_frames_put(const struct frames *frames, const struct p4_verdict *verdict);

/* The file under its name, or gone where it is not to be kept. */
int p4_frames_close(struct frames *frames, bool keep, struct fault *fault);

#endif
