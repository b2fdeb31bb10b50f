#include "queue.h"

#include <stdlib.h>
#include <string.h>

/* Precedes each packet. Packets are not split: a head with `length` WRAP means that the next packet is at the
 * start of the memory. */
struct head {
    int64_t due_ns;
    uint64_t length;
};

#define WRAP UINT64_MAX

static size_t padded_size(size_t length) {
    const size_t unpadded = sizeof(struct head) + length;
    return (unpadded + sizeof(struct head) - 1) / sizeof(struct head) * sizeof(struct head);
}

int queue_open(struct queue *queue, size_t bytes) {
    *queue = (struct queue){.size = bytes / sizeof(struct head) * sizeof(struct head)};
    queue->memory = malloc(queue->size);
    if (!queue->memory) {
        return -1;
    }
    /* Packets use all of the memory in turn. The kernel provides a page at its first use, which would delay
     * one packet per page. The value is not zero, because compilers replace malloc and memset to zero with
     * calloc, which does not touch the pages. */
    memset(queue->memory, 0xff, queue->size);
    return 0;
}

void queue_close(struct queue *queue) {
    free(queue->memory);
    queue->memory = NULL;
}

bool queue_push(struct queue *queue, int64_t due_ns, const uint8_t *bytes, size_t length) {
    const size_t needed = padded_size(length);
    if (queue->packets == 0) {
        queue->first = queue->end = 0;
    }
    const bool wrapped = queue->packets && queue->end <= queue->first;
    const size_t limit = wrapped ? queue->first : queue->size;
    if (limit - queue->end < needed) {
        if (wrapped || queue->first < needed) {
            return false;
        }
        if (queue->end < queue->size) {
            memcpy(queue->memory + queue->end, &(struct head){0, WRAP}, sizeof(struct head));
        }
        queue->end = 0;
    }
    memcpy(queue->memory + queue->end, &(struct head){due_ns, length}, sizeof(struct head));
    memcpy(queue->memory + queue->end + sizeof(struct head), bytes, length);
    queue->end += needed;
    queue->packets++;
    return true;
}

const uint8_t *queue_first(const struct queue *queue, int64_t *due_ns, size_t *length) {
    if (queue->packets == 0) {
        return NULL;
    }
    struct head head;
    memcpy(&head, queue->memory + queue->first, sizeof head);
    *due_ns = head.due_ns;
    *length = (size_t)head.length;
    return queue->memory + queue->first + sizeof head;
}

void queue_pop(struct queue *queue) {
    struct head head;
    memcpy(&head, queue->memory + queue->first, sizeof head);
    queue->first += padded_size((size_t)head.length);
    queue->packets--;
    if (queue->packets == 0) {
        return;
    }
    if (queue->first == queue->size) {
        queue->first = 0;
        return;
    }
    memcpy(&head, queue->memory + queue->first, sizeof head);
    if (head.length == WRAP) {
        queue->first = 0;
    }
}
