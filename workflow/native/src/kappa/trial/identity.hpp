// Identifies the same packet in different trials: the bytes used for it, and their 128-bit hash.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "frame/dissection.hpp"
#include "frame/record.hpp"

namespace acapella::kappa {

// 128-bit hash of a packet's identifying bytes.
struct Identity {
    std::uint64_t high = 0;
    std::uint64_t low = 0;

    auto operator<=>(const Identity&) const = default;
};

enum class IdentityKind : std::uint8_t {
    invariant,  // bytes that no hop changes: see Identifier
    tag,        // CHOIR's trailer
    regions,    // byte ranges from the frame's start
    frame,      // every captured byte
};

// The trailer of CHOIR, the last 16 bytes of a frame: arrival time in ns (64 bits, big-endian), node and
// port (16 bits each), 16 check bits, 0x6587. The layouts differ in the check bits: v1 repeats the last two
// bytes of the time, v2 its first two in reverse. The first 12 bytes are the packet's identity. The check
// bits are excluded, because they are derived from the time and differ between the layouts of the same
// packet. Source: crease_monitor.c before version 0.4 (v1), 0.4, which the paper cites, and 0.5 (v2).
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
// `invariant` uses the innermost IP header without TTL or hop limit, DSCP, ECN, and IPv4 header checksum, and
// its payload up to the IP length, so that link headers, tunnels and Ethernet padding are excluded. Without
// IP, it uses the innermost ethertype and its payload, or an 802.3 length and the payload of that length;
// without any of these, the whole frame. Addresses are included, so routing does not change the identity, but
// address translation does.
//
// A truncated packet has too few identifying bytes if fewer than 8 bytes after its IP header were captured
// or, for identities without an IP header, fewer than 28 identifying bytes. Such a packet is skipped, because
// otherwise all identities would be shortened to its length.
class Identifier {
  public:
    explicit Identifier(IdentityRule rule) : rule_(std::move(rule)) {}

    struct Found {
        bool usable = true;        // false: no tag, a region not captured, or too few bytes
        std::size_t captured = 0;  // number of identifying bytes captured
        std::size_t on_wire = 0;   // number of identifying bytes on the wire
    };

    // Finds the identifying bytes of `record`, which must remain valid until hash() is called.
    Found find(const Record& record);
    // Hashes the first `length` of the bytes found last. `length` is at most Found::captured.
    Identity hash(std::size_t length);

  private:
    Found find_by_rule(const Record& record);
    [[nodiscard]] std::size_t min_captured() const;  // for the bytes found last
    Found find_invariant(const Record& record);
    Found find_without_ip(const PacketSpan& payload);
    Found find_tag(const Record& record);
    Found find_regions(const Record& record);
    Found all_of(Bytes bytes, std::size_t on_wire);
    void erase_l4_checksum();

    IdentityRule rule_;
    Dissection dissection_;
    Bytes bytes_;                 // the bytes to hash
    bool has_ethertype_ = false;  // the ethertype is hashed before bytes_
    std::uint16_t ethertype_ = 0;
    std::uint8_t ip_version_ = 0;  // IP version of bytes_, or 0
    std::vector<std::byte> copy_;  // used if bytes have to be gathered or changed
};

// Fast path for most frames: TCP, or UDP that does not carry a packet, in IPv4 over Ethernet with at most one
// VLAN tag. Returns true if `network` is the same as after dissect(); false if dissect() must be called.
bool find_network_quickly(const Record& record, PacketSpan& network);

// Hashes `bytes`. Not secure: two packets with the same hash can be constructed.
Identity hash_of(Bytes bytes, std::uint64_t seed);

}  // namespace acapella::kappa
