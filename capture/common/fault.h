/* What went wrong, as one line: where, what, what to do. Functions that can fail take a `struct fault` and
 * return -1. */
#ifndef ACAPELLA_FAULT_H
#define ACAPELLA_FAULT_H

struct fault {
    char text[512];
};

/* Writes the line, without its newline, and returns -1. */
int fail(struct fault *fault, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What to do about an errno of writing, as the end of a line; an empty string where there is no advice. */
const char *advice(int error);

/* The same of reading. */
const char *advice_to_read(int error);

#endif
