// For LD_PRELOAD: the n-th call of one kind fails, as in SQLite's fault injection
// (sqlite.org/testing.html, sections 3.1 and 3.2).
//
// ACAPELLA_FAIL=KIND:N names the call: KIND is read, write, sync, rename or malloc; N is counted from 1. With
// ACAPELLA_FAIL_BY=kill the process is killed there (SIGKILL) instead. Calls count from the first open of a
// path that contains ACAPELLA_FAIL_FROM (otherwise malloc would fail while the interpreter starts), in the
// process with that environment and not in its children. Of reads, only those of the latest such file count.
// At exit, the number of calls of each kind is written to the file ACAPELLA_FAIL_COUNT, one line "KIND N"
// each.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { NONE, WRITE, SYNC, RENAME, MALLOC, READ, KINDS };

static const char *const names[KINDS] = {"", "write", "sync", "rename", "malloc", "read"};

static enum kind failing;
static long failing_call;
static const char *from;
static char *count_path;
static bool kills;
static atomic_bool armed;
static atomic_long calls[KINDS];
static atomic_int watched;  // descriptor of the latest file that was opened with such a path

static bool fails(enum kind kind) {
    if (!atomic_load(&armed)) {
        return false;
    }
    const long call = atomic_fetch_add(&calls[kind], 1) + 1;
    const bool reached = kind == failing && call == failing_call;
    if (reached && kills) {
        kill(getpid(), SIGKILL);
    }
    return reached;
}

