// Merges several captures by time, for example captures of several queues or in several files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "input/capture_reader.hpp"

namespace acapella::input {

// The captures cannot be merged, or the output failed. what() is one line.
class MergeError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class Merge {
  public:
    // Opens all captures. Throws InputError.
    explicit Merge(const std::vector<std::string>& paths, const DecompressionLimits& limits = {});
    Merge(const Merge&) = delete;
    Merge& operator=(const Merge&) = delete;

    // Writes all frames to `descriptor` as a pcap with nanosecond timestamps. The caller keeps ownership of
    // the descriptor. The frames of each capture stay in file order: of the next frames of all captures, the
    // earliest is written first. If several are equally early, the frame of the capture listed first is
    // written first. A frame with an implausible timestamp is merged at the time of the last plausible
    // timestamp before it in its file, and its timestamp is replaced by kFirstImplausibleNs, which is
    // implausible too. Throws MergeError if frames have no timestamps or different link types, or if writing
    // fails, and InputError if a capture cannot be read.
    void write(int descriptor);

    // Returns the capture of each of the next `count` written frames, as an index of `paths`; fewer if fewer
    // frames were written. May be called in another thread while write() runs: a frame is recorded before it
    // is written.
    [[nodiscard]] std::vector<std::uint32_t> take_captures(std::size_t count);

    // Returns the metadata of each file, in order. It is complete after write() has returned.
    [[nodiscard]] std::vector<FileInfo> info() const;

  private:
    struct Capture {
        std::string path;
        std::unique_ptr<ByteSource> source;
        std::unique_ptr<CaptureReader> reader;
        Record record;                       // the next frame, if there is one
        std::int64_t last_plausible_ns = 0;  // the last plausible timestamp up to that frame
    };
    bool next(Capture& capture) const;
    [[nodiscard]] std::uint16_t link_type() const;

    std::vector<Capture> captures_;
    std::mutex mutex_;
    std::deque<std::uint32_t> written_;  // captures of written frames, not yet returned by take_captures()
};

}  // namespace acapella::input
