#include "collector/receive/packet_socket.hpp"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "input/input_error.hpp"

namespace acapella::collector {
namespace {

using input::InputError;

[[noreturn]] void cannot_open(const std::string& interface) {
    std::string reason = std::strerror(errno);
    if (errno == EPERM) reason = "not permitted (requires CAP_NET_RAW)";
    if (errno == ENODEV) reason = "no such interface; list interfaces with ip link";
    throw InputError("cannot_open", "interface " + interface, reason);
}

template <typename Value>
void set(int descriptor, int option, const Value& value, const std::string& interface) {
    if (setsockopt(descriptor, SOL_PACKET, option, &value, sizeof value) != 0) cannot_open(interface);
}

const tpacket_block_desc& block_of(const std::byte* at) {
    return *reinterpret_cast<const tpacket_block_desc*>(at);
}
const tpacket3_hdr& frame_of(const std::byte* at) { return *reinterpret_cast<const tpacket3_hdr*>(at); }

}  // namespace

PacketSocket::PacketSocket(const std::string& interface) : interface_(interface) {
    const unsigned index = if_nametoindex(interface.c_str());
    if (index == 0) cannot_open(interface);
    descriptor_ = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);  // protocol 0: no frames before bind()
    if (descriptor_ < 0) cannot_open(interface);
    try {
        set_up(index);
    } catch (...) {
        release();
        throw;
    }
}

void PacketSocket::set_up(unsigned index) {
    set(descriptor_, PACKET_VERSION, static_cast<int>(TPACKET_V3), interface_);
    tpacket_req3 ring{};
    ring.tp_block_size = kBlockBytes;
    ring.tp_block_nr = kBlocks;
    ring.tp_frame_size = TPACKET_ALIGNMENT << 7;  // unused in version 3, but checked
    ring.tp_frame_nr = kBlockBytes / ring.tp_frame_size * kBlocks;
    ring.tp_retire_blk_tov = kBlockMs;
    set(descriptor_, PACKET_RX_RING, ring, interface_);
    void* memory =
        mmap(nullptr, std::size_t{kBlockBytes} * kBlocks, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (memory == MAP_FAILED) cannot_open(interface_);
    ring_ = static_cast<std::byte*>(memory);
    set(descriptor_, PACKET_IGNORE_OUTGOING, 1,
        interface_);  // frames sent by this machine are not reports
    packet_mreq promiscuous{};
    promiscuous.mr_ifindex = static_cast<int>(index);
    promiscuous.mr_type = PACKET_MR_PROMISC;
    set(descriptor_, PACKET_ADD_MEMBERSHIP, promiscuous, interface_);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(index);
    if (bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        cannot_open(interface_);
}

PacketSocket::~PacketSocket() { release(); }

void PacketSocket::release() {
    if (ring_ != nullptr) munmap(ring_, std::size_t{kBlockBytes} * kBlocks);
    if (descriptor_ >= 0) close(descriptor_);
    ring_ = nullptr;
    descriptor_ = -1;
}

const std::byte* PacketSocket::next_block(int wait_ms) {
    const std::byte* at = ring_ + std::size_t{block_} * kBlockBytes;
    const auto is_ready = [&at] {
        const std::uint32_t& status = block_of(at).hdr.bh1.block_status;
        return (__atomic_load_n(&status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) != 0;
    };
    if (!is_ready()) wait(wait_ms);
    return is_ready() ? at : nullptr;
}

void PacketSocket::wait(int wait_ms) {
    pollfd waiting{descriptor_, POLLIN | POLLERR, 0};
    if (poll(&waiting, 1, wait_ms) <= 0 || (waiting.revents & POLLERR) == 0) return;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (if_nametoindex(interface_.c_str()) == 0)
        throw InputError("read_error", "interface " + interface_, "was removed");
    if (error != 0 && error != ENETDOWN)
        throw InputError("read_error", "interface " + interface_, std::strerror(error));
}

void PacketSocket::release_block() {
    auto& block = *reinterpret_cast<tpacket_block_desc*>(ring_ + std::size_t{block_} * kBlockBytes);
    __atomic_store_n(&block.hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    block_ = (block_ + 1) % kBlocks;
}

std::uint32_t PacketSocket::frames_in(const std::byte* block) { return block_of(block).hdr.bh1.num_pkts; }

const std::byte* PacketSocket::first_frame(const std::byte* block) {
    return block + block_of(block).hdr.bh1.offset_to_first_pkt;
}

const std::byte* PacketSocket::next_frame(const std::byte* frame) {
    return frame + frame_of(frame).tp_next_offset;
}

Bytes PacketSocket::frame_at(const std::byte* frame, std::uint32_t& wire_len) {
    const tpacket3_hdr& header = frame_of(frame);
    wire_len = header.tp_len;
    return {frame + header.tp_mac, header.tp_snaplen};
}

std::uint64_t PacketSocket::take_dropped() {
    tpacket_stats_v3 statistics{};
    socklen_t size = sizeof statistics;
    if (getsockopt(descriptor_, SOL_PACKET, PACKET_STATISTICS, &statistics, &size) != 0) return 0;
    return statistics.tp_drops;
}

}  // namespace acapella::collector
