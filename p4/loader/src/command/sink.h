/* Where frames go: a capture file, an interface, or both. A file is complete when it has its name. */
#ifndef ACAPELLA_P4_SINK_H
#define ACAPELLA_P4_SINK_H

#include "acapella_p4.h"
#include "common/format.h"

struct sink {
    char *path, *part; /* NULL: no file */
    int fd;
    const struct format *format;
    uint8_t *buffer;
    size_t size;
    uint64_t frames;
    int interface; /* raw socket; -1: none */
    char name[64];
    uint64_t refused; /* frames that the interface did not take */
    bool failed;
    struct fault fault; /* of what failed first */
};

/* -1: see fault. `path` and `interface` may be NULL. */
int p4_sink_open(struct sink *sink, const char *path, const struct format *format, const char *interface,
                 struct fault *fault);

void p4_sink_put(struct sink *sink, const struct p4_verdict *verdict);

/* Between bursts, so that the pipeline does not wait for the disk. */
void p4_sink_flush(struct sink *sink);

/* Syncs and renames the file; `keep` false: removes it. -1: see fault. */
int p4_sink_close(struct sink *sink, bool keep, struct fault *fault);

/* A small file, written by `write`, under its name once it is whole on the disk. */
int p4_write_file(const char *path, int (*write)(FILE *to, const void *what), const void *what,
                  struct fault *fault);

/* Opens a file to be published as NAME.part and then NAME. It has no name until then, so that the kernel
 * removes it after SIGKILL; on a file system without such files it is NAME.part from the start. An old
 * NAME.part is removed. -1: see errno. */
int p4_create(const char *part);

/* Syncs the file of p4_create() and gives it its name. -1: see errno. */
int p4_publish(int fd, const char *part, const char *path);

#endif
