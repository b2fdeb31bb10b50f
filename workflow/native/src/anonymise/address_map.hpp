// Every address to its pseudonym: a function of the key and the address alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "anonymise/aes.hpp"
#include "anonymise/permutation.hpp"
#include "anonymise/tunnel_map.hpp"

namespace acapella {

class Vendors;

namespace anonymise {

using Ipv4 = std::array<std::byte, 4>;
using Ipv6 = std::array<std::byte, 16>;
using Mac = std::array<std::byte, 6>;

// Crypto-PAn: two addresses share as long a prefix after it as before it. Xu, Fan, Ammar, Moon,
// "Prefix-preserving IP address anonymization", ICNP 2002, with AES-128 as in the authors' program: the first
// 16 octets of the key are AES's, the others, encrypted with it, the padding. IPv6 is the same over 128 bits.
class CryptoPan {
  public:
    explicit CryptoPan(Key key);

    [[nodiscard]] Ipv4 map(const Ipv4& address) const;
    [[nodiscard]] Ipv6 map(const Ipv6& address) const;

  private:
    template <std::size_t octets>
    [[nodiscard]] std::array<std::byte, octets> mapped(const std::array<std::byte, octets>& address) const;

    Aes128 aes_;
    std::array<std::byte, kBlock> padding_{};
};

enum class Macs : std::uint8_t { replace, blank };

// MAC addresses. What stays: broadcast, the address of zeros, the groups that name a protocol and nobody
// (01:80:c2:00:00:00 to :2f, 01:00:0c:cc:cc:cc and :cd); of IP multicast the prefix (01:00:5e and the bit
// behind it, 33:33); of all others the first four bits (by these MPLS tells an address from IP), the group
// and the local bit. Of an address that is neither group nor local also whether tshark knows its vendor (by
// which it tells the forms of pseudowires), not which. `replace` permutes all other bits; `blank` makes them
// zeros.
class MacMap {
  public:
    // `vendors` may be null and has to stay.
    MacMap(Key key, Macs how, const Vendors* vendors);

    [[nodiscard]] Mac map(const Mac& address);

  private:
    enum class Kind : std::uint8_t { fixed, ipv4_group, ipv6_group, other };

    [[nodiscard]] static Kind kind_of(std::uint64_t address);
    [[nodiscard]] static unsigned free_bits(Kind kind);
    [[nodiscard]] bool alike(std::uint64_t a, std::uint64_t b) const;
    [[nodiscard]] bool knows_vendor(std::uint64_t address) const;
    [[nodiscard]] std::uint64_t replaced(std::uint64_t address) const;

    Permutation permutation_;
    Macs how_;
    const Vendors* vendors_;
    std::unordered_map<std::uint64_t, std::uint64_t> known_;
};

class Pseudonyms {
  public:
    Pseudonyms(Key key, Macs how, const Vendors* vendors)
        : pan_(key), macs_(key, how, vendors), tunnels_(key) {}

    [[nodiscard]] Ipv4 map(const Ipv4& address) { return pan_.map(address); }
    [[nodiscard]] Ipv6 map(const Ipv6& address) { return pan_.map(address); }
    [[nodiscard]] Mac map(const Mac& address) { return macs_.map(address); }
    [[nodiscard]] std::uint32_t map(TunnelType type, std::uint32_t id) { return tunnels_.map(type, id); }

  private:
    CryptoPan pan_;
    MacMap macs_;
    TunnelMap tunnels_;
};

}  // namespace anonymise
}  // namespace acapella
