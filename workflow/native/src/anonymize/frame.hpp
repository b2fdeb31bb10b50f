// One frame to what may leave the site.
#pragma once

#include "anonymize/headers/frame_builder.hpp"
#include "frame/dissection.hpp"
#include "frame/record.hpp"

namespace acapella {

class Vendors;

namespace anonymize {

// Cuts behind the last header that it knows, replaces every address and tunnel identifier in those before,
// makes checksums anew or zero. Lengths in headers, ports, VLAN ids, labels, and times stay.
class FrameAnonymizer {
  public:
    // `vendors` may be null and has to stay.
    FrameAnonymizer(Key key, MacPolicy macs, const Vendors* vendors)
        : pseudonyms_(key, macs, vendors), builder_(pseudonyms_), vendors_(vendors) {}
    FrameAnonymizer(const FrameAnonymizer&) = delete;
    FrameAnonymizer& operator=(const FrameAnonymizer&) = delete;

    // The view stays valid until the next call; it is no longer than what was captured.
    Bytes anonymize(const Record& record);
    // Every address that was replaced in any frame.
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
