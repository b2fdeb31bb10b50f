/* Merges captures into one sequence of frames by time. */
#ifndef ACAPELLA_P4_INPUT_H
#define ACAPELLA_P4_INPUT_H

#include "acapella_p4.h"

struct input;

/* Opens captures by descriptor, which is closed at the end, or by path if the descriptor is negative. If a
 * descriptor in `ends` is not negative, a byte must be available there after the end of the capture;
 * otherwise the capture ended early, which is an error. Returns NULL with the reason in fault on error. */
struct input *p4_input_open(const char *const paths[], const int descriptors[], const int ends[],
                            unsigned count, struct fault *fault);

/* Reads up to `max_frames` frames, valid until the next call. Returns their number, 0 at the end of all
 * captures, or -1 with the reason in fault. */
int p4_input_read(struct input *input, struct p4_frame *frames, unsigned max_frames, struct fault *fault);

/* Returns true if the capture of this port ended within a record. */
bool p4_input_truncated(const struct input *input, unsigned port);

void p4_input_close(struct input *input);

#endif
