/* Writes files: the recording as pcapng, and the departures of a run. */
#ifndef ACAPELLA_REPLAY_SAVE_H
#define ACAPELLA_REPLAY_SAVE_H

#include "engine/recording.h"
#include "engine/replay.h"

/* Writes a pcapng with timestamps in ns and one interface per port, whose description names their source.
 * Packets after the first one of a burst that have only the time of the burst have the comment "unresolved".
 * Returns 0, or -1 with the reason in fault. */
int save_recording(const struct recording *recording, const struct ports *ports, const char *path,
                   struct fault *fault);

/* Writes an 8-byte magic number, and 40 bytes per packet and loop (struct departure_record in save.c). */
int save_departures(const struct replay *replay, const char *path, struct fault *fault);

#endif
