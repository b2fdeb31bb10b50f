/* Sends the packets of a model with a polling thread. */
#ifndef ACAPELLA_GENERATE_SENDER_H
#define ACAPELLA_GENERATE_SENDER_H

#include "arguments.h"
#include "transmission.h"

struct sender {
    struct options options; /* of the port */
    struct ports ports;
    struct timebase time;
    struct schedule schedule;
    struct transmission transmission;
    int64_t start_ns;
    unsigned priority;
    bool nic; /* the port is not a virtual device */
};

/* Opens the port and prepares the schedule of the packets. Returns 0, or -1 with the reason in fault. */
int sender_open(struct sender *sender, struct model *model, const struct arguments *arguments,
                struct fault *fault);

/* Sends all packets; stores the result in `transmission`. Returns 0, or -1 with the reason in fault; packets
 * may have been sent even then. */
int sender_run(struct sender *sender, struct fault *fault);

/* Releases everything, even after an error. */
void sender_close(struct sender *sender);

#endif
