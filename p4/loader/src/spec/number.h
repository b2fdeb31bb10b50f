/* Numbers in control files and commands. */
#ifndef ACAPELLA_P4_NUMBER_H
#define ACAPELLA_P4_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Parses a decimal number, or a hexadecimal one with the prefix 0x. Returns false if the word is neither. A
 * decimal number with a leading zero is not valid: strtoull and DPDK would read it as octal. */
bool p4_number(const char *word, uint64_t *to);

/* Returns an advice for an error about a word that is not a number: "" or ", without a leading zero". */
const char *p4_number_advice(const char *word);

#endif
