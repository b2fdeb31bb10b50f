/* Tests of the queue, and of the decisions about a packet. */
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/check.h"
#include "control.h"

static uint8_t packet[PACKET_MAX];

static void test_queue_keeps_order_and_bytes_when_it_wraps(void) {
    struct queue queue;
    CHECK(queue_open(&queue, 1000) == 0);
    unsigned pushed = 0, popped = 0;
    for (unsigned round = 0; round < 2000; ++round) {
        const size_t length = 1 + round % 97;
        memset(packet, (int)(pushed % 251), length);
        if (queue_push(&queue, pushed, packet, length)) {
            pushed++;
        }
        if (round % 3) {
            int64_t due_ns;
            size_t found;
            const uint8_t *bytes = queue_first(&queue, &due_ns, &found);
            CHECK(bytes && due_ns == popped && bytes[0] == popped % 251 && bytes[found - 1] == popped % 251);
            queue_pop(&queue);
            popped++;
        }
    }
    CHECK(pushed - popped == queue.packets && popped > 1000);
    queue_close(&queue);
}

static void test_full_queue_rejects_a_packet_and_accepts_it_later(void) {
    struct queue queue;
    CHECK(queue_open(&queue, 320) == 0);
    CHECK(queue_push(&queue, 1, packet, 144) && queue_push(&queue, 2, packet, 144));
    CHECK(!queue_push(&queue, 3, packet, 144));
    queue_pop(&queue);
    CHECK(queue_push(&queue, 3, packet, 144) && !queue_push(&queue, 4, packet, 1));
    int64_t due_ns;
    size_t length;
    for (int64_t expected = 2; expected <= 3; ++expected) {
        CHECK(queue_first(&queue, &due_ns, &length) && due_ns == expected && length == 144);
        queue_pop(&queue);
    }
    CHECK(!queue_first(&queue, &due_ns, &length));
    queue_close(&queue);
}

/* The kernel provides a page at its first use, which would delay a packet. */
static void test_queue_uses_its_memory_before_the_first_packet(void) {
    const size_t memory = 16 << 20, pages = memory / (size_t)sysconf(_SC_PAGESIZE);
    struct queue queue;
    mallopt(M_PERTURB, 0); /* meson sets MALLOC_PERTURB_, which makes malloc write to the memory */
    CHECK(queue_open(&queue, memory) == 0);
    struct rusage before, after;
    CHECK(getrusage(RUSAGE_SELF, &before) == 0);
    while (queue_push(&queue, 1, packet, 1000)) {
    }
    CHECK(getrusage(RUSAGE_SELF, &after) == 0);
    CHECK(queue.packets > pages && (size_t)(after.ru_minflt - before.ru_minflt) < pages / 16);
    queue_close(&queue);
}

/* Opens a direction that writes to a file in memory: a pipe holds only a page if the user has many pipes. */
static void open_direction(struct direction *direction, size_t memory) {
    *direction = (struct direction){.name = "test", .fd = memfd_create("test", MFD_CLOEXEC)};
    CHECK(direction->fd >= 0 && queue_open(&direction->queue, memory) == 0);
}

static void test_packets_leave_when_they_are_due(void) {
    static struct direction direction;
    open_direction(&direction, 10000);
    direction_set(&direction, (struct settings){.delay_ns = 3600000000000}, 1);
    const int64_t now = monotonic_ns();
    direction_take(&direction, now, packet, 60);
    CHECK(direction_send_due(&direction, 0) == now + 3600000000000 && direction.counts.sent == 0);
    /* a packet with a shorter delay does not overtake */
    direction_set(&direction, (struct settings){.delay_ns = 0}, 1);
    direction_take(&direction, now + 1, packet, 61);
    CHECK(direction.counts.sent == 0 && direction.queue.packets == 2);
    queue_pop(&direction.queue);
    int64_t due_ns;
    size_t length;
    CHECK(queue_first(&direction.queue, &due_ns, &length) && due_ns == now + 3600000000000 && length == 61);
    queue_pop(&direction.queue);
    direction_take(&direction, now - 5000, packet, 62); /* without delay and queue: immediately */
    CHECK(direction.counts.sent == 1 && pread(direction.fd, packet, sizeof packet, 0) == 62);
    direction_close(&direction);
}

