/* Commands on standard input, one per line. This file does not depend on DPDK. */
#ifndef ACAPELLA_REPLAY_COMMAND_H
#define ACAPELLA_REPLAY_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/fault.h"

#define COMMAND_LINE_MAX 8192

enum command_kind {
    COMMAND_RECORD,
    COMMAND_ROLLING,
    COMMAND_LOAD,
    COMMAND_STOP,
    COMMAND_CLEAR,
    COMMAND_RUN,
    COMMAND_STATUS,
    COMMAND_SAVE,
    COMMAND_DEPARTURES,
    COMMAND_ANSWER,
    COMMAND_QUIT,
};

struct command {
    enum command_kind kind;
    int64_t from_ns, until_ns; /* record: CLOCK_REALTIME; 0: now, until stopped */
    int64_t at_ns;             /* run: CLOCK_REALTIME; 0 for as soon as possible */
    int64_t window_ns;         /* rolling */
    uint32_t loops;            /* run */
    uint64_t speed_ppm;        /* run: 1000000 is as recorded */
    const char *path;          /* load, save, departures: within the line */
    unsigned port;             /* answer */
    const char *hex;           /* answer: the bytes of a frame, within the line */
};

/* Parses a line without its newline, and modifies the line. Returns 0, or -1 with an error in `fault`. */
int command_parse(struct command *command, char *line, struct fault *fault);

/* Collects bytes into lines. */
struct command_lines {
    char text[COMMAND_LINE_MAX];
    unsigned size, used; /* bytes in `text`; bytes of lines that were returned */
    bool too_long;       /* the rest of a line that is too long is discarded */
};

/* Reads available bytes from a non-blocking descriptor. Returns 1, 0 at the end of the input, or -1 with
 * errno set. */
int command_read(struct command_lines *lines, int fd);

/* Returns the next whole line, valid until the next call of command_read, or NULL if there is none. For a
 * line that was discarded, sets `too_long` and returns an empty string. */
char *command_next(struct command_lines *lines, bool *too_long);

#endif
