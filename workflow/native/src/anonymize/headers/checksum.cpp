#include "anonymize/headers/checksum.hpp"

#include "frame/cursor.hpp"

namespace acapella::anonymize {

void InternetSum::add(Bytes bytes) {
    const Cursor at(bytes, bytes.size());
    std::size_t i = 0;
    for (; i + 1 < bytes.size(); i += 2) sum_ += at.be16(i);
    if (i < bytes.size()) sum_ += std::uint64_t{at.u8(i)} << 8;
}

std::uint16_t InternetSum::checksum() const {
    std::uint64_t sum = sum_;
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

std::uint32_t crc32c(Bytes bytes) {
    constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected
    std::uint32_t crc = ~std::uint32_t{0};
    for (const std::byte byte : bytes) {
        crc ^= std::to_integer<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (kPolynomial & (0 - (crc & 1)));
    }
    return ~crc;
}

}  // namespace acapella::anonymize
