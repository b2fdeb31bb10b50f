/* Events: one JSON object per line on standard output. */
#ifndef ACAPELLA_REPLAY_REPORT_H
#define ACAPELLA_REPLAY_REPORT_H

#include "control/session.h"
#include "files/load.h"

/* Every function prints a line and flushes it. */
void report_ready(const struct session *session);
void report_error(const struct session *session, const struct fault *fault);
void report_recording(const struct session *session);
void report_recorded(const struct session *session);
void report_loaded(const struct session *session, const char *path, const struct loaded *loaded);
void report_scheduled(const struct session *session);
void report_running(const struct session *session);
void report_done(const struct session *session);
void report_status(const struct session *session);
void report_saved(const struct session *session, const char *command, const char *path, uint64_t packets);
/* A control message that a port received, and the reply to `answer`. */
void report_control(const struct session *session, const struct inband_frame *frame);
void report_answered(const struct session *session);
/* The reply to `stop` if there is nothing to stop. */
void report_stopped(const struct session *session);
void report_cleared(const struct session *session);
void report_quit(const struct session *session, const char *reason);

#endif
