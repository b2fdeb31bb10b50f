// Maps addresses to pseudonyms. A pseudonym depends only on the key and the address; that of a MAC
// address also depends on the policy and the vendor list.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "anonymize/pseudonyms/aes.hpp"
#include "anonymize/pseudonyms/permutation.hpp"
#include "anonymize/pseudonyms/tunnel_map.hpp"

namespace acapella {

class Vendors;

namespace anonymize {

using Ipv4 = std::array<std::byte, 4>;
using Ipv6 = std::array<std::byte, 16>;
using Mac = std::array<std::byte, 6>;

// Crypto-PAn: two pseudonyms share a prefix of the same length as the two addresses do. Xu, Fan, Ammar, Moon,
// "Prefix-preserving IP address anonymization", ICNP 2002, with AES-128 as in the authors' program: the first
// 16 bytes of the key are the AES key, and the other bytes, encrypted with that key, are the padding. IPv6
// uses the same method with 128 bits.
class CryptoPan {
  public:
    explicit CryptoPan(Key key);

    [[nodiscard]] Ipv4 map(const Ipv4& address) const;
    [[nodiscard]] Ipv6 map(const Ipv6& address) const;

  private:
    template <std::size_t length>
    [[nodiscard]] std::array<std::byte, length> mapped(const std::array<std::byte, length>& address) const;

    Aes128 aes_;
    std::array<std::byte, kBlock> padding_{};
};

enum class MacPolicy : std::uint8_t { replace, blank };

// Maps MAC addresses. Unchanged: broadcast, the zero address, and the group addresses of protocols
// (01:80:c2:00:00:00 to :2f, 01:00:0c:cc:cc:cc and :cd). IP multicast addresses keep their prefix (01:00:5e
// and the next bit, 33:33). All other addresses keep the first four bits (which distinguish an address after
// MPLS from IP), the group bit and the local bit. `replace` permutes all other bits; `blank` sets them to
// zero. `replace` keeps two more properties. After GTP-U, the first byte of an address may be mistaken for
// that of an IPv4 header (0x45 to 0x4e), so a pseudonym starts with such a byte if and only if the address
// does. tshark uses vendors to distinguish the forms of pseudowires, so for an address that is neither group
// nor local, tshark knows the vendor of the pseudonym if and only if it knows that of the address. The vendor
// itself is not kept.
class MacMap {
  public:
    // `vendors` may be null; it must outlive this object.
    MacMap(Key key, MacPolicy policy, const Vendors* vendors);

    [[nodiscard]] Mac map(const Mac& address);

  private:
    enum class Kind : std::uint8_t { fixed, ipv4_group, ipv6_group, other };

    [[nodiscard]] static Kind kind_of(std::uint64_t address);
    [[nodiscard]] static unsigned free_bits(Kind kind);
    [[nodiscard]] static bool starts_like_ipv4(std::uint64_t address);
    [[nodiscard]] bool same_class(std::uint64_t a, std::uint64_t b) const;
    [[nodiscard]] bool knows_vendor(std::uint64_t address) const;
    [[nodiscard]] std::uint64_t replaced(std::uint64_t address) const;

    Permutation permutation_;
    MacPolicy policy_;
    const Vendors* vendors_;
    std::unordered_map<std::uint64_t, std::uint64_t> known_;
};

// An address and its pseudonym.
template <typename Address>
using Pair = std::array<Address, 2>;

// The pseudonyms used so far. Stores at most twice as many pairs as there are addresses, or
// kMin if that is more.
template <typename Address>
class PseudonymTable {
  public:
    template <typename Map>
    Address pseudonym(const Address& original, const Map& map) {
        std::optional<Pair<Address>>& recent = recent_[slot_of(original)];
        if (recent && (*recent)[0] == original) return (*recent)[1];
        recent = Pair<Address>{original, map(original)};
        pairs_.push_back(*recent);
        if (pairs_.size() >= limit_) compact();
        return (*recent)[1];
    }
    // Distinct pairs, sorted by original.
    [[nodiscard]] const std::vector<Pair<Address>>& sorted() {
        compact();
        return pairs_;
    }

  private:
    static constexpr std::size_t kRecent = 4096;
    static constexpr std::size_t kMin = 65536;

    [[nodiscard]] static std::size_t slot_of(const Address& address) {
        std::uint64_t hash = 14695981039346656037U;  // FNV-1a
        for (const std::byte byte : address)
            hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 1099511628211U;
        return (hash ^ hash >> 32) % kRecent;
    }
    void compact() {
        std::sort(pairs_.begin(), pairs_.end());
        pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
        limit_ = std::max(kMin, 2 * pairs_.size());
    }

    std::vector<std::optional<Pair<Address>>> recent_ = std::vector<std::optional<Pair<Address>>>(kRecent);
    std::vector<Pair<Address>> pairs_;
    std::size_t limit_ = kMin;
};

// All replaced addresses, with their pseudonyms.
struct ReplacedAddresses {
    PseudonymTable<Ipv4> ipv4;
    PseudonymTable<Ipv6> ipv6;
    PseudonymTable<Mac> macs;
};

class Pseudonyms {
  public:
    Pseudonyms(Key key, MacPolicy policy, const Vendors* vendors)
        : pan_(key), macs_(key, policy, vendors), tunnels_(key) {}

    [[nodiscard]] Ipv4 map(const Ipv4& address) { return look_up(replaced_.ipv4, pan_, address); }
    [[nodiscard]] Ipv6 map(const Ipv6& address) { return look_up(replaced_.ipv6, pan_, address); }
    [[nodiscard]] Mac map(const Mac& address) { return look_up(replaced_.macs, macs_, address); }
    [[nodiscard]] std::uint32_t map(TunnelType type, std::uint32_t id) { return tunnels_.map(type, id); }
    [[nodiscard]] ReplacedAddresses& replaced() { return replaced_; }

  private:
    template <typename Address, typename Map>
    static Address look_up(PseudonymTable<Address>& pairs, Map& map, const Address& original) {
        return pairs.pseudonym(original, [&map](const Address& address) { return map.map(address); });
    }

    CryptoPan pan_;
    MacMap macs_;
    TunnelMap tunnels_;
    ReplacedAddresses replaced_;
};

}  // namespace anonymize
}  // namespace acapella
