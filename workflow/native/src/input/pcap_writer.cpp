#include "input/pcap_writer.hpp"

#include <algorithm>

#include "input/link_types.hpp"

namespace acapella::input {
namespace {

struct FileHeader {
    std::uint32_t magic = 0xa1b23c4d;
    std::uint16_t major = 2;
    std::uint16_t minor = 4;
    std::uint32_t reserved[2] = {0, 0};
    std::uint32_t snaplen;
    std::uint32_t link_type;
};

struct RecordHeader {
    std::uint32_t seconds;
    std::uint32_t nanoseconds;
    std::uint32_t captured;
    std::uint32_t wire;
};

static_assert(sizeof(FileHeader) == 24 && sizeof(RecordHeader) == 16);

}  // namespace

PcapWriter::PcapWriter(int descriptor, std::uint16_t link_type) : sink_(descriptor) {
    const FileHeader header{.snaplen = max_captured_len(link_type), .link_type = link_type};
    sink_.put(&header, sizeof header);
}

bool PcapWriter::write(const Record& record) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    constexpr std::int64_t kLast = (std::int64_t{UINT32_MAX} + 1) * kSecond - 1;
    const std::int64_t ts_ns = std::clamp<std::int64_t>(record.ts_ns, 0, kLast);
    if (ts_ns != record.ts_ns) ++ts_out_of_range_;
    const auto pseudo_length = static_cast<std::uint32_t>(record.pseudo_header.size());
    const RecordHeader header{
        static_cast<std::uint32_t>(ts_ns / kSecond), static_cast<std::uint32_t>(ts_ns % kSecond),
        static_cast<std::uint32_t>(record.bytes.size()) + pseudo_length, record.wire_len + pseudo_length};
    sink_.put(&header, sizeof header);
    sink_.put(record.pseudo_header.data(), pseudo_length);
    sink_.put(record.bytes.data(), record.bytes.size());
    return sink_.flush_if_full();
}

}  // namespace acapella::input
