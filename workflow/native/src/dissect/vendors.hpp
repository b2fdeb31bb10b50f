// The 24-bit address prefixes (OUIs) of vendors known to tshark. tshark uses them to detect whether a
// pseudowire has a control word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace acapella {

class Vendors {
  public:
    Vendors() : known_(kPrefixes / kBits) {}

    // Adds the lines of a file in the format of `manuf` and `wka` of Wireshark 4.0: an address, optionally
    // "/" and a prefix length, then names. Only three-byte addresses are added, because tshark uses only
    // these for pseudowires. Other lines, such as blocks of 28 and 36 bits, are ignored.
    void add(std::string_view text);

    // `prefix` is the prefix as in the address, including the multicast bit.
    [[nodiscard]] bool knows(std::uint32_t prefix) const {
        return (known_[prefix / kBits % known_.size()] >> (prefix % kBits) & 1) != 0;
    }
    [[nodiscard]] std::size_t size() const { return size_; }

  private:
    static constexpr std::size_t kPrefixes = std::size_t{1} << 24;
    static constexpr std::size_t kBits = 64;

    void add_line(std::string_view line);

    std::vector<std::uint64_t> known_;  // one bit per prefix, 2 MiB
    std::size_t size_ = 0;
};

}  // namespace acapella
