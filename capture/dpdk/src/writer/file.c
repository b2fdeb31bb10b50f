#include "writer/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define WINDOW (1U << 20)

static struct file *allocate_file(const char *path) {
    struct file *file = calloc(1, sizeof *file);
    if (file && (!(file->path = strdup(path)) || asprintf(&file->part, "%s.part", path) < 0)) {
        free(file->path);
        free(file);
        return NULL;
    }
    return file;
}

static int create(const char *part, bool *direct) {
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    int fd = *direct ? open(part, flags | O_DIRECT, 0600) : -1;
    if (fd < 0 && *direct && errno == EINVAL) {
        unlink(part); /* some file systems create the file although they reject the flag */
        *direct = false;
    }
    return fd < 0 && !*direct ? open(part, flags, 0600) : fd;
}

/* Allocates space beyond the end of the file without changing its size, so that a killed capture does not end
 * in zeros. It is not an error if the file system does not support it or is nearly full: a later write
 * reports a full disk. */
static void allocate_ahead(const struct files *files, struct file *file) {
    const uint64_t put = atomic_load(&file->put_bytes);
    const uint64_t allocated = atomic_load(&file->allocated);
    uint64_t until = put + files->preallocate;
    until = files->largest && until > files->largest ? files->largest : until;
    struct statvfs disk;
    if (until <= allocated || put + files->preallocate / 2 < allocated || fstatvfs(file->fd, &disk) != 0 ||
        disk.f_bavail * disk.f_frsize / 4 < until - allocated) {
        return;
    }
    if (fallocate(file->fd, FALLOC_FL_KEEP_SIZE, (off_t)allocated, (off_t)(until - allocated)) == 0) {
        atomic_store(&file->allocated, until);
    }
}

static void append(struct files *files, struct file *file) {
    pthread_mutex_lock(&files->lock);
    *(files->last ? &files->last->next : &files->first) = file;
    files->last = file;
    pthread_mutex_unlock(&files->lock);
}

struct file *sink_file_open(struct files *files, unsigned queue, const struct format *format) {
    struct file *file = allocate_file("");
    if (file) {
        file->fd = -1;
        file->queue = queue;
        file->format = format;
        append(files, file);
    }
    return file;
}

const char *capture_file_advice(int error) {
    return error == EFBIG ? "; raise the limit on file sizes (ulimit -f) or use --rotate-bytes"
                          : write_advice(error);
}

struct file *file_open(struct files *files, const char *path, unsigned queue, unsigned number,
                       const struct format *format, bool *direct, struct fault *fault) {
    struct file *file = allocate_file(path);
    if (!file) {
        fail(fault, "%s: out of memory; use fewer or smaller buffers", path);
        return NULL;
    }
    if (access(path, F_OK) == 0) {
        fail(fault, "%s: exists; remove it or write under another name", path);
    } else if ((file->fd = create(file->part, direct)) < 0) {
        fail(fault, "%s: %s%s", file->part, strerror(errno), write_advice(errno));
    } else {
        file->queue = queue;
        file->number = number;
        file->format = format;
        allocate_ahead(files, file);
        append(files, file);
        return file;
    }
    free(file->path);
    free(file->part);
    free(file);
    return NULL;
}

void file_hand_over(struct files *files, struct file *file) {
    pthread_mutex_lock(&files->lock);
    *(files->handed ? &files->last_handed->next_handed : &files->handed) = file;
    files->last_handed = file;
    pthread_mutex_unlock(&files->lock);
}

static int write_rest(struct file *file) {
    uint32_t done = 0;
    while (done < file->rest_bytes) {
        const ssize_t written =
            pwrite(file->fd, file->rest + done, file->rest_bytes - done, (off_t)file->disk_bytes);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            file->error = written < 0 ? errno : EIO;
            file->failed = "write";
            return -1;
        }
        done += (uint32_t)written;
        file->disk_bytes += (uint64_t)written;
    }
    return 0;
}

static ssize_t read_fully(int fd, uint8_t *to, size_t size, uint64_t offset) {
    size_t have = 0;
    while (have < size) {
        const ssize_t size_read = pread(fd, to + have, size - have, (off_t)(offset + have));
        if (size_read < 0 && errno == EINTR) {
            continue;
        }
        if (size_read < 0) {
            return -1;
        }
        if (size_read == 0) {
            break;
        }
        have += (size_t)size_read;
    }
    return (ssize_t)have;
}

