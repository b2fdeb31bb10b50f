#include "anonymize/leaks/leaks.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstring>

#include "anonymize/file.hpp"
#include "dissect/dispatch.hpp"
#include "input/byte_source.hpp"
#include "input/capture_reader.hpp"

namespace acapella::anonymize {
namespace {

constexpr std::uint64_t kBetweenProgress = 4096;  // frames
constexpr std::size_t kMinValues = 6;  // minimum number of distinct bytes in a run; others are padding

std::uint64_t first_bytes(const std::byte* at) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
}

std::size_t hash_of(std::uint64_t value, unsigned bits) { return value * 0x9e3779b97f4a7c15U >> (64 - bits); }

std::size_t count_distinct(Bytes bytes) {
    std::bitset<256> values;
    for (const std::byte byte : bytes) values.set(std::to_integer<std::size_t>(byte));
    return values.count();
}

// Calls visit(offset, address) for the addresses of one kind.
template <typename Address, typename Visit>
void visit_each(Bytes frame, const std::vector<std::size_t>& offsets, const Visit& visit) {
    for (const std::size_t offset : offsets) {
        Address address;
        std::memcpy(address.data(), frame.data() + offset, address.size());
        visit(offset, address);
    }
}

template <typename Visit>
void visit_addresses(Bytes frame, const HeaderFields& fields, const Visit& visit) {
    visit_each<Ipv4>(frame, fields.ipv4, visit);
    visit_each<Ipv6>(frame, fields.ipv6, visit);
    visit_each<Mac>(frame, fields.macs, visit);
}

bool is_zero(Bytes bytes) {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

// Returns true if an address is unlikely to occur by chance. False for IPv4 addresses, which have only four
// bytes, and for addresses with few distinct bytes, such as 00:00:00:00:00:01.
bool is_distinctive(const Ipv4&) { return false; }
template <typename Address>
bool is_distinctive(const Address& address) {
    constexpr std::size_t kMin = 4;
    const bool zero = std::find(address.begin(), address.end(), std::byte{0}) != address.end();
    return count_distinct(address) - (zero ? 1 : 0) >= kMin;
}

// Returns the offset of a run in `released`, one of `run_offsets`, that also occurs in `original`.
std::optional<std::size_t> find_moved(Bytes original, Bytes released,
                                      const std::vector<std::size_t>& run_offsets) {
    constexpr unsigned kBits = 12;
    std::bitset<(1U << kBits)> bits;
    for (const std::size_t run_offset : run_offsets)
        bits.set(hash_of(first_bytes(released.data() + run_offset), kBits));
    for (std::size_t at = 0; !run_offsets.empty() && at + kRunBytes <= original.size(); ++at) {
        if (!bits.test(hash_of(first_bytes(original.data() + at), kBits))) continue;
        for (const std::size_t run_offset : run_offsets)
            if (std::memcmp(released.data() + run_offset, original.data() + at, kRunBytes) == 0)
                return run_offset;
    }
    return std::nullopt;
}

// Returns the offset of an unchanged run of bytes outside headers that has enough distinct values.
std::optional<std::size_t> find_kept(Bytes original, Bytes released, const std::vector<bool>& header) {
    const std::size_t size = std::min(released.size(), original.size());
    std::size_t begin = 0;
    for (std::size_t end = 0; end <= size; ++end) {
        if (end < size && !header[end] && released[end] == original[end]) continue;
        if (end - begin >= kRunBytes && count_distinct(released.subspan(begin, end - begin)) >= kMinValues)
            return begin;
        begin = end + 1;
    }
    return std::nullopt;
}

// Returns the offset of an original byte in a range that must be zero.
std::optional<std::size_t> find_value(Bytes original, Bytes released, const std::vector<Range>& blank) {
    for (const Range& range : blank)
        for (std::size_t i = range.begin; i < std::min(range.end, original.size()); ++i)
            if (released[i] != std::byte{0} && released[i] == original[i]) return i;
    return std::nullopt;
}

}  // namespace

Windows::Windows(const std::vector<std::string_view>& texts, bool all_runs) {
    for (const std::string_view text : texts) {
        for (std::size_t at = 0; at + kRunBytes <= text.size() && (all_runs || at == 0); ++at) {
            windows_.emplace(text.substr(at, kRunBytes));
            bits_[bit(text.data() + at)] = true;
        }
    }
}

void Windows::add(const char* at) {
    if (windows_.size() == kMax) return;
    windows_.emplace(at, kRunBytes);
    bits_[bit(at)] = true;
}

std::size_t Windows::bit(const char* at) {
    return hash_of(first_bytes(reinterpret_cast<const std::byte*>(at)), kBits);
}

std::optional<std::size_t> Windows::find(Bytes bytes) const {
    const char* start = reinterpret_cast<const char*>(bytes.data());
    for (std::size_t at = 0; at + kRunBytes <= bytes.size(); ++at)
        if (bits_[bit(start + at)] && windows_.contains(std::string(start + at, kRunBytes))) return at;
    return std::nullopt;
}

void LeakFinder::read_fields(const Record& record) {
    fields_.clear();
    trace_.link_end = 0;
    dissect(record, dissection_, vendors_, Depth::as_tshark, &trace_);
    fields_.headers.push_back({0, trace_.link_end});
    for (std::size_t i = 0; i < trace_.count; ++i) fields_.read(record, trace_.steps[i]);
}

// Searches the address fields of the released frame for original addresses. Also searches for the addresses
// in fields of the original frame: at the same offset or, if they are distinctive, anywhere in the released
// frame.
std::optional<Leak> LeakFinder::find_addresses(const Record& original, const Record& released) {
    std::optional<Leak> leak;
    read_fields(original);
    const auto in_original = [&](std::size_t offset, const auto& address) {
        const auto& known = known_.of(address);
        if (leak || known.is_pseudonym(address) || is_zero(address)) return;
        const bool inside = offset + address.size() <= released.bytes.size();
        if (inside && std::ranges::equal(released.bytes.subspan(offset, address.size()), address))
            leak = Leak{.offset = offset, .what = "an original address"};
        if (leak || !is_distinctive(address) || !known.is_forbidden(address)) return;
        const auto begin = released.bytes.begin();
        const auto found = std::search(begin, released.bytes.end(), address.begin(), address.end());
        if (found != released.bytes.end())
            leak = Leak{.offset = static_cast<std::size_t>(found - begin),
                        .what = "the bytes of an original address"};
    };
    visit_addresses(original.bytes, fields_, in_original);
    if (leak) return leak;
    read_fields(released);
    const auto in_released = [&](std::size_t offset, const auto& address) {
        const auto& known = known_.of(address);
        if (!leak && known.is_forbidden(address))
            leak = Leak{.offset = offset, .what = "an original address in a header"};
        if (known.is_pseudonym(address))
            std::fill_n(pseudonym_.begin() + static_cast<std::ptrdiff_t>(offset), address.size(), true);
    };
    pseudonym_.assign(released.bytes.size(), false);
    visit_addresses(released.bytes, fields_, in_released);
    return leak;
}

// Collects runs in which at least half of the bytes differ from the original at the same offset, are not part
// of a pseudonym, and are not zero.
void LeakFinder::collect_unexplained(Bytes original, Bytes released) {
    constexpr std::size_t kHalf = kRunBytes / 2;
    run_offsets_.clear();
    const auto differs = [&](std::size_t i) {
        return !pseudonym_[i] && released[i] != std::byte{0} &&
               (i >= original.size() || released[i] != original[i]);
    };
    std::size_t count = 0;
    for (std::size_t end = 0; end < released.size(); ++end) {
        count += differs(end) ? 1 : 0;
        if (end >= kRunBytes) count -= differs(end - kRunBytes) ? 1 : 0;
        const std::size_t begin = end + 1 - kRunBytes;
        if (end + 1 >= kRunBytes && count >= kHalf &&
            count_distinct(released.subspan(begin, kRunBytes)) >= kMinValues)
            run_offsets_.push_back(begin);
    }
}

std::optional<Leak> LeakFinder::find_runs(Bytes original, const Record& released, Windows& unexplained) {
    if (const auto at = find_value(original, released.bytes, fields_.blank))
        return Leak{.offset = *at, .what = "an option value that should have been removed"};
    header_.assign(released.bytes.size(), false);
    for (const Range& range : fields_.headers)
        std::fill(header_.begin() + static_cast<std::ptrdiff_t>(range.begin),
                  header_.begin() + static_cast<std::ptrdiff_t>(range.end), true);
    if (const auto at = find_kept(original, released.bytes, header_))
        return Leak{.offset = *at, .what = "a run of payload"};
    collect_unexplained(original, released.bytes);
    if (const auto at = find_moved(original, released.bytes, run_offsets_))
        return Leak{.offset = *at, .what = "a run of payload at a different offset"};
    for (const std::size_t run_offset : run_offsets_)
        unexplained.add(reinterpret_cast<const char*>(released.bytes.data() + run_offset));
    const std::size_t kept = std::min(released.bytes.size(), original.size());
    if (texts_.empty()) return std::nullopt;
    if (const auto at = texts_.find(original.subspan(kept)))
        return Leak{.offset = kept + *at, .what = "payload that also occurs in a text of the release"};
    return std::nullopt;
}

std::optional<Leak> LeakFinder::find(const Record& original, const Record& released, Windows& unexplained) {
    std::optional<Leak> leak = find_addresses(original, released);
    if (!leak) leak = find_runs(original.bytes, released, unexplained);
    if (leak) leak->frame = original.frame;
    return leak;
}

std::optional<Leak> find_leak(const std::string& original, const std::string& released,
                              const KnownAddresses& known, const Windows& texts, const Vendors* vendors,
                              Windows& unexplained, const std::function<void()>& progress,
                              const input::DecompressionLimits& limits) {
    const auto sources =
        std::array{input::ByteSource::open(original, limits), input::ByteSource::open(released)};
    const auto readers = std::array{input::open_capture(*sources[0]), input::open_capture(*sources[1])};
    LeakFinder finder(known, texts, vendors);
    Record before;
    Record after;
    std::uint64_t frames = 0;
    while (readers[0]->next(before)) {
        if (!readers[1]->next(after) || after.wire_len != before.wire_len)
            throw AnonymizeError(released + ": does not have the frames of the original");
        if (auto leak = finder.find(before, after, unexplained)) return leak;
        if (++frames % kBetweenProgress == 0) progress();
    }
    if (readers[1]->next(after))
        throw AnonymizeError(released + ": does not have the frames of the original");
    return std::nullopt;
}

std::optional<Leak> find_windows(const std::string& original, const Windows& windows,
                                 const std::function<void()>& progress,
                                 const input::DecompressionLimits& limits) {
    const auto source = input::ByteSource::open(original, limits);
    const auto reader = input::open_capture(*source);
    Record record;
    std::uint64_t frames = 0;
    while (reader->next(record)) {
        if (const auto at = windows.find(record.bytes))
            return Leak{.frame = record.frame, .offset = *at, .what = "a run of payload of a frame"};
        if (++frames % kBetweenProgress == 0) progress();
    }
    return std::nullopt;
}

}  // namespace acapella::anonymize
