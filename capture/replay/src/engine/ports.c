#include "engine/ports.h"

#include <rte_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/both_clocks.h"
#include "common/drivers.h"
#include "common/signals.h"
#include "engine/promiscuous.h"
#include "engine/ring_room.h"

#define CACHE 256
#define FLUSH_MAX 1000000 /* packets per queue; the queue of a busy interface is never empty */
#define VLAN_BYTES 4
#define VLAN_AT 12
#define LINK_POLL_NS 10000000
#define LINK_POLLS 1000 /* 10 s: a NIC negotiates for a few seconds, and memif waits for its peer */

unsigned ports_mbuf_count(const struct options *options) {
    const unsigned ports = options->ports + options->lead_sources;
    const unsigned rings = ports * (2 * options->depth + 2 * options->burst);
    return options->queues * rings + 4 * CACHE; /* the caches of two threads hold 1.5 times their size */
}

static int find(struct port *port, const char *name, struct fault *fault) {
    snprintf(port->name, sizeof port->name, "%s", name);
    return rte_eth_dev_get_port_by_name(name, &port->id) == 0
               ? 0
               : fail(fault, "%s: no such port; specify a device of --vdev or --pci", name);
}

/* Calls ioctl for the network interface of a port. Returns false if it has no interface, or if it fails. */
static bool interface_ioctl(const struct port *port, unsigned long code, struct ifreq *request) {
    memset(request, 0, sizeof *request);
    if (!*port->interface) {
        return false;
    }
    snprintf(request->ifr_name, sizeof request->ifr_name, "%s", port->interface);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool known = fd >= 0 && ioctl(fd, code, request) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return known;
}

/* Returns the length of the longest frame for the current MTU of the interface or device. */
static uint32_t longest_of_mtu(const struct port *port) {
    struct ifreq request;
    uint16_t mtu = RTE_ETHER_MTU;
    if (interface_ioctl(port, SIOCGIFMTU, &request)) {
        mtu = (uint16_t)(request.ifr_mtu < UINT16_MAX ? request.ifr_mtu : UINT16_MAX);
    } else {
        rte_eth_dev_get_mtu(port->id, &mtu);
    }
    return mtu + RTE_ETHER_HDR_LEN;
}

void port_find_longest(struct port *port) {
    port->longest = longest_of_mtu(port);
    if (port->ring_room && port->longest > port->ring_room) {
        port->longest = port->ring_room;
    }
}

/* A bridge has to receive whole frames, but net_af_packet truncates frames to the frame size of its ring. */
static int check_reception(const struct port *port, const struct rte_eth_dev_info *info,
                           struct fault *fault) {
    if (driver_has_fixed_queues(port->driver) && port->rx_queues < info->max_rx_queues) {
        return fail(fault, "%s: frames of %u of its %u Rx queues would be lost; use --queues %u", port->name,
                    (unsigned)(info->max_rx_queues - port->rx_queues), info->max_rx_queues,
                    info->max_rx_queues);
    }
    const uint32_t longest = longest_of_mtu(port);
    if (port->ring_room && longest > port->ring_room) {
        return fail(fault,
                    "%s: frames of up to %u bytes (the MTU of %s) would be truncated to %u; add "
                    "framesz=16384,blocksz=65536, and --max-frame 16384",
                    port->name, longest, port->interface, port->ring_room);
    }
    return 0;
}

static int check_queues(const struct port *port, const struct rte_eth_dev_info *info, struct fault *fault) {
    if (port->receives && port->rx_queues > info->max_rx_queues) {
        return fail(fault,
                    "%s: has %u Rx queues, not %u; lower --queues, or add queues to the device (qpairs=)",
                    port->name, info->max_rx_queues, port->rx_queues);
    }
    if (port->tx_queues > info->max_tx_queues) {
        return fail(fault,
                    "%s: has %u Tx queues, not %u; lower --queues, or add queues to the device (qpairs=)",
                    port->name, info->max_tx_queues, port->tx_queues);
    }
    return 0;
}

