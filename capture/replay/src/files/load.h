/* Reads a capture file into the recording. */
#ifndef ACAPELLA_REPLAY_LOAD_H
#define ACAPELLA_REPLAY_LOAD_H

#include "engine/ports.h"
#include "engine/recording.h"

struct loaded {
    uint64_t packets;
    uint64_t
        truncated_packets; /* packets that the capture contains only in part; their first bytes are sent */
    bool file_truncated;   /* the file ends within a record */
};

/* The recording must be empty, and is empty after an error. Returns 0, or -1 with the reason in fault. */
int load_file(struct recording *recording, const char *path, const struct ports *ports,
              const struct options *options, struct loaded *loaded, struct fault *fault);

#endif
