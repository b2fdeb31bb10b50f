#include "spec/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

static bool is_digit(char byte) { return isdigit((unsigned char)byte); }

static bool has_leading_zero(const char *word) { return word[0] == '0' && is_digit(word[1]); }

bool p4_number(const char *word, uint64_t *to) {
    char *end = NULL;
    if (!is_digit(*word) || has_leading_zero(word)) {
        return false;
    }
    errno = 0;
    const unsigned long long value = strtoull(word, &end, 0);
    if (*end || errno) {
        return false;
    }
    *to = value;
    return true;
}

const char *p4_number_advice(const char *word) {
    return has_leading_zero(word) ? ", without a leading zero" : "";
}
