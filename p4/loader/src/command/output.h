/* Output of frames: a capture file, an interface, or both. A file gets its name when it is complete. */
#ifndef ACAPELLA_P4_OUTPUT_H
#define ACAPELLA_P4_OUTPUT_H

#include "acapella_p4.h"
#include "common/files/format.h"
#include "common/files/publish.h"

struct output {
    char *path, *part; /* NULL without a file */
    int fd;
    const struct format *format;
    uint8_t *buffer;
    size_t size;
    uint64_t frames;
    int interface; /* raw socket; -1 if none */
    char name[64];
    uint64_t refused; /* frames that the interface refused */
    bool failed;
    struct fault fault; /* the first error */
};

/* `path` and `interface` may be NULL. Returns 0, or -1 with the reason in fault. */
int p4_output_open(struct output *output, const char *path, const struct format *format,
                   const char *interface, struct fault *fault);

void p4_output_put(struct output *output, const struct p4_verdict *verdict);

/* Call between bursts: writes the buffered frames if there is at least 1 MiB of them. */
void p4_output_flush(struct output *output);

/* Syncs and renames the file, or removes it if `keep` is false. Returns 0, or -1 with the reason in fault. */
int p4_output_close(struct output *output, bool keep, struct fault *fault);

#endif
