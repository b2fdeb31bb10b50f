/* Captures as one sequence of frames in the order of their times. */
#ifndef ACAPELLA_P4_INPUT_H
#define ACAPELLA_P4_INPUT_H

#include "acapella_p4.h"

struct input;

/* Reads each capture from its descriptor, which it closes in the end, or from its path where that is
 * negative. A capture that ends without a byte from its descriptor in `ends`, unless that is negative, is an
 * error: it ended early. NULL: see fault. */
struct input *p4_input_open(const char *const paths[], const int descriptors[], const int ends[],
                            unsigned count, struct fault *fault);

/* Up to `most` frames, valid until the next call; 0: the captures have ended, -1: see fault. */
int p4_input_read(struct input *input, struct p4_frame *frames, unsigned most, struct fault *fault);

/* Whether the capture of this port ended within a record. */
bool p4_input_cut(const struct input *input, unsigned port);

void p4_input_close(struct input *input);

#endif
