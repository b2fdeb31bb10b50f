#include "hybrid/selection.hpp"

#include <algorithm>
#include <bit>

namespace acapella::hybrid {
namespace {

constexpr std::uint32_t kMaxNewInARow = 32;
constexpr std::uint32_t kWordFactor = 4;
constexpr std::uint32_t kRecheckFactor = 4;  // ratio of the frame numbers of consecutive rechecks

bool is_text(std::uint8_t byte) {
    return (byte >= 0x20 && byte < 0x7f) || byte == '\t' || byte == '\n' || byte == '\r';
}

// Returns the first four bytes; bytes that were not captured are zero.
std::uint32_t long_start(Bytes payload) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
        value = (value << 8) | (i < payload.size() ? std::to_integer<std::uint32_t>(payload[i]) : 0U);
    return value;
}

// Returns true for the start of a word, such as GET, HELO, 227.
bool is_word(std::uint32_t start) {
    for (int shift = 0; shift < 32; shift += 8)
        if (!is_text(static_cast<std::uint8_t>(start >> shift))) return false;
    return true;
}

// Returns all four bytes of a word, otherwise only two, which are usually followed by lengths and numbers.
std::uint32_t short_start(std::uint32_t start) { return is_word(start) ? start : start & 0xffff0000; }

}  // namespace

Choice Selection::select(std::uint32_t flow_number, Bytes payload, std::uint32_t payload_len) {
    Flow& flow = flow_of(flow_number);
    bool send = flow.frames < policy_.first;
    if (due_for_recheck(flow)) send = true;
    ++flow.frames;
    const auto length = static_cast<std::uint8_t>(std::bit_width(payload_len));
    if (flow.new_in_a_row >= kMaxNewInARow) return select_by_length(flow_number, length, send);

    const std::uint32_t start = long_start(payload);
    const std::uint32_t kinds = is_word(start) ? kWordFactor * policy_.kinds : policy_.kinds;
    const Lookup fine = find(flow_number, start, Kind::Level::long_start, length);
    const Lookup coarse = fine.row != kNone
                              ? Lookup{0, kinds_[fine.row].parent}
                              : find(flow_number, short_start(start), Kind::Level::start, length);
    if (coarse.row == kNone) {
        ++flow.new_in_a_row;  // at most kMaxNewInARow
        if (flow.starts.allows(kinds)) {
            send = true;
            flow.starts.add_new();
        }
    } else {
        flow.new_in_a_row = 0;
        flow.starts.add_known();
        if (!kinds_[coarse.row].seen_twice) send = kinds_[coarse.row].seen_twice = true;
    }
    if (fine.row != kNone) {
        flow.long_starts.add_known();
        return {fine.row, send};
    }
    if (flow.long_starts.allows(kinds)) {
        send = true;
        flow.long_starts.add_new();
    }
    if (!send && coarse.row != kNone) return {coarse.row, false};
    const Choice by_length = select_by_length(flow_number, length, send);
    if (!send) return by_length;
    std::uint32_t row = coarse.row;
    if (row == kNone)
        row = add(coarse, {flow_number, short_start(start), by_length.kind, Kind::Level::start, length});
    if (row == kNone) return by_length;
    const std::uint32_t finest = add(fine, {flow_number, start, row, Kind::Level::long_start, length});
    return {finest != kNone ? finest : row, true};
}

// Selects frames with payload whose start does not identify the message.
Choice Selection::select_by_length(std::uint32_t number, std::uint8_t length, bool send) {
    const Lookup lookup = find(number, 0, Kind::Level::length, length);
    if (lookup.row != kNone) return {lookup.row, send};
    const std::uint32_t row =
        send ? add(lookup, {number, 0, kFlowKind | number, Kind::Level::length, length}) : kNone;
    return {row != kNone ? row : kFlowKind | number, send};
}

bool Selection::due_for_recheck(Flow& flow) const {
    std::uint64_t next = policy_.again;
    for (int i = 0; i < flow.rechecks; ++i) next *= kRecheckFactor;
    if (flow.frames < next) return false;
    ++flow.rechecks;
    return true;
}

Selection::Flow& Selection::flow_of(std::uint32_t number) {
    while (flows_.size() <= number) flows_.add(Flow{});
    return flows_[number];
}

std::uint64_t Selection::hash_of(std::uint32_t flow, std::uint32_t start, Kind::Level level,
                                 std::uint8_t length) const {
    const std::uint64_t state = TableHash::mix(hash_.start(), (std::uint64_t{flow} << 32) | start);
    return TableHash::mix(state, (static_cast<std::uint64_t>(level) << 8) | length);
}

Selection::Lookup Selection::find(std::uint32_t flow, std::uint32_t start, Kind::Level level,
                                  std::uint8_t length) const {
    const std::uint64_t hash = hash_of(flow, start, level, length);
    return {hash, index_.find(hash, [&](std::uint32_t row) {
                const Kind& kind = kinds_[row];
                return kind.flow == flow && kind.start == start && kind.level == level &&
                       kind.length_class == length;
            })};
}

// Adds a kind. Returns its row, or kNone if there are too many kinds.
std::uint32_t Selection::add(const Lookup& lookup, const Kind& kind) {
    if (kinds_.size() >= kMaxKinds) return kNone;
    const std::uint32_t row = kinds_.add(kind);
    index_.insert(lookup.hash, row, [this](std::uint32_t old) {
        const Kind& known = kinds_[old];
        return hash_of(known.flow, known.start, known.level, known.length_class);
    });
    return row;
}

}  // namespace acapella::hybrid
