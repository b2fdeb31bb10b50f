#include "common/ports/receive_port.h"

#include <net/if.h>
#include <rte_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/both_clocks.h"
#include "common/drivers.h"

#define MB (1024ULL * 1024)
#define CACHE 256
#define FLUSH_MAX 1000000 /* frames per queue; the queue of a busy interface is never empty */
#define PACKET_FRAME 2048 /* default framesz of net_af_packet */
#define PACKET_HEAD 66    /* bytes that tpacket_rcv() puts before a frame: header, address, alignment */
#define ETHERNET_EXTRA (RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN)

/* mbufs of a queue: its descriptors, bursts being processed, and the pool's caches. */
static unsigned mbuf_count(const struct port_settings *settings) {
    return settings->depth + 2 * settings->burst + 2 * CACHE;
}

unsigned receive_port_memory_mb(const struct port_settings *settings) {
    const uint64_t frame = settings->max_frame + RTE_PKTMBUF_HEADROOM + sizeof(struct rte_mbuf) + 128;
    return (unsigned)(settings->queues * (mbuf_count(settings) * frame / MB + 4));
}

static int find(struct receive_port *port, const struct port_settings *settings, struct fault *fault) {
    const char *device = settings->device;
    snprintf(port->name, sizeof port->name, "%.*s", (int)strcspn(device, ","), device);
    if (rte_eth_dev_get_port_by_name(port->name, &port->id) != 0) {
        return fail(fault, "%s: no such port; see the lines above and dpdk-devbind.py --status", port->name);
    }
    return 0;
}

static int check_queues(const struct receive_port *port, const struct rte_eth_dev_info *info,
                        struct fault *fault) {
    if (port->queues > info->max_rx_queues) {
        return fail(fault,
                    "%s: has %u Rx queues, not %u; use --queues %u, or configure more for the device "
                    "(qpairs=, rx_pcap=)",
                    port->name, info->max_rx_queues, port->queues, info->max_rx_queues);
    }
    if (driver_has_fixed_queues(info->driver_name) && port->queues < info->max_rx_queues) {
        return fail(fault, "%s: frames of %u of its %u Rx queues would be lost; use --queues %u", port->name,
                    info->max_rx_queues - port->queues, info->max_rx_queues, info->max_rx_queues);
    }
    return 0;
}

/* net_af_packet truncates frames to the frame size of its ring, and reports the truncated length as the wire
 * length. */
static int check_frame_size(const struct receive_port *port, const struct port_settings *settings,
                            struct fault *fault) {
    struct ifreq request;
    if (strcmp(port->driver, "net_af_packet") != 0 || !*port->interface || settings->physical) {
        return 0;
    }
    memset(&request, 0, sizeof request);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", port->interface);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool known = fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0;
    if (fd >= 0) {
        close(fd);
    }
    const char *framesz = strstr(settings->device, "framesz=");
    const long room = (framesz ? strtol(framesz + strlen("framesz="), NULL, 10) : PACKET_FRAME) - PACKET_HEAD;
    if (known && request.ifr_mtu + RTE_ETHER_HDR_LEN > room) {
        return fail(fault,
                    "%s: frames of up to %d bytes (the MTU of %s) would be truncated to %ld; add "
                    "framesz=16384,blocksz=65536",
                    port->name, request.ifr_mtu + RTE_ETHER_HDR_LEN, port->interface, room);
    }
    return 0;
}

static int configure(struct receive_port *port, const struct port_settings *settings,
                     struct rte_eth_dev_info *info, struct fault *fault) {
    struct rte_eth_conf config;
    memset(&config, 0, sizeof config);
    const uint64_t hashed =
        info->flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP);
    if (port->queues > 1 && hashed) {
        config.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        config.rx_adv_conf.rss_conf.rss_hf = hashed;
        port->rss = true;
    }
    config.rxmode.offloads = info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
    if (settings->clock != CLOCK_TSC) {
        config.rxmode.offloads |= info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP;
    }
    if (settings->physical) { /* the MTU of a vdev's interface is not changed */
        const uint32_t mtu = settings->max_frame - ETHERNET_EXTRA;
        config.rxmode.mtu = mtu < info->max_mtu ? mtu : info->max_mtu;
    }
    int status = rte_eth_dev_configure(port->id, (uint16_t)port->queues, 0, &config);
    if (status != 0) { /* some drivers need a Tx queue per Rx queue */
        status = rte_eth_dev_configure(port->id, (uint16_t)port->queues, (uint16_t)port->queues, &config);
    }
    if (status != 0) {
        return fail(fault, "%s: %u Rx queues: %s; lower --queues", port->name, port->queues,
                    rte_strerror(-status));
    }
    uint16_t receive = (uint16_t)settings->depth, transmit = 64;
    rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &receive, &transmit);
    port->depth = receive;
    return 0;
}

static int set_up_queues(const struct receive_port *port, const struct port_settings *settings,
                         struct fault *fault) {
    const int socket = rte_eth_dev_socket_id(port->id);
    for (unsigned queue = 0; queue < port->queues; ++queue) {
        char name[32];
        snprintf(name, sizeof name, "frames%u_%u", port->id, queue);
        struct rte_mempool *pool =
            rte_pktmbuf_pool_create(name, mbuf_count(settings), CACHE, 0,
                                    (uint16_t)(settings->max_frame + RTE_PKTMBUF_HEADROOM), socket);
        if (!pool) {
            return fail(fault,
                        "%s: memory of queue %u: %s; raise --memory-mb or lower --depth and --max-frame",
                        port->name, queue, rte_strerror(rte_errno));
        }
        const int status = rte_eth_rx_queue_setup(port->id, (uint16_t)queue, (uint16_t)port->depth,
                                                  (unsigned)socket, NULL, pool);
        if (status != 0) {
            return fail(fault, "%s: Rx queue %u: %s; see the lines above, or change --max-frame", port->name,
                        queue, rte_strerror(-status));
        }
    }
    return 0;
}