// Standard output and error are not result files, and a pipe to a child is not a disk.
static bool is_file(int descriptor) {
    struct stat status;
    return descriptor > 2 && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

// Also called by forks of a preloaded process, whose environment is different.
__attribute__((constructor)) void read_environment(void) {
    const char *requested = getenv("ACAPELLA_FAIL");
    const char *colon = requested ? strchr(requested, ':') : NULL;
    for (int kind = WRITE; colon && kind < KINDS; kind++) {
        if (strncmp(requested, names[kind], (size_t)(colon - requested)) == 0) {
            failing = (enum kind)kind;
            failing_call = atol(colon + 1);
        }
    }
    kills = getenv("ACAPELLA_FAIL_BY") != NULL;
    from = getenv("ACAPELLA_FAIL_FROM");
    count_path = getenv("ACAPELLA_FAIL_COUNT");
    if (from) {
        from = strdup(from);
    }
    if (count_path) {
        count_path = strdup(count_path);
    }
    unsetenv("ACAPELLA_FAIL");
    unsetenv("LD_PRELOAD");
}

__attribute__((destructor)) void write_counts(void) {
    if (!count_path) {
        return;
    }
    atomic_store(&armed, false);
    FILE *counted = fopen(count_path, "w");
    if (counted) {
        for (int kind = WRITE; kind < KINDS; kind++) {
            fprintf(counted, "%s %ld\n", names[kind], atomic_load(&calls[kind]));
        }
        fclose(counted);
    }
}

#define REAL(type, name, ...)                     \
    static type (*real)(__VA_ARGS__);             \
    if (!real) {                                  \
        *(void **)&real = dlsym(RTLD_NEXT, name); \
    }

static void arm(const char *path, int descriptor) {
    if (from && strstr(path, from)) {
        atomic_store(&watched, descriptor);
        atomic_store(&armed, true);
    }
}

// PARAMETER and ARGUMENT are empty, or the directory that the path is relative to.
#define OPEN(name, PARAMETER, ARGUMENT)                                              \
    int name(PARAMETER const char *path, int flags, ...) {                           \
        REAL(int, #name, PARAMETER const char *, int, ...)                           \
        va_list arguments;                                                           \
        va_start(arguments, flags);                                                  \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0; \
        va_end(arguments);                                                           \
        const int descriptor = real(ARGUMENT path, flags, mode);                     \
        arm(path, descriptor);                                                       \
        return descriptor;                                                           \
    }
#define DIRECTORY_PARAMETER int directory,
#define DIRECTORY_ARGUMENT directory,

OPEN(open, , )
OPEN(open64, , )
OPEN(openat, DIRECTORY_PARAMETER, DIRECTORY_ARGUMENT)
OPEN(openat64, DIRECTORY_PARAMETER, DIRECTORY_ARGUMENT)

ssize_t read(int descriptor, void *bytes, size_t size) {
    REAL(ssize_t, "read", int, void *, size_t)
    if (descriptor == atomic_load(&watched) && fails(READ)) {
        errno = EIO;
        return -1;
    }
    return real(descriptor, bytes, size);
}

ssize_t write(int descriptor, const void *bytes, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t)
    if (is_file(descriptor) && fails(WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    return real(descriptor, bytes, size);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t size, off_t offset) {
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t)
    if (is_file(descriptor) && fails(WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    return real(descriptor, bytes, size, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t size, off_t offset) {
    return pwrite(descriptor, bytes, size, offset);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int)
    if (is_file(descriptor) && fails(WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    return real(descriptor, parts, count);
}

ssize_t sendfile(int out, int in, off_t *offset, size_t size) {
    REAL(ssize_t, "sendfile", int, int, off_t *, size_t)
    if (is_file(out) && fails(WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    return real(out, in, offset, size);
}

ssize_t sendfile64(int out, int in, off_t *offset, size_t size) { return sendfile(out, in, offset, size); }

ssize_t copy_file_range(int in, off_t *in_offset, int out, off_t *out_offset, size_t size, unsigned flags) {
    REAL(ssize_t, "copy_file_range", int, off_t *, int, off_t *, size_t, unsigned)
    if (is_file(out) && fails(WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    return real(in, in_offset, out, out_offset, size, flags);
}

int fsync(int descriptor) {
    REAL(int, "fsync", int)
    if (fails(SYNC)) {
        errno = EIO;
        return -1;
    }
    return real(descriptor);
}

int fdatasync(int descriptor) {
    REAL(int, "fdatasync", int)
    if (fails(SYNC)) {
        errno = EIO;
        return -1;
    }
    return real(descriptor);
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset) {
    REAL(ssize_t, "pwritev", int, const struct iovec *, int, off_t)
    if (is_file(descriptor) && fails(WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    return real(descriptor, parts, count, offset);
}

ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off_t offset) {
    return pwritev(descriptor, parts, count, offset);
}

ssize_t pwritev2(int descriptor, const struct iovec *parts, int count, off_t offset, int flags) {
    REAL(ssize_t, "pwritev2", int, const struct iovec *, int, off_t, int)
    if (is_file(descriptor) && fails(WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    return real(descriptor, parts, count, offset, flags);
}

ssize_t pwritev64v2(int descriptor, const struct iovec *parts, int count, off_t offset, int flags) {
    return pwritev2(descriptor, parts, count, offset, flags);
}

int ftruncate(int descriptor, off_t size) {
    REAL(int, "ftruncate", int, off_t)
    if (is_file(descriptor) && fails(WRITE)) {
        errno = EIO;
        return -1;
    }
    return real(descriptor, size);
}

int ftruncate64(int descriptor, off_t size) { return ftruncate(descriptor, size); }

int fallocate(int descriptor, int mode, off_t offset, off_t size) {
    REAL(int, "fallocate", int, int, off_t, off_t)
    if (is_file(descriptor) && fails(WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    return real(descriptor, mode, offset, size);
}

int fallocate64(int descriptor, int mode, off_t offset, off_t size) {
    return fallocate(descriptor, mode, offset, size);
}

// posix_fallocate returns its error and does not set errno.
int posix_fallocate(int descriptor, off_t offset, off_t size) {
    REAL(int, "posix_fallocate", int, off_t, off_t)
    return is_file(descriptor) && fails(WRITE) ? ENOSPC : real(descriptor, offset, size);
}

int posix_fallocate64(int descriptor, off_t offset, off_t size) {
    return posix_fallocate(descriptor, offset, size);
}

int rename(const char *old, const char *new) {
    REAL(int, "rename", const char *, const char *)
    if (fails(RENAME)) {
        errno = EIO;
        return -1;
    }
    return real(old, new);
}

int renameat(int old_directory, const char *old, int new_directory, const char *new) {
    REAL(int, "renameat", int, const char *, int, const char *)
    if (fails(RENAME)) {
        errno = EIO;
        return -1;
    }
    return real(old_directory, old, new_directory, new);
}

int renameat2(int old_directory, const char *old, int new_directory, const char *new, unsigned flags) {
    REAL(int, "renameat2", int, const char *, int, const char *, unsigned)
    if (fails(RENAME)) {
        errno = EIO;
        return -1;
    }
    return real(old_directory, old, new_directory, new, flags);
}

// A link gives a whole file its final name, as a rename does.
int link(const char *old, const char *new) {
    REAL(int, "link", const char *, const char *)
    if (fails(RENAME)) {
        errno = EIO;
        return -1;
    }
    return real(old, new);
}

int linkat(int old_directory, const char *old, int new_directory, const char *new, int flags) {
    REAL(int, "linkat", int, const char *, int, const char *, int)
    if (fails(RENAME)) {
        errno = EIO;
        return -1;
    }
    return real(old_directory, old, new_directory, new, flags);
}

// dlsym may allocate memory, so these functions call glibc's own entry points instead.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

void *malloc(size_t size) { return fails(MALLOC) ? (errno = ENOMEM, NULL) : __libc_malloc(size); }

void *calloc(size_t count, size_t size) {
    return fails(MALLOC) ? (errno = ENOMEM, NULL) : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    return fails(MALLOC) ? (errno = ENOMEM, NULL) : __libc_realloc(old, size);
}
