/* Writes files that are complete or absent: a file is renamed when it is complete and synced. */
#ifndef ACAPELLA_PUBLISH_H
#define ACAPELLA_PUBLISH_H

#include <stdio.h>

#include "common/fault.h"

/* Returns NAME.part, the name of incomplete files; the caller frees it. Returns NULL if out of memory. */
char *publish_part_name(const char *path);

/* Opens a file for publish(). It has no name until then, so that the kernel removes it after SIGKILL; without
 * O_TMPFILE its name is NAME.part. Removes an old NAME.part. Returns -1 with errno set on error. */
int publish_create(const char *part);

/* Syncs the file of publish_create() and renames it to `path`. Returns 0, or -1 with errno set. */
int publish(int fd, const char *part, const char *path);

/* Writes a file with the function `write`, which returns 0 or -1 with errno, and publishes it. */
int write_and_publish(const char *path, int (*write)(FILE *to, const void *argument), const void *argument,
                      struct fault *fault);

#endif