bool port_fits(const struct port *port, const struct rte_mbuf *mbuf) {
    const uint8_t *bytes = rte_pktmbuf_mtod(mbuf, const uint8_t *);
    const bool tagged = mbuf->data_len > VLAN_AT + 1 && bytes[VLAN_AT] == 0x81 && bytes[VLAN_AT + 1] == 0;
    return mbuf->pkt_len <= port->longest + (tagged ? VLAN_BYTES : 0);
}

/* Sets up all queues. Returns 0 or a negative errno. */
static int set_up_queues(struct port *port, const struct options *options, struct rte_mempool *pool) {
    uint16_t receive = (uint16_t)options->depth, transmit = (uint16_t)options->depth;
    const unsigned socket = (unsigned)rte_eth_dev_socket_id(port->id);
    int status = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &receive, &transmit);
    port->tx_depth = transmit;
    for (uint16_t queue = 0; queue < port->rx_queues && status == 0; ++queue) {
        status = rte_eth_rx_queue_setup(port->id, queue, receive, socket, NULL, pool);
    }
    for (uint16_t queue = 0; queue < port->tx_queues && status == 0; ++queue) {
        status = rte_eth_tx_queue_setup(port->id, queue, transmit, socket, NULL);
    }
    return status;
}

/* Lets the device distribute flows to its Rx queues, if it can. */
static void use_rss(struct port *port, const struct rte_eth_dev_info *info, struct rte_eth_conf *config) {
    const uint64_t hashed =
        info->flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP);
    port->rss = port->receives && port->rx_queues > 1 && hashed;
    if (port->rss) {
        config->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        config->rx_adv_conf.rss_conf.rss_hf = hashed;
    }
}

/* Returns the MTU for frames of --max-frame, or the largest one of the device. Some drivers (memif) limit the
 * frame length, but not the MTU. */
static uint32_t largest_mtu(const struct options *options, const struct rte_eth_dev_info *info) {
    const uint32_t extra = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
    uint32_t mtu = options->max_frame > RTE_ETHER_HDR_LEN + RTE_ETHER_MIN_MTU
                       ? options->max_frame - RTE_ETHER_HDR_LEN
                       : RTE_ETHER_MIN_MTU;
    mtu = mtu < info->max_mtu ? mtu : info->max_mtu;
    return info->max_rx_pktlen > extra && mtu > info->max_rx_pktlen - extra ? info->max_rx_pktlen - extra
                                                                            : mtu;
}

static int configure(struct port *port, const struct options *options, struct rte_mempool *pool,
                     struct fault *fault) {
    struct rte_eth_dev_info info;
    struct rte_eth_conf config;
    memset(&config, 0, sizeof config);
    int status = rte_eth_dev_info_get(port->id, &info);
    if (status != 0) {
        return fail(fault, "%s: no device information: %s", port->name, rte_strerror(-status));
    }
    snprintf(port->driver, sizeof port->driver, "%s", info.driver_name);
    if (info.if_index > 0 && !if_indextoname(info.if_index, port->interface)) {
        port->interface[0] = 0;
    }
    port->tx_queues = (uint16_t)options->queues;
    port->rx_queues = port->tx_queues; /* some drivers need the same number */
    if (!port->receives && port->rx_queues > info.max_rx_queues) {
        port->rx_queues = info.max_rx_queues ? info.max_rx_queues : 1;
    }
    if (ring_room_find(port, options, fault) != 0 || check_queues(port, &info, fault) != 0 ||
        (options->bridge && check_reception(port, &info, fault) != 0)) {
        return -1;
    }
    use_rss(port, &info, &config);
    if (port->receives) {
        config.rxmode.offloads =
            info.rx_offload_capa & (RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_TIMESTAMP);
    }
    config.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    if (!*port->interface) { /* the MTU of an interface is not changed */
        config.rxmode.mtu = largest_mtu(options, &info);
    }
    status = rte_eth_dev_configure(port->id, port->rx_queues, port->tx_queues, &config);
    if (status == 0) {
        status = set_up_queues(port, options, pool);
    }
    if (status != 0) {
        return fail(fault, "%s: cannot be configured: %s; see the lines above, or change --max-frame",
                    port->name, rte_strerror(-status));
    }
    port_find_longest(port);
    port->configured = true;
    port->hides_errors = strcmp(port->driver, "net_af_packet") == 0;
    if (port->receives && strcmp(port->driver, "net_pcap") == 0) {
        port->stamps = PORT_STAMPS_TIME;
    } else if (config.rxmode.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) {
        port->stamps = strcmp(port->driver, "net_af_packet") == 0 ? PORT_STAMPS_TIME : PORT_STAMPS_TICKS;
    }
    return 0;
}

