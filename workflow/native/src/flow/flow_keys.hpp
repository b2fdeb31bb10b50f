// Numbers flow keys. Endpoints (addresses, protocol, ports) and tags (VLAN ids, MPLS labels, tunnel
// identifiers) have separate row numbers, and a key is a pair of them. Numbers are in order of first
// appearance and do not depend on hashes.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "containers/hash_index.hpp"
#include "containers/pool.hpp"
#include "containers/table_hash.hpp"
#include "frame/dissection.hpp"
#include "frame/tunnels.hpp"

namespace acapella {

struct Endpoints {
    using Words = std::array<std::uint64_t, 5>;

    std::array<std::byte, 16> src{};  // IPv4: 4 bytes, the rest zero
    std::array<std::byte, 16> dst{};
    std::uint16_t src_port = 0;
    std::uint16_t dst_port = 0;
    std::uint8_t ip_version = 0;
    std::uint8_t ip_proto = 0;
    bool has_ports = false;
    std::uint8_t zero = 0;  // explicit padding, because the struct is hashed and compared as words

    static Endpoints of(const Dissection& dissection);
    Endpoints reversed() const;
    Words words() const { return std::bit_cast<Words>(*this); }
};
static_assert(sizeof(Endpoints) == 40 && std::endian::native == std::endian::little);

struct FlowKey {
    std::uint32_t endpoints;
    std::uint32_t tags;
};

struct TagsView {
    std::span<const std::uint16_t> vlans;
    std::span<const std::uint32_t> labels;
    std::span<const Tunnel> tunnels = {};
};

// The tags of most frames, small enough for a key to be compared within one cache line: a VLAN id and either
// three MPLS labels, or a label and a tunnel.
class ShortTags {
  public:
    using Words = std::array<std::uint64_t, 2>;

    static ShortTags of(const Dissection& dissection);
    // Returns true if it contains all tags of the frame.
    bool is_complete() const {
        return vlan_count() <= 1 && label_count_ <= (tunnel_count() == 0 ? 3 : 1) && tunnel_count() <= 1;
    }
    Words words() const { return std::bit_cast<Words>(*this); }

    // Valid only if is_complete().
    std::span<const std::uint16_t> vlans() const { return {&vlan_, vlan_count()}; }
    std::span<const std::uint32_t> labels() const { return {values_.data(), label_count_}; }
    std::size_t tunnel_count() const { return counts_ >> kTunnelShift; }
    Tunnel tunnel() const { return std::bit_cast<Tunnel>(std::array{values_[1], values_[2]}); }

  private:
    static constexpr unsigned kTunnelShift = 4;
    static_assert(kMaxVlans < 1U << kTunnelShift);

    std::size_t vlan_count() const { return counts_ & ((1U << kTunnelShift) - 1); }

    std::uint8_t counts_ = 0;  // of VLAN ids and, at most 15, of tunnels
    std::uint8_t label_count_ = 0;
    std::uint16_t vlan_ = 0;
    std::array<std::uint32_t, 3> values_{};  // labels; with a tunnel, the last two values are the tunnel
};
static_assert(sizeof(ShortTags) == 16);

// Returns the 128-bit flow id: the BLAKE2b hash of these fields in big-endian order: u16 length of the site
// and its UTF-8 bytes; u8 count and u16 VLAN ids; u8 count and u32 labels; u8 count and, for each tunnel, u8
// type (its number in schemas/tunnels.tsv), u32 identifier and u16 position; u8 IP version; source and
// destination address (4 or 16 bytes each); u8 protocol; u8 1 and u16 source and destination port, or u8 0 if
// there are no ports. A missing site is hashed like an empty one.
std::array<std::byte, 16> flow_id_of(const Endpoints& endpoints, TagsView tags, std::string_view site);
std::string hex_text(const std::array<std::byte, 16>& bytes);

class FlowKeys {
  public:
    explicit FlowKeys(TableHash hash = TableHash()) : hash_(hash) {}

    // Returns the key's number, or kNone for a frame without an IP header.
    std::uint32_t intern(const Dissection& dissection);

    // The same as intern() in three steps, so that memory latencies overlap when many frames are processed at
    // a time. start_lookup() returns false for the few frames that require intern(dissection).
    struct Lookup {
        Endpoints endpoints;
        ShortTags tags;
        std::uint64_t hash;
    };
    bool start_lookup(const Dissection& dissection, Lookup& lookup) const;
    void prefetch_key(const Lookup& lookup) const;
    std::uint32_t intern(const Lookup& lookup);

    std::uint32_t size() const { return keys_.size(); }
    std::uint64_t bytes() const;  // of memory
    FlowKey key(std::uint32_t number) const { return {keys_[number].endpoints_row, keys_[number].tags_row}; }

