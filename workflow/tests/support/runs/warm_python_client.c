/* Client of warm_python_server.py: replaces python3 on the nodes of the simulated FABRIC on loopback, and
 * acapella in Snakemake jobs. Command lines other than `python3 -IS -c PROGRAM ...` run the interpreter
 * itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FILES 4   /* standard input, output, error; network namespace */
#define HEADER 16 /* number of bytes and of arguments that follow, in decimal digits */

/* Copies strings, each with its NUL. Returns the end. */
static char *add_list(char *end, char **list) {
    for (; *list; list++) end = stpcpy(end, *list) + 1;
    return end;
}

static size_t size_of(char **list) {
    size_t size = 0;
    for (; *list; list++) size += strlen(*list) + 1;
    return size;
}

static int send_request(int connection, const char *data, size_t size, const int files[FILES]) {
    union {
        char space[CMSG_SPACE(FILES * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec vector = {.iov_base = (void *)data, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(FILES * sizeof(int));
    memcpy(CMSG_DATA(header), files, FILES * sizeof(int));
    ssize_t sent = sendmsg(connection, &message, 0);
    while (sent >= 0 && (size_t)sent < size) {
        data += sent;
        size -= (size_t)sent;
        sent = send(connection, data, size, 0);
    }
    return sent < 0 ? -1 : 0;
}

static int run_interpreter(char **argv) {
    argv[0] = getenv("REAL_PYTHON");
    execv(argv[0], argv);
    perror(argv[0]);
    return 127;
}

/* Connects to the socket in the directory of the server, whose path may be too long for sun_path. */
static int connect_to_server(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int connection = socket(AF_UNIX, SOCK_STREAM, 0), directory = open(path, O_PATH | O_DIRECTORY);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/socket", directory);
    int status = connect(connection, (struct sockaddr *)&address, sizeof address);
    close(directory);
    return status == 0 ? connection : -1;
}

int main(int argc, char **argv, char **environment) {
    const char *path = getenv("WARM_PYTHON");
    if (!path || argc < 4 || strcmp(argv[1], "-IS") != 0 || strcmp(argv[2], "-c") != 0) {
        return run_interpreter(argv);
    }
    char directory[PATH_MAX];
    if (!getcwd(directory, sizeof directory)) return 126;
    int connection = connect_to_server(path);
    if (connection < 0) return run_interpreter(argv); /* the server has ended */
    size_t size = size_of(argv + 3) + size_of(environment) + strlen(directory) + 1;
    char *data = malloc(HEADER + 1 + size);
    if (!data) return 126;
    if (snprintf(data, HEADER + 1, "%8zu%8d", size, argc - 3) != HEADER) return 126;
    stpcpy(add_list(add_list(data + HEADER, argv + 3), environment), directory);
    int files[FILES] = {0, 1, 2, open("/proc/self/ns/net", O_RDONLY)};
    if (send_request(connection, data, HEADER + size, files) != 0) {
        perror("sendmsg");
        return 126;
    }
    unsigned char ended[2]; /* exit code; signal that ended the program, or 0 */
    if (read(connection, ended, sizeof ended) != sizeof ended) return 1;
    if (ended[1]) {
        signal(ended[1], SIG_DFL);
        kill(getpid(), ended[1]);
    }
    return ended[0];
}
