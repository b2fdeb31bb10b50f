/* Tests of the report of a run. */
#include <rte_eth_ring.h>
#include <string.h>
#include <time.h>

#include "common/check.h"
#include "report.h"
#include "sender.h"

#define QUEUE 64 /* a ring holds one packet fewer */
#define PACKETS 100

static struct sender sender;
static struct rte_ring *device_queue;
static unsigned sent_per_poll; /* by the device */
static bool draining;

/* Skips the waits while the queue drains. */
int nanosleep(const struct timespec *time, struct timespec *left) {
    return draining ? 0 : clock_nanosleep(CLOCK_REALTIME, 0, time, left);
}

static void test_reason_for_the_end_and_draining_are_both_reported(void) {
    static struct timebase time;
    static struct transmission transmission = {.time = &time};
    static const struct model model;
    static const char *const ends[] = {"complete", "stop", "clock_step", "link_down"};
    for (unsigned end = SENT_ALL; end <= SENDING_LINK_DOWN; ++end) {
        for (unsigned drained = 0; drained < 2; ++drained) {
            char text[1000] = "", expected[100];
            FILE *to = fmemopen(text, sizeof text - 1, "w");
            CHECK(to);
            transmission.end = (enum transmission_end)end;
            transmission.drained = drained;
            report_print(to, &model, 0, &transmission);
            CHECK(fclose(to) == 0);
            snprintf(expected, sizeof expected, "\"ended\": \"%s\", \"drained\": %s}", ends[end - SENT_ALL],
                     drained ? "true" : "false");
            CHECK(strstr(text, expected));
        }
    }
}

static int fake_descriptor_status(void *queue, uint16_t latest) {
    void *mbuf = NULL;
    (void)queue;
    CHECK(latest + 1 == sender.ports.port[0].tx_depth);
    draining = true;
    for (unsigned i = 0; i < sent_per_poll && rte_ring_dequeue(device_queue, &mbuf) == 0; ++i) {
        rte_pktmbuf_free(mbuf);
    }
    return rte_ring_empty(device_queue) ? RTE_ETH_TX_DESC_DONE : RTE_ETH_TX_DESC_FULL;
}

static void read_model(struct model *model) {
    struct fault fault = {""};
    char path[64];
    FILE *file = tmpfile();
    CHECK(file);
    fprintf(file,
            "acapella-model 1\nport 0\nflows 1\n"
            "flow %d 0 0 0 zeros 0 02000000000202000000000188b5\ngap constant 10 0 1\nsize constant 60 1\n",
            PACKETS);
    CHECK(fflush(file) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    CHECK(model_read(model, path, &fault) == 0);
    fclose(file);
}

/* Sends more packets than the queue of the device has room for; the device sends `per_poll` of them each time
 * that its queue is polled. Checks the report. */
static void check_full_queue(const char *device, unsigned per_poll, const char *expected) {
    struct model model = {0};
    struct fault fault = {""};
    char port[32], text[1000] = "";
    const unsigned flags = RING_F_SP_ENQ | RING_F_SC_DEQ;
    const struct arguments arguments = {.port = port, .burst = 32, .depth = QUEUE, .retry_ns = 1000};
    snprintf(port, sizeof port, "net_ring_%s", device);
    device_queue = rte_ring_create(device, QUEUE, SOCKET_ID_ANY, flags);
    CHECK(device_queue &&
          rte_eth_from_rings(device, &device_queue, 1, &device_queue, 1, rte_socket_id()) >= 0);
    read_model(&model);
    memset(&sender, 0, sizeof sender);
    CHECK(sender_open(&sender, &model, &arguments, &fault) == 0);
    rte_eth_fp_ops[sender.ports.port[0].id].tx_descriptor_status = fake_descriptor_status;
    sent_per_poll = per_poll;
    draining = false;
    CHECK(sender_run(&sender, &fault) == 0);
    CHECK(draining);
    FILE *to = fmemopen(text, sizeof text - 1, "w");
    CHECK(to);
    report_print(to, &model, sender.start_ns, &sender.transmission);
    CHECK(fclose(to) == 0);
    CHECK(strstr(text, "\"packets\": 63, \"bytes\": 3780, \"dropped\": 37, "));
    CHECK(strstr(text, expected));
    CHECK(rte_ring_count(device_queue) == (per_poll ? 0U : QUEUE - 1U));
    sent_per_poll = QUEUE;
    fake_descriptor_status(NULL, sender.ports.port[0].tx_depth - 1); /* frees the remaining packets */
    sender_close(&sender);
    model_free(&model);
    rte_ring_free(device_queue);
}

static void test_packets_in_a_full_queue_are_reported(void) {
    const struct eal_settings settings = {.program = PROGRAM, .memory_mb = 256, .threads = 1};
    struct fault fault = {""};
    CHECK(eal_start_threads(&settings, &fault) == 0);
    flow_begin_patterns();
    check_full_queue("stuck", 0, "\"ended\": \"complete\", \"drained\": false}");
    check_full_queue("slow", 5, "\"ended\": \"complete\", \"drained\": true}");
}

int main(void) {
    test_reason_for_the_end_and_draining_are_both_reported();
    test_packets_in_a_full_queue_are_reported();
    return 0;
}
