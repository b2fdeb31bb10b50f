#include "command/output.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER (4U << 20)
#define FLUSH (1U << 20)
#define WAIT_MS 1000

static int write_fault(struct fault *fault, const char *path, int error) {
    return fail(fault, "%.200s: %s%s", path, strerror(error), write_advice(error));
}

static int open_interface(struct output *output, const char *name, struct fault *fault) {
    snprintf(output->name, sizeof output->name, "%s", name);
    const unsigned index = if_nametoindex(name);
    if (!index) {
        return fail(fault, "%.60s: no such interface; see ip link", name);
    }
    /* protocol 0: send only */
    output->interface = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    const struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)index};
    if (output->interface < 0 ||
        bind(output->interface, (const struct sockaddr *)&address, sizeof address) != 0) {
        return fail(fault, "%.60s: %s%s", name, strerror(errno),
                    errno == EPERM ? "; raw sockets need CAP_NET_RAW" : "");
    }
    return 0;
}

static int open_file(struct output *output, const char *path, struct fault *fault) {
    static const struct file_info info = {.program = PROGRAM " " ACAPELLA_VERSION, .interface = "p4"};
    output->path = strdup(path);
    output->part = publish_part_name(path);
    output->buffer = malloc(BUFFER);
    if (!output->path || !output->part || !output->buffer) {
        return fail(fault, "%.200s: out of memory", path);
    }
    output->fd = publish_create(output->part);
    if (output->fd < 0) {
        return write_fault(fault, path, errno);
    }
    output->size = output->format->head(output->buffer, &info);
    return 0;
}

int p4_output_open(struct output *output, const char *path, const struct format *format,
                   const char *interface, struct fault *fault) {
    *output = (struct output){.fd = -1, .interface = -1, .format = format};
    if ((path && open_file(output, path, fault) != 0) ||
        (interface && open_interface(output, interface, fault) != 0)) {
        struct fault ignored;
        p4_output_close(output, false, &ignored);
        return -1;
    }
    return 0;
}

static void write_all(struct output *output, const uint8_t *bytes, size_t size) {
    while (size && !output->failed) {
        const ssize_t written = write(output->fd, bytes, size);
        if (written < 0 && errno != EINTR) {
            output->failed = true;
            write_fault(&output->fault, output->path, errno);
        } else if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        }
    }
}

void p4_output_flush(struct output *output) {
    if (output->fd >= 0 && output->size >= FLUSH) {
        write_all(output, output->buffer, output->size);
        output->size = 0;
    }
}

static void put(struct output *output, const void *bytes, size_t size) {
    if (output->size + size > BUFFER) {
        write_all(output, output->buffer, output->size);
        output->size = 0;
    }
    if (size > BUFFER) {
        write_all(output, bytes, size);
    } else if (size) {
        memcpy(output->buffer + output->size, bytes, size);
        output->size += size;
    }
}

static void put_record(struct output *output, const struct p4_verdict *verdict) {
    const struct frame frame = {
        .ts_ns = verdict->ts_ns,
        .wire_bytes = verdict->wire_bytes > verdict->length ? verdict->wire_bytes : verdict->length,
        .kept_bytes = verdict->length,
        .segment = {{(void *)(uintptr_t)verdict->bytes, verdict->length}},
        .segments = 1,
    };
    struct record record;
    output->format->record(&record, &frame);
    put(output, record.head, record.head_bytes);
    put(output, verdict->bytes, verdict->length);
    put(output, record.tail, record.tail_bytes);
    ++output->frames;
}

/* Waits up to a second if the queue of the interface is full, and tries again. Counts a frame that was not
 * sent as refused. */
static void send_frame(struct output *output, const struct p4_verdict *verdict) {
    struct pollfd ready = {output->interface, POLLOUT, 0};
    for (int tries = 0; tries < 2; ++tries) {
        if (send(output->interface, verdict->bytes, verdict->length, MSG_DONTWAIT) ==
            (ssize_t)verdict->length) {
            return;
        }
        if (errno == ENETDOWN || errno == ENXIO || errno == ENODEV) {
            output->failed = true;
            fail(&output->fault, "%.60s: %s; bring it up: ip link set %.60s up", output->name,
                 strerror(errno), output->name);
            break;
        }
        if ((errno != EAGAIN && errno != ENOBUFS) || poll(&ready, 1, WAIT_MS) != 1) {
            break;
        }
    }
    ++output->refused;
}

void p4_output_put(struct output *output, const struct p4_verdict *verdict) {
    if (output->failed) {
        return;
    }
    if (output->fd >= 0) {
        put_record(output, verdict);
    }
    if (output->interface >= 0) {
        send_frame(output, verdict);
    }
}

static int finish_file(struct output *output, struct fault *fault) {
    write_all(output, output->buffer, output->size);
    output->size = 0;
    if (output->failed) {
        *fault = output->fault;
        return -1;
    }
    return publish(output->fd, output->part, output->path) != 0 ? write_fault(fault, output->path, errno) : 0;
}

int p4_output_close(struct output *output, bool keep, struct fault *fault) {
    int status = output->failed && keep ? -1 : 0;
    if (status != 0) {
        *fault = output->fault;
    }
    if (output->fd >= 0) {
        if (keep && status == 0) {
            status = finish_file(output, fault);
        }
        close(output->fd);
        if (!keep || status != 0) {
            unlink(output->part);
        }
    }
    if (output->interface >= 0) {
        close(output->interface);
    }
    free(output->path);
    free(output->part);
    free(output->buffer);
    output->fd = output->interface = -1;
    return status;
}
