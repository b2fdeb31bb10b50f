/* A queue of packets with the times at which they are due, in a block of memory of fixed size. */
#ifndef ACAPELLA_LINK_QUEUE_H
#define ACAPELLA_LINK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACKET_MAX 65535

struct queue {
    uint8_t *memory; /* owned */
    size_t size;     /* a multiple of the size of a head */
    size_t first, end;
    size_t packets;
};

/* Returns -1 if there is no memory. */
int queue_open(struct queue *queue, size_t bytes);
void queue_close(struct queue *queue);

/* Appends a copy of a packet. Returns false if it does not fit. */
bool queue_push(struct queue *queue, int64_t due_ns, const uint8_t *bytes, size_t length);

/* Returns the first packet, which stays in the queue, and its time. Returns NULL if the queue is empty. */
const uint8_t *queue_first(const struct queue *queue, int64_t *due_ns, size_t *length);

/* Removes the first packet. */
void queue_pop(struct queue *queue);

#endif
