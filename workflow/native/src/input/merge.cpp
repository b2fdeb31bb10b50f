#include "input/merge.hpp"

#include <algorithm>
#include <queue>

#include "input/pcap_writer.hpp"

namespace acapella::input {
namespace {

constexpr std::uint16_t kEthernet = 1;

// The timestamp of a capture's next frame.
struct NextFrame {
    std::int64_t ts_ns;
    std::size_t capture;

    bool operator<(const NextFrame& other) const {  // a priority_queue returns the greatest element first
        return ts_ns != other.ts_ns ? ts_ns > other.ts_ns : capture > other.capture;
    }
};

void check(bool written, const PcapWriter& writer) {
    if (!written) throw MergeError("cannot merge: " + writer.error());
}

}  // namespace

Merge::Merge(const std::vector<std::string>& paths, const DecompressionLimits& limits) {
    captures_.reserve(paths.size());
    for (const std::string& path : paths) {
        Capture& capture = captures_.emplace_back();
        capture.path = path;
        capture.source = ByteSource::open(path, limits);
        capture.reader = open_capture(*capture.source);
    }
}

bool Merge::next(Capture& capture) const {
    Record& record = capture.record;
    if (!capture.reader->next(record)) return false;
    if (!record.timed) throw MergeError(capture.path + ": a frame without a timestamp cannot be merged");
    if (plausible(record.ts_ns))
        capture.last_plausible_ns = record.ts_ns;
    else
        record.ts_ns = kFirstImplausibleNs;
    return true;
}

// Returns the link type of the next frame of the first capture that has one, or of the first interface
// if there are no frames.
std::uint16_t Merge::link_type() const {
    for (const Capture& capture : captures_)
        if (capture.record.frame > 0) return capture.record.link_type;
    for (const Capture& capture : captures_)
        if (!capture.reader->interfaces().empty()) return capture.reader->interfaces().front().link_type;
    return kEthernet;
}

void Merge::write(int descriptor) {
    std::priority_queue<NextFrame> next_frames;
    for (std::size_t i = 0; i < captures_.size(); ++i)
        if (next(captures_[i])) next_frames.push({captures_[i].last_plausible_ns, i});
    const std::uint16_t type = link_type();
    PcapWriter writer(descriptor, type);
    while (!next_frames.empty()) {
        const std::size_t first = next_frames.top().capture;
        next_frames.pop();
        Capture& capture = captures_[first];
        if (capture.record.link_type != type)
            throw MergeError(capture.path + ": frames of link types " +
                             std::to_string(capture.record.link_type) + " and " + std::to_string(type) +
                             " cannot be merged");
        {
            const std::lock_guard lock(mutex_);
            written_.push_back(static_cast<std::uint32_t>(first));
        }
        check(writer.write(capture.record), writer);
        if (next(capture)) next_frames.push({capture.last_plausible_ns, first});
    }
    check(writer.flush(), writer);
}

std::vector<std::uint32_t> Merge::take_captures(std::size_t count) {
    const std::lock_guard lock(mutex_);
    const auto end = written_.begin() + static_cast<std::ptrdiff_t>(std::min(count, written_.size()));
    std::vector<std::uint32_t> captures(written_.begin(), end);
    written_.erase(written_.begin(), end);
    return captures;
}

std::vector<FileInfo> Merge::info() const {
    std::vector<FileInfo> files;
    for (const Capture& capture : captures_) files.push_back(capture.reader->info());
    return files;
}

}  // namespace acapella::input
