/* Commands on standard input, and one answer in JSON on standard output for each. */
#ifndef ACAPELLA_LINK_CONTROL_H
#define ACAPELLA_LINK_CONTROL_H

#include "direction.h"

#define COMMAND_MAX 256
#define DIRECTIONS 16
#define DELAY_MAX_NS 60000000000 /* one minute */

struct link {
    struct direction direction[DIRECTIONS];
    unsigned directions;
    int64_t wake_ns;        /* usual time from the expiry of the timer until the program runs */
    char text[COMMAND_MAX]; /* beginning of a command that is not complete */
    size_t size;
};

/* Executes a line and prints the answer. */
void control_execute(struct link *link, const char *line);

/* Reads the available input and executes whole lines. Returns 0, 1 at the end of the input, or -1 with the
 * reason in fault. */
int control_read(struct link *link, int fd, struct fault *fault);

#endif
