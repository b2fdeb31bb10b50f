/* Texts in JSON. Nothing here depends on DPDK. */
#ifndef ACAPELLA_JSON_H
#define ACAPELLA_JSON_H

#include <stdio.h>

/* A string, quoted and escaped. */
void json_text(FILE *to, const char *value);

/* The same; null where it is NULL or empty. */
void json_text_or_null(FILE *to, const char *value);

#endif
