#include "flow/flow_keys.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "flow/blake2b.hpp"
#include "frame/tunnels.hpp"

namespace acapella {
namespace {

TagsView tags_of(const Dissection& d) {
    return {
        {d.vlans.data(), d.vlan_count}, {d.labels.data(), d.label_count}, {d.tunnels.data(), d.tunnel_count}};
}

// Excludes the position, because the headers before it may differ by direction.
std::uint64_t type_and_id(const Tunnel& tunnel) {
    return static_cast<std::uint64_t>(tunnel.type) << 32 | tunnel.id;
}

// Builds the input of the flow id hash. The longest input has a site of 65,535 bytes.
class KeyBytes {
  public:
    template <typename T>
    void number(T value) {
        for (std::size_t shift = 8 * sizeof(T); shift > 0; shift -= 8)
            bytes_.push_back(
                static_cast<std::byte>((static_cast<std::uint64_t>(value) >> (shift - 8)) & 0xff));
    }
    void raw(const void* data, std::size_t size) {
        const auto* bytes = static_cast<const std::byte*>(data);
        bytes_.insert(bytes_.end(), bytes, bytes + size);
    }
    std::span<const std::byte> view() const { return bytes_; }

  private:
    std::vector<std::byte> bytes_;
};

}  // namespace

// Both addresses are assembled in registers, because reading words from an array just written as bytes would
// stall.
Endpoints Endpoints::of(const Dissection& d) {
    Words words{};
    if (d.ip_version == 4) {
        std::memcpy(&words[0], d.src.data(), 4);
        std::memcpy(&words[2], d.dst.data(), 4);
    } else {
        std::memcpy(&words[0], d.src.data(), 16);
        std::memcpy(&words[2], d.dst.data(), 16);
    }
    const bool ports = d.has_ports && !d.later_fragment;
    words[4] =
        std::uint64_t{d.ip_version} << 32 | std::uint64_t{d.ip_proto} << 40 | std::uint64_t{ports} << 48;
    if (ports) words[4] |= d.src_port | std::uint64_t{d.dst_port} << 16;
    return std::bit_cast<Endpoints>(words);
}

Endpoints Endpoints::reversed() const {
    Endpoints e = *this;
    std::swap(e.src, e.dst);
    std::swap(e.src_port, e.dst_port);
    return e;
}

ShortTags ShortTags::of(const Dissection& d) {
    Words words{d.vlan_count | std::uint64_t{d.label_count} << 8, 0};
    if (d.vlan_count > 0) words[0] |= std::uint64_t{d.vlans[0]} << 16;
    if (d.label_count > 0) words[0] |= std::uint64_t{d.labels[0]} << 32;
    if (d.label_count > 1) words[1] |= d.labels[1];
    if (d.label_count > 2) words[1] |= std::uint64_t{d.labels[2]} << 32;
    if (d.tunnel_count > 0) [[unlikely]] {
        words[0] |= std::uint64_t{std::min<std::uint8_t>(d.tunnel_count, 15)} << kTunnelShift;
        words[1] = std::bit_cast<std::uint64_t>(d.tunnels[0]);
    }
    return std::bit_cast<ShortTags>(words);
}

std::uint64_t FlowKeys::hash(const Endpoints& endpoints) const {
    const Endpoints::Words e = endpoints.words();
    return hash_.words(std::array{e[0], e[1], e[2], e[3], e[4], std::uint64_t{0}});
}

std::uint64_t FlowKeys::hash(const Endpoints& endpoints, const ShortTags& tags,
                             std::uint64_t longer_tags) const {
    const Endpoints::Words e = endpoints.words();
    const ShortTags::Words t = tags.words();
    return hash_.words(std::array{e[0], e[1], e[2], e[3], e[4], t[0], t[1], longer_tags});
}

std::uint64_t FlowKeys::hash_tags(TagsView tags) const {
    std::uint64_t state = TableHash::mix(hash_.start(), tags.vlans.size() * 256 + tags.labels.size());
    for (const std::uint16_t vlan : tags.vlans) state = TableHash::mix(state, vlan);
    for (const std::uint32_t label : tags.labels) state = TableHash::mix(state, label);
    for (const Tunnel& tunnel : tags.tunnels)
        state = TableHash::mix(state, std::bit_cast<std::uint64_t>(tunnel));
    return state;
}

std::uint64_t FlowKeys::hash_key(std::uint32_t number) const {
    const Key& key = keys_[number];
    return hash(key.endpoints, key.tags, key.tags.is_complete() ? 0 : hash_tags(tags_view(key.tags_row)));
}

std::span<const std::uint16_t> FlowKeys::vlans(std::uint32_t row) const {
    const TagsRow& tags = tags_[row];
    if (tags.is_longer) {
        const LongerTags& longer = longer_tags_[tags.row];
        return std::span(vlan_values_).subspan(longer.first_vlan, longer.vlan_count);
    }
    return keys_[tags.row].tags.vlans();
}

std::span<const std::uint32_t> FlowKeys::labels(std::uint32_t row) const {
    const TagsRow& tags = tags_[row];
    if (tags.is_longer) {
        const LongerTags& longer = longer_tags_[tags.row];
        return std::span(label_values_).subspan(longer.first_label, longer.label_count);
    }
    return keys_[tags.row].tags.labels();
}

std::span<const Tunnel> FlowKeys::tunnels(std::uint32_t row) const {
    const TagsRow& tags = tags_[row];
    if (!tags.is_longer) return {};
    const LongerTags& longer = longer_tags_[tags.row];
    return std::span(tunnel_values_).subspan(longer.first_tunnel, longer.tunnel_count);
}

bool FlowKeys::same_tags(std::uint32_t row, TagsView tags) const {
    return std::ranges::equal(vlans(row), tags.vlans) && std::ranges::equal(labels(row), tags.labels) &&
           std::ranges::equal(tunnels(row), tags.tunnels);
}

std::uint32_t FlowKeys::intern(const Dissection& d) {
    if (d.ip_version == 0) return kNone;
    Lookup lookup{Endpoints::of(d), ShortTags::of(d), 0};
    const bool is_complete = lookup.tags.is_complete();
    lookup.hash = hash(lookup.endpoints, lookup.tags, is_complete ? 0 : hash_tags(tags_of(d)));
    if (is_complete) return intern(lookup);
    const std::uint32_t found = key_index_.find(lookup.hash, [&](std::uint32_t number) {
        const Key& key = keys_[number];
        return key.endpoints.words() == lookup.endpoints.words() && same_tags(key.tags_row, tags_of(d));
    });
    return found != kNone ? found : add_key(lookup, tags_of(d));
}

bool FlowKeys::start_lookup(const Dissection& d, Lookup& lookup) const {
    if (d.ip_version == 0) return false;
    lookup.tags = ShortTags::of(d);
    if (!lookup.tags.is_complete()) return false;
    lookup.endpoints = Endpoints::of(d);
    lookup.hash = hash(lookup.endpoints, lookup.tags, 0);
    key_index_.prefetch(lookup.hash);
    return true;
}

void FlowKeys::prefetch_key(const Lookup& lookup) const {
    const std::uint32_t guess = key_index_.guess(lookup.hash);
    if (guess != kNone) __builtin_prefetch(&keys_[guess]);
}

std::uint32_t FlowKeys::intern(const Lookup& lookup) {
    const std::uint32_t found = key_index_.find(lookup.hash, [&](std::uint32_t number) {
        const Key& key = keys_[number];
        return key.endpoints.words() == lookup.endpoints.words() && key.tags.words() == lookup.tags.words();
    });
    if (found != kNone) return found;
    const ShortTags& tags = lookup.tags;
    const Tunnel tunnel = tags.tunnel();
    return add_key(lookup, {tags.vlans(), tags.labels(), {&tunnel, tags.tunnel_count()}});
}

std::uint32_t FlowKeys::add_key(const Lookup& lookup, TagsView tags) {
    const std::uint32_t number = keys_.add({lookup.endpoints, lookup.tags, kNone, kNone});
    keys_[number].tags_row = intern_tags(tags, number);
    keys_[number].endpoints_row = intern_endpoints(lookup.endpoints, number);
    key_index_.insert(lookup.hash, number, [this](std::uint32_t row) { return hash_key(row); });
    return number;
}

std::uint64_t FlowKeys::bytes() const {
    return keys_.bytes() + key_index_.bytes() + endpoints_.bytes() + endpoints_index_.bytes() +
           tags_.bytes() + tags_index_.bytes() + shared_.bytes() + networks_.bytes() +
           keyed_networks_.bytes() + longer_tags_.bytes() + vlan_values_.capacity() * sizeof(std::uint16_t) +
           label_values_.capacity() * sizeof(std::uint32_t) + tunnel_values_.capacity() * sizeof(Tunnel);
}

std::uint32_t FlowKeys::find_endpoints(const Endpoints& wanted, std::uint64_t wanted_hash) const {
    return endpoints_index_.find(wanted_hash,
                                 [&](std::uint32_t row) { return endpoints(row).words() == wanted.words(); });
}

std::uint32_t FlowKeys::intern_endpoints(const Endpoints& added, std::uint32_t key) {
    const std::uint64_t added_hash = hash(added);
    const std::uint32_t found = find_endpoints(added, added_hash);
    if (found != kNone) return found;
    const Endpoints other = added.reversed();
    const std::uint32_t opposite = find_endpoints(other, hash(other));
    const std::uint32_t row = endpoints_.add({key, opposite});
    if (opposite != kNone) endpoints_[opposite].reversed = row;
    endpoints_index_.insert(added_hash, row, [this](std::uint32_t old) { return hash(endpoints(old)); });
    return row;
}

std::uint32_t FlowKeys::intern_tags(TagsView tags, std::uint32_t key) {
    const std::uint64_t tags_hash = hash_tags(tags);
    const std::uint32_t found =
        tags_index_.find(tags_hash, [&](std::uint32_t row) { return same_tags(row, tags); });
    if (found != kNone) return found;
    const std::uint32_t row = tags_.add(add_tags(tags, key));
    intern_class(shared_, row);
    intern_class(networks_, row);
    intern_class(keyed_networks_, row);
    tags_index_.insert(tags_hash, row, [this](std::uint32_t old) { return hash_tags(tags_view(old)); });
    return row;
}

FlowKeys::TagsRow FlowKeys::add_tags(TagsView tags, std::uint32_t key) {
    if (tags.tunnels.empty() && keys_[key].tags.is_complete())
        return {.is_longer = 0, .row = key & TagsRow::kMaxRow};
    const std::uint32_t row =
        longer_tags_.add({.first_vlan = static_cast<std::uint32_t>(vlan_values_.size()),
                          .first_label = static_cast<std::uint32_t>(label_values_.size()),
                          .first_tunnel = static_cast<std::uint32_t>(tunnel_values_.size()),
                          .vlan_count = static_cast<std::uint8_t>(tags.vlans.size()),
                          .label_count = static_cast<std::uint8_t>(tags.labels.size()),
                          .tunnel_count = static_cast<std::uint8_t>(tags.tunnels.size())});
    vlan_values_.insert(vlan_values_.end(), tags.vlans.begin(), tags.vlans.end());
    label_values_.insert(label_values_.end(), tags.labels.begin(), tags.labels.end());
    tunnel_values_.insert(tunnel_values_.end(), tags.tunnels.begin(), tags.tunnels.end());
    return {.is_longer = 1, .row = row & TagsRow::kMaxRow};
}

bool FlowKeys::TagsClasses::is_compared(const Tunnel& tunnel) const {
    return directions_of(tunnel.type) <= directions;
}

std::uint64_t FlowKeys::hash_class(const TagsClasses& classes, std::uint32_t tags_row) const {
    std::uint64_t state = hash_tags({classes.by_vlans ? vlans(tags_row) : TagsView{}.vlans, {}});
    for (const Tunnel& tunnel : tunnels(tags_row))
        if (classes.is_compared(tunnel)) state = TableHash::mix(state, type_and_id(tunnel));
    return state;
}

bool FlowKeys::same_class(const TagsClasses& classes, std::uint32_t tags_row, std::uint32_t other_row) const {
    if (classes.by_vlans && !std::ranges::equal(vlans(tags_row), vlans(other_row))) return false;
    const auto is_compared = [&](const Tunnel& tunnel) { return classes.is_compared(tunnel); };
    const auto row_tunnels = tunnels(tags_row);
    const auto other_tunnels = tunnels(other_row);
    auto a = row_tunnels.begin();
    auto b = other_tunnels.begin();
    for (;; ++a, ++b) {
        a = std::find_if(a, row_tunnels.end(), is_compared);
        b = std::find_if(b, other_tunnels.end(), is_compared);
        if (a == row_tunnels.end() || b == other_tunnels.end())
            return a == row_tunnels.end() && b == other_tunnels.end();
        if (type_and_id(*a) != type_and_id(*b)) return false;
    }
}

std::uint32_t FlowKeys::class_of(const TagsClasses& classes, std::uint32_t tags_row) const {
    return classes.index.find(hash_class(classes, tags_row), [&](std::uint32_t row) {
        return same_class(classes, classes.first_rows[row], tags_row);
    });
}

void FlowKeys::intern_class(TagsClasses& classes, std::uint32_t tags_row) {
    if (class_of(classes, tags_row) != kNone) return;
    const std::uint32_t added = classes.first_rows.add(tags_row);
    const auto hash_of = [&](std::uint32_t row) { return hash_class(classes, classes.first_rows[row]); };
    classes.index.insert(hash_of(added), added, hash_of);
}

std::array<std::byte, 16> flow_id_of(const Endpoints& e, TagsView tags, std::string_view site) {
    const std::size_t width = e.ip_version == 4 ? 4 : 16;
    KeyBytes bytes;
    bytes.number(static_cast<std::uint16_t>(site.size()));
    bytes.raw(site.data(), site.size());
    bytes.number(static_cast<std::uint8_t>(tags.vlans.size()));
    for (const std::uint16_t vlan : tags.vlans) bytes.number(vlan);
    bytes.number(static_cast<std::uint8_t>(tags.labels.size()));
    for (const std::uint32_t label : tags.labels) bytes.number(label);
    bytes.number(static_cast<std::uint8_t>(tags.tunnels.size()));
    for (const Tunnel& tunnel : tags.tunnels) {
        bytes.number(static_cast<std::uint8_t>(tunnel.type));
        bytes.number(tunnel.id);
        bytes.number(tunnel.position);
    }
    bytes.number(e.ip_version);
    bytes.raw(e.src.data(), width);
    bytes.raw(e.dst.data(), width);
    bytes.number(e.ip_proto);
    bytes.number(static_cast<std::uint8_t>(e.has_ports));
    if (e.has_ports) {
        bytes.number(e.src_port);
        bytes.number(e.dst_port);
    }
    return blake2b_128(bytes.view());
}

std::string hex_text(const std::array<std::byte, 16>& bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const std::byte byte : bytes) {
        text += kDigits[static_cast<std::size_t>(byte) >> 4];
        text += kDigits[static_cast<std::size_t>(byte) & 15];
    }
    return text;
}

std::array<std::byte, 16> FlowKeys::flow_id(std::uint32_t number, std::string_view site) const {
    return flow_id_of(keys_[number].endpoints, tags_view(key(number).tags), site);
}

std::string address_text(std::uint8_t ip_version, const std::array<std::byte, 16>& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(ip_version == 4 ? AF_INET : AF_INET6, address.data(), text.data(), text.size());
    return text.data();
}

}  // namespace acapella