int receive_port_open(struct receive_port *port, const struct port_settings *settings, struct fault *fault) {
    struct rte_eth_dev_info info;
    port->queues = settings->queues;
    if (find(port, settings, fault) != 0) {
        return -1;
    }
    const int status = rte_eth_dev_info_get(port->id, &info);
    if (status != 0) {
        return fail(fault, "%s: no device information: %s; the device cannot be used", port->name,
                    rte_strerror(-status));
    }
    snprintf(port->driver, sizeof port->driver, "%s", info.driver_name);
    if (info.if_index > 0 && !if_indextoname(info.if_index, port->interface)) {
        port->interface[0] = 0;
    }
    if (check_queues(port, &info, fault) != 0 || check_frame_size(port, settings, fault) != 0 ||
        configure(port, settings, &info, fault) != 0 || set_up_queues(port, settings, fault) != 0) {
        return -1;
    }
    const bool nic_stamps = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP;
    const bool from_file = strcmp(port->driver, "net_pcap") == 0;
    if (settings->clock != CLOCK_TSC && (nic_stamps || from_file)) {
        port->source = from_file ? STAMP_DEVICE : STAMP_NIC;
    } else if (settings->clock == CLOCK_HARDWARE) {
        return fail(fault, "%s: %s does not support timestamps; use --clock auto", port->name, port->driver);
    }
    return 0;
}

#define RATE_NS 100000000 /* time to measure the first rate: 1 ppm if readings are within 100 ns */

static void read_clocks(uint64_t *tsc, int64_t *ns) {
    const struct both_clocks now = both_clocks_read();
    *tsc = now.tsc;
    *ns = now.ns;
}

/* Measures the rates of the counters: rte_get_tsc_hz is rounded to 10 MHz. */
static int begin_clocks(struct receive_port *port, struct fault *fault) {
    uint64_t tsc[2] = {0}, nic[2] = {0};
    int64_t ns[2] = {0};
    const struct timespec pause = {0, RATE_NS};
    bool nic_read = port->source == STAMP_NIC && rte_eth_read_clock(port->id, &nic[0]) == 0;
    read_clocks(&tsc[0], &ns[0]);
    nanosleep(&pause, NULL);
    nic_read = nic_read && rte_eth_read_clock(port->id, &nic[1]) == 0 && nic[1] > nic[0];
    read_clocks(&tsc[1], &ns[1]);
    if (ns[1] <= ns[0]) {
        return fail(fault, "the system clock was set back just now; try again");
    }
    port->tsc_hz = (double)(tsc[1] - tsc[0]) * 1e9 / (double)(ns[1] - ns[0]);
    clock_begin(&port->tsc, port->tsc_hz, tsc[1], ns[1]);
    if (port->source == STAMP_TSC) {
        return 0;
    }
    if (nic_read) {
        port->nic_hz = (double)(nic[1] - nic[0]) * 1e9 / (double)(ns[1] - ns[0]);
        clock_begin(&port->nic, port->nic_hz, nic[1], ns[1]);
    }
    port->stamp_offset = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, NULL);
    const int flag = rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_RX_TIMESTAMP_NAME, NULL);
    if (port->stamp_offset < 0 || flag < 0) {
        return fail(fault, "%s: no mbuf field for its timestamps; use --clock tsc", port->name);
    }
    port->stamp_flag = 1ULL << flag;
    if (port->source == STAMP_NIC && !nic_read) {
        return fail(fault, "%s: its clock cannot be read; use --clock tsc", port->name);
    }
    return 0;
}

int receive_port_start(struct receive_port *port, struct fault *fault) {
    const bool clocks_first =
        port->source != STAMP_NIC; /* the NIC's clock runs only once the port is started */
    if (clocks_first && begin_clocks(port, fault) != 0) {
        return -1;
    }
    const int status = rte_eth_dev_start(port->id);
    if (status != 0) {
        return fail(fault, "%s: cannot start: %s; see the lines above", port->name, rte_strerror(-status));
    }
    port->started = true;
    rte_eth_promiscuous_enable(port->id); /* a driver that does not support it receives every frame anyway */
    return clocks_first ? 0 : begin_clocks(port, fault);
}

void receive_port_flush(struct receive_port *port) {
    struct rte_mbuf *mbuf[64];
    for (unsigned queue = 0; *port->interface && queue < port->queues; ++queue) {
        uint64_t discarded = 0;
        uint16_t count = 0;
        while (discarded < FLUSH_MAX &&
               (count = rte_eth_rx_burst(port->id, (uint16_t)queue, mbuf, RTE_DIM(mbuf))) > 0) {
            rte_pktmbuf_free_bulk(mbuf, count);
            discarded += count;
        }
        port->flushed += discarded;
    }
}

void receive_port_discipline(struct receive_port *port) {
    uint64_t counter = 0;
    int64_t ns = 0;
    read_clocks(&counter, &ns);
    clock_discipline(&port->tsc, counter, ns);
    if (port->source == STAMP_NIC && rte_eth_read_clock(port->id, &counter) == 0) {
        clock_discipline(&port->nic, counter, (int64_t)receive_port_now(port));
    }
}

void receive_port_close(struct receive_port *port) {
    if (port->started) {
        rte_eth_dev_stop(port->id);
    }
    rte_eth_dev_close(port->id);
}
