#include "common/signals.h"

#include <stddef.h>

volatile sig_atomic_t signaled;

static void on_signal(int number) { signaled = number; }

void handle_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

const char *signal_name(void) {
    return signaled == SIGTERM ? "SIGTERM" : signaled == SIGINT ? "SIGINT" : "SIGHUP";
}
