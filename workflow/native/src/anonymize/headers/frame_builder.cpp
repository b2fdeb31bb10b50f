#include "anonymize/headers/frame_builder.hpp"

#include <algorithm>

#include "anonymize/headers/checksum.hpp"

namespace acapella::anonymize {

void FrameBuilder::start(Bytes frame, std::uint32_t wire_len) {
    frame_ = frame;
    wire_len_ = wire_len;
    out_.clear();
    checksums_.clear();
    ip_version = 0;
    ip_begin = 0;
    addresses_known = false;
    fragment = false;
}

Cursor FrameBuilder::original(std::size_t offset) const {
    Cursor cursor(frame_, wire_len_);
    cursor.skip(offset);
    return cursor;
}

void FrameBuilder::keep_to(std::size_t end) {
    const std::size_t from = out_.size();
    blank_to(end);
    copy_original(from, out_.size() - from);
}

void FrameBuilder::blank_to(std::size_t end) {
    end = std::min(end, original(0).captured());
    if (end > out_.size()) out_.resize(end);
}

bool FrameBuilder::inside(std::size_t offset, std::size_t count) const {
    return offset <= out_.size() && count <= out_.size() - offset;
}

void FrameBuilder::put(std::size_t offset, Bytes bytes) {
    if (inside(offset, bytes.size()))
        std::copy(bytes.begin(), bytes.end(), out_.begin() + static_cast<std::ptrdiff_t>(offset));
}

void FrameBuilder::copy_original(std::size_t offset, std::size_t count) {
    if (count > 0 && inside(offset, count)) original(offset).copy(0, count, out_.data() + offset);
}

void FrameBuilder::fill(std::size_t offset, std::size_t count, std::uint8_t value) {
    if (inside(offset, count))
        std::fill_n(out_.begin() + static_cast<std::ptrdiff_t>(offset), count, std::byte{value});
}

void FrameBuilder::put16(std::size_t offset, std::uint16_t value) {
    put(offset, std::array{static_cast<std::byte>(value >> 8), static_cast<std::byte>(value)});
}

void FrameBuilder::put32_little(std::size_t offset, std::uint32_t value) {
    std::array<std::byte, 4> bytes;
    for (std::byte& byte : bytes) {
        byte = static_cast<std::byte>(value);
        value >>= 8;
    }
    put(offset, bytes);
}

template <typename Address>
void FrameBuilder::map(std::size_t offset) {
    Address address{};
    if (!inside(offset, address.size())) return;
    original(offset).copy(0, address.size(), address.data());
    put(offset, pseudonyms_.map(address));
}

template void FrameBuilder::map<Ipv4>(std::size_t offset);
template void FrameBuilder::map<Ipv6>(std::size_t offset);
template void FrameBuilder::map<Mac>(std::size_t offset);

void FrameBuilder::map_prefix(std::size_t offset, std::size_t length) {
    Ipv6 address{};
    length = std::min(length, address.size());
    if (!inside(offset, length)) return;
    original(offset).copy(0, length, address.data());
    const Ipv6 mapped = pseudonyms_.map(address);
    put(offset, Bytes(mapped).first(length));
}

void FrameBuilder::map_inverted(std::size_t offset) {
    Ipv4 address{};
    if (!inside(offset, address.size())) return;
    original(offset).copy(0, address.size(), address.data());
    for (std::byte& byte : address) byte = ~byte;
    address = pseudonyms_.map(address);
    for (std::byte& byte : address) byte = ~byte;
    put(offset, address);
}

void FrameBuilder::map_tunnel(std::size_t offset, std::size_t length, TunnelType type) {
    std::array<std::byte, 4> field{};
    length = std::min(length, field.size());
    if (!inside(offset, length)) return;
    original(offset).copy(0, length, field.data());
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < length; ++i) number = number << 8 | std::to_integer<std::uint64_t>(field[i]);
    const std::size_t bits = std::min<std::size_t>(8 * length, bits_of(type));
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    number = (number & ~mask) | pseudonyms_.map(type, static_cast<std::uint32_t>(number & mask));
    for (std::size_t i = length; i-- > 0; number >>= 8) field[i] = static_cast<std::byte>(number);
    put(offset, Bytes(field).first(length));
}

void FrameBuilder::add_checksum(const PendingChecksum& sum) {
    const std::size_t width = sum.kind == ChecksumKind::crc32c ? 4 : 2;
    if (!inside(sum.field, width)) {  // the field is truncated
        for (std::size_t i = sum.field; i < out_.size(); ++i) out_[i] = std::byte{0};
        return;
    }
    if (sum.kind == ChecksumKind::udp && original(sum.field).be16(0) == 0) return;
    const std::array<std::byte, 4> zeros{};
    put(sum.field, Bytes(zeros).first(width));
    checksums_.push_back(sum);
}

void FrameBuilder::finish() {
    std::for_each(checksums_.rbegin(), checksums_.rend(),
                  [this](const PendingChecksum& sum) { write_checksum(sum); });
}

void FrameBuilder::write_checksum(const PendingChecksum& sum) {
    if (!inside(sum.begin, sum.length)) return;
    const Bytes covered = Bytes(out_).subspan(sum.begin, sum.length);
    if (sum.kind == ChecksumKind::crc32c) {
        put32_little(sum.field, crc32c(covered));
        return;
    }
    InternetSum total;
    if (sum.kind != ChecksumKind::plain) {
        const bool is_ipv4 = sum.ip_version == 4;
        const std::size_t addresses = sum.ip_begin + (is_ipv4 ? 12 : 8);
        const std::size_t length = is_ipv4 ? 8 : 32;
        if (sum.ip_version == 0 || !inside(addresses, length)) return;
        total.add(Bytes(out_).subspan(addresses, length));
        total.add(sum.proto);
        total.add(static_cast<std::uint16_t>(sum.pseudo_length >> 16));
        total.add(static_cast<std::uint16_t>(sum.pseudo_length));
    }
    total.add(covered);
    const std::uint16_t checksum = total.checksum();
    put16(sum.field, sum.kind == ChecksumKind::udp && checksum == 0 ? 0xffff : checksum);
}

void Header::add_checksum(ChecksumKind kind, std::size_t field, std::uint8_t proto, std::size_t length) {
    builder.add_checksum({.kind = kind,
                          .proto = proto,
                          .ip_version = builder.addresses_known ? builder.ip_version : std::uint8_t{0},
                          .ip_begin = builder.ip_begin,
                          .begin = step.begin,
                          .length = builder.fragment ? UINT32_MAX : static_cast<std::uint32_t>(length),
                          .pseudo_length = static_cast<std::uint32_t>(at.reported()),
                          .field = static_cast<std::uint32_t>(step.begin + field)});
}

}  // namespace acapella::anonymize
