/* The thread of a queue: receives a burst, adds timestamps, runs the P4 program, filters, samples, truncates,
 * and passes frames to the output. */
#include <rte_net_crc.h>
#include <sys/prctl.h>
#include <time.h>

#include "capture.h"
#include "port/filter.h"

#define SPINS 256      /* empty bursts before the thread sleeps */
#define SLEEP_NS 20000 /* at 5 million frames per second, 100 descriptors */
#define TIMER_SLACK_NS 1000

static uint64_t read_clock(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Sets the segments of the frame to its first kept_bytes. Returns false if they do not fit into a record. */
static bool set_segments(struct frame *frame, const struct rte_mbuf *mbuf) {
    uint32_t remaining = frame->kept_bytes;
    frame->segments = 0;
    for (; mbuf && remaining > 0; mbuf = mbuf->next) {
        if (frame->segments == FRAME_SEGMENTS) {
            return false;
        }
        const uint32_t size = remaining < mbuf->data_len ? remaining : mbuf->data_len;
        frame->segment[frame->segments++] = (struct iovec){rte_pktmbuf_mtod(mbuf, void *), size};
        remaining -= size;
    }
    return remaining == 0;
}

/* Returns the number by which a frame is sampled: its CRC32, or the number of earlier frames that passed the
 * filter. */
static uint64_t sampling_number(const struct options *options, const struct counts *counts,
                                const uint8_t *bytes, uint32_t have) {
    if (options->sample_by_hash) {
        return rte_net_crc_calc(bytes, have, RTE_NET_CRC32_ETH);
    }
    return counts->put + counts->sampled_out + counts->dropped_full + counts->dropped_failed +
           counts->dropped_shape;
}

/* Filters, samples, truncates and writes a frame. `bytes` are its first `have` bytes. If `segments` is not
 * NULL, the bytes of this mbuf chain are written instead. Every return path counts the frame once. */
static void process_frame(struct worker *worker, struct frame *frame, const uint8_t *bytes, uint32_t have,
                          const struct rte_mbuf *segments) {
    struct capture *capture = worker->capture;
    const struct options *options = &capture->options;
    struct counts *counts = &worker->counts;
    frame->kept_bytes = options->snaplen && options->snaplen < have ? options->snaplen : have;
    frame->queue = worker->queue;
    if (capture->filters && !filter_passes(&capture->filter, bytes, frame->wire_bytes, have)) {
        add_count(&counts->filtered, 1);
        return;
    }
    if (options->sample > 1 && sampling_number(options, counts, bytes, have) % options->sample != 0) {
        add_count(&counts->sampled_out, 1);
        return;
    }
    frame->hashed = options->hash;
    if (frame->hashed) {
        frame->crc32 = rte_net_crc_calc(bytes, have, RTE_NET_CRC32_ETH);
    }
    if (segments && !set_segments(frame, segments)) {
        add_count(&counts->dropped_shape, 1);
        return;
    }
    if (!segments) {
        frame->segment[0] = (struct iovec){(void *)(uintptr_t)bytes, frame->kept_bytes};
        frame->segments = 1;
    }
    switch (output_put(worker->output, frame, &worker->fault)) {
        case PUT_DONE:
            add_count(&counts->put, 1);
            add_count(&counts->truncated, frame->kept_bytes < frame->wire_bytes);
            break;
        case PUT_FULL:
            add_count(&counts->dropped_full, 1);
            break;
        case PUT_FAILED:
            add_count(&counts->dropped_failed, 1);
            worker->failed = true;
    }
}

void worker_preprocessed(void *user, const struct p4_verdict *verdict) {
    struct worker *worker = user;
    const bool added = verdict->probe || verdict->clone;
    add_count(&worker->counts.added, added);
    worker->returned += !added;
    if (verdict->outcome != P4_SENT) {
        add_count(&worker->counts.preprocessed, 1);
        return;
    }
    struct frame frame = {
        .ts_ns = verdict->ts_ns,
        .wire_bytes = verdict->wire_bytes,
        .numbered = true,
        .number = verdict->sequence,
    };
    process_frame(worker, &frame, verdict->bytes, verdict->length, NULL);
}

/* Runs the P4 program on the batch. */
static void preprocess(struct worker *worker) {
    worker->returned = 0;
    if (worker->batched && p4_process(worker->p4, worker->batch, worker->batched, &worker->fault) != 0) {
        add_count(&worker->counts.dropped_failed, worker->batched - worker->returned);
        worker->failed = true;
    }
    worker->batched = 0;
}

/* The batch is processed before and after a frame with several segments, because there is only one buffer to
 * join segments. */
static void add_to_batch(struct worker *worker, const struct frame *frame, struct rte_mbuf *mbuf) {
    if (mbuf->nb_segs > 1) {
        preprocess(worker);
    }
    worker->batch[worker->batched++] = (struct p4_frame){
        .ts_ns = frame->ts_ns,
        .wire_bytes = frame->wire_bytes,
        .kept_bytes = frame->wire_bytes,
        .bytes = rte_pktmbuf_read(mbuf, 0, frame->wire_bytes, worker->joined),
    };
    if (mbuf->nb_segs > 1) {
        preprocess(worker);
    }
}

static void process_mbuf(struct worker *worker, struct rte_mbuf *mbuf) {
    struct capture *capture = worker->capture;
    const struct options *options = &capture->options;
    struct counts *counts = &worker->counts;
    const uint32_t wire = mbuf->pkt_len;
    const uint8_t *bytes = rte_pktmbuf_mtod(mbuf, const uint8_t *);
    bool unstamped = false;
    struct frame frame = {.ts_ns = receive_port_stamp(&capture->port, mbuf, &unstamped), .wire_bytes = wire};
    add_count(&counts->received_bytes, wire);
    add_count(&worker->unstamped, unstamped);
    if (counts->first_ns == 0) {
        counts->first_ns = frame.ts_ns;
    }
    counts->last_ns = frame.ts_ns;
    if (worker->p4) {
        add_to_batch(worker, &frame, mbuf);
        return;
    }
    if (mbuf->nb_segs > 1 && (capture->filters || options->hash || options->sample_by_hash)) {
        bytes = rte_pktmbuf_read(mbuf, 0, wire, worker->joined);
    }
    process_frame(worker, &frame, bytes, wire, mbuf);
}

/* Updates the idle time, from the first to the last of consecutive polls without a frame. The time in which
 * the thread waits for the disk or for a CPU counts only if the next poll returns no frame. */
static void update_idle_time(struct worker *worker, bool empty, uint64_t polled_ns) {
    if (!empty) {
        worker->empty_since = 0;
    } else if (worker->empty_since == 0) {
        worker->empty_since = read_clock(CLOCK_MONOTONIC);
    }
    const uint64_t since = worker->empty_since;
    atomic_store_explicit(&worker->idle_ns, since && polled_ns > since ? polled_ns - since : 0,
                          memory_order_relaxed);
}

/* Receives and processes a burst of at most `max_frames` frames. Returns the number of frames. */
static unsigned receive_burst(struct worker *worker, uint64_t max_frames) {
    struct rte_mbuf *mbuf[BURST_MAX];
    const struct options *options = &worker->capture->options;
    const uint16_t limit = (uint16_t)(max_frames < options->burst ? max_frames : options->burst);
    /* read before the poll, so that the idle time is a lower bound */
    const uint64_t polled_ns = options->idle_s > 0 ? read_clock(CLOCK_MONOTONIC) : 0;
    const uint16_t received =
        rte_eth_rx_burst(worker->capture->port.id, (uint16_t)worker->queue, mbuf, limit);
    add_count(&worker->counts.received, received);
    for (uint16_t i = 0; i < received; ++i) {
        process_mbuf(worker, mbuf[i]);
    }
    preprocess(worker);
    if (options->idle_s > 0) {
        update_idle_time(worker, received == 0, polled_ns);
    }
    if (output_burst(worker->output, read_clock(CLOCK_MONOTONIC)) != 0) {
        worker->failed = true;
    }
    rte_pktmbuf_free_bulk(mbuf, received);
    return received;
}

static uint64_t remaining_frames(const struct worker *worker) {
    const struct options *options = &worker->capture->options;
    if (options->frames == 0 || options->queues > 1) {
        return UINT64_MAX; /* the main thread counts the frames of several queues */
    }
    const uint64_t received = worker->counts.received;
    return received < options->frames ? options->frames - received : 0;
}

static void sleep_briefly(void) {
    const struct timespec pause = {0, SLEEP_NS};
    nanosleep(&pause, NULL);
}

int worker_run(void *argument) {
    struct worker *worker = argument;
    struct capture *capture = worker->capture;
    unsigned empty = 0;
    uint64_t remaining = 0;
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    while (!capture->stop && !worker->failed && (remaining = remaining_frames(worker)) > 0) {
        empty = receive_burst(worker, remaining) > 0 ? 0 : empty + 1;
        if (empty > SPINS && !capture->options.spin) {
            sleep_briefly();
        } else if (empty > 0) {
            rte_pause();
        }
    }
    capture->stop = true;
    /* Receive the frames that may have arrived before the stop: at most as many as the queue has descriptors,
     * so that a busy port cannot delay the end. */
    for (uint64_t more = capture->port.depth;
         more > 0 && !worker->failed && (remaining = remaining_frames(worker)) > 0;) {
        const unsigned received = receive_burst(worker, more < remaining ? more : remaining);
        if (received == 0) {
            break;
        }
        more -= received;
    }
    if (worker->p4 && !worker->failed && p4_end(worker->p4, &worker->fault) != 0) {
        worker->failed = true;
    }
    worker->cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
    output_close(worker->output);
    worker->output = NULL;
    return 0;
}
