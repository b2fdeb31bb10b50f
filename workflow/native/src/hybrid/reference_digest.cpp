#include "hybrid/reference_digest.hpp"

#include <charconv>

#include "frame/issue.hpp"

namespace acapella::hybrid {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;

template <typename Integer>
Integer exact_number(std::string_view text) {
    Integer value{};
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

// Parses seconds with nine decimals, such as "-1.250000000".
std::int64_t nanoseconds(std::string_view text) {
    const bool negative = text.starts_with('-');
    if (negative) text.remove_prefix(1);
    const std::size_t point = text.find('.');
    if (point == std::string_view::npos) return 0;
    const auto seconds = exact_number<std::int64_t>(text.substr(0, point));
    if (seconds > kFirstImplausibleNs / kSecondNs)
        return negative ? -kFirstImplausibleNs : kFirstImplausibleNs;
    const std::int64_t ns = seconds * kSecondNs + exact_number<std::int64_t>(text.substr(point + 1));
    return negative ? -ns : ns;
}

FrameRow row_of(const TsharkRow& tshark_row, const Dissection& keys) {
    Record record;
    // tshark prints no timestamp for a simple packet block either
    record.timed = !tshark_row[Field::time].empty();
    record.ts_ns = nanoseconds(tshark_row[Field::time]);
    FrameRow row = frame_row(record, keys, 0, 0);
    // tshark prints some plausible times as negative (erratum fraction_overflows): keep them for the
    // comparison.
    if (record.timed && record.ts_ns < 0)
        row.bits = static_cast<std::uint8_t>(row.bits & ~(FrameRow::kUntimed | FrameRow::kImplausible));
    row.frame = exact_number<std::uint64_t>(tshark_row[Field::number]);
    row.wire_len = exact_number<std::uint32_t>(tshark_row[Field::len]);
    row.cap_len = exact_number<std::uint32_t>(tshark_row[Field::cap_len]);
    return row;
}

}  // namespace

std::optional<Batch> ReferenceDigest::next_frames() {
    while (!builder_.full()) {
        const TsharkRow* tshark_row = tshark_output_.next();
        if (tshark_row == nullptr) break;
        if ((*tshark_row)[Field::encap].empty()) {  // not a frame
            ++blocks_not_frames_;
            continue;
        }
        take_keys(*tshark_row, dissection_);
        FrameRow row = row_of(*tshark_row, dissection_);
        row.frame -= blocks_not_frames_;
        row.key = keys_.intern(dissection_);
        const std::uint32_t stack = header_stacks_.intern(tshark_row->protocols(), stack_text(*tshark_row));
        tags_.add(row.frame, dissection_, (*tshark_row)[Field::eth_dst]);
        builder_.add(row, {stack, L4By::kTshark, AppBy::kTshark});
    }
    Batch batch = builder_.take_frames();
    if (batch.columns.length == 0) return std::nullopt;
    return batch;
}

}  // namespace acapella::hybrid
