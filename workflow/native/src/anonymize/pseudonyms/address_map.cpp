#include "anonymize/pseudonyms/address_map.hpp"

#include <algorithm>

#include "dissect/vendors.hpp"

namespace acapella::anonymize {
namespace {

constexpr std::size_t kMaxCachedAddresses = 1U << 16;  // about 2 MiB; then the cache is cleared
constexpr std::uint64_t kGroupBit = std::uint64_t{1} << 40;
constexpr std::uint64_t kLocalBit = std::uint64_t{2} << 40;

std::uint64_t number_of(const Mac& address) {
    std::uint64_t number = 0;
    for (const std::byte byte : address) number = number << 8 | std::to_integer<std::uint64_t>(byte);
    return number;
}

Mac mac_of(std::uint64_t number) {
    Mac address;
    for (std::size_t i = address.size(); i-- > 0; number >>= 8) address[i] = static_cast<std::byte>(number);
    return address;
}

// Kind `other` keeps bits 7 to 4, 1 and 0 of the first byte; gather() packs the other 42 bits into a number,
// and scatter() restores them.
constexpr std::uint64_t kKept = std::uint64_t{0xf3} << 40;
constexpr std::uint64_t kLow40 = (std::uint64_t{1} << 40) - 1;

std::uint64_t gather(std::uint64_t address) { return (address >> 42 & 3) << 40 | (address & kLow40); }

std::uint64_t scatter(std::uint64_t bits) { return (bits >> 40 & 3) << 42 | (bits & kLow40); }

}  // namespace

CryptoPan::CryptoPan(Key key) : aes_(key.first<kBlock>()) {
    std::copy_n(key.data() + kBlock, kBlock, padding_.begin());
    aes_.encrypt(padding_);
}

template <std::size_t length>
std::array<std::byte, length> CryptoPan::mapped(const std::array<std::byte, length>& address) const {
    constexpr std::size_t kBits = length * 8;
    std::array<std::byte, kBits * kBlock> blocks;
    // Block i: the first i bits of the address, then the padding from bit i on.
    std::array<std::byte, kBlock> block = padding_;
    for (std::size_t bit = 0; bit < kBits; ++bit) {
        std::copy(block.begin(), block.end(), blocks.begin() + static_cast<std::ptrdiff_t>(bit * kBlock));
        const auto mask = static_cast<std::byte>(0x80U >> (bit % 8));
        block[bit / 8] = (block[bit / 8] & ~mask) | (address[bit / 8] & mask);
    }
    aes_.encrypt(blocks);
    std::array<std::byte, length> result = address;
    for (std::size_t bit = 0; bit < kBits; ++bit)
        result[bit / 8] ^= (blocks[bit * kBlock] & std::byte{0x80}) >> (bit % 8);
    return result;
}

Ipv4 CryptoPan::map(const Ipv4& address) const { return mapped(address); }
Ipv6 CryptoPan::map(const Ipv6& address) const { return mapped(address); }

MacMap::MacMap(Key key, MacPolicy policy, const Vendors* vendors)
    : permutation_(key, "acapella anonymise: MAC addresses"),  // keys depend on it; codespell:ignore
      policy_(policy),
      vendors_(vendors) {}

MacMap::Kind MacMap::kind_of(std::uint64_t address) {
    constexpr std::uint64_t kIeee =
        0x0180c2000000;  // to :2f: bridges, LLDP, LACP (IEEE 802.1Q table 8-1), and GARP (:20 to :2f)
    // CDP, VTP, UDLD; the next address: per-VLAN spanning tree
    constexpr std::uint64_t kCisco = 0x01000ccccccc;
    if (address == 0 || address == 0xffffffffffff || address - kIeee < 0x30 || address - kCisco < 2)
        return Kind::fixed;
    if (address >> 23 == 0x01005e000000U >> 23) return Kind::ipv4_group;  // RFC 1112 section 6.4
    if (address >> 32 == 0x3333) return Kind::ipv6_group;                 // RFC 2464 section 7
    return Kind::other;
}

unsigned MacMap::free_bits(Kind kind) {
    switch (kind) {
        case Kind::fixed:
            return 0;
        case Kind::ipv4_group:
            return 24;
        case Kind::ipv6_group:
            return 32;
        case Kind::other:
            break;
    }
    return 42;
}

bool MacMap::knows_vendor(std::uint64_t address) const {
    return vendors_ != nullptr && (address & (kGroupBit | kLocalBit)) == 0 &&
           vendors_->knows(static_cast<std::uint32_t>(address >> 24));
}

bool MacMap::starts_like_ipv4(std::uint64_t address) {
    const std::uint64_t first = address >> 40;
    return first >= 0x45 && first <= 0x4e;
}

bool MacMap::same_class(std::uint64_t a, std::uint64_t b) const {
    return kind_of(a) == kind_of(b) && knows_vendor(a) == knows_vendor(b) &&
           starts_like_ipv4(a) == starts_like_ipv4(b);
}

// Permutes until the result has the same class as the address, so that the mapping is one-to-one.
std::uint64_t MacMap::replaced(std::uint64_t address) const {
    const Kind kind = kind_of(address);
    if (kind == Kind::fixed) return address;
    const unsigned bits = free_bits(kind);
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    std::uint64_t result = address;
    if (policy_ == MacPolicy::blank) return kind == Kind::other ? address & kKept : address & ~mask;
    do {
        result = kind == Kind::other ? (result & kKept) | scatter(permutation_.map(gather(result), bits))
                                     : (result & ~mask) | permutation_.map(result & mask, bits);
    } while (!same_class(address, result));
    return result;
}

Mac MacMap::map(const Mac& address) {
    const std::uint64_t number = number_of(address);
    const auto found = known_.find(number);
    if (found != known_.end()) return mac_of(found->second);
    if (known_.size() == kMaxCachedAddresses) known_.clear();
    return mac_of(known_[number] = replaced(number));
}

}  // namespace acapella::anonymize
