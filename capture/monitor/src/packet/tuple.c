#include "packet/tuple.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS 5
#define RULE_MAX 256 /* characters */

static bool is_any(const char *text) { return strcmp(text, "*") == 0; }

/* Parses a decimal number from 0 to `max`, up to the character `end`. */
static bool parse_number(unsigned long *value, const char *text, char end, unsigned long max,
                         const char **after) {
    char *stop = NULL;
    if (*text < '0' || *text > '9') {
        return false;
    }
    *value = strtoul(text, &stop, 10);
    *after = stop;
    return *stop == end && *value <= max;
}

static bool parse_protocol(struct tuple_rule *rule, const char *text) {
    static const struct {
        const char *name;
        uint8_t number;
    } known[] = {{"icmp", 1}, {"tcp", 6}, {"udp", 17}, {"icmpv6", 58}, {"sctp", 132}};
    unsigned long value = 0;
    const char *after = NULL;
    rule->any_protocol = is_any(text);
    if (rule->any_protocol) {
        return true;
    }
    for (unsigned i = 0; i < sizeof known / sizeof *known; ++i) {
        if (strcmp(text, known[i].name) == 0) {
            rule->protocol = known[i].number;
            return true;
        }
    }
    const bool number = parse_number(&value, text, 0, 255, &after);
    rule->protocol = (uint8_t)value;
    return number;
}

static bool parse_prefix(struct tuple_rule *rule, struct tuple_prefix *prefix, char *text) {
    char *slash = strchr(text, '/');
    unsigned long bits = 0;
    const char *after = NULL;
    if (is_any(text)) {
        return true;
    }
    if (slash) {
        *slash = 0;
    }
    const bool v4 = inet_pton(AF_INET, text, prefix->bytes) == 1;
    if (!v4 && inet_pton(AF_INET6, text, prefix->bytes) != 1) {
        return false;
    }
    const uint8_t version = v4 ? 4 : 6, max_bits = v4 ? 32 : 128;
    if (slash && !parse_number(&bits, slash + 1, 0, max_bits, &after)) {
        return false;
    }
    prefix->bits = slash ? (uint8_t)bits : max_bits;
    if (rule->ip_version && rule->ip_version != version) {
        return false;
    }
    rule->ip_version = version;
    return true;
}

static bool parse_ports(uint16_t ports[2], const char *text) {
    unsigned long first = 0, last = 0;
    const char *after = NULL;
    if (is_any(text)) {
        ports[0] = 0;
        ports[1] = UINT16_MAX;
        return true;
    }
    if (parse_number(&first, text, 0, UINT16_MAX, &after)) {
        last = first;
    } else if (!after || *after != '-' || first > UINT16_MAX ||
               !parse_number(&last, after + 1, 0, UINT16_MAX, &after) || last < first) {
        return false;
    }
    ports[0] = (uint16_t)first;
    ports[1] = (uint16_t)last;
    return true;
}

int tuple_add(struct tuple_filter *filter, const char *text, struct fault *fault) {
    char copy[RULE_MAX], *field[FIELDS], *rest = copy;
    unsigned fields = 0;
    if (filter->rules == TUPLE_RULES) {
        return fail(fault, "--rule %s: more than %d rules; use fewer", text, TUPLE_RULES);
    }
    struct tuple_rule *rule = &filter->rule[filter->rules];
    *rule = (struct tuple_rule){.any_protocol = true};
    if (strlen(text) >= sizeof copy) {
        return fail(fault, "--rule: longer than %d characters", RULE_MAX - 1);
    }
    strcpy(copy, text);
    for (char *part = strsep(&rest, ","); part; part = strsep(&rest, ",")) {
        if (fields < FIELDS) {
            field[fields] = part;
        }
        fields++;
    }
    if (fields != FIELDS || !parse_protocol(rule, field[0]) || !parse_prefix(rule, &rule->src, field[1]) ||
        !parse_ports(rule->src_port, field[2]) || !parse_prefix(rule, &rule->dst, field[3]) ||
        !parse_ports(rule->dst_port, field[4])) {
        return fail(fault,
                    "--rule %s: not PROTOCOL,SRC,SRC_PORT,DST,DST_PORT, as in udp,10.0.0.0/8,*,*,5000-5999",
                    text);
    }
    filter->rules++;
    return 0;
}

static bool prefix_matches(const struct tuple_prefix *prefix, const uint8_t *address) {
    const unsigned full_bytes = prefix->bits / 8, rest = prefix->bits % 8;
    if (memcmp(prefix->bytes, address, full_bytes) != 0) {
        return false;
    }
    const uint8_t mask = (uint8_t)(0xff00 >> rest);
    return rest == 0 || ((prefix->bytes[full_bytes] ^ address[full_bytes]) & mask) == 0;
}

static bool ports_match(const struct tuple_rule *rule, const struct headers *headers) {
    if (!headers->has_ports) {
        return rule->src_port[0] == 0 && rule->src_port[1] == UINT16_MAX && rule->dst_port[0] == 0 &&
               rule->dst_port[1] == UINT16_MAX;
    }
    return headers->src_port >= rule->src_port[0] && headers->src_port <= rule->src_port[1] &&
           headers->dst_port >= rule->dst_port[0] && headers->dst_port <= rule->dst_port[1];
}

bool tuple_passes(const struct tuple_filter *filter, const uint8_t *bytes, const struct headers *headers) {
    if (filter->rules == 0) {
        return true;
    }
    if (headers->ip_version == 0) {
        return false;
    }
    const uint8_t *ip = bytes + headers->ip_at;
    const uint8_t *src = ip + (headers->ip_version == 4 ? 12 : 8);
    const uint8_t *dst = ip + (headers->ip_version == 4 ? 16 : 24);
    for (unsigned i = 0; i < filter->rules; ++i) {
        const struct tuple_rule *rule = &filter->rule[i];
        if ((rule->any_protocol || rule->protocol == headers->protocol) &&
            (rule->ip_version == 0 || rule->ip_version == headers->ip_version) &&
            ports_match(rule, headers) && prefix_matches(&rule->src, src) &&
            prefix_matches(&rule->dst, dst)) {
            return true;
        }
    }
    return false;
}
