/* Files that are complete or absent: a file gets its name when it is complete and on the disk. */
#ifndef ACAPELLA_PUBLISH_H
#define ACAPELLA_PUBLISH_H

#include <stdio.h>

#include "common/fault.h"

/* Returns NAME.part, the name of incomplete files; the caller frees it. NULL: out of memory. */
char *publish_part(const char *path);

/* Opens a file for publish(). It has no name until then, so that the kernel removes it after SIGKILL; on file
 * systems without unnamed files it is NAME.part. An old NAME.part is removed. -1: see errno. */
int publish_create(const char *part);

/* Syncs the file of publish_create() and names it. -1: see errno. */
int publish(int fd, const char *part, const char *path);

/* Writes a file by `write`, which returns 0 or -1 with errno, and names it when it is synced. */
int publish_written(const char *path, int (*write)(FILE *to, const void *what), const void *what,
                    struct fault *fault);

#endif
