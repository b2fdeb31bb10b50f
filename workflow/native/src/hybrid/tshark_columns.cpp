#include "hybrid/tshark_columns.hpp"

#include <algorithm>
#include <span>

#include "hybrid/field_lists.hpp"

namespace acapella::hybrid {
namespace {

constexpr ValueFormat format_of(Field field) {
    switch (field) {
        case Field::ip_src:
        case Field::ip_dst:
            return ValueFormat::kAddress4;
        case Field::ipv6_src:
        case Field::ipv6_dst:
            return ValueFormat::kAddress6;
        case Field::tcp_flags:
        case Field::vxlan_flags:
        case Field::geneve_vni:
        case Field::gre_flags:
        case Field::gre_proto:
        case Field::gre_key:
        case Field::gtp_flags:
        case Field::gtp_message:
        case Field::gtp_teid:
        case Field::l2tp_sid:
        case Field::pppoe_session:
        case Field::ip_id:
            return ValueFormat::kHexadecimal;
        default:
            return ValueFormat::kDecimal;
    }
}

constexpr bool is_pair(const TsharkColumn& column) {
    return column.count > 1 &&
           format_of(column.fields[column.count - 2]) == format_of(column.fields[column.count - 1]);
}

// Returns true if every requested field except service_text is in exactly one column.
constexpr bool is_complete() {
    std::array<int, kReferenceFields> columns{};
    for (const Field field : kFirstColumn) ++columns[static_cast<std::size_t>(field)];
    for (const TsharkColumn& column : kTsharkColumns)
        for (std::size_t i = 0; i < column.count; ++i) ++columns[static_cast<std::size_t>(column.fields[i])];
    for (std::size_t i = 0; i < kDigestFields; ++i)
        if (columns[i] != (static_cast<Field>(i) == Field::service_text ? 0 : 1)) return false;
    return true;
}
static_assert(is_complete());

ValueFormat format_of(std::string_view value) {
    if (value.starts_with("0x")) return ValueFormat::kHexadecimal;
    if (value.find(':') != std::string_view::npos) return ValueFormat::kAddress6;
    return value.find('.') != std::string_view::npos ? ValueFormat::kAddress4 : ValueFormat::kDecimal;
}

// Removes the first `count` values of a list from `rest` and returns them.
std::string_view take_values(std::string_view& rest, std::size_t count) {
    const std::string_view list = rest;
    for (; count > 0; --count) take(rest, ',');
    const std::size_t removed = list.size() - rest.size();
    return list.substr(0, removed - (removed > 0 && list[removed - 1] == ',' ? 1 : 0));
}

// Returns the number of values of this format at the start of a list.
std::size_t count_values(std::string_view list, ValueFormat format) {
    std::size_t count = 0;
    while (!list.empty() && format_of(take(list, ',')) == format) ++count;
    return count;
}

void split(const TsharkColumn& column, std::string_view text, TsharkRow& tshark_row) {
    const std::size_t pair = is_pair(column) ? column.count - 2 : column.count;
    for (std::size_t i = 0; i < column.count; ++i) {
        const Field field = column.fields[i];
        // tshark 4.0 prints two commas before a list of several values
        if (text.starts_with(',')) text.remove_prefix(1);
        std::size_t count = count_values(text, format_of(field));
        if (i == pair) count = (count + 1) / 2;
        tshark_row.fields[static_cast<std::size_t>(field)] = take_values(text, count);
    }
    if (!text.empty())
        throw TsharkOutputError("tshark printed an unexpected value: " + std::string(take(text, ',')));
}

}  // namespace

std::string expression_of(std::span<const Field> fields) {
    std::string text;
    for (const Field field : fields)
        text.append(text.empty() ? "" : " || ").append(kFieldNames[static_cast<std::size_t>(field)]);
    return text;
}

void split_columns(std::string_view line, TsharkRow& tshark_row) {
    std::string_view frame = take(line, '\t');
    if (frame.size() >= kMaxColumnBytes)
        frame = frame.substr(0, frame.rfind(':'));  // the last token may be truncated
    for (const Field field : {Field::number, Field::encap})
        tshark_row.fields[static_cast<std::size_t>(field)] = take(frame, ',');
    tshark_row.fields[static_cast<std::size_t>(Field::protocols)] = frame;
    for (const TsharkColumn& column : kTsharkColumns) {
        const std::string_view text = take(line, '\t');
        if (column.count == 1 || text.empty()) {
            for (std::size_t i = 0; i < column.count; ++i)
                tshark_row.fields[static_cast<std::size_t>(column.fields[i])] = text;
        } else {
            split(column, text, tshark_row);
        }
    }
}

}  // namespace acapella::hybrid
