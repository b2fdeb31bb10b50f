#include "common/files/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *publish_part_name(const char *path) {
    char *part = NULL;
    return asprintf(&part, "%s.part", path) < 0 ? NULL : part;
}

int publish_create(const char *part) {
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%s", part);
    unlink(part);
    const int fd = access("/proc/self/fd", X_OK) == 0
                       ? open(dirname(directory), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600)
                       : -1;
    return fd >= 0 ? fd : open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

int publish(int fd, const char *part, const char *path) {
    char link[40];
    struct stat status;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fsync(fd) != 0 || fstat(fd, &status) != 0 ||
        (status.st_nlink == 0 && linkat(AT_FDCWD, link, AT_FDCWD, part, AT_SYMLINK_FOLLOW) != 0)) {
        return -1;
    }
    return rename(part, path);
}

int write_and_publish(const char *path, int (*write)(FILE *to, const void *argument), const void *argument,
                      struct fault *fault) {
    char *part = publish_part_name(path);
    const int fd = part ? publish_create(part) : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    int status = 0;
    if (!file || write(file, argument) != 0 || fflush(file) != 0 || ferror(file) ||
        publish(fd, part, path) != 0) {
        const int error = part ? errno : ENOMEM;
        status = fail(fault, "%.200s: %s%s", path, strerror(error), write_advice(error));
    }
    if (file) {
        fclose(file);
    }
    if (part && status != 0) {
        unlink(part);
    }
    free(part);
    return status;
}
