#include "control/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define LONGEST_WINDOW_S 86400
#define MAX_LOOPS 1000000000
#define FASTEST_PPM 1000000000000LL /* a million times as fast */
#define WORDS 3
#define LAST_PORT 7
#define FRAME_MIN 14 /* bytes */
#define FRAME_MAX 1514

/* Each command takes a fixed number of words (decimal or hexadecimal numbers), or a path. */
static const struct {
    const char *name, *usage;
    unsigned numbers;
    bool path;
} known[] = {
    [COMMAND_RECORD] = {"record", "record FROM_NS UNTIL_NS", 2, false},
    [COMMAND_ROLLING] = {"rolling", "rolling SECONDS", 1, false},
    [COMMAND_LOAD] = {"load", "load FILE", 0, true},
    [COMMAND_STOP] = {"stop", "stop", 0, false},
    [COMMAND_CLEAR] = {"clear", "clear", 0, false},
    [COMMAND_RUN] = {"run", "run AT_NS LOOPS SPEED_PPM", 3, false},
    [COMMAND_STATUS] = {"status", "status", 0, false},
    [COMMAND_SAVE] = {"save", "save FILE", 0, true},
    [COMMAND_DEPARTURES] = {"departures", "departures FILE", 0, true},
    [COMMAND_ANSWER] = {"answer", "answer PORT HEX", 2, false},
    [COMMAND_QUIT] = {"quit", "quit", 0, false},
};

#define COMMANDS (sizeof known / sizeof *known)

/* Parses an unsigned decimal number. Returns false if it is not a number, or out of range. */
static bool parse_number(const char *text, int64_t min, int64_t max, int64_t *to) {
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    *to = value;
    return *text >= '0' && *text <= '9' && !*end && errno == 0 && value >= min && value <= max;
}

/* Returns true if a text has two lowercase hexadecimal digits for each byte of a frame. */
static bool is_hex_frame(const char *text) {
    const size_t digits = strlen(text);
    return strspn(text, "0123456789abcdef") == digits && digits % 2 == 0 && digits >= 2 * FRAME_MIN &&
           digits <= 2 * FRAME_MAX;
}

static int set_numbers(struct command *command, char *const word[], struct fault *fault) {
    int64_t loops = 0, speed = 0, seconds = 0, port = 0;
    switch (command->kind) {
        case COMMAND_RECORD:
            if (!parse_number(word[0], 0, INT64_MAX, &command->from_ns) ||
                !parse_number(word[1], 0, INT64_MAX, &command->until_ns)) {
                return fail(fault, "record: times are nanoseconds since 1970");
            }
            return command->until_ns && command->until_ns <= command->from_ns
                       ? fail(fault, "record: ends before it begins")
                       : 0;
        case COMMAND_ROLLING:
            if (!parse_number(word[0], 1, LONGEST_WINDOW_S, &seconds)) {
                return fail(fault, "rolling: not a number of seconds from 1 to %d", LONGEST_WINDOW_S);
            }
            command->window_ns = seconds * SECOND;
            return 0;
        case COMMAND_ANSWER:
            if (!parse_number(word[0], 0, LAST_PORT, &port) || !is_hex_frame(word[1])) {
                return fail(fault, "answer: PORT is from 0 to %d, HEX the bytes of a frame", LAST_PORT);
            }
            command->port = (unsigned)port;
            command->hex = word[1];
            return 0;
        default:
            if (!parse_number(word[0], 0, INT64_MAX, &command->at_ns) ||
                !parse_number(word[1], 1, MAX_LOOPS, &loops) ||
                !parse_number(word[2], 1, FASTEST_PPM, &speed)) {
                return fail(fault,
                            "run: AT_NS is nanoseconds since 1970, LOOPS from 1 to %d, SPEED_PPM from 1",
                            MAX_LOOPS);
            }
            command->loops = (uint32_t)loops;
            command->speed_ppm = (uint64_t)speed;
            return 0;
    }
}

/* Splits a line at spaces. Returns the number of words, or WORDS + 1 if there are more. */
static unsigned split(char *rest, char *word[WORDS]) {
    unsigned words = 0;
    char *state = NULL;
    for (char *at = strtok_r(rest, " ", &state); at; at = strtok_r(NULL, " ", &state)) {
        if (words == WORDS) {
            return WORDS + 1;
        }
        word[words++] = at;
    }
    return words;
}

int command_parse(struct command *command, char *line, struct fault *fault) {
    char *word[WORDS] = {NULL};
    *command = (struct command){0};
    for (const char *at = line; *at; ++at) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            return fail(fault, "a control character in a command");
        }
    }
    const size_t size = strcspn(line, " ");
    for (unsigned i = 0; i < COMMANDS; ++i) {
        if (strlen(known[i].name) != size || strncmp(known[i].name, line, size) != 0) {
            continue;
        }
        command->kind = (enum command_kind)i;
        char *rest = line[size] ? line + size + 1 : line + size;
        if (known[i].path) {
            command->path = rest;
            return *rest ? 0 : fail(fault, "usage: %s", known[i].usage);
        }
        if (split(rest, word) != known[i].numbers) {
            return fail(fault, "usage: %s", known[i].usage);
        }
        return known[i].numbers ? set_numbers(command, word, fault) : 0;
    }
    return fail(fault,
                "unknown command; use record, rolling, load, stop, clear, run, status, save, departures, "
                "answer or quit");
}

int command_read(struct command_lines *lines, int fd) {
    if (lines->used) {
        lines->size -= lines->used;
        memmove(lines->text, lines->text + lines->used, lines->size);
        lines->used = 0;
    }
    if (lines->size == sizeof lines->text) { /* full, without a newline */
        lines->size = 0;
        lines->too_long = true;
    }
    const ssize_t size = read(fd, lines->text + lines->size, sizeof lines->text - lines->size);
    if (size < 0) {
        return errno == EINTR || errno == EAGAIN ? 1 : -1;
    }
    lines->size += (unsigned)size;
    return size > 0;
}

char *command_next(struct command_lines *lines, bool *too_long) {
    char *line = lines->text + lines->used;
    char *end = memchr(line, '\n', lines->size - lines->used);
    if (!end) {
        return NULL;
    }
    lines->used = (unsigned)(end + 1 - lines->text);
    *too_long = lines->too_long;
    lines->too_long = false;
    /* a NUL within the line must not hide its rest */
    if (memchr(line, 0, (size_t)(end - line))) {
        *line = '\001';
    }
    *end = 0;
    if (*too_long) {
        *line = 0;
    }
    return line;
}
