#include "collector/receive/roce.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "collector/receive/crc32.hpp"
#include "frame/cursor.hpp"

namespace acapella::collector {
namespace {

constexpr std::size_t kEthernet = 14;
constexpr std::size_t kVlan = 4;
constexpr std::size_t kIpv4 = 20;  // RoCEv2 has no IP options
constexpr std::size_t kUdp = 8;
constexpr std::size_t kBth = 12;
constexpr std::size_t kReth = 16;
constexpr std::size_t kIcrc = 4;
constexpr std::size_t kHeaders = kIpv4 + kUdp + kBth;

constexpr std::uint8_t kWriteOnly = 0x2a;  // unreliable connection, RDMA WRITE ONLY
constexpr std::uint16_t kTypeIpv4 = 0x0800;

bool is_vlan(std::uint16_t ethertype) {
    return ethertype == 0x8100 || ethertype == 0x88a8 || ethertype == 0x9100;
}

// Moves the cursor to the IPv4 header.
Verdict skip_link(Cursor& at) {
    std::size_t type_at = kEthernet - 2;
    while (at.has(type_at + 2) && is_vlan(at.be16(type_at))) type_at += kVlan;
    if (!at.has(type_at + 2)) return at.reported() > at.captured() ? Verdict::truncated : Verdict::not_roce;
    if (at.be16(type_at) != kTypeIpv4) return Verdict::not_roce;
    at.skip(type_at + 2);
    return Verdict::accepted;
}

// Limits the cursor to the IPv4 packet.
Verdict check_network(Cursor& at) {
    if (!at.has(kIpv4 + kUdp)) return at.reported() > at.captured() ? Verdict::truncated : Verdict::not_roce;
    constexpr std::uint16_t kFragment = 0x3fff;  // more fragments, or an offset
    if (at.u8(0) != 0x45 || at.u8(9) != 17 || (at.be16(6) & kFragment) != 0) return Verdict::not_roce;
    if (at.be16(kIpv4 + 2) != kRocePort) return Verdict::not_roce;
    const std::size_t total = at.be16(2);
    if (total > at.reported() || total < kHeaders + kIcrc) return Verdict::bad_length;
    at.limit(total);
    if (at.captured() < total) return Verdict::truncated;
    return at.be16(kIpv4 + 4) == total - kIpv4 ? Verdict::accepted : Verdict::bad_length;
}

// Fields that routers change are replaced by ones (annex A17, 17.9): type of service, time to live, both
// checksums, and the byte with the congestion bits. Eight bytes of ones replace InfiniBand's routing header.
constexpr std::size_t kOnes = 8;
constexpr std::array<std::size_t, 7> kVariant = {1, 8, 10, 11, kIpv4 + 6, kIpv4 + 7, kIpv4 + kUdp + 4};
static_assert(kOnes == kCrcOnes && kVariant.back() < kCrcMask);

constexpr std::array<std::byte, kCrcMask> make_mask() {
    std::array<std::byte, kCrcMask> mask{};
    for (const std::size_t at : kVariant) mask[at] = std::byte{0xff};
    return mask;
}
constexpr std::array<std::byte, kCrcMask> kMask = make_mask();

// Computes the ICRC of a packet shorter than the mask.
std::uint32_t short_icrc_of(Bytes packet) {
    std::array<std::byte, kOnes + kCrcMask> masked;
    masked.fill(std::byte{0xff});
    for (std::size_t i = 0; i < packet.size(); ++i) masked[kOnes + i] = packet[i] | kMask[i];
    return crc32_update(0xffffffff, std::span(masked.data(), kOnes + packet.size()));
}

}  // namespace

std::uint32_t icrc_of(Bytes packet) {
    const std::uint32_t state =
        packet.size() < kCrcMask ? short_icrc_of(packet) : crc32_of_masked(kMask, packet);
    return __builtin_bswap32(~state);  // the register is sent lowest byte first
}

Verdict parse(Bytes frame, std::uint32_t wire_len, bool check_icrc, WriteRequest& request) {
    Cursor at(frame, std::max<std::size_t>(wire_len, frame.size()));
    if (const Verdict verdict = skip_link(at); verdict != Verdict::accepted) return verdict;
    if (const Verdict verdict = check_network(at); verdict != Verdict::accepted) return verdict;
    const Bytes packet = at.rest();
    const std::size_t body = packet.size() - kIcrc;
    if (check_icrc && icrc_of(packet.first(body)) != at.be32(body)) return Verdict::bad_icrc;
    at.limit(body);
    at.skip(kIpv4 + kUdp);
    constexpr std::uint8_t kVersion = 0x0f;
    if (at.u8(0) != kWriteOnly || (at.u8(1) & kVersion) != 0) return Verdict::bad_opcode;
    if (!at.has(kBth + kReth)) return Verdict::bad_length;
    const std::size_t padding = at.u8(1) >> 4 & 3;
    request.queue_pair = at.be24(5);
    request.psn = at.be24(9);
    at.skip(kBth);
    request.address = std::uint64_t{at.be32(0)} << 32 | at.be32(4);
    request.key = at.be32(8);
    request.length = at.be32(12);
    at.skip(kReth);
    if (at.captured() != std::uint64_t{request.length} + padding) return Verdict::bad_length;
    request.payload = at.rest().first(request.length);
    return Verdict::accepted;
}

const char* name_of(Verdict verdict) {
    constexpr const char* kNames[] = {
#define ACAPELLA_VERDICT(name) #name,
        ACAPELLA_VERDICTS(ACAPELLA_VERDICT)
#undef ACAPELLA_VERDICT
    };
    return kNames[static_cast<std::size_t>(verdict)];
}

}  // namespace acapella::collector
