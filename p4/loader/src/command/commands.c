#include "command/commands.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define ROOM 8192
#define ANSWER (1U << 17)

static char text[ROOM];
static size_t size;
static unsigned number;
static bool ended;

static void execute(struct p4 *p4, const char *line) {
    static char answer[ANSWER];
    struct fault fault;
    ++number;
    if (p4_command(p4, line, answer, sizeof answer, &fault) == 0) {
        printf("ok%s%s\n", *answer ? " " : "", answer);
    } else {
        printf("error %u: %s\n", number, fault.text);
    }
    fflush(stdout);
}

static void execute_whole_lines(struct p4 *p4) {
    char *begin = text, *end;
    while ((end = memchr(begin, '\n', size - (size_t)(begin - text)))) {
        *end = '\0';
        execute(p4, begin);
        begin = end + 1;
    }
    size -= (size_t)(begin - text);
    memmove(text, begin, size);
    if (size == sizeof text - 1) { /* longer than any statement */
        text[size] = '\0';
        execute(p4, text);
        size = 0;
    }
}

bool p4_commands_poll(struct p4 *p4, int wait_ms) {
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    while (!ended && poll(&input, 1, wait_ms) > 0) {
        const ssize_t got = read(STDIN_FILENO, text + size, sizeof text - 1 - size);
        if (got > 0) {
            size += (size_t)got;
            execute_whole_lines(p4);
        } else if (got == 0 || errno != EINTR) {
            ended = true;
            if (size) { /* a last line without newline */
                text[size] = '\0';
                size = 0;
                execute(p4, text);
            }
        }
        wait_ms = 0;
    }
    return !ended;
}
