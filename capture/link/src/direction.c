#include "direction.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64 /* maximum number of packets that are read before due packets are sent */
#define MILLION 1000000
#define MICROSECOND 1000
#define DEVICE "/dev/net/tun"

int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t wake_update(int64_t median_ns, int64_t sample_ns) {
    if (sample_ns > median_ns) {
        return median_ns < WAKE_MAX_NS ? median_ns + WAKE_STEP_NS : median_ns;
    }
    return median_ns > WAKE_STEP_NS ? median_ns - WAKE_STEP_NS : 0;
}

/* SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t next_random(uint64_t *state) {
    uint64_t mixed = *state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
}

/* Returns true with a probability of `ppm` parts per million. */
static bool is_selected(struct direction *direction, uint32_t ppm) {
    return ppm && (next_random(&direction->random) >> 32) * MILLION >> 32 < ppm;
}

static int enter_namespace(const char *path, struct fault *fault) {
    const int namespace = open(path, O_RDONLY | O_CLOEXEC);
    if (namespace < 0) {
        return fail(fault, "%s: %s", path, strerror(errno));
    }
    const int status = setns(namespace, CLONE_NEWNET);
    const int error = errno;
    close(namespace);
    return status == 0 ? 0 : fail(fault, "%s: not entered: %s", path, strerror(error));
}

static int open_tun(const char *name, struct fault *fault) {
    const int fd = open(DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return fail(fault, "%s: %s", DEVICE, strerror(errno));
    }
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(fd, TUNSETIFF, &request) != 0) {
        fail(fault, "device %s: %s", name, strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

int direction_open(struct direction *direction, const char *argument, size_t memory, struct fault *fault) {
    const char *equals = strchr(argument, '=');
    const size_t length = equals ? (size_t)(equals - argument) : 0;
    if (length == 0 || length >= sizeof direction->name) {
        return fail(fault, "'%s' is not NAME=FILE, with a device of at most %zu characters", argument,
                    sizeof direction->name - 1);
    }
    *direction = (struct direction){.fd = -1};
    memcpy(direction->name, argument, length);
    if (enter_namespace(equals + 1, fault) != 0) {
        return -1;
    }
    direction->fd = open_tun(direction->name, fault);
    if (direction->fd < 0) {
        return -1;
    }
    return queue_open(&direction->queue, memory) == 0 ? 0 : fail(fault, "%s", strerror(ENOMEM));
}

void direction_close(struct direction *direction) {
    if (direction->fd >= 0) {
        close(direction->fd);
    }
    queue_close(&direction->queue);
}

void direction_set(struct direction *direction, struct settings settings, uint64_t seed) {
    direction->settings = settings;
    direction->random = seed;
    memset(direction->late, 0, sizeof direction->late);
    memset(direction->early, 0, sizeof direction->early);
    direction->latest_ns = direction->earliest_ns = 0;
}

static void send_packet(struct direction *direction, const uint8_t *bytes, size_t length) {
    if (write(direction->fd, bytes, length) == (ssize_t)length) {
        direction->counts.sent++;
    } else {
        direction->counts.unsent++;
    }
}

/* Sends a packet, or queues it. */
static void send_or_queue(struct direction *direction, int64_t now_ns, const uint8_t *bytes, size_t length,
                          bool at_once) {
    if (at_once) {
        send_packet(direction, bytes, length);
        return;
    }
    /* A packet that arrived earlier with a longer delay stays ahead. */
    int64_t due_ns = now_ns + direction->settings.delay_ns;
    if (direction->queue.packets && due_ns < direction->last_due_ns) {
        due_ns = direction->last_due_ns;
    }
    if (!queue_push(&direction->queue, due_ns, bytes, length)) {
        direction->counts.full++;
        return;
    }
    direction->last_due_ns = due_ns;
    if (direction->queue.packets > direction->counts.largest) {
        direction->counts.largest = direction->queue.packets;
    }
}

void direction_take(struct direction *direction, int64_t now_ns, const uint8_t *bytes, size_t length) {
    const struct settings *settings = &direction->settings;
    direction->counts.received++;
    if (is_selected(direction, settings->loss_ppm)) {
        direction->counts.lost++;
        return;
    }
    const unsigned copies = is_selected(direction, settings->duplicate_ppm) ? 2 : 1;
    direction->counts.duplicated += copies - 1;
    bool at_once = settings->delay_ns == 0 && direction->queue.packets == 0;
    if (!at_once && is_selected(direction, settings->reorder_ppm)) {
        direction->counts.reordered += copies;
        at_once = true;
    }
    for (unsigned i = 0; i < copies; ++i) {
        send_or_queue(direction, now_ns, bytes, length, at_once);
    }
}

int direction_read(struct direction *direction, struct fault *fault) {
    static uint8_t packet[PACKET_MAX];
    for (unsigned i = 0; i < BATCH; ++i) {
        const ssize_t bytes_read = read(direction->fd, packet, sizeof packet);
        if (bytes_read < 0 && (errno == EAGAIN || errno == EINTR)) {
            return 0;
        }
        if (bytes_read < 0) {
            return fail(fault, "device %s: %s", direction->name, strerror(errno));
        }
        direction_take(direction, monotonic_ns(), packet, (size_t)bytes_read);
    }
    return 0;
}

/* Adds an error to a histogram. */
static void count_error(uint64_t *buckets, int64_t size, int64_t error_ns, int64_t *largest_ns) {
    const int64_t bucket = error_ns / MICROSECOND;
    buckets[bucket < size ? bucket : size - 1]++;
    if (error_ns > *largest_ns) {
        *largest_ns = error_ns;
    }
}

/* Each packet is counted in both histograms, in at least one of them with an error of 0. */
static void note_error(struct direction *direction, int64_t late_ns) {
    count_error(direction->late, LATE_BUCKETS, late_ns > 0 ? late_ns : 0, &direction->latest_ns);
    count_error(direction->early, EARLY_BUCKETS, late_ns < 0 ? -late_ns : 0, &direction->earliest_ns);
}

int64_t direction_send_due(struct direction *direction, int64_t early_ns) {
    int64_t due_ns;
    size_t length;
    const uint8_t *bytes;
    const int64_t share_ns = direction->settings.delay_ns / EARLY_SHARE;
    early_ns = early_ns < share_ns ? early_ns : share_ns;
    while ((bytes = queue_first(&direction->queue, &due_ns, &length))) {
        const int64_t now_ns = monotonic_ns();
        if (due_ns - early_ns > now_ns) {
            return due_ns - early_ns;
        }
        send_packet(direction, bytes, length);
        queue_pop(&direction->queue);
        note_error(direction, now_ns - due_ns);
    }
    return INT64_MAX;
}

static int64_t quantile(const uint64_t *buckets, int64_t size, int64_t largest_ns, unsigned per_mille) {
    uint64_t all = 0, seen = 0;
    for (int64_t i = 0; i < size; ++i) {
        all += buckets[i];
    }
    for (int64_t i = 0; i < size; ++i) {
        seen += buckets[i];
        if (seen && seen * 1000 >= all * per_mille) {
            const int64_t end_ns = (i + 1) * MICROSECOND;
            return end_ns < largest_ns ? end_ns : largest_ns;
        }
    }
    return 0;
}

int64_t direction_late_ns(const struct direction *direction, unsigned per_mille) {
    return quantile(direction->late, LATE_BUCKETS, direction->latest_ns, per_mille);
}

int64_t direction_early_ns(const struct direction *direction, unsigned per_mille) {
    return quantile(direction->early, EARLY_BUCKETS, direction->earliest_ns, per_mille);
}