/* Returns a port, or a port that only receives probes, by its position in both lists. */
static struct port *any_port(struct ports *ports, unsigned at) {
    return at < ports->count ? &ports->port[at] : &ports->extra[at - ports->count];
}

/* Finds the port that receives what Tx port `at` sends. It may be a Tx port. */
static int find_loop(struct ports *ports, unsigned at, const struct options *options, struct fault *fault) {
    struct port *loop = &ports->extra[ports->extras];
    if (!options->lead_from[at]) {
        return 0;
    }
    *loop = (struct port){.id = 0};
    if (find(loop, options->lead_from[at], fault) != 0) {
        return -1;
    }
    for (unsigned i = 0; i < ports->count + ports->extras; ++i) {
        struct port *known = any_port(ports, i);
        if (known->id == loop->id) {
            known->receives = true;
            ports->loop[at] = known;
            return 0;
        }
    }
    loop->receives = true;
    ports->loop[at] = loop;
    ++ports->extras;
    return 0;
}

/* Finds the devices of all ports. */
static int find_all(struct ports *ports, const struct options *options, struct fault *fault) {
    for (unsigned i = 0; i < options->ports; ++i) {
        struct port *port = &ports->port[ports->count++];
        if (find(port, options->port[i], fault) != 0) {
            return -1;
        }
        for (unsigned other = 0; other < i; ++other) {
            if (ports->port[other].id == port->id) {
                return fail(fault, "%s: named twice", port->name);
            }
        }
        port->receives = options->bridge;
        port->lead = (struct lead){.source = options->lead_ns ? LEAD_OPTION : LEAD_UNKNOWN,
                                   .ns = (int64_t)options->lead_ns};
    }
    for (unsigned i = 0; i < options->lead_sources; ++i) {
        if (find_loop(ports, i, options, fault) != 0) {
            return -1;
        }
    }
    return 0;
}

