#include "engine/ring_room.h"

#include <stdlib.h>
#include <string.h>

#define KEY ",framesz="
#define DEFAULT_BYTES 2048
#define MIN_BYTES 128 /* a multiple of 16, as the kernel requires, with room for the shortest frame */
#define MAX_BYTES (1UL << 20)
#define HEAD 66 /* bytes that the kernel puts before a frame: header, address, alignment */

/* Parses a value up to the next argument. Returns 0 if it is not a valid frame size. */
static uint32_t parse(const char *text) {
    char *end = NULL;
    const unsigned long value = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    const bool valid = value >= MIN_BYTES && value <= MAX_BYTES && (*end == ',' || *end == 0);
    return valid ? (uint32_t)value : 0;
}

int ring_room_find(struct port *port, const struct options *options, struct fault *fault) {
    const size_t size = strlen(port->name);
    uint32_t bytes = DEFAULT_BYTES;
    port->ring_room = 0;
    if (strcmp(port->driver, "net_af_packet") != 0) {
        return 0;
    }
    for (unsigned i = 0; i < options->eal.vdevs; ++i) {
        const char *device = options->eal.vdev[i];
        if (strncmp(device, port->name, size) != 0 || device[size] != ',') {
            continue;
        }
        for (const char *at = device + size; at; at = strchr(at + 1, ',')) {
            if (strncmp(at, KEY, strlen(KEY)) == 0) {
                bytes = parse(at + strlen(KEY));
            }
        }
    }
    if (bytes == 0) {
        return fail(fault, "%s: framesz is not a number from %d to %lu", port->name, MIN_BYTES, MAX_BYTES);
    }
    port->ring_room = bytes - HEAD;
    return 0;
}
