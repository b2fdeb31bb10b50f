#include "common/signals.h"

#include <stddef.h>

volatile sig_atomic_t received_signal;

static void on_signal(int number) { received_signal = number; }

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
    return received_signal == SIGTERM ? "SIGTERM" : received_signal == SIGINT ? "SIGINT" : "SIGHUP";
}
