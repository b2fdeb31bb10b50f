#include "control.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/files/json.h"

#define MILLION 1000000

static void print_error(const char *text) {
    fputs("{\"error\": ", stdout);
    json_text(stdout, text);
    puts("}");
}

static struct direction *find(struct link *link, const char *name) {
    for (unsigned i = 0; i < link->directions; ++i) {
        if (strcmp(link->direction[i].name, name) == 0) {
            return &link->direction[i];
        }
    }
    return NULL;
}

static void print_statistics(const struct link *link) {
    fputs("{\"links\": {", stdout);
    for (unsigned i = 0; i < link->directions; ++i) {
        const struct direction *direction = &link->direction[i];
        const struct counts *counts = &direction->counts;
        fputs(i ? ", " : "", stdout);
        json_text(stdout, direction->name);
        printf(": {\"received\": %" PRIu64 ", \"sent\": %" PRIu64 ", \"lost\": %" PRIu64
               ", \"reordered\": %" PRIu64 ", \"duplicated\": %" PRIu64 ", \"full\": %" PRIu64
               ", \"unsent\": %" PRIu64 ", \"queued\": %zu, \"largest\": %" PRIu64
               ", \"late_p50_ns\": %" PRId64 ", \"late_p99_ns\": %" PRId64 ", \"late_max_ns\": %" PRId64
               ", \"early_p99_ns\": %" PRId64 ", \"early_max_ns\": %" PRId64 "}",
               counts->received, counts->sent, counts->lost, counts->reordered, counts->duplicated,
               counts->full, counts->unsent, direction->queue.packets, counts->largest,
               direction_late_ns(direction, 500), direction_late_ns(direction, 990), direction->latest_ns,
               direction_early_ns(direction, 990), direction->earliest_ns);
    }
    printf("}, \"wake_ns\": %" PRId64 "}\n", link->wake_ns);
}

static void set(struct link *link, const char *line) {
    char name[IFNAMSIZ];
    int64_t delay_ns;
    uint32_t loss_ppm, reorder_ppm, duplicate_ppm = 0;
    uint64_t seed;
    int seed_end = 0, duplicate_end = 0;
    const int found =
        sscanf(line, "set %15s %" SCNd64 " %" SCNu32 " %" SCNu32 " %" SCNu64 "%n %" SCNu32 "%n", name,
               &delay_ns, &loss_ppm, &reorder_ppm, &seed, &seed_end, &duplicate_ppm, &duplicate_end);
    if (found < 5 || line[found == 5 ? seed_end : duplicate_end]) {
        print_error("set takes NAME DELAY_NS LOSS_PPM REORDER_PPM SEED [DUPLICATE_PPM]");
        return;
    }
    struct direction *direction = find(link, name);
    if (!direction) {
        print_error("no such device");
    } else if (delay_ns < 0 || delay_ns > DELAY_MAX_NS || loss_ppm > MILLION || reorder_ppm > MILLION ||
               duplicate_ppm > MILLION) {
        print_error("a value is out of range");
    } else {
        direction_set(direction, (struct settings){delay_ns, loss_ppm, reorder_ppm, duplicate_ppm}, seed);
        puts("{\"done\": \"set\"}");
    }
}

void control_execute(struct link *link, const char *line) {
    if (strncmp(line, "set ", 4) == 0) {
        set(link, line);
    } else if (strcmp(line, "statistics") == 0) {
        print_statistics(link);
    } else {
        print_error("unknown command; use set or statistics");
    }
    fflush(stdout);
}

int control_read(struct link *link, int fd, struct fault *fault) {
    const ssize_t bytes_read = read(fd, link->text + link->size, sizeof link->text - link->size);
    if (bytes_read < 0) {
        return errno == EINTR || errno == EAGAIN ? 0 : fail(fault, "standard input: %s", strerror(errno));
    }
    if (bytes_read == 0) {
        return 1;
    }
    link->size += (size_t)bytes_read;
    char *end;
    while ((end = memchr(link->text, '\n', link->size))) {
        *end = '\0';
        control_execute(link, link->text);
        const size_t used = (size_t)(end - link->text) + 1;
        memmove(link->text, end + 1, link->size - used);
        link->size -= used;
    }
    return link->size < sizeof link->text ? 0
                                          : fail(fault, "a command of more than %d bytes", COMMAND_MAX - 1);
}