int ports_open(struct ports *ports, const struct options *options, unsigned mbufs, struct fault *fault) {
    static unsigned pools; /* names are unique */
    char name[RTE_MEMPOOL_NAMESIZE];
    snprintf(name, sizeof name, "packets%u", pools++);
    ports->pool = rte_pktmbuf_pool_create(
        name, mbufs, CACHE, 0, (uint16_t)(options->max_frame + RTE_PKTMBUF_HEADROOM), SOCKET_ID_ANY);
    if (!ports->pool) {
        return fail(fault, "%u packets of %u bytes: %s; lower --packets, or raise --memory-mb", mbufs,
                    options->max_frame, rte_strerror(rte_errno));
    }
    if (find_all(ports, options, fault) != 0) {
        return -1;
    }
    for (unsigned i = 0; i < ports->count + ports->extras; ++i) {
        struct port *port = any_port(ports, i);
        if (configure(port, options, ports->pool, fault) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Measures the rate of the NIC's clock. */
static int begin_clock(struct port *port, struct fault *fault) {
    const struct timespec pause = {0, 100000000};
    uint64_t ticks[2] = {0};
    const struct both_clocks first = both_clocks_read();
    bool known = rte_eth_read_clock(port->id, &ticks[0]) == 0;
    nanosleep(&pause, NULL);
    const struct both_clocks second = both_clocks_read();
    known = known && rte_eth_read_clock(port->id, &ticks[1]) == 0 && ticks[1] > ticks[0];
    if (!known || second.ns <= first.ns) {
        return fail(fault, "%s: its clock cannot be read", port->name);
    }
    clock_begin(&port->clock, (double)(ticks[1] - ticks[0]) * 1e9 / (double)(second.ns - first.ns), ticks[1],
                second.ns);
    return 0;
}

static void enable_timestamps(struct port *port) {
    const int flag = rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_RX_TIMESTAMP_NAME, NULL);
    port->stamp_offset = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, NULL);
    if (port->stamp_offset < 0 || flag < 0) {
        port->stamps = PORT_STAMPS_NONE;
        return;
    }
    port->stamp_flag = 1ULL << flag;
}

void port_flush(struct port *port) {
    struct rte_mbuf *mbuf[BURST_MAX];
    for (uint16_t queue = 0; queue < port->rx_queues; ++queue) {
        uint64_t flushed = 0;
        uint16_t count = 0;
        while (flushed < FLUSH_MAX && (count = rte_eth_rx_burst(port->id, queue, mbuf, RTE_DIM(mbuf))) > 0) {
            rte_pktmbuf_free_bulk(mbuf, count);
            flushed += count;
        }
        port->flushed += flushed;
    }
}

static int start(struct port *port, bool receive, struct fault *fault) {
    struct ifreq request;
    const bool promiscuous = interface_ioctl(port, SIOCGIFFLAGS, &request) && request.ifr_flags & IFF_PROMISC;
    const int status = rte_eth_dev_start(port->id);
    if (status != 0) {
        return fail(fault, "%s: cannot start: %s; see the lines above", port->name, rte_strerror(-status));
    }
    port->started = true;
    if (promiscuous) { /* set by the user, but the start resets it */
        rte_eth_promiscuous_enable(port->id);
    }
    if (receive && promiscuous_begin(port, fault) != 0) {
        return -1;
    }
    if (port->stamps != PORT_STAMPS_NONE) {
        enable_timestamps(port);
    }
    if (port->hides_errors) {
        packet_sockets_find(&port->packet_sockets, port->interface);
    }
    const int error = receive ? packet_sockets_ignore_outgoing(&port->packet_sockets) : 0;
    if (error) {
        return fail(fault, "%s: outgoing packets cannot be ignored: %s", port->name, strerror(error));
    }
    if (receive && *port->interface) {
        port_flush(port); /* packets that arrived while the queues were configured */
    }
    port->errors = port_errors(port);
    return 0;
}

int ports_start(struct ports *ports, bool receive, struct fault *fault) {
    for (unsigned i = 0; i < ports->count; ++i) {
        if (start(&ports->port[i], receive, fault) != 0) {
            return -1;
        }
    }
    for (unsigned i = 0; i < ports->extras; ++i) {
        if (start(&ports->extra[i], false, fault) != 0) {
            return -1;
        }
    }
    return 0;
}

void ports_discipline(struct ports *ports, int64_t now_ns) {
    for (unsigned i = 0; i < ports->count; ++i) {
        uint64_t ticks = 0;
        if (ports->port[i].stamps == PORT_STAMPS_TICKS &&
            rte_eth_read_clock(ports->port[i].id, &ticks) == 0) {
            clock_discipline(&ports->port[i].clock, ticks, now_ns);
        }
    }
}

static bool has_flag(const struct port *port, unsigned flag) {
    struct ifreq request;
    return interface_ioctl(port, SIOCGIFFLAGS, &request) && ((unsigned short)request.ifr_flags & flag);
}

static bool link_is_up(const struct port *port) {
    struct rte_eth_link link;
    if (*port->interface) { /* net_af_packet always reports its link as up */
        return has_flag(port, IFF_UP) && has_flag(port, IFF_RUNNING);
    }
    return rte_eth_link_get_nowait(port->id, &link) != 0 || link.link_status == RTE_ETH_LINK_UP;
}

static int fail_link_down(const struct port *port, struct fault *fault) {
    if (!*port->interface) {
        return fail(fault, "%s: the link is down; connect it", port->name);
    }
    return has_flag(port, IFF_UP)
               ? fail(fault, "%s: no carrier; set its peer up, or connect its cable", port->interface)
               : fail(fault, "%s: the interface is down: ip link set %s up", port->interface,
                      port->interface);
}

int ports_check_links(struct ports *ports, struct fault *fault) {
    for (unsigned i = 0; i < ports->count + ports->extras; ++i) {
        const struct port *port = any_port(ports, i);
        if (!link_is_up(port)) {
            return fail_link_down(port, fault);
        }
    }
    return 0;
}

static int wait_for_links(struct ports *ports, struct fault *fault) {
    const struct timespec pause = {0, LINK_POLL_NS};
    for (unsigned i = 0; i < ports->count + ports->extras; ++i) {
        const struct port *port = any_port(ports, i);
        for (unsigned polls = 0; !*port->interface && polls < LINK_POLLS && !link_is_up(port); ++polls) {
            if (received_signal) {
                return fail(fault, "%s: received %s while waiting for the link", port->name, signal_name());
            }
            nanosleep(&pause, NULL);
        }
    }
    return ports_check_links(ports, fault);
}

int ports_begin_clocks(struct ports *ports, struct timebase *time, struct fault *fault) {
    int status = wait_for_links(ports, fault);
    for (unsigned i = 0; i < ports->count + ports->extras && status == 0; ++i) {
        struct port *port = any_port(ports, i);
        status = port->stamps == PORT_STAMPS_TICKS ? begin_clock(port, fault) : 0;
    }
    return status == 0 ? timebase_begin(time, fault) : -1;
}

uint64_t port_errors(const struct port *port) {
    struct rte_eth_stats stats;
    return rte_eth_stats_get(port->id, &stats) == 0 ? stats.oerrors : 0;
}

struct traffic port_traffic(const struct traffic traffic[QUEUES_MAX]) {
    struct traffic sum = {0};
    for (unsigned queue = 0; queue < QUEUES_MAX; ++queue) {
        sum.received += traffic[queue].received;
        sum.forwarded += traffic[queue].forwarded;
        sum.ring_full += traffic[queue].ring_full;
        sum.driver_error += traffic[queue].driver_error;
        sum.too_long += traffic[queue].too_long;
        sum.control += traffic[queue].control;
        sum.control_dropped += traffic[queue].control_dropped;
    }
    return sum;
}

static void stop(struct port *port) {
    promiscuous_end(port);
    if (port->started) {
        rte_eth_dev_stop(port->id);
    }
    if (port->configured) {
        rte_eth_dev_close(port->id);
    }
}

int64_t ports_largest_lead_ns(const struct ports *ports) {
    int64_t largest = 0;
    for (unsigned i = 0; i < ports->count; ++i) {
        largest = ports->port[i].lead.ns > largest ? ports->port[i].lead.ns : largest;
    }
    return largest;
}

void ports_close_loops(struct ports *ports) {
    for (unsigned i = 0; i < ports->extras; ++i) {
        stop(&ports->extra[i]);
    }
    for (unsigned i = 0; i < ports->count; ++i) {
        ports->loop[i] = NULL;
    }
    ports->extras = 0;
}

void ports_close(struct ports *ports) {
    ports_close_loops(ports);
    for (unsigned i = 0; i < ports->count; ++i) {
        stop(&ports->port[i]);
    }
    ports->count = 0;
    rte_mempool_free(ports->pool);
    ports->pool = NULL;
}