    const Endpoints& endpoints(std::uint32_t row) const { return keys_[endpoints_[row].first_key].endpoints; }
    // Returns the row of the reversed endpoints, or kNone. Also kNone if both endpoints are equal, because
    // then the directions cannot be distinguished.
    std::uint32_t reversed(std::uint32_t endpoints_row) const { return endpoints_[endpoints_row].reversed; }

    std::span<const std::uint16_t> vlans(std::uint32_t tags_row) const;
    std::span<const std::uint32_t> labels(std::uint32_t tags_row) const;
    std::span<const Tunnel> tunnels(std::uint32_t tags_row) const;
    // Classes of tags. Each one subdivides the previous one; the positions of tunnels are ignored. shared():
    // tags of one class have equal identifiers for tunnels that use the same identifier in both directions
    // (VNI).
    std::uint32_t shared(std::uint32_t tags_row) const { return class_of(shared_, tags_row); }
    bool same_shared(std::uint32_t tags_row, std::uint32_t other_row) const {
        return tags_row == other_row || same_class(shared_, tags_row, other_row);
    }
    // network(): in addition, equal VLAN stacks.
    std::uint32_t network(std::uint32_t tags_row) const { return class_of(networks_, tags_row); }
    // keyed_network(): in addition, equal identifiers that are usually the same in both directions (GRE key).
    std::uint32_t keyed_network(std::uint32_t tags_row) const { return class_of(keyed_networks_, tags_row); }

    std::array<std::byte, 16> flow_id(std::uint32_t number, std::string_view site) const;

  private:
    // The data compared by a lookup, in one cache line.
    struct alignas(64) Key {
        Endpoints endpoints;
        ShortTags tags;
        std::uint32_t endpoints_row;
        std::uint32_t tags_row;
    };
    static_assert(sizeof(Key) == 64);
    struct EndpointsRow {
        std::uint32_t first_key;  // the first key with these endpoints
        std::uint32_t reversed;
    };
    // Location of the tags of a row: the first key with these tags, or longer_tags_ if they include a tunnel
    // or do not fit in ShortTags.
    struct TagsRow {
        static constexpr std::uint32_t kMaxRow = 0x7fffffff;

        std::uint32_t is_longer : 1;
        std::uint32_t row : 31;  // a row of keys_ or longer_tags_
    };
    struct LongerTags {
        std::uint32_t first_vlan;
        std::uint32_t first_label;
        std::uint32_t first_tunnel;
        std::uint8_t vlan_count;
        std::uint8_t label_count;
        std::uint8_t tunnel_count;
    };

    // Classes of tags by VLAN stack and by some tunnel identifiers.
    struct TagsClasses {
        bool is_compared(const Tunnel& tunnel) const;

        Directions directions;  // tunnels up to this kind are compared
        bool by_vlans;
        Pool<std::uint32_t> first_rows{};
        HashIndex index{};

        std::uint64_t bytes() const { return first_rows.bytes() + index.bytes(); }
    };

    TagsView tags_view(std::uint32_t row) const { return {vlans(row), labels(row), tunnels(row)}; }
    std::uint64_t hash(const Endpoints& endpoints) const;
    std::uint64_t hash(const Endpoints& endpoints, const ShortTags& tags, std::uint64_t longer_tags) const;
    std::uint64_t hash_tags(TagsView tags) const;
    std::uint64_t hash_key(std::uint32_t number) const;
    bool same_tags(std::uint32_t row, TagsView tags) const;
    std::uint32_t add_key(const Lookup& lookup, TagsView tags);
    std::uint32_t intern_endpoints(const Endpoints& endpoints, std::uint32_t key);
    std::uint32_t find_endpoints(const Endpoints& endpoints, std::uint64_t hash) const;
    std::uint32_t intern_tags(TagsView tags, std::uint32_t key);
    TagsRow add_tags(TagsView tags, std::uint32_t key);
    std::uint64_t hash_class(const TagsClasses& classes, std::uint32_t tags_row) const;
    bool same_class(const TagsClasses& classes, std::uint32_t tags_row, std::uint32_t other_row) const;
    std::uint32_t class_of(const TagsClasses& classes, std::uint32_t tags_row) const;
    void intern_class(TagsClasses& classes, std::uint32_t tags_row);

    TableHash hash_;
    Pool<Key> keys_;
    HashIndex key_index_;
    Pool<EndpointsRow> endpoints_;
    HashIndex endpoints_index_;
    Pool<TagsRow> tags_;
    HashIndex tags_index_;
    TagsClasses shared_{Directions::same, false};
    TagsClasses networks_{Directions::same, true};
    TagsClasses keyed_networks_{Directions::mostly_same, true};
    Pool<LongerTags> longer_tags_;
    std::vector<std::uint16_t> vlan_values_;
    std::vector<std::uint32_t> label_values_;
    std::vector<Tunnel> tunnel_values_;
};

std::string address_text(std::uint8_t ip_version, const std::array<std::byte, 16>& address);

}  // namespace acapella
