#include "command/sink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER (4U << 20)
#define FLUSH (1U << 20)
#define WAIT_MS 1000

static int complain(struct fault *fault, const char *path, int error) {
    return fail(fault, "%.200s: %s%s", path, strerror(error), advice(error));
}

int p4_create(const char *part) {
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%s", part);
    unlink(part);
    const int fd = access("/proc/self/fd", X_OK) == 0
                       ? open(dirname(directory), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600)
                       : -1;
    return fd >= 0 ? fd : open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

int p4_publish(int fd, const char *part, const char *path) {
    char link[40];
    struct stat status;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fsync(fd) != 0 || fstat(fd, &status) != 0 ||
        (status.st_nlink == 0 && linkat(AT_FDCWD, link, AT_FDCWD, part, AT_SYMLINK_FOLLOW) != 0)) {
        return -1;
    }
    return rename(part, path);
}

/* NAME.part: complete files alone have their names. */
static char *part_of(const char *path) {
    char *part = NULL;
    return asprintf(&part, "%s.part", path) < 0 ? NULL : part;
}

static int open_interface(struct sink *sink, const char *name, struct fault *fault) {
    snprintf(sink->name, sizeof sink->name, "%s", name);
    const unsigned index = if_nametoindex(name);
    if (!index) {
        return fail(fault, "%.60s: there is no such interface; see ip link", name);
    }
    /* protocol 0: it sends, and receives nothing */
    sink->interface = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    const struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)index};
    if (sink->interface < 0 ||
        bind(sink->interface, (const struct sockaddr *)&address, sizeof address) != 0) {
        return fail(fault, "%.60s: %s%s", name, strerror(errno),
                    errno == EPERM ? "; raw sockets need CAP_NET_RAW" : "");
    }
    return 0;
}

static int open_file(struct sink *sink, const char *path, struct fault *fault) {
    static const struct file_facts facts = {.program = PROGRAM " " ACAPELLA_VERSION, .interface = "p4"};
    sink->path = strdup(path);
    sink->part = part_of(path);
    sink->buffer = malloc(BUFFER);
    if (!sink->path || !sink->part || !sink->buffer) {
        return fail(fault, "%.200s: out of memory", path);
    }
    sink->fd = p4_create(sink->part);
    if (sink->fd < 0) {
        return complain(fault, path, errno);
    }
    sink->size = sink->format->head(sink->buffer, &facts);
    return 0;
}

int p4_sink_open(struct sink *sink, const char *path, const struct format *format, const char *interface,
                 struct fault *fault) {
    *sink = (struct sink){.fd = -1, .interface = -1, .format = format};
    if ((path && open_file(sink, path, fault) != 0) ||
        (interface && open_interface(sink, interface, fault) != 0)) {
        struct fault ignored;
        p4_sink_close(sink, false, &ignored);
        return -1;
    }
    return 0;
}

static void write_all(struct sink *sink, const uint8_t *bytes, size_t size) {
    while (size && !sink->failed) {
        const ssize_t written = write(sink->fd, bytes, size);
        if (written < 0 && errno != EINTR) {
            sink->failed = true;
            complain(&sink->fault, sink->path, errno);
        } else if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        }
    }
}

void p4_sink_flush(struct sink *sink) {
    if (sink->fd >= 0 && sink->size >= FLUSH) {
        write_all(sink, sink->buffer, sink->size);
        sink->size = 0;
    }
}

static void put(struct sink *sink, const void *bytes, size_t size) {
    if (sink->size + size > BUFFER) {
        write_all(sink, sink->buffer, sink->size);
        sink->size = 0;
    }
    if (size > BUFFER) {
        write_all(sink, bytes, size);
    } else if (size) {
        memcpy(sink->buffer + sink->size, bytes, size);
        sink->size += size;
    }
}

static void put_record(struct sink *sink, const struct p4_verdict *verdict) {
    const struct frame frame = {
        .ts_ns = verdict->ts_ns,
        .wire_bytes = verdict->wire_bytes > verdict->length ? verdict->wire_bytes : verdict->length,
        .kept_bytes = verdict->length,
        .segment = {{(void *)(uintptr_t)verdict->bytes, verdict->length}},
        .segments = 1,
    };
    struct record record;
    sink->format->record(&record, &frame);
    put(sink, record.head, record.head_bytes);
    put(sink, verdict->bytes, verdict->length);
    put(sink, record.tail, record.tail_bytes);
    ++sink->frames;
}

/* A full queue is waited for, a second at most; what the interface refuses then is counted. */
static void send_frame(struct sink *sink, const struct p4_verdict *verdict) {
    struct pollfd ready = {sink->interface, POLLOUT, 0};
    for (int tries = 0; tries < 2; ++tries) {
        if (send(sink->interface, verdict->bytes, verdict->length, MSG_DONTWAIT) ==
            (ssize_t)verdict->length) {
            return;
        }
        if (errno == ENETDOWN || errno == ENXIO || errno == ENODEV) {
            sink->failed = true;
            fail(&sink->fault, "%.60s: %s; set it up: ip link set %.60s up", sink->name, strerror(errno),
                 sink->name);
            break;
        }
        if ((errno != EAGAIN && errno != ENOBUFS) || poll(&ready, 1, WAIT_MS) != 1) {
            break;
        }
    }
    ++sink->refused;
}

void p4_sink_put(struct sink *sink, const struct p4_verdict *verdict) {
    if (sink->failed) {
        return;
    }
    if (sink->fd >= 0) {
        put_record(sink, verdict);
    }
    if (sink->interface >= 0) {
        send_frame(sink, verdict);
    }
}

static int finish_file(struct sink *sink, struct fault *fault) {
    write_all(sink, sink->buffer, sink->size);
    sink->size = 0;
    if (sink->failed) {
        *fault = sink->fault;
        return -1;
    }
    return p4_publish(sink->fd, sink->part, sink->path) != 0 ? complain(fault, sink->path, errno) : 0;
}

int p4_sink_close(struct sink *sink, bool keep, struct fault *fault) {
    int status = sink->failed && keep ? -1 : 0;
    if (status != 0) {
        *fault = sink->fault;
    }
    if (sink->fd >= 0) {
        if (keep && status == 0) {
            status = finish_file(sink, fault);
        }
        close(sink->fd);
        if (!keep || status != 0) {
            unlink(sink->part);
        }
    }
    if (sink->interface >= 0) {
        close(sink->interface);
    }
    free(sink->path);
    free(sink->part);
    free(sink->buffer);
    sink->fd = sink->interface = -1;
    return status;
}

int p4_write_file(const char *path, int (*write)(FILE *to, const void *what), const void *what,
                  struct fault *fault) {
    char *part = part_of(path);
    const int fd = part ? p4_create(part) : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    int status = 0;
    if (!file) {
        status = complain(fault, path, part ? errno : ENOMEM);
    } else if (write(file, what) != 0 || fflush(file) != 0 || p4_publish(fd, part, path) != 0) {
        status = complain(fault, path, errno);
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
