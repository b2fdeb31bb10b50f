#include "common/files/json.h"

void json_text(FILE *to, const char *value) {
    fputc('"', to);
    for (const unsigned char *at = (const unsigned char *)value; *at; ++at) {
        if (*at == '"' || *at == '\\') {
            fprintf(to, "\\%c", *at);
        } else if (*at < ' ') {
            fprintf(to, "\\u%04x", *at);
        } else {
            fputc(*at, to);
        }
    }
    fputc('"', to);
}

void json_text_or_null(FILE *to, const char *value) {
    if (value && *value) {
        json_text(to, value);
    } else {
        fputs("null", to);
    }
}
