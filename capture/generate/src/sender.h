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

/* Sends packets until the end, a signal or a fault such as a lost link; stores the result in `transmission`.
 * Returns 0, or -1 with the reason in fault if sending did not begin. */
int sender_run(struct sender *sender, struct fault *fault);

/* Releases everything, even after an error. */
void sender_close(struct sender *sender);

#endif
