// Internet checksums (RFC 1071) and SCTP's CRC32c (RFC 9260 appendix A).
#pragma once

#include <cstdint>

#include "frame/record.hpp"

namespace acapella::anonymize {

// Computes the one's complement sum of data that is added in pieces. All pieces except the last have an even
// length.
class InternetSum {
  public:
    void add(Bytes bytes);
    void add(std::uint16_t word) { sum_ += word; }
    [[nodiscard]] std::uint16_t checksum() const;

  private:
    std::uint64_t sum_ = 0;
};

std::uint32_t crc32c(Bytes bytes);

}  // namespace acapella::anonymize
