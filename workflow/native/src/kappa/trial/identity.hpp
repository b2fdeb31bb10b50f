// How a packet is known again in another trial: the bytes that identify it, and their 128-bit hash.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "frame/dissection.hpp"
#include "frame/record.hpp"

namespace acapella::kappa {

// 128-bit hash of the bytes by which a packet is known again.
struct Identity {
    std::uint64_t high = 0;
    std::uint64_t low = 0;

    auto operator<=>(const Identity&) const = default;
};

enum class IdentityKind : std::uint8_t {
    invariant,  // what no hop changes: see Identifier
    tag,        // CHOIR's trailer
    regions,    // byte ranges from the frame's start
    frame,      // every captured byte
};

// The last 16 bytes of a frame that went through CHOIR: time of arrival in ns (64 bits, big-endian), node and
// port (16 each), 16 check bits, 0x6587. They differ in the check: v1 repeats the time's last two bytes, v2
// its first two in reverse. The first 12 bytes are the packet's identity: the check follows from the time, so
// it tells no packets apart, and would tell one packet's two layouts apart. Source: crease_monitor.c before
// version 0.4 (v1), and 0.4, which the paper cites, and 0.5 (v2).
enum class TagLayout : std::uint8_t { automatic, v1, v2 };

struct Region {
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
};

struct IdentityRule {
    IdentityKind kind = IdentityKind::invariant;
    bool l4_checksum = true;
    std::vector<Region> regions;
    TagLayout tag = TagLayout::automatic;
};

// Finds the identifying bytes of one frame at a time.
//
// `invariant`: the innermost IP header without TTL or hop limit, DSCP and ECN, and IPv4 header checksum, and
// what it carries up to its own length, so that link headers, tunnels and Ethernet padding are no part of it;
// without IP the innermost ethertype and what follows, or, where a length stands in its place (802.3), the
// length and as much behind it as it says; without any of these the whole frame. Addresses are part of
// it, so it survives routing and not address translation.
//
// A packet that was cut before the 8th octet behind its IP header (without IP, to fewer than 28 octets) is
// known by too little: it is not found, or one such packet would have all others cut to as little.
class Identifier {
  public:
    explicit Identifier(IdentityRule rule) : rule_(std::move(rule)) {}

    struct Found {
        bool there = true;         // false: no tag, a region not captured, or cut to too little
        std::size_t captured = 0;  // identifying bytes that were captured
        std::size_t whole = 0;     // that were on the wire
    };

    // The identifying bytes of `record`, which has to stay valid until hash() is done with.
    Found find(const Record& record);
    // The hash of the first `length` of the bytes found last; `length` is at most Found::captured.
    Identity hash(std::size_t length);

  private:
    Found find_by_rule(const Record& record);
    [[nodiscard]] std::size_t min_captured() const;  // of the bytes found last
    Found find_invariant(const Record& record);
    Found find_without_ip(const PacketSpan& payload);
    Found find_tag(const Record& record);
    Found find_regions(const Record& record);
    Found all_of(Bytes bytes, std::size_t whole);
    void erase_l4_checksum();

    IdentityRule rule_;
    Dissection dissection_;
    Bytes bytes_;                 // what is hashed
    bool has_ethertype_ = false;  // hashed before bytes_, wherever it stood
    std::uint16_t ethertype_ = 0;
    std::uint8_t ip_version_ = 0;  // of bytes_, or 0
    std::vector<std::byte> copy_;  // where the bytes have to be gathered or changed
};

// What most frames are: TCP, or UDP that carries no packet, in IPv4 in Ethernet with one VLAN tag or none.
// True where `network` is then what dissect() would say, false where it has to be asked.
bool find_network_quickly(const Record& record, PacketSpan& network);

// The hash of `bytes` alone. Not for adversaries: who knows the function can make two packets alike.
Identity hash_of(Bytes bytes, std::uint64_t seed);

}  // namespace acapella::kappa
