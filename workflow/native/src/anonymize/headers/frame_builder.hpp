// The anonymized frame under construction. It contains only bytes of known headers that were copied
// explicitly.
#pragma once

#include <cstdint>
#include <vector>

#include "anonymize/pseudonyms/address_map.hpp"
#include "dissect/trace.hpp"
#include "frame/cursor.hpp"
#include "frame/record.hpp"

namespace acapella::anonymize {

enum class ChecksumKind : std::uint8_t {
    plain,   // over the header and the data after it
    pseudo,  // with the IP pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1)
    udp,     // like `pseudo`, but 0 means no checksum
    crc32c,
};

// A checksum to be computed once the covered bytes are complete.
struct PendingChecksum {
    ChecksumKind kind = ChecksumKind::plain;
    std::uint8_t proto = 0;       // of the pseudo-header
    std::uint8_t ip_version = 0;  // 0: the pseudo-header is unknown
    std::uint32_t ip_begin = 0;
    std::uint32_t begin = 0;
    std::uint32_t length = 0;         // number of covered bytes from `begin`
    std::uint32_t pseudo_length = 0;  // the length in the pseudo-header
    std::uint32_t field = 0;          // offset of the checksum from the start of the frame
};

class FrameBuilder {
  public:
    explicit FrameBuilder(Pseudonyms& pseudonyms) : pseudonyms_(pseudonyms) {}

    // Starts a new frame. Its bytes must remain valid until finish().
    void start(Bytes frame, std::uint32_t wire_len);

    [[nodiscard]] std::size_t size() const { return out_.size(); }
    [[nodiscard]] Bytes bytes() const { return out_; }
    // Returns a cursor at `offset` in the original frame.
    [[nodiscard]] Cursor original(std::size_t offset) const;

    // Extend the frame to `end` with the original bytes or with zeros, but not beyond the captured length.
    void keep_to(std::size_t end);
    void blank_to(std::size_t end);
    // Change bytes of the frame. These functions do nothing unless the whole range is captured and part of
    // the frame.
    void copy_original(std::size_t offset, std::size_t count);
    void fill(std::size_t offset, std::size_t count, std::uint8_t value);
    void put16(std::size_t offset, std::uint16_t value);
    void put32_little(std::size_t offset, std::uint32_t value);
    template <typename Address>
    void map(std::size_t offset);
    // Replaces the first bytes of an IPv6 address whose remaining bytes are zero.
    void map_prefix(std::size_t offset, std::size_t length);
    // Replaces an IPv4 address that is stored with all bits inverted.
    void map_inverted(std::size_t offset);
    // Replaces a tunnel identifier in the last bits of a field of 1 to 4 bytes.
    void map_tunnel(std::size_t offset, std::size_t length, TunnelType type);

    // Registers a checksum. The field is zero until finish().
    void add_checksum(const PendingChecksum& sum);
    // Computes the checksums of complete ranges, inner headers first. The other checksums remain zero.
    void finish();

    // The nearest IP header. `addresses_known`: the pseudo-header has the same addresses.
    std::uint8_t ip_version = 0;
    std::uint32_t ip_begin = 0;
    bool addresses_known = false;
    bool fragment = false;  // no checksum above IP can be computed for a fragment

  private:
    [[nodiscard]] bool inside(std::size_t offset, std::size_t count) const;
    void put(std::size_t offset, Bytes bytes);
    void write_checksum(const PendingChecksum& sum);

    Pseudonyms& pseudonyms_;
    Bytes frame_;
    std::uint32_t wire_len_ = 0;
    std::vector<std::byte> out_;
    std::vector<PendingChecksum> checksums_;
};

// One header of the frame, with offsets relative to it.
class Header {
  public:
    Header(FrameBuilder& out, const Step& found) : builder(out), step(found), at(cursor_of(out, found)) {}

    FrameBuilder& builder;
    const Step& step;
    const Cursor at;  // the captured bytes from the start of the header, limited by outer length fields

    // The header length accepted by the dissector; 0 if it rejected the header.
    [[nodiscard]] std::size_t length() const { return step.end - step.begin; }
    [[nodiscard]] std::size_t kept() const { return builder.size() - step.begin; }

    void keep(std::size_t count) { builder.keep_to(step.begin + count); }
    void blank(std::size_t count) { builder.blank_to(step.begin + count); }
    void copy_original(std::size_t offset, std::size_t count) {
        builder.copy_original(step.begin + offset, count);
    }
    void fill(std::size_t offset, std::size_t count, std::uint8_t value) {
        builder.fill(step.begin + offset, count, value);
    }
    void put16(std::size_t offset, std::uint16_t value) { builder.put16(step.begin + offset, value); }
    void ipv4(std::size_t offset) { builder.map<Ipv4>(step.begin + offset); }
    void ipv6(std::size_t offset) { builder.map<Ipv6>(step.begin + offset); }
    void mac(std::size_t offset) { builder.map<Mac>(step.begin + offset); }
    void tunnel(std::size_t offset, std::size_t length, TunnelType type) {
        builder.map_tunnel(step.begin + offset, length, type);
    }
    // Adds a checksum over all bytes within the nearest length field, or over `length` bytes.
    void add_checksum(ChecksumKind kind, std::size_t field, std::uint8_t proto = 0) {
        add_checksum(kind, field, proto, at.reported());
    }
    void add_checksum(ChecksumKind kind, std::size_t field, std::uint8_t proto, std::size_t length);

  private:
    static Cursor cursor_of(const FrameBuilder& builder, const Step& step) {
        Cursor cursor = builder.original(step.begin);
        cursor.limit(step.reported);
        return cursor;
    }
};

}  // namespace acapella::anonymize
