// The 24-bit address prefixes that tshark knows a vendor of: what its choice of a pseudowire's form rests on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace acapella {

class Vendors {
  public:
    Vendors() : known_(kPrefixes / kBits) {}

    // Adds the lines of a list in the form of Wireshark 4.0's `manuf` and `wka`: an address, perhaps "/" and
    // its bits, then names. Only addresses of three bytes count: tshark looks pseudowires' addresses up among
    // these alone, so that blocks of 28 and 36 bits, and whole addresses, are no vendors here. Other lines
    // are passed over.
    void add(std::string_view text);

    // Of a prefix as it stands in the address, the multicast bit included.
    [[nodiscard]] bool knows(std::uint32_t prefix) const {
        return (known_[prefix / kBits % known_.size()] >> (prefix % kBits) & 1) != 0;
    }
    [[nodiscard]] std::size_t size() const { return size_; }

  private:
    static constexpr std::size_t kPrefixes = std::size_t{1} << 24;
    static constexpr std::size_t kBits = 64;

    void add_line(std::string_view line);

    std::vector<std::uint64_t> known_;  // a bit for each prefix, 2 MiB
    std::size_t size_ = 0;
};

}  // namespace acapella
