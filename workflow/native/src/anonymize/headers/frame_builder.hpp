// The anonymized frame under construction. It contains only bytes that were put there explicitly, for known
// headers.
#pragma once

#include <cstdint>
#include <vector>

#include "anonymize/pseudonyms/address_map.hpp"
#include "dissect/trace.hpp"
#include "frame/cursor.hpp"
#include "frame/record.hpp"

namespace acapella::anonymize {

enum class ChecksumKind : std::uint8_t {
    plain,   // over the header and what follows
    pseudo,  // with the IP pseudo-header (RFC 9293 3.1, RFC 8200 8.1)
    udp,     // as pseudo; 0: no checksum
    crc32c,
};

// A checksum that is computed when the covered bytes are complete.
struct PendingChecksum {
    ChecksumKind kind = ChecksumKind::plain;
    std::uint8_t proto = 0;       // of the pseudo-header
    std::uint8_t ip_version = 0;  // 0: the pseudo-header is unknown
    std::uint32_t ip_begin = 0;
    std::uint32_t begin = 0;
    std::uint32_t length = 0;  // number of covered bytes from `begin` on
    std::uint32_t whole = 0;   // the length in the pseudo-header
    std::uint32_t field = 0;   // offset of the checksum from the start of the frame
};

class FrameBuilder {
  public:
    explicit FrameBuilder(Pseudonyms& pseudonyms) : pseudonyms_(pseudonyms) {}

    // Starts a new frame; its bytes have to stay valid until finish().
    void start(Bytes frame, std::uint32_t wire_len);

    [[nodiscard]] std::size_t size() const { return out_.size(); }
    [[nodiscard]] Bytes bytes() const { return out_; }
    // The original frame from `offset` on.
    [[nodiscard]] Cursor original(std::size_t offset) const;

    // Extend the frame to `end`, with the original bytes or with zeros; never beyond the captured length.
    void keep_to(std::size_t end);
    void blank_to(std::size_t end);
    // Change bytes of the frame. They do nothing if the range is not completely in the frame and captured.
    void copy_original(std::size_t offset, std::size_t count);
    void fill(std::size_t offset, std::size_t count, std::uint8_t value);
    void put16(std::size_t offset, std::uint16_t value);
    void put32_little(std::size_t offset, std::uint32_t value);
    template <typename Address>
    void map(std::size_t offset);
    // The first bytes of an IPv6 address whose other bytes are zero.
    void map_prefix(std::size_t offset, std::size_t length);
    // An IPv4 address with all bits inverted.
    void map_inverted(std::size_t offset);
    // A tunnel identifier in the last bits of a field of 1 to 4 bytes.
    void map_tunnel(std::size_t offset, std::size_t length, TunnelType type);

    // The checksum at `sum.field` is zero until finish().
    void add_checksum(const PendingChecksum& sum);
    // Computes the checksums of complete ranges, inner ones first; the others remain zero.
    void finish();

    // The nearest IP header, and whether its addresses are those of the pseudo-header.
    std::uint8_t ip_version = 0;
    std::uint32_t ip_begin = 0;
    bool addresses_known = false;
    bool fragment = false;  // a fragment: no checksum above IP can be computed

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
    const Cursor at;  // the captured bytes from the header on, within outer length fields

    // The length that the dissector accepted; 0 if it rejected the header.
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
    // Adds a checksum over everything within the nearest length field, or over `length` bytes.
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
