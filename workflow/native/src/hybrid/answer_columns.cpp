#include "hybrid/answer_columns.hpp"

#include <algorithm>
#include <span>

#include "hybrid/answer_fields.hpp"

namespace acapella::hybrid {
namespace {

constexpr Form form_of(Field field) {
    switch (field) {
        case Field::ip_src:
        case Field::ip_dst:
            return Form::kAddress4;
        case Field::ipv6_src:
        case Field::ipv6_dst:
            return Form::kAddress6;
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
            return Form::kHexadecimal;
        default:
            return Form::kDecimal;
    }
}

constexpr bool is_pair(const Column& column) {
    return column.count > 1 &&
           form_of(column.fields[column.count - 2]) == form_of(column.fields[column.count - 1]);
}

// Every field that is asked for is in one column.
constexpr bool is_complete() {
    std::array<int, kFields> columns{};
    for (const Field field : kFrameColumn) ++columns[static_cast<std::size_t>(field)];
    for (const Column& column : kColumns)
        for (std::size_t i = 0; i < column.count; ++i) ++columns[static_cast<std::size_t>(column.fields[i])];
    for (std::size_t i = 0; i < kAskedFields; ++i)
        if (columns[i] != (static_cast<Field>(i) == Field::service_text ? 0 : 1)) return false;
    return true;
}
static_assert(is_complete());

Form form_of(std::string_view value) {
    if (value.starts_with("0x")) return Form::kHexadecimal;
    if (value.find(':') != std::string_view::npos) return Form::kAddress6;
    return value.find('.') != std::string_view::npos ? Form::kAddress4 : Form::kDecimal;
}

// The first `count` values of a list; `rest` is what follows.
std::string_view take_values(std::string_view& rest, std::size_t count) {
    const std::string_view list = rest;
    for (; count > 0; --count) take(rest, ',');
    const std::size_t taken = list.size() - rest.size();
    return list.substr(0, taken - (taken > 0 && list[taken - 1] == ',' ? 1 : 0));
}

// The values of `form` that a list begins with.
std::size_t values_of(std::string_view list, Form form) {
    std::size_t count = 0;
    while (!list.empty() && form_of(take(list, ',')) == form) ++count;
    return count;
}

void split(const Column& column, std::string_view text, Answer& answer) {
    const std::size_t pair = is_pair(column) ? column.count - 2 : column.count;
    for (std::size_t i = 0; i < column.count; ++i) {
        const Field field = column.fields[i];
        if (text.starts_with(',')) text.remove_prefix(1);  // tshark 4.0 writes two before a list of several
        std::size_t count = values_of(text, form_of(field));
        if (i == pair) count = (count + 1) / 2;
        answer.fields[static_cast<std::size_t>(field)] = take_values(text, count);
    }
    if (!text.empty()) throw AnswerError("tshark gave an unexpected value: " + std::string(take(text, ',')));
}

}  // namespace

std::string expression_of(std::span<const Field> fields) {
    std::string text;
    for (const Field field : fields)
        text.append(text.empty() ? "" : " || ").append(kFieldNames[static_cast<std::size_t>(field)]);
    return text;
}

void split_columns(std::string_view line, Answer& answer) {
    std::string_view frame = take(line, '\t');
    if (frame.size() >= kLongestColumn) frame = frame.substr(0, frame.rfind(':'));  // a last token may be cut
    for (const Field field : {Field::number, Field::encap})
        answer.fields[static_cast<std::size_t>(field)] = take(frame, ',');
    answer.fields[static_cast<std::size_t>(Field::protocols)] = frame;
    for (const Column& column : kColumns) {
        const std::string_view text = take(line, '\t');
        if (column.count == 1 || text.empty()) {
            for (std::size_t i = 0; i < column.count; ++i)
                answer.fields[static_cast<std::size_t>(column.fields[i])] = text;
        } else {
            split(column, text, answer);
        }
    }
}

}  // namespace acapella::hybrid