static void test_packets_leave_early_by_the_given_time_and_no_more(void) {
    static struct direction direction;
    open_direction(&direction, 10000);
    direction_set(&direction, (struct settings){.delay_ns = 3600000000000}, 1);
    const int64_t due_ns = monotonic_ns() + 3600000000000;
    direction_take(&direction, due_ns - 3600000000000, packet, 60);
    direction_take(&direction, due_ns - 3600000000000 + 3600000000, packet, 61);
    CHECK(direction_send_due(&direction, 1000) == due_ns - 1000 && direction.counts.sent == 0);
    /* at most a tenth of the delay */
    CHECK(direction_send_due(&direction, 3600000000000) == due_ns - 360000000000);
    CHECK(direction.counts.sent == 0 && direction.queue.packets == 2);
    direction_close(&direction);
}

static void test_early_packets_are_in_their_own_percentile(void) {
    static struct direction direction;
    open_direction(&direction, 10000);
    const int64_t delay_ns = 1000000000000, ahead_ns = delay_ns / 20;
    direction_set(&direction, (struct settings){.delay_ns = delay_ns}, 1);
    direction_take(&direction, monotonic_ns() - delay_ns + ahead_ns, packet, 60); /* due in 50 s */
    direction_send_due(&direction, 2 * ahead_ns);
    CHECK(direction.counts.sent == 1 && direction.earliest_ns > 0 && direction.earliest_ns <= ahead_ns);
    CHECK(direction_early_ns(&direction, 990) == EARLY_BUCKETS * 1000);
    CHECK(direction.latest_ns == 0 && direction_late_ns(&direction, 990) == 0);
    direction_set(&direction, (struct settings){.delay_ns = delay_ns}, 1);
    CHECK(direction.earliest_ns == 0 && direction_early_ns(&direction, 990) == 0);
    direction_close(&direction);
}

/* Samples of 8 us, 12 us and, rarely, 5 ms: a median ignores the size of the largest ones. */
static void test_estimate_of_the_wake_up_time_approaches_the_median(void) {
    int64_t wake_ns = 0;
    for (unsigned i = 0; i < 3000; ++i) {
        wake_ns = wake_update(wake_ns, i % 20 == 0 ? 5000000 : i % 3 == 0 ? 12000 : 8000);
    }
    CHECK(wake_ns > 7500 && wake_ns < 8500);
    for (unsigned i = 0; i < 3000; ++i) {
        wake_ns = wake_update(wake_ns, 5000000);
    }
    CHECK(wake_ns == WAKE_MAX_NS);
    for (unsigned i = 0; i < 3000; ++i) {
        wake_ns = wake_update(wake_ns, 0);
    }
    CHECK(wake_ns == 0);
}

static void test_every_packet_is_counted_once(void) {
    static struct direction direction;
    open_direction(&direction, 4000);
    direction_set(&direction, (struct settings){1000000000000, 250000, 100000, 0}, 7);
    for (unsigned i = 0; i < 1000; ++i) {
        direction_take(&direction, monotonic_ns(), packet, 20);
    }
    const struct counts *counts = &direction.counts;
    CHECK(counts->received == 1000 && counts->sent == counts->reordered && counts->unsent == 0);
    CHECK(counts->lost + counts->reordered + counts->full + direction.queue.packets == 1000);
    CHECK(counts->lost > 200 && counts->lost < 300 && counts->reordered > 45 && counts->reordered < 110);
    CHECK(counts->full > 0 && counts->largest == direction.queue.packets);
    direction_close(&direction);
}

static void test_the_same_seed_loses_the_same_packets(void) {
    static struct direction direction;
    uint64_t lost[2][100];
    for (unsigned run = 0; run < 2; ++run) {
        open_direction(&direction, 10000);
        direction_set(&direction, (struct settings){1000000000000, 500000, 0, 0}, 42);
        for (unsigned i = 0; i < 100; ++i) {
            direction_take(&direction, 0, packet, 20);
            lost[run][i] = direction.counts.lost;
        }
        direction_close(&direction);
    }
    CHECK(memcmp(lost[0], lost[1], sizeof lost[0]) == 0);
}

