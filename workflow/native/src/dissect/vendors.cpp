#include "dissect/vendors.hpp"

#include <algorithm>
#include <charconv>

namespace acapella {
namespace {

constexpr std::size_t kAddress = 8;  // "00:1B:21"

bool separates(char sign) { return sign == ':' || sign == '-' || sign == '.'; }

// Parses two hexadecimal digits.
bool hex_byte(std::string_view digits, std::uint32_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return error == std::errc{} && end == digits.data() + digits.size();
}

}  // namespace

void Vendors::add(std::string_view text) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        add_line(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

void Vendors::add_line(std::string_view line) {
    if (line.size() <= kAddress || !separates(line[2]) || line[5] != line[2]) return;
    if (line[kAddress] != '\t' && line[kAddress] != ' ') return;
    std::uint32_t bytes[3];
    for (std::size_t i = 0; i < 3; ++i)
        if (!hex_byte(line.substr(3 * i, 2), bytes[i])) return;
    const std::uint32_t prefix = bytes[0] << 16 | bytes[1] << 8 | bytes[2];
    if (knows(prefix)) return;
    known_[prefix / kBits] |= std::uint64_t{1} << (prefix % kBits);
    ++size_;
}

}  // namespace acapella
