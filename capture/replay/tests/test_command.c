/* Tests of the command parser and of the reader of lines. */
#include <string.h>
#include <unistd.h>

#include "common/check.h"
#include "control/command.h"

static int parse(struct command *command, const char *text) {
    static char line[COMMAND_LINE_MAX]; /* the command points into it */
    struct fault fault = {""};
    snprintf(line, sizeof line, "%s", text);
    const int status = command_parse(command, line, &fault);
    CHECK((status != 0) == (*fault.text != 0));
    return status;
}

static void test_commands_are_parsed(void) {
    struct command command;
    CHECK(parse(&command, "record 5 1700000000123456789") == 0 && command.kind == COMMAND_RECORD);
    CHECK(command.from_ns == 5 && command.until_ns == 1700000000123456789);
    CHECK(parse(&command, "rolling 10") == 0 && command.window_ns == 10000000000);
    CHECK(parse(&command, "run 7 3 1500000") == 0 && command.kind == COMMAND_RUN);
    CHECK(command.at_ns == 7 && command.loops == 3 && command.speed_ppm == 1500000);
    CHECK(parse(&command, "load a file with spaces") == 0 && command.kind == COMMAND_LOAD);
    CHECK(strcmp(command.path, "a file with spaces") == 0);
    CHECK(parse(&command, "answer 7 000102030405060708090a0b88b5") == 0 && command.kind == COMMAND_ANSWER);
    CHECK(command.port == 7 && strcmp(command.hex, "000102030405060708090a0b88b5") == 0 && !command.path);
    CHECK(parse(&command, "quit") == 0 && command.kind == COMMAND_QUIT);
    CHECK(parse(&command, "record 0 0") == 0 && command.until_ns == 0);
}

static void test_invalid_lines_are_errors(void) {
    static const char *const lines[] = {
        "",
        "quit 1",
        "load",
        "load ",
        "record 1",
        "record 1 2 3",
        "record -1",
        "record 2 1",
        "qui",
        "quit!",
        "rolling 1.5",
        "rolling 99999999999",
        "run 1 1 0",
        "run 1 -1 1",
        "run",
        "run 1 1 1 1",
        "run 0x1 1 1",
        "run 9223372036854775808 1 1",
        " quit",
        "save\t/tmp/x",
        "QUIT",
        "run 1  +1 1",
        "record 1 1",
        "status now",
        "answer 1",
        "answer 8 000102030405060708090a0b88b5",
        "answer 1 000102030405060708090a0b88b",
        "answer 1 000102030405060708090a0b88bg",
        "answer 1 000102030405060708090A0b88b5",
        "answer 1 0001",
    };
    struct command command;
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; ++i) {
        if (parse(&command, lines[i]) == 0) {
            fprintf(stderr, "accepted: '%s'\n", lines[i]);
            exit(1);
        }
    }
}

/* Appends the available lines, each followed by '|'. */
static void take_lines(struct command_lines *lines, char *found) {
    bool too_long = false;
    for (char *line; (line = command_next(lines, &too_long));) {
        strcat(found, too_long ? "TOO LONG" : line);
        strcat(found, "|");
    }
}

/* Writes `text` to a pipe in pieces of `piece` bytes, and finds the lines that are read from it. */
static void read_lines(const char *text, size_t size, size_t piece, char *found) {
    static struct command_lines lines;
    int ends[2];
    *found = 0;
    lines = (struct command_lines){.size = 0};
    CHECK(pipe(ends) == 0);
    for (size_t at = 0; at < size;) {
        const size_t part = size - at < piece ? size - at : piece;
        CHECK(write(ends[1], text + at, part) == (ssize_t)part);
        at += part;
        CHECK(command_read(&lines, ends[0]) == 1);
        take_lines(&lines, found);
    }
    close(ends[1]);
    while (command_read(&lines, ends[0]) == 1) {
        take_lines(&lines, found);
    }
    close(ends[0]);
}

static void test_lines_do_not_depend_on_the_sizes_of_reads(void) {
    static char text[3 * COMMAND_LINE_MAX], found[3 * COMMAND_LINE_MAX];
    for (size_t piece = 1; piece < 40; piece += 3) {
        read_lines("status\nrun 1 2 3\n\nquit\nunfinished", 33, piece, found);
        CHECK(strcmp(found, "status|run 1 2 3||quit|") == 0);
    }
    memset(text, 'x', sizeof text);
    memcpy(text + 2 * COMMAND_LINE_MAX + 100, "\nstatus\n", 8);
    for (size_t piece = 1000; piece <= COMMAND_LINE_MAX; piece += 1777) {
        read_lines(text, 2 * COMMAND_LINE_MAX + 108, piece, found);
        CHECK(strcmp(found, "TOO LONG|status|") == 0);
    }
    read_lines("stop\0quit\nstatus\n", 17, 17, found);
    CHECK(strcmp(found, "\001top|status|") == 0);
}

int main(void) {
    test_commands_are_parsed();
    test_invalid_lines_are_errors();
    test_lines_do_not_depend_on_the_sizes_of_reads();
    puts("test_command: ok");
    return 0;
}