static void test_copies_follow_their_packets(void) {
    static struct direction direction;
    open_direction(&direction, 1000000);
    direction_set(&direction, (struct settings){1000000000000, 200000, 100000, 300000}, 7);
    for (unsigned i = 0; i < 1000; ++i) {
        direction_take(&direction, 0, packet, 20 + i);
    }
    const struct counts *counts = &direction.counts;
    CHECK(counts->duplicated > 200 && counts->duplicated < 280);
    CHECK(1000 + counts->duplicated == counts->lost + counts->sent + direction.queue.packets);
    CHECK(counts->sent == counts->reordered && counts->full == 0);
    uint64_t pairs = 0;
    int64_t due_ns;
    for (size_t length, latest = 0; queue_first(&direction.queue, &due_ns, &length); latest = length) {
        CHECK(length >= latest);
        pairs += length == latest;
        queue_pop(&direction.queue);
    }
    CHECK(pairs > 150 && pairs <= counts->duplicated); /* the others left immediately */
    direction_close(&direction);
}

static void test_late_packets_are_in_the_percentile(void) {
    static struct direction direction;
    open_direction(&direction, 1000000);
    const int64_t delay_ns = 1000000000000, ahead_ns = delay_ns / 20;
    direction_set(&direction, (struct settings){.delay_ns = delay_ns}, 1);
    const int64_t now = monotonic_ns() - delay_ns;
    for (unsigned i = 0; i < 100; ++i) { /* two of them are due a second ago, the others in 50 s */
        direction_take(&direction, i < 2 ? now - 1000000000 : now + ahead_ns, packet, 20);
        direction_send_due(&direction, 2 * ahead_ns);
    }
    CHECK(direction.counts.sent == 100 && direction.latest_ns >= 1000000000);
    CHECK(direction_late_ns(&direction, 980) == 1000); /* the end of the first bucket */
    CHECK(direction_late_ns(&direction, 990) == LATE_BUCKETS * 1000LL);
    direction_close(&direction);
}

static void test_commands_set_values_or_change_nothing(void) {
    static struct link link;
    link.directions = 1;
    snprintf(link.direction[0].name, sizeof link.direction[0].name, "%s", "a");
    control_execute(&link, "set a 60000000 1 2 3");
    const struct settings *settings = &link.direction[0].settings;
    CHECK(settings->delay_ns == 60000000 && settings->loss_ppm == 1 && settings->reorder_ppm == 2);
    CHECK(settings->duplicate_ppm == 0);
    control_execute(&link, "set a 60000000 1 2 3 4");
    CHECK(settings->delay_ns == 60000000 && settings->duplicate_ppm == 4 && link.direction[0].random == 3);
    static const char *const invalid[] = {
        "set b 1 0 0 0",
        "set a -1 0 0 0",
        "set a 1 1000001 0 0",
        "set a 1 0 0",
        "set a 1 0 0 0 0 0",
        "set a 1 0 0 0 1000001",
        "set a 1 0 0 0 x",
        "set a 99999999999999 0 0 0",
        "set",
        "",
        "sett a 1 0 0 0",
    };
    for (unsigned i = 0; i < sizeof invalid / sizeof *invalid; ++i) {
        control_execute(&link, invalid[i]);
        CHECK(settings->delay_ns == 60000000 && settings->loss_ppm == 1 && settings->reorder_ppm == 2 &&
              settings->duplicate_ppm == 4);
    }
}

int main(void) {
    test_queue_keeps_order_and_bytes_when_it_wraps();
    test_full_queue_rejects_a_packet_and_accepts_it_later();
    test_queue_uses_its_memory_before_the_first_packet();
    test_packets_leave_when_they_are_due();
    test_packets_leave_early_by_the_given_time_and_no_more();
    test_early_packets_are_in_their_own_percentile();
    test_estimate_of_the_wake_up_time_approaches_the_median();
    test_every_packet_is_counted_once();
    test_the_same_seed_loses_the_same_packets();
    test_copies_follow_their_packets();
    test_late_packets_are_in_the_percentile();
    test_commands_set_values_or_change_nothing();
    return 0;
}
