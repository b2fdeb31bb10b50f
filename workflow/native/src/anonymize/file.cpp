#include "anonymize/file.hpp"

#include <array>
#include <optional>

#include "anonymize/frame.hpp"
#include "input/byte_source.hpp"
#include "input/pcap_writer.hpp"

namespace acapella::anonymize {
namespace {

constexpr std::uint64_t kBetweenProgress = 4096;  // frames
constexpr std::uint16_t kEthernet = 1;

// Pseudo-headers are replaced by zeros of the same length.
constexpr std::array<std::byte, 16> kNoPseudoHeader{};

void check(bool written, const input::PcapWriter& writer) {
    if (!written) throw WriteError("cannot write: " + writer.error(), writer.error_number());
}

void count(FileCounts& counts, const Record& record, Bytes kept) {
    ++counts.frames;
    counts.wire_bytes += record.wire_len;
    counts.captured_bytes += record.bytes.size();
    counts.kept_bytes += kept.size();
    counts.cut_frames += kept.size() < record.bytes.size() ? 1 : 0;
    counts.empty_frames += kept.empty() && !record.bytes.empty() ? 1 : 0;
}

std::uint16_t first_link_type(const input::CaptureReader& reader) {
    return reader.interfaces().empty() ? kEthernet : reader.interfaces().front().link_type;
}

}  // namespace

FileCounts anonymize_file(const std::string& path, int descriptor, Key key, MacPolicy macs,
                          const Vendors* vendors, const std::function<void()>& progress,
                          const input::DecompressionLimits& limits) {
    const auto source = input::ByteSource::open_or_stdin(path, limits);
    const auto reader = input::open_capture(*source);
    FrameAnonymizer anonymizer(key, macs, vendors);
    FileCounts counts;
    std::optional<input::PcapWriter> writer;
    Record record;
    while (reader->next(record)) {
        if (!writer) {
            counts.link_type = record.link_type;
            writer.emplace(descriptor, record.link_type);
        } else if (record.link_type != counts.link_type) {
            throw AnonymizeError(path + ": frames of link types " + std::to_string(counts.link_type) +
                                 " and " + std::to_string(record.link_type) + "; a pcap can have only one");
        }
        const Bytes kept = anonymizer.anonymize(record);
        count(counts, record, kept);
        record.bytes = kept;
        record.pseudo_header = Bytes(kNoPseudoHeader).first(record.pseudo_header.size());
        check(writer->write(record), *writer);
        if (counts.frames % kBetweenProgress == 0) progress();
    }
    if (!writer) {
        counts.link_type = first_link_type(*reader);
        writer.emplace(descriptor, counts.link_type);
    }
    check(writer->flush(), *writer);
    counts.ts_out_of_range = writer->ts_out_of_range();
    counts.info = reader->info();
    counts.ipv4 = anonymizer.replaced().ipv4.sorted();
    counts.ipv6 = anonymizer.replaced().ipv6.sorted();
    counts.macs = anonymizer.replaced().macs.sorted();
    return counts;
}

}  // namespace acapella::anonymize
