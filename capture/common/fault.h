/* What went wrong, as one line: where, what, what to do. Functions that can fail take a `struct fault` and
 * return -1. */
#ifndef ACAPELLA_FAULT_H
#define ACAPELLA_FAULT_H

#include <stdbool.h>

struct fault {
    char text[512];
};

/* Writes the line, without its newline, and returns -1. */
int fail(struct fault *fault, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether the machine caused it: no space, no memory, a disk that fails. The line then has strerror's text.
 */
bool machine_failed(const struct fault *fault);

/* What to do about an errno of writing, as the end of a line; an empty string where there is no advice. */
const char *advice(int error);

/* The same of reading. */
const char *advice_to_read(int error);

#endif
