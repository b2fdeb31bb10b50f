/* JSON strings, independent of DPDK. The library jansson is not used: its integers are signed (a register of
 * 2^64 - 1 becomes -1), it rejects file names that are not UTF-8, and it needs 400 MB for 10 million register
 * cells. */
#ifndef ACAPELLA_JSON_H
#define ACAPELLA_JSON_H

#include <stdio.h>

/* Prints a string, quoted and escaped. */
void json_text(FILE *to, const char *value);

/* Prints a string, or null if it is NULL or empty. */
void json_text_or_null(FILE *to, const char *value);

#endif
