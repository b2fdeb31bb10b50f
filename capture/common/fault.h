/* A one-line error message: location, cause, remedy. Functions that can fail take a `struct fault` and return
 * -1 on failure. */
#ifndef ACAPELLA_FAULT_H
#define ACAPELLA_FAULT_H

#include <stdbool.h>

struct fault {
    char text[512];
};

/* Formats the line, without newline, and returns -1. */
int fail(struct fault *fault, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns true if the cause is the machine: no space, no memory, a failing disk. It searches the line for
 * messages of strerror(3). */
bool is_system_error(const struct fault *fault);

/* Returns the remedy for an errno of a write, to append to a message; empty if there is none. */
const char *write_advice(int error);

/* Like write_advice, for a read. */
const char *read_advice(int error);

#endif
