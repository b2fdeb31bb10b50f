// Anonymizes one frame.
#pragma once

#include "anonymize/headers/frame_builder.hpp"
#include "frame/dissection.hpp"
#include "frame/record.hpp"

namespace acapella {

class Vendors;

namespace anonymize {

// Truncates the frame after the last known header, replaces all addresses and tunnel identifiers, and
// recomputes checksums or sets them to zero. Lengths in headers, ports, VLAN ids, labels, and timestamps are
// kept.
class FrameAnonymizer {
  public:
    // `vendors` may be null; it must outlive this object.
    FrameAnonymizer(Key key, MacPolicy macs, const Vendors* vendors)
        : pseudonyms_(key, macs, vendors), builder_(pseudonyms_), vendors_(vendors) {}
    FrameAnonymizer(const FrameAnonymizer&) = delete;
    FrameAnonymizer& operator=(const FrameAnonymizer&) = delete;

    // The result is valid until the next call, and is not longer than the captured frame.
    Bytes anonymize(const Record& record);
    // Returns all addresses that were replaced in any frame.
    [[nodiscard]] ReplacedAddresses& replaced() { return pseudonyms_.replaced(); }

  private:
    Pseudonyms pseudonyms_;
    FrameBuilder builder_;
    Dissection dissection_;
    Trace trace_;
    const Vendors* vendors_;
};

}  // namespace anonymize
}  // namespace acapella
