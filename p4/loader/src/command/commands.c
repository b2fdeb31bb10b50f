#include "command/commands.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define INPUT_CAPACITY 8192
#define RESULT_CAPACITY (1U << 17)

static char input[INPUT_CAPACITY];
static size_t size;
static unsigned line_number;
static bool ended;

static void execute(struct p4 *p4, const char *line) {
    static char result[RESULT_CAPACITY];
    struct fault fault;
    ++line_number;
    if (p4_command(p4, line, result, sizeof result, &fault) == 0) {
        printf("ok%s%s\n", *result ? " " : "", result);
    } else {
        printf("error %u: %s\n", line_number, fault.text);
    }
    fflush(stdout);
}

static void execute_whole_lines(struct p4 *p4) {
    char *begin = input, *end;
    while ((end = memchr(begin, '\n', size - (size_t)(begin - input)))) {
        *end = '\0';
        execute(p4, begin);
        begin = end + 1;
    }
    size -= (size_t)(begin - input);
    memmove(input, begin, size);
    if (size == sizeof input - 1) { /* longer than any statement */
        input[size] = '\0';
        execute(p4, input);
        size = 0;
    }
}

bool p4_commands_poll(struct p4 *p4, int wait_ms) {
    struct pollfd descriptor = {STDIN_FILENO, POLLIN, 0};
    while (!ended && poll(&descriptor, 1, wait_ms) > 0) {
        const ssize_t bytes_read = read(STDIN_FILENO, input + size, sizeof input - 1 - size);
        if (bytes_read > 0) {
            size += (size_t)bytes_read;
            execute_whole_lines(p4);
        } else if (bytes_read == 0 || errno != EINTR) {
            ended = true;
            if (size) { /* a last line without newline */
                input[size] = '\0';
                size = 0;
                execute(p4, input);
            }
        }
        wait_ms = 0;
    }
    return !ended;
}
