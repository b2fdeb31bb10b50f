// Functions that parse lists of values printed by tshark.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace acapella::hybrid {

// Removes the text up to `separator` from `rest` and returns it.
inline std::string_view take(std::string_view& rest, char separator) {
    const std::size_t end = std::min(rest.find(separator), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return part;
}

// Returns value number `index` (from 0) of a list; empty if the list is shorter.
inline std::string_view nth(std::string_view list, std::size_t index) {
    std::string_view value = take(list, ',');
    for (; index > 0; --index) value = take(list, ',');
    return value;
}

inline std::size_t length(std::string_view list) {
    return list.empty() ? 0 : 1 + static_cast<std::size_t>(std::ranges::count(list, ','));
}

// Returns the number of occurrences of a token in a colon-separated text.
inline std::size_t tokens_in(std::string_view rest, std::string_view token) {
    std::size_t count = 0;
    while (!rest.empty()) count += take(rest, ':') == token;
    return count;
}

// Parses a decimal number, or a hexadecimal one after 0x.
template <typename Integer>
std::optional<Integer> number(std::string_view text) {
    const bool hexadecimal = text.starts_with("0x");
    if (hexadecimal) text.remove_prefix(2);
    std::uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
    if (error != std::errc{} || end == text.data()) return std::nullopt;
    return static_cast<Integer>(value);
}

}  // namespace acapella::hybrid