/* Moves the mark to the end of the last complete record. */
static int find_last_record(struct file *file, uint8_t *window, struct fault *fault) {
    for (;;) {
        const uint64_t left = file->disk_bytes - file->good.offset;
        const ssize_t have = read_fully(file->fd, window, left < WINDOW ? left : WINDOW, file->good.offset);
        if (have < 0) {
            return fail(fault, "%s: cannot be read again: %s", file->part, strerror(errno));
        }
        size_t at = 0;
        bool frame = false;
        int64_t size = 0;
        while ((size = file->format->size(window + at, (size_t)have - at, &frame)) > 0 &&
               file->good.offset + (uint64_t)size <= file->disk_bytes) {
            file->good.offset += (uint64_t)size;
            file->good.frames += frame;
            at += (size_t)size;
            if (at >= (size_t)have) {
                break; /* a record may continue after the window */
            }
        }
        if (at == 0) {
            return 0;
        }
    }
}

int file_trim(struct file *file, struct fault *fault) {
    uint8_t *window = malloc(WINDOW);
    if (!window) {
        return fail(fault, "%s: out of memory", file->part);
    }
    if (file->good.offset < file->format->first_record && file->disk_bytes >= file->format->first_record) {
        file->good.offset = file->format->first_record;
    }
    int status = find_last_record(file, window, fault);
    free(window);
    if (status == 0 && ftruncate(file->fd, (off_t)file->good.offset) != 0) {
        status = fail(fault, "%s: cannot be truncated: %s", file->part, strerror(errno));
    }
    file->kept_bytes = file->good.offset;
    file->kept_frames = file->good.frames;
    return status;
}

static void set_error(struct file *file, const char *function) {
    file->error = errno;
    file->failed = function;
}

static void file_finish(struct file *file) {
    if (file->fd < 0) {
        file->kept_bytes = atomic_load(&file->put_bytes);
        file->kept_frames = atomic_load(&file->put_frames);
        file->state = FILE_WHOLE;
        return;
    }
    const int flags = fcntl(file->fd, F_GETFL);
    if (flags & O_DIRECT) {
        fcntl(file->fd, F_SETFL, flags & ~O_DIRECT);
    }
    if (!file->error && write_rest(file) == 0) {
        file->kept_bytes = file->disk_bytes;
        file->kept_frames = atomic_load(&file->put_frames);
        /* also releases the space allocated beyond the end */
        if (ftruncate(file->fd, (off_t)file->kept_bytes) != 0) {
            set_error(file, "ftruncate");
        } else if (fsync(file->fd) != 0) {
            set_error(file, "fsync");
        }
    } else {
        struct fault fault;
        if (file_trim(file, &fault) != 0) {
            fprintf(stderr, PROGRAM ": error: %s\n", fault.text);
        }
        fsync(file->fd); /* the file has failed already; keep what is on the disk */
    }
    if (close(file->fd) != 0 && !file->error) {
        set_error(file, "close");
    }
    file->fd = -1;
    if (!file->error && rename(file->part, file->path) != 0) {
        set_error(file, "rename");
    }
    file->state = !file->error ? FILE_WHOLE : file->kept_frames > 0 ? FILE_TRUNCATED : FILE_REMOVED;
    if (file->state == FILE_REMOVED) {
        unlink(file->part);
    }
    free(file->rest);
    file->rest = NULL;
}

static struct file *next_file(struct files *files, const struct file *file) {
    pthread_mutex_lock(&files->lock);
    struct file *next = file ? file->next : files->first;
    pthread_mutex_unlock(&files->lock);
    return next;
}

void files_finish_pending(struct files *files) {
    for (;;) {
        pthread_mutex_lock(&files->lock);
        struct file *file = files->handed;
        if (file) {
            files->handed = file->next_handed;
        }
        pthread_mutex_unlock(&files->lock);
        if (!file) {
            break;
        }
        if (files->abandon && file->fd >= 0) {
            unlink(file->part);
            close(file->fd);
            file->state = FILE_REMOVED;
        } else {
            file_finish(file);
        }
        files->failed |= file->error != 0;
    }
    for (struct file *file = next_file(files, NULL); file; file = next_file(files, file)) {
        if (file->state == FILE_OPEN && file->fd >= 0) {
            allocate_ahead(files, file);
        }
    }
}

void files_free(struct files *files) {
    for (struct file *file = files->first, *next; file; file = next) {
        next = file->next;
        free(file->path);
        free(file->part);
        free(file->rest);
        free(file);
    }
    files->first = files->last = NULL;
}
